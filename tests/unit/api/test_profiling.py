import math

import pytest

from hotlap.api import profile
from hotlap.errors import UsageError


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
