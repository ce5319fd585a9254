import dataclasses
import inspect

import pytest

from hotlap.probes.schedule import Schedule
from hotlap.settings import Limits


def test_limits_are_what_the_schedule_is_made_from():
    assert set(Limits().as_dict()) == set(inspect.signature(Schedule).parameters)
    Schedule(**Limits().as_dict())


def test_limits_travel_by_value():
    limits = Limits(
        steps=7, seconds=1.5, tolerance=0.1, window_seconds=0.2, brief=True, guard_steps=9
    )
    assert limits.as_dict() == {
        "steps": 7,
        "seconds": 1.5,
        "tolerance": 0.1,
        "window_seconds": 0.2,
        "brief": True,
        "bare": False,
        "guard_steps": 9,
        "guard_seconds": 8.0,
        "guard_fill": 0.0,
    }


def test_limits_cannot_be_changed_or_given_by_position():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().steps = 3
    with pytest.raises(TypeError):
        Limits(3)
