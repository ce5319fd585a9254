"""Planted optimizations for the tests of tuning: what each does to the training process.

Each is written out as a file of its own when a test asks for it, as a user would write one.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

_PROTOCOL = """
NAME = "{name}"
NUMERICS = "close"
CONFLICTS = ()
NEEDS = ()
SETTINGS = {{}}


def refusal(record):
    return None


def promise(record, verdict):
    return 0.01


def candidates(record):
    return [{{}}]


def by_hand(settings):
    return "pass"


def install(training, settings):
    training.applied(NAME)
{body}
"""

_BODIES = {
    "does-nothing": """
        pass
    """,
    "sign-error": """
        torch, plain = training.torch, training.torch.autograd.backward

        def backward(tensors, grad_tensors=None, *args, **kwargs):
            return plain(tensors, -torch.ones_like(tensors), *args, **kwargs)

        torch.autograd.backward = backward
    """,
    "coarse": """
        from hotlap.optimizations import precision  # bfloat16, on any processor

        training.around_forward(NAME, precision.around(training.torch, training.torch.bfloat16))
    """,
    "segfaults": """
        import os
        training.when_training_starts(NAME, lambda module: os.kill(os.getpid(), 11))
    """,
    "is-killed": """
        import os
        training.when_training_starts(NAME, lambda module: os.kill(os.getpid(), 9))
    """,
    "hangs": """
        import time
        training.when_training_starts(NAME, lambda module: time.sleep(3600))
    """,
    "raises": """
        def fail(module):
            raise RuntimeError("planted: the first line <b>" + chr(10) + "and a second one")

        training.when_training_starts(NAME, fail)
    """,
    "fills-the-disk": """
        def full(module):
            raise OSError(28, "No space left on device")

        training.when_training_starts(NAME, full)
    """,
    "ends-early": """
        import os
        steps = []

        def count():
            steps.append(1)
            if len(steps) == 20:
                raise SystemExit(0)

        training.after_step(count)
    """,
    "runs-out-of-memory": """
        training.when_training_starts(NAME, lambda module: training.torch.empty(1 << 50))
    """,
    "leaves-children": """
        import subprocess
        import sys

        code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"
        words = [sys.executable, "-S", "-c", code, "hotlap-test-orphan"]
        subprocess.Popen(words, start_new_session=True)
    """,
    "writes-garbage": """
        import os
        from hotlap.probes import writing

        def garbage(folder, pid, content):
            path = folder / "records" / f"{os.getpid()}.json"
            path.write_text('{"schema": 1, "steps": "many", "windows": 3')

        writing.record = garbage
    """,
}


def variables(folder: Path, *names: str) -> dict[str, str]:
    """Writes them into the folder; answers the environment that makes hotlap know them."""
    files = []
    for name in names:
        body = textwrap.indent(textwrap.dedent(_BODIES[name]).strip(), "    ")
        file = folder / f"{name.replace('-', '_')}.py"
        file.write_text(_PROTOCOL.format(name=name, body=body))
        files.append(str(file))
    return {"HOTLAP_OPTIMIZATIONS": os.pathsep.join(files)}
