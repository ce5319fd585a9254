"""What a tuning is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from hotlap.api import tuning
from hotlap.api.tuning import _request
from hotlap.errors import Interrupted, UsageError


def request(**names: str | Sequence[str]) -> tuple[tuple[str, ...], ...]:
    given = {"only": (), "skip": (), "allow": (), **names}
    choice = _request(60.0, 60.0, None, goal="speed", **given).choice
    return choice.only, choice.skip, choice.allow


def test_a_single_name_is_one_name() -> None:
    assert request(only="threads", skip="tf32") == (("threads",), ("tf32",), ())
    assert request(only=["threads"], allow="batch-size") == (("threads",), (), ("batch-size",))


def test_a_single_name_that_is_none_is_named_whole() -> None:
    with pytest.raises(UsageError, match=r"--only thread: there is no such .* mean threads"):
        request(only="thread")


@pytest.mark.parametrize("budget", ["5m", None, True])
def test_a_budget_that_is_no_number_is_told(budget: object) -> None:
    with pytest.raises(UsageError, match=f"--budget is {budget!r}; it must be a number of seconds"):
        _request(budget, 60.0, None, (), (), (), "speed")  # type: ignore[arg-type]


def test_after_an_interruption_the_same_process_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_diagnose", stopped)
    for resume in (False, True, True):
        with pytest.raises(Interrupted, match="Interrupted before the baseline was known"):
            tuning.tune(["python", "train.py"], resume=resume, out=tmp_path)
    assert len(list(tmp_path.glob("tune-*"))) == 1
