import pytest

from hotlap.probes.ledger import MOST, Ledger

HERE = ("/home/user/train.py", 12, "train")
THERE = ("/home/user/train.py", 30, "log")


def test_waits_are_summed_by_line_and_said_per_step():
    ledger = Ledger()
    ledger.steps = 10
    for _ in range(20):
        ledger.waited(".item()", 0.25, HERE)
    assert ledger.waits() == [
        {
            "what": ".item()",
            "file": "/home/user/train.py",
            "line": 12,
            "per_step": 2.0,
            "seconds_per_step": pytest.approx(0.5),
        }
    ]


def test_the_longest_wait_stands_first():
    ledger = Ledger()
    ledger.waited(".item()", 0.1, HERE)
    ledger.waited(".cpu()", 0.5, THERE)
    assert [wait["what"] for wait in ledger.waits()] == [".cpu()", ".item()"]


def test_the_same_line_waiting_in_two_ways_is_two_rows():
    ledger = Ledger()
    ledger.waited(".item()", 0.1, HERE)
    ledger.waited(".cpu()", 0.1, HERE)
    assert len(ledger.waits()) == 2


def test_copies_are_pinned_only_where_all_of_them_are():
    ledger = Ledger()
    ledger.steps = 2
    ledger.copied(100, HERE, pinned=lambda: True)
    ledger.copied(300, HERE, pinned=lambda: True)
    ledger.copied(50, THERE, pinned=lambda: True)
    ledger.copied(50, THERE, pinned=lambda: False)
    first, second = ledger.copies()
    assert (first["line"], first["per_step"], first["bytes_per_step"]) == (12, 1.0, 200.0)
    assert first["pinned"] is True
    assert second["pinned"] is False


def test_a_line_is_asked_about_its_first_copies_only():
    asked = []
    ledger = Ledger()
    for _ in range(100):
        ledger.copied(1, HERE, pinned=lambda: not asked.append(1))
    (row,) = ledger.copies()
    assert (row["bytes_per_step"], row["pinned"]) == (100.0, True)
    assert len(asked) < 10


def test_a_place_in_no_code_of_the_users_has_no_line():
    ledger = Ledger()
    ledger.waited("if tensor", 0.1, None)
    ledger.copied(1, None, pinned=lambda: False)
    for row in (*ledger.waits(), *ledger.copies()):
        assert (row["file"], row["line"]) == (None, None)


def test_a_ledger_of_no_steps_divides_by_none():
    ledger = Ledger()
    ledger.waited(".item()", 0.1, HERE)
    assert ledger.waits()[0]["per_step"] == 1.0
    assert ledger.copies() == []


def test_only_the_worst_lines_are_kept():
    ledger = Ledger()
    for line in range(MOST + 5):
        ledger.waited(".item()", float(line), ("/home/user/train.py", line, "f"))
    rows = ledger.waits()
    assert len(rows) == MOST
    assert rows[0]["line"] == MOST + 4
