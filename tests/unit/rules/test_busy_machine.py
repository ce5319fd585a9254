"""Who keeps a machine busy: processes on it, or the host of a virtual one."""

from pathlib import Path

import msgspec
import pytest

from hotlap import records
from hotlap.rules import busy_machine

SAMPLE = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")


@pytest.mark.parametrize(
    ("others", "stolen", "said"),
    [
        (1.2, None, "other processes burned 1.2 of 2 cores"),
        (1.2, 0.1, "other processes burned 1.2 of 2 cores"),
        (1.2, 1.1, "the host of this virtual machine took 1.2 of 2 cores"),
        (
            1.2,
            0.7,
            "other processes burned 0.5 of 2 cores; "
            "the host of this virtual machine took 0.7 of 2 cores",
        ),
    ],
)
def test_it_is_said_who_took_the_cores(others, stolen, said):
    usage = msgspec.structs.replace(SAMPLE.usage, other_cores=others, stolen_cores=stolen)
    environment = {**SAMPLE.environment, "cores": 2}
    record = msgspec.structs.replace(SAMPLE, usage=usage, environment=environment)
    found = busy_machine.check(record, SAMPLE.verdict)
    assert found is not None
    assert found.evidence == said
    theirs = "or on a machine with cores of its own" in found.advice
    assert theirs == said.startswith("the host")


def test_what_is_told_adds_up_to_what_made_it_speak():
    """A third of 64 cores: with a tenth taken off it would speak of less than it asks for."""
    told = busy_machine.takers(22.0, 6.3, 64.0)
    assert sum(told.values()) == 22.0
    assert list(told) == [busy_machine.PROCESSES]
