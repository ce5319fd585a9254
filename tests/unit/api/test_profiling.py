import math

import pytest
import sample_tunings as sample

from hotlap.api import profile, profiling
from hotlap.errors import UsageError
from hotlap.trials.measuring import Measured
from hotlap.trials.runner import Outcome


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 0.0, -1.0])
def test_measuring_must_end(seconds, tmp_path):
    with pytest.raises(UsageError, match=f"--seconds is {seconds}; it must"):
        profile(["train.py"], seconds=seconds, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["steps", "seconds", "timeout"])
@pytest.mark.parametrize("value", ["x", True, [3]])
def test_a_limit_that_is_no_number_is_said(option, value, tmp_path):
    with pytest.raises(UsageError, match=f"--{option} is .*; it must be a number"):
        profile(["train.py"], out=tmp_path, **{option: value})


def test_what_was_measured_is_kept_before_its_trace_is_brought(tmp_path, monkeypatch):
    class Brought(Exception):
        pass

    def bring(trials, record, target, warn):
        raise Brought

    measured = Measured(
        outcome=Outcome(stopped="enough"),
        record=sample.profile(),
        raws=[],
        applied={},
        refused={},
    )
    monkeypatch.setattr(profiling.measuring, "measure", lambda *args, **more: measured)
    monkeypatch.setattr(profiling, "_bring_trace", bring)
    with pytest.raises(Brought):
        profile(["train.py"], out=tmp_path, trace=tmp_path / "t.json")
    assert list(tmp_path.glob("profile-*/profile.json"))
