"""What the script already does for speed by itself, so that nobody offers it what it has."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.probes.modules import Makeup
    from hotlap.probes.recorder import Recorder


class Uses:
    def __init__(self) -> None:
        self.autocast: str | None = None  # the type it computes in
        self.scaler = False
        self.keeps_gradients = False  # zero_grad(set_to_none=False)

    def summary(self, torch: Any, makeup: Makeup) -> dict[str, Any]:
        return {
            "autocast": self.autocast,
            "scaler": self.scaler,
            "keeps_gradients": self.keeps_gradients,
            "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
            "matmul_precision": _matmul_precision(torch),
            "layers": makeup.layers,
            "types": makeup.types,
        }


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
