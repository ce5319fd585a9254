"""slow-exchange: what it advises follows from what was sent, how often, and over what."""

from pathlib import Path

import msgspec
import pytest

from hotlap import records
from hotlap.records import Rank
from hotlap.rules import slow_exchange

SAMPLE = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
SENT = {"bytes": 25 << 20, "backend": "nccl", "hook": False, "views": False, "per_step": 1.0}
replace = msgspec.structs.replace


def found(*, share=0.4, own=(0.01, 0.01), device="cuda:0", **sent):
    ranks = tuple(
        Rank(rank=rank, pid=rank + 1, steps=100, median_seconds=0.1, own_seconds=seconds)
        for rank, seconds in enumerate(own)
    )
    script = {"exchange": {**SENT, **sent}} if sent.get("bytes", 1) else {}
    record = replace(
        SAMPLE, ranks=ranks, environment={**SAMPLE.environment, "device": device, "script": script}
    )
    verdict = replace(SAMPLE.verdict, shares={"communication": share})
    return slow_exchange.check(record, verdict)


@pytest.mark.parametrize(
    ("sent", "advice"),
    [
        ({}, slow_exchange.HALF),
        ({"per_step": None}, slow_exchange.HALF),
        ({"per_step": 4.0}, slow_exchange.ONCE),
        ({"per_step": 4.0, "backend": "gloo"}, slow_exchange.ONCE),
        ({"backend": "gloo"}, slow_exchange.NCCL),
        ({"backend": "gloo", "device": "cpu"}, slow_exchange.HALF),
        ({"hook": True}, slow_exchange.LESS),
        ({"bytes": 0}, slow_exchange.LESS),
    ],
)
def test_the_advice_follows_from_what_was_seen(sent, advice):
    assert found(**sent).advice == advice


def test_how_much_and_how_often_is_the_evidence():
    once, often = found().evidence, found(per_step=4.0).evidence
    assert once.endswith("a step, 25.0 MiB of gradients sent over nccl")
    assert often.endswith("a step, 25.0 MiB of gradients sent 4 times a step over nccl")
    assert "gradients" not in found(bytes=0).evidence


@pytest.mark.parametrize(
    "healthy",
    [{"share": 0.05}, {"own": (0.01,)}, {"own": (0.01, 0.08)}],
    ids=["hidden", "one process", "a slow rank"],
)
def test_it_is_silent_where_the_exchange_is_not_what_holds_up(healthy):
    assert found(**healthy) is None
