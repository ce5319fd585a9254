"""The first thing a watched interpreter runs: waits for `import torch`, and does nothing else.

Lives in a folder of its own, so that PYTHONPATH brings this file and nothing more into the user's
interpreter. Any other sitecustomize runs as it would have. A failure here is noted in the trial
folder and never reaches the user's program. Any Python from 3.6 on can read it, for the command
may run on one that the rest of hotlap is too new for.
"""

import importlib
import importlib.util
import os
import sys
import time
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
_OLDEST = (3, 10)
_TENSORBOARD = ("torch.utils.tensorboard.writer", "tensorboardX.writer")


class _Waiter:
    """A meta path finder that changes nothing but what happens after a module has been run."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.recorder: Any = None
        self.busy = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self.busy or (name != "torch" and name not in _TENSORBOARD):
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            self._follow(spec.loader, name)
        return spec

    def _follow(self, loader: Any, name: str) -> None:
        plain = loader.exec_module

        def exec_module(module: Any) -> None:
            started = time.time()
            plain(module)
            if sys.version_info < _OLDEST:
                self._say(_too_old())
                return
            try:
                self._arrived(name, module, started)
            except Exception as problem:
                self._note(problem)

        try:
            loader.exec_module = exec_module
        except AttributeError as problem:
            self._note(problem)

    def _arrived(self, name: str, module: Any, started: float) -> None:
        import json
        from pathlib import Path

        _hotlap()
        if name == "torch":
            folder = Path(self.folder)
            settings = json.loads((folder / "settings.json").read_text())
            if settings.get("recipe") or settings.get("seed") is not None:
                self._apply(module, folder, settings)
            if settings.get("watch", True):
                from hotlap.probes.install import install

                self.recorder = install(module, folder, started)
        elif self.recorder is not None:
            from hotlap.probes.diversions import divert_tensorboard

            divert_tensorboard(self.recorder, self.recorder.settings, module)

    def _apply(self, torch: Any, folder: Any, settings: Any) -> None:
        from hotlap.optimizations.install import install

        try:
            install(torch, folder, settings)
        except Exception as problem:
            self._note(problem)

    def _note(self, problem: BaseException) -> None:
        import traceback

        lines = traceback.format_exception(type(problem), problem, problem.__traceback__)
        self._say("".join(lines))

    def _say(self, text: str) -> None:
        try:
            with open(os.path.join(self.folder, f"bootstrap-{os.getpid()}.txt"), "w") as file:
                file.write(text)
        except OSError:
            pass


def _too_old() -> str:
    mine, oldest = (".".join(map(str, one)) for one in (sys.version_info[:3], _OLDEST))
    return f"the command runs on Python {mine}, and hotlap can be in there from {oldest} on"


def _hotlap() -> None:
    """Makes `import hotlap` mean the watching hotlap, wherever that is installed."""
    if "hotlap" in sys.modules:
        return
    spec: Any = importlib.util.spec_from_file_location(
        "hotlap",
        os.path.join(_PACKAGE, "__init__.py"),
        submodule_search_locations=[_PACKAGE],
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["hotlap"] = module
    spec.loader.exec_module(module)


def _chain() -> None:
    """Runs the sitecustomize this one stands in front of."""
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != _HERE]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as problem:
        if problem.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


if os.environ.get("HOTLAP_TRIAL"):
    sys.meta_path.insert(0, _Waiter(os.environ["HOTLAP_TRIAL"]))
_chain()
