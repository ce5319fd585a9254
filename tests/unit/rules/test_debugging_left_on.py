"""debugging-left-on: told only where it costs, with the line that switched it on."""

from pathlib import Path

import msgspec

from hotlap import records
from hotlap.records import Rank
from hotlap.rules import debugging_left_on

SAMPLE = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
ANOMALIES = {"detect_anomaly": ["/home/user/train.py", 12]}
BLOCKING = {"CUDA_LAUNCH_BLOCKING": None}
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": None}
replace = msgspec.structs.replace


def found(debugging, *, device="cpu", ranks=1):
    several = tuple(
        Rank(rank=rank, pid=rank + 1, steps=9, median_seconds=0.1, own_seconds=0.1)
        for rank in range(ranks)
    )
    environment = {**SAMPLE.environment, "device": device, "script": {"debugging": debugging}}
    return debugging_left_on.check(
        replace(SAMPLE, environment=environment, ranks=several), SAMPLE.verdict
    )


def test_anomaly_detection_is_told_with_its_line():
    told = found(ANOMALIES)
    assert told.summary == "Anomaly detection is on, which slows every step."
    assert (told.file, told.line) == ("/home/user/train.py", 12)


def test_several_are_told_in_one_finding():
    told = found({**ANOMALIES, **BLOCKING}, device="cuda:0")
    assert told.summary.startswith("Anomaly detection and CUDA_LAUNCH_BLOCKING are on")
    assert told.advice.endswith("; unset CUDA_LAUNCH_BLOCKING.")


def test_a_variable_that_concerns_nothing_here_is_not_told():
    assert found(BLOCKING) is None
    assert found(DETAIL) is None
    assert found(DETAIL, ranks=2).advice == "Unset TORCH_DISTRIBUTED_DEBUG."
    assert found({}) is None
    assert found(None) is None
