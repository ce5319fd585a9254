"""What the script already does for speed by itself, so that nobody offers it what it has."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from hotlap.probes import places

if TYPE_CHECKING:
    from hotlap.probes.modules import Makeup
    from hotlap.probes.recorder import Recorder

Place = tuple[str, int, str] | None
ANOMALIES = "detect_anomaly"  # in the record
VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
}


class Uses:
    def __init__(self) -> None:
        self.autocast: str | None = None  # the type it computes in
        self.scaler = False
        self.keeps_gradients = False  # zero_grad(set_to_none=False)
        self.anomalies = False  # whether the last backward pass looked for them
        self.anomalies_at: Place = None

    def summary(
        self, torch: Any, makeup: Makeup, exchange: dict[str, Any] | None
    ) -> dict[str, Any]:
        return {
            "autocast": self.autocast,
            "scaler": self.scaler,
            "keeps_gradients": self.keeps_gradients,
            "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
            "matmul_precision": _matmul_precision(torch),
            "layers": makeup.layers,
            "types": makeup.types,
            "exchange": exchange,
            "debugging": self._debugging(),
        }

    def _debugging(self) -> dict[str, list[Any] | None]:
        """What is on for debugging and slows training down, by the line that switched it on."""
        found: dict[str, list[Any] | None] = {
            name: None for name, value in VARIABLES.items() if os.environ.get(name) == value
        }
        if self.anomalies:
            found[ANOMALIES] = list(self.anomalies_at[:2]) if self.anomalies_at else None
        return found


def _matmul_precision(torch: Any) -> str:
    """A script may set it by the switches of torch 2.9; the older question is an error then."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def install(torch: Any, recorder: Recorder) -> None:
    autocast = torch.amp.autocast_mode.autocast
    plain_autocast = autocast.__init__

    @functools.wraps(plain_autocast)
    def init_autocast(self: Any, *args: Any, **kwargs: Any) -> None:
        plain_autocast(self, *args, **kwargs)
        if getattr(self, "_enabled", False):
            kind = getattr(self, "fast_dtype", None)
            recorder.uses.autocast = str(kind).removeprefix("torch.")

    autocast.__init__ = init_autocast
    scaler = torch.amp.GradScaler
    plain_scaler = scaler.__init__

    @functools.wraps(plain_scaler)
    def init_scaler(self: Any, *args: Any, **kwargs: Any) -> None:
        plain_scaler(self, *args, **kwargs)
        recorder.uses.scaler |= bool(self.is_enabled())

    scaler.__init__ = init_scaler
    anomalies = torch.autograd.anomaly_mode
    # Where the one is made torch warns of it, with the script's line: that must stay the script's.
    _watch_anomalies(anomalies.detect_anomaly, "__enter__", recorder)
    _watch_anomalies(anomalies.set_detect_anomaly, "__init__", recorder)


def _watch_anomalies(kind: Any, name: str, recorder: Recorder) -> None:
    plain = getattr(kind, name)

    @functools.wraps(plain)
    def switch(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.uses.anomalies_at = places.here(2)
        return plain(self, *args, **kwargs)

    setattr(kind, name, switch)
