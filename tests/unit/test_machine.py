import os
from pathlib import Path

import pytest

from hotlap import machine


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A cgroup tree in which this process lives in /user/job."""
    monkeypatch.setattr(
        machine, "_own_groups", lambda root: [root / "user" / "job", root / "user", root]
    )
    (tmp_path / "user" / "job").mkdir(parents=True)
    return tmp_path


def test_the_quota_is_limit_over_period(groups):
    (groups / "user" / "job" / "cpu.max").write_text("150000 100000\n")
    assert machine.quota(groups) == 1.5


def test_a_group_without_a_limit_asks_the_one_above(groups):
    (groups / "user" / "job" / "cpu.max").write_text("max 100000\n")
    (groups / "user" / "cpu.max").write_text("400000 100000\n")
    assert machine.quota(groups) == 4.0


@pytest.mark.parametrize(("own", "above"), [("400000", "150000"), ("150000", "400000")])
def test_the_tightest_limit_on_the_way_up_counts(groups, own, above):
    (groups / "user" / "job" / "cpu.max").write_text(f"{own} 100000\n")
    (groups / "user" / "cpu.max").write_text(f"{above} 100000\n")
    assert machine.quota(groups) == 1.5


def test_without_any_limit_there_is_no_quota(groups):
    (groups / "cpu.max").write_text("max 100000\n")
    assert machine.quota(groups) is None


@pytest.mark.parametrize("text", ["", "nonsense", "a b", "100000", "100000 0"])
def test_a_file_that_makes_no_sense_is_passed_over(groups, text):
    (groups / "user" / "job" / "cpu.max").write_text(text)
    assert machine.quota(groups) is None


def version_1(root, limit, period="100000"):
    (root / "cpu").mkdir()
    (root / "cpu" / "cpu.cfs_quota_us").write_text(limit)
    (root / "cpu" / "cpu.cfs_period_us").write_text(period)


def test_cgroups_of_version_1_are_read_too(groups):
    version_1(groups, "250000\n")
    assert machine.quota(groups) == 2.5


@pytest.mark.parametrize(("limit", "period"), [("-1", "100000"), ("100000", "0"), ("x", "y")])
def test_version_1_without_a_limit_has_no_quota(groups, limit, period):
    version_1(groups, limit, period)
    assert machine.quota(groups) is None


def test_cores_are_the_smaller_of_affinity_and_quota(groups, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert machine.cores(groups) == 4.0
    (groups / "cpu.max").write_text("150000 100000")
    assert machine.cores(groups) == 1.5
    (groups / "cpu.max").write_text("900000 100000")
    assert machine.cores(groups) == 4.0


@pytest.mark.parametrize(("own", "above"), [(4 << 30, 1 << 30), (1 << 30, 4 << 30)])
def test_the_tightest_memory_limit_on_the_way_up_counts(groups, own, above):
    (groups / "user" / "job" / "memory.max").write_text(f"{own}\n")
    (groups / "memory.max").write_text(f"{above}\n")
    assert machine.memory_limit(groups) == 1 << 30


def test_groups_without_a_memory_limit_are_passed_over(groups):
    assert machine.memory_limit(groups) is None
    (groups / "user" / "job" / "memory.max").write_text("max\n")
    (groups / "user" / "memory.max").write_text("1073741824\n")
    assert machine.memory_limit(groups) == 1 << 30


def test_own_groups_go_from_ours_up_to_the_root(tmp_path, monkeypatch):
    plain = Path.read_text

    def read(self, *args, **kwargs):
        if str(self) == "/proc/self/cgroup":
            return "1:cpu:/old\n0::/user.slice/job\n"
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read)
    assert machine._own_groups(tmp_path) == [
        tmp_path / "user.slice" / "job",
        tmp_path / "user.slice",
        tmp_path,
    ]


def test_without_a_unified_group_only_the_root_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: "1:cpu:/old\n")
    assert machine._own_groups(tmp_path) == [tmp_path]


def test_this_machine_can_be_described():
    found = machine.describe()
    assert 0 < found["cores"] <= os.cpu_count()
    assert found["memory_bytes"] > 1 << 20
    assert found["processor"]
    assert found["system"].startswith("Linux")
