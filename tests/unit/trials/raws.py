"""Records of watched processes, as small as a test needs them."""

from hotlap.records import Ending
from hotlap.trials.merging import merge

ENDING = Ending(code=0, signal=None, stopped=None, seconds=10.0)
LOADER = {
    "dataset": "ImageFolder",
    "sampler": "RandomSampler",
    "iterable": False,
    "batches": 100,
    "batch_size": 32,
    "workers": 0,
    "prefetch_factor": None,
    "pin_memory": False,
    "persistent_workers": False,
    "context": None,
    "file": "/home/user/train.py",
    "line": 20,
    "trained": 90,
}
UNREAD = {"local_rank", "complete", "ended", "evaluations", "stage"}  # not needed to be whole
SPLIT = {"input": 0.1, "forward": 0.3, "gap": 0.1, "backward": 0.3, "optimizer": 0.1, "other": 0.1}


def row(seconds=1.0, *, samples=32, kind="step", disturbed=False, phases=None):
    made = {"seconds": seconds, "samples": samples, "kind": kind, "disturbed": disturbed}
    return made if phases is None else {**made, "phases": phases}


def window(stage, *rows, wall=(100.0, 101.0)):
    return {"stage": stage, "wall": list(wall), "intervals": list(rows)}


def watched(*rows):
    """A phases window; rows are (seconds by phase) or whole rows."""
    made = [one if "kind" in one else row(sum(one.values()), phases=one) for one in rows]
    return window("phases", *made)


def raw(*windows, **changes):
    return {
        "schema": 1,
        "pid": 1,
        "rank": None,
        "local_rank": None,
        "world_size": None,
        "complete": True,
        "ended": False,
        "settled": False,
        "unit": "optimizer",
        "steps": 90,
        "evaluations": 0,
        "stage": "done",
        "times": {},
        "compile_seconds": None,
        "windows": list(windows) or [window("bare", row(), row()), watched(SPLIT)],
        "losses": [2.0, None, 1.0],
        "loaders": [LOADER],
        "input_cpu": {"wait_cpu_share": 0.9, "workers_cpu_share": 0.2},
        "lines": {},
        "waits": [],
        "copies": [],
        "memory": None,
        "kernels": None,
        "optimizers": [],
        "models": ["Net"],
        "environment": {"device": "cpu", "torch": "2.4"},
        "diverted": [],
        "problems": [],
        **changes,
    }


def merged(*raws, telemetry=()):
    return merge(raws or [raw()], ending=ENDING, telemetry=list(telemetry))


def bare(*seconds):
    return window("bare", *[row(one) for one in seconds])
