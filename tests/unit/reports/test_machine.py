"""The machine in words."""

from pathlib import Path

import msgspec

from hotlap import records
from hotlap.reports import machine

SAMPLE = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
HOST = "of these, kept by the host of this virtual machine"


def using(**facts):
    usage = msgspec.structs.replace(SAMPLE.usage, **facts)
    return msgspec.structs.replace(SAMPLE, usage=usage, environment={"cores": 2.0})


def test_what_a_host_kept_has_a_line_where_there_is_any():
    lines = dict(machine.usage([using(other_cores=1.0, stolen_cores=0.5), using()]))
    assert lines[HOST] == ("0.5 of 2", machine.wording.NOTHING)
    for little in (None, 0.0, 0.01):
        assert HOST not in dict(machine.usage([using(stolen_cores=little)]))
