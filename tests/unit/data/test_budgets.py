"""Sizes as people say them."""

import pytest

from hotlap import machine
from hotlap.data import budgets


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (0, 0),
        (1500, 1500),
        (2.5e9, 2_500_000_000),
        ("80%", 800),
        ("0%", 0),
        ("12.5 %", 125),
        ("2 GB", 2_000_000_000),
        ("2gb", 2_000_000_000),
        ("1.5 GiB", 3 << 29),
        ("100", 100),
        ("64 KB", 64_000),
    ],
)
def test_a_budget_is_bytes_or_a_share(said, found):
    assert budgets.parse(said, 1000) == found


@pytest.mark.parametrize("said", ["", "GB", "-5", "5 XB", "101%", "nan", float("nan"), -1, 1e400])
def test_what_is_no_size_is_named(said):
    with pytest.raises(ValueError, match="budget of"):
        budgets.parse(said, 1000)


@pytest.mark.parametrize("said", [None, True, [], b"5"])
def test_what_is_no_number_is_named(said):
    with pytest.raises(TypeError, match="a budget is bytes"):
        budgets.parse(said, 1000)


def group(path, limit, current, inactive):
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text(f"{limit}\n")
    (path / "memory.current").write_text(f"{current}\n")
    (path / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")


def test_the_memory_of_a_cgroup_is_what_is_left_of_it(tmp_path):
    group(tmp_path, 1000, 700, 200)
    assert machine.memory_left(tmp_path) == 500
    group(tmp_path, "max", 700, 200)
    assert machine.memory_left(tmp_path) is None


def test_the_tighter_of_machine_and_cgroup_counts(monkeypatch):
    monkeypatch.setattr(machine, "memory_left", lambda: 1000)
    monkeypatch.setattr(machine, "memory_limit", lambda: 4000)
    assert budgets.ram() == 900
    assert budgets.free_share() <= 0.25
    monkeypatch.setattr(machine, "memory_left", lambda: None)
    assert budgets.ram() > 10_000
