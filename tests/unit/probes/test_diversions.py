import builtins
import io
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotlap.probes.diversions import Diversions, divert_tensorboard, install


@pytest.fixture
def places(tmp_path):
    for name in ("work", "home", "elsewhere"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def diversions(places):
    return Diversions([str(places / "work"), str(places / "home")], places / "trial" / "diverted")


def test_a_path_outside_goes_below_the_trial_under_its_own_name(diversions, places):
    path = places / "elsewhere" / "model.pt"
    assert diversions.of(path) == places / "trial" / "diverted" / str(path).lstrip("/")
    assert diversions.of(str(path)) == diversions.of(path)


def test_protected_folders_need_no_diversion(diversions, places):
    assert diversions.of(places / "work" / "runs" / "model.pt") is None
    assert diversions.of(places / "home") is None


def test_a_name_that_only_begins_like_a_protected_folder_is_outside(diversions, places):
    assert diversions.of(places / "workshop" / "model.pt") is not None


def test_a_way_out_of_a_protected_folder_is_outside(diversions, places):
    assert diversions.of(places / "work" / ".." / "elsewhere" / "model.pt") is not None
    (places / "work" / "link").symlink_to(places / "elsewhere")
    assert diversions.of(places / "work" / "link" / "model.pt") is not None


def test_what_was_diverted_is_not_diverted_again(diversions, places):
    once = diversions.of(places / "elsewhere" / "model.pt")
    assert diversions.of(once) is None


def test_a_relative_path_is_where_the_process_is(diversions, places, monkeypatch):
    monkeypatch.chdir(places / "work")
    assert diversions.of("model.pt") is None
    monkeypatch.chdir(places / "elsewhere")
    assert diversions.of("model.pt") == diversions.of(places / "elsewhere" / "model.pt")


@pytest.mark.parametrize("path", ["/dev/null", "/dev/shm/x", "/proc/self/status", "/sys/x"])
def test_devices_are_left_alone(diversions, path):
    assert diversions.of(path) is None


@pytest.mark.parametrize("thing", [None, 3, object(), b"bytes", open])
def test_what_is_no_path_is_left_alone(diversions, thing):
    assert diversions.of(thing) is None


def test_without_protected_folders_every_path_is_diverted(places):
    assert Diversions([], places / "trial").of(places / "work" / "model.pt") is not None


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """A save that is led away replaces functions of everyone."""
    for owner, names in (
        (builtins, ("open",)),
        (io, ("open",)),
        (os, ("stat", "unlink", "remove", "rename", "replace")),
        (shutil, ("copyfile", "copymode", "copystat")),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))


class Torch:
    def __init__(self):
        self.saved = []
        self.loaded = []

    def save(self, obj, f, _new=True):
        self.saved.append((obj, f, _new))

    def load(self, f, map_location=None):
        self.loaded.append((f, map_location))


def installed(places, **settings):
    plain = {"protected": [str(places / "work")], "diverted": str(places / "trial")}
    torch, recorder = Torch(), SimpleNamespace(diverted=[])
    saved, loaded = torch.saved, torch.loaded
    install(torch, recorder, {**plain, **settings})
    return torch, recorder, saved, loaded


def test_a_save_outside_is_led_into_the_trial_and_told_once(places):
    torch, recorder, saved, _ = installed(places)
    path = places / "elsewhere" / "model.pt"
    torch.save({"a": 1}, path)
    torch.save({"a": 2}, f=path, _new=False)
    led = places / "trial" / str(path).lstrip("/")
    assert saved == [({"a": 1}, led, True), ({"a": 2}, led, False)]
    assert led.parent.is_dir()
    assert recorder.diverted == [str(path)]


def test_a_save_inside_goes_where_it_always_does(places):
    torch, recorder, saved, _ = installed(places)
    torch.save(1, "file object")
    assert len(saved) == 1
    torch.save(1, places / "work" / "model.pt")
    assert saved[1][1] == places / "work" / "model.pt"
    assert str(places / "work" / "model.pt") not in recorder.diverted


def test_what_was_led_away_is_loaded_from_there(places):
    torch, _, _, loaded = installed(places)
    path = places / "elsewhere" / "model.pt"
    torch.load(path)
    led = places / "trial" / str(path).lstrip("/")
    led.parent.mkdir(parents=True)
    led.write_text("")
    torch.load(path, map_location="cpu")
    assert loaded == [(path, None), (led, "cpu")]


def test_in_place_nothing_is_touched(places):
    torch, _, saved, _ = installed(places, in_place=True)
    assert "save" not in vars(torch)
    torch.save(1, places / "elsewhere" / "model.pt")
    assert saved[0][1] == places / "elsewhere" / "model.pt"


def test_a_tensorboard_writer_outside_is_led_into_the_trial(places):
    class FileWriter:
        def __init__(self, log_dir, max_queue=10):
            self.log_dir, self.max_queue = log_dir, max_queue

    recorder = SimpleNamespace(diverted=[])
    settings = {"protected": [str(places / "work")], "diverted": str(places / "trial")}
    divert_tensorboard(recorder, settings, SimpleNamespace(FileWriter=FileWriter))
    outside = FileWriter(str(places / "elsewhere" / "runs"), max_queue=3)
    inside = FileWriter(str(places / "work" / "runs"))
    assert outside.log_dir.startswith(str(places / "trial"))
    assert Path(outside.log_dir).is_dir()
    assert outside.max_queue == 3
    assert inside.log_dir == str(places / "work" / "runs")
    assert recorder.diverted == [str(places / "elsewhere" / "runs")]


def test_a_module_without_a_writer_is_left_alone():
    module = SimpleNamespace()
    divert_tensorboard(SimpleNamespace(diverted=[]), {}, module)
    assert vars(module) == {}
