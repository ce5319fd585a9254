"""What records in long lists hold: a script that sets their labels anew has made other samples."""

from collections import namedtuple
from dataclasses import dataclass

import numpy
import pytest
import torch

from hotlap.data import inside, noting
from hotlap.data.inside import Room, groups_in
from hotlap.data.noting import Noted
from hotlap.data.tiered import Tiered

COUNT = 100
Pair = namedtuple("Pair", "x y")


@dataclass
class Record:
    x: object
    y: object


class Slim:
    __slots__ = ("y",)

    def __init__(self, y):
        self.y = y


class Photos:
    def __init__(self, records):
        self.records = records

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return torch.tensor([self.records[index]["y"]])


def array_of(records):
    made = numpy.empty(len(records), dtype=object)
    made[:] = records
    return made


@pytest.mark.parametrize(
    ("records", "change"),
    [
        ([{"y": 1.0} for _ in range(COUNT)], lambda all_of: all_of[70].update(y=2.0)),
        ([{"y": 1.0} for _ in range(COUNT)], lambda all_of: all_of[70].pop("y")),
        ({at: [None, 1.0] for at in range(COUNT)}, lambda all_of: all_of[70].append(1.0)),
        (tuple(Record("x", 1.0) for _ in range(COUNT)), lambda all_of: setattr(all_of[70], "y", 2)),
        ([Slim(1.0) for _ in range(COUNT)], lambda all_of: setattr(all_of[70], "y", 2.0)),
        ([Record("x", 1.0) for _ in range(COUNT)], lambda all_of: setattr(all_of[7], "new", 2)),
        ([(at, [at]) for at in range(COUNT)], lambda all_of: all_of[70][1].__setitem__(0, -1)),
        ([Pair(0, numpy.zeros(2)) for _ in range(COUNT)], lambda all_of: all_of[70].y.fill(1)),
        ([{"y": torch.zeros(2)} for _ in range(COUNT)], lambda all_of: all_of[70]["y"].fill_(1)),
        ([{"a": [{"b": {1}}]} for _ in range(COUNT)], lambda all_of: all_of[7]["a"][0]["b"].add(2)),
        (array_of([{"y": 1} for _ in range(9)]), lambda all_of: all_of[7].update(y=2)),
        ([[[[] for _ in range(20)] for _ in range(20)] for _ in range(20)],
         lambda all_of: all_of[19][19][19].append(1)),
    ],
)  # fmt: skip
def test_a_record_that_is_set_anew_is_seen_where_it_is_asked_for(records, change):
    data = Photos(records)
    noted = Noted(data)
    assert noted.change(closely=True) is None
    change(records)
    assert noted.change() is None
    assert noted.change(closely=True) == "records[...]"


def test_a_label_moved_from_one_record_to_the_next_is_seen():
    records = [[at] for at in range(COUNT)]
    noted = Noted(Photos(records))
    records[1].insert(0, records[0].pop())
    assert noted.change(closely=True) == "records[...]"


def test_the_same_label_again_is_no_change():
    records = [{"y": 1000.5} for _ in range(COUNT)]
    noted = Noted(Photos(records))
    records[70]["y"] = float("1000.5")
    assert noted.change(closely=True) is None


def test_names_of_files_with_their_numbers_need_no_room():
    room = Room()
    assert list(groups_in([(f"{at}.jpg", at) for at in range(COUNT)], room)) == []
    assert room.entries == inside.MOST


def test_records_that_hold_each_other_are_looked_at_once():
    records = [{"y": at} for at in range(COUNT)]
    for record in records:
        record["all"] = records
    noted = Noted(Photos(records))
    records[70]["y"] = 5
    assert noted.change(closely=True) == "records[...]"


def test_more_than_can_be_compared_is_said(monkeypatch):
    monkeypatch.setattr(noting, "Room", lambda: Room(entries=50))
    assert Noted(Photos([{"y": 1.0} for _ in range(COUNT)])).unseen == "records"
    assert Noted(Photos([1.0] * COUNT)).unseen is None


def test_a_cache_sees_that_records_were_labelled_anew():
    data = Photos([{"y": 1.0} for _ in range(COUNT)])
    cached = Tiered(data, ram="1 MB")
    list(map(cached.__getitem__, range(COUNT)))
    assert cached.outdated() is None
    data.records[70]["y"] = 2.0
    assert cached.outdated() == "records[...]"
