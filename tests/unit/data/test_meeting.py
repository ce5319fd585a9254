"""Ranks of a node find the same memory."""

import json
import os
import subprocess
import sys

import pytest

from hotlap.data import meeting

RANKS = {"LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}


@pytest.fixture
def arena(tmp_path):
    def find(key="photos", samples=10, **environment):
        return meeting.arena(
            key, samples, 10_000, environment={**RANKS, **environment}, folder=tmp_path
        )

    return find


def test_two_ranks_share_what_they_put(arena):
    first, second = arena(), arena()
    first.put(3, b"sample")
    assert bytes(second.get(3)) == b"sample"


def test_a_single_process_has_memory_of_its_own(arena, tmp_path):
    first, second = arena(LOCAL_WORLD_SIZE="1"), arena(LOCAL_WORLD_SIZE="1")
    first.put(3, b"sample")
    assert second.get(3) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", [{"key": "drawings"}, {"MASTER_PORT": "29501"}, {"samples": 11}])
def test_other_caches_and_other_jobs_are_apart(arena, other):
    arena().put(3, b"sample")
    assert arena(**other).get(3) is None


@pytest.mark.parametrize(
    "left",
    [
        "",
        "{",
        "[]",
        json.dumps({"pid": 1, "descriptor": 99, "samples": 10, "budget": 10_000, "started": "0"}),
        json.dumps(
            {"pid": 2**22 + 1, "descriptor": 3, "samples": 10, "budget": 1, "started": None}
        ),
    ],
)
def test_what_an_earlier_job_left_is_not_believed(arena, tmp_path, left):
    arena()
    (file,) = tmp_path.iterdir()
    file.write_text(left)
    found = arena()
    assert found.put(0, b"x")
    assert json.loads(file.read_text())["pid"] == os.getpid()


def test_a_process_is_known_by_when_it_began():
    assert meeting.started(os.getpid()) == meeting.started(os.getpid()) is not None
    assert meeting.started(2**22 + 1) is None


def test_the_one_that_was_forked_sees_what_its_sibling_made(arena):
    """As torchrun's ranks: neither is the other's parent."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        made = arena()
        made.put(5, b"from a sibling")
        os.write(ready[1], b".")
        os.read(go[0], 1)  # it has to be there while the other looks
        os._exit(0)
    os.read(ready[0], 1)
    found = arena()
    os.write(go[1], b".")
    os.waitpid(child, 0)
    assert bytes(found.get(5)) == b"from a sibling"  # and may be gone afterwards


SPAWNED = """
import sys
import torch
from torch import distributed, multiprocessing
from hotlap.data import Tiered

def train(rank, meet, ended):
    distributed.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    cached = Tiered(torch.utils.data.TensorDataset(torch.arange(100.0)), ram="1MB")
    if rank == 0:
        cached[7]
    ended.wait()
    cached.forget_hits()
    ended.wait()
    if rank:
        cached[7]
        print("of the second rank:", cached.hits()["ram"])
    ended.wait()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ended = context.Barrier(2)
    multiprocessing.spawn(train, (sys.argv[1], ended), 2)
"""


def test_ranks_that_the_script_spawns_meet_as_those_of_a_launcher(tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED)
    meet = tmp_path / "group"
    done = subprocess.run(
        [sys.executable, script, meet], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.endswith("of the second rank: 1\n")  # gloo may speak before


def test_a_user_without_a_name_shares_as_well(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: tmp_path.stat().st_uid)
    monkeypatch.setattr("pwd.getpwuid", lambda user: {}[user])
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    first, second = (meeting.arena("photos", 10, 10_000, environment=RANKS) for _ in range(2))
    first.put(3, b"sample")
    assert bytes(second.get(3)) == b"sample"


@pytest.mark.parametrize("at", ["the folder", "the file"])
def test_where_there_is_no_place_to_meet_nothing_is_shared(arena, tmp_path, at):
    if at == "the folder":
        tmp_path.rmdir()
        tmp_path.write_text("a file stands here")
    else:
        arena()
        (file,) = tmp_path.iterdir()
        file.unlink()
        file.mkdir()
    first, second = arena(), arena()
    assert first.put(3, b"sample")
    assert second.get(3) is None
    if at == "the folder":
        tmp_path.unlink()
