import math

import pytest

from hotlap.api import profile
from hotlap.errors import UsageError


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 0.0, -1.0])
def test_measuring_must_end(seconds, tmp_path):
    with pytest.raises(UsageError, match=f"--seconds is {seconds}; it must"):
        profile(["train.py"], seconds=seconds, out=tmp_path)
    assert list(tmp_path.iterdir()) == []
