import os

import pytest

from hotlap.trials import writes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "old.pt").write_text("old")
    return tmp_path


def snapshot(folder):
    return writes.snapshot(folder, without=folder / "results")


def changed(before, folder):
    return writes.changed(before, folder, without=folder / "results")


def test_new_and_changed_files_are_told_by_their_path_below(folder):
    before = snapshot(folder)
    (folder / "runs" / "new.pt").write_text("new")
    (folder / "runs" / "old.pt").write_text("longer than it was")
    assert changed(before, folder) == ("runs/new.pt", "runs/old.pt")


def test_a_file_of_the_same_size_written_anew_is_changed(folder):
    before = snapshot(folder)
    os.utime(folder / "train.py", ns=(1, 1))
    assert changed(before, folder) == ("train.py",)


def test_a_file_that_is_gone_is_told(folder):
    before = snapshot(folder)
    (folder / "runs" / "old.pt").rename(folder / "runs" / "best.pt")
    assert changed(before, folder) == ("runs/best.pt", "runs/old.pt (deleted)")


def test_a_file_the_bounded_walk_misses_is_not_gone(folder, monkeypatch):
    before = snapshot(folder)
    monkeypatch.setattr(writes, "MOST_FILES", 1)
    assert changed(before, folder) == ()


def test_an_untouched_folder_has_no_changes(folder):
    assert changed(snapshot(folder), folder) == ()


def test_hotlaps_own_folder_of_runs_is_not_looked_into_whatever_its_name(folder):
    before = snapshot(folder)
    for name in ("results", "results-of-mine"):
        (folder / name).mkdir()
        (folder / name / "record.json").write_text("{}")
    assert changed(before, folder) == ("results-of-mine/record.json",)


def test_what_lay_in_hotlaps_own_folder_takes_nothing_from_the_walk(folder):
    (folder / "results").mkdir()
    (folder / "results" / "record.json").write_text("{}")
    assert sorted(snapshot(folder)) == [str(folder / "runs/old.pt"), str(folder / "train.py")]


@pytest.mark.parametrize("name", [".hotlap", ".git", "__pycache__", ".venv", "node_modules"])
def test_folders_of_tools_are_not_looked_into(folder, name):
    before = snapshot(folder)
    (folder / name).mkdir()
    (folder / name / "file").write_text("")
    assert changed(before, folder) == ()


def test_a_link_that_leads_nowhere_is_a_file_like_any_other(folder):
    before = snapshot(folder)
    (folder / "latest").symlink_to("nowhere")
    assert changed(before, folder) == ("latest",)


def test_the_walk_is_bounded(folder, monkeypatch):
    monkeypatch.setattr(writes, "MOST_FILES", 1)
    assert len(snapshot(folder)) == 1


def test_only_the_first_changes_are_listed(folder):
    before = snapshot(folder)
    for number in range(writes.MOST_LISTED + 5):
        (folder / f"{number:03}.pt").write_text("")
    assert len(changed(before, folder)) == writes.MOST_LISTED


def overlay(trial, number, real, **files):
    upper = trial / f"writes-{number}"
    for name, size in files.items():
        path = upper / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (trial / f"writes-{number}.path").write_text(real)


def test_what_the_overlay_holds_is_told_under_its_real_path_largest_first(tmp_path):
    overlay(tmp_path, 0, "/home/user", runs__small=10, big=1000)
    overlay(tmp_path, 1, "/data", cache=100)
    found, total = writes.in_overlay(tmp_path)
    assert [(one.path, one.bytes) for one in found] == [
        ("/home/user/big", 1000),
        ("/data/cache", 100),
        ("/home/user/runs/small", 10),
    ]
    assert total == 1110


def test_a_copy_of_a_file_that_was_there_tells_its_size_from_before(tmp_path):
    real = tmp_path / "data"
    real.mkdir()
    (real / "big.bin").write_bytes(b"x" * 9)
    overlay(tmp_path, 0, str(real), **{"big.bin": 9, "new.bin": 5})
    found, _ = writes.in_overlay(tmp_path)
    assert [(one.bytes, one.bytes_before) for one in found] == [(9, 9), (5, None)]


def test_compiled_python_is_nothing_the_command_wrote(tmp_path):
    upper = tmp_path / "writes-0" / "__pycache__"
    upper.mkdir(parents=True)
    (upper / "train.pyc").write_bytes(b"x" * 99)
    (tmp_path / "writes-0.path").write_text("/home/user")
    assert writes.in_overlay(tmp_path) == ((), 0)


def test_what_is_no_file_is_not_told(tmp_path):
    overlay(tmp_path, 0, "/home/user", model=5)
    (tmp_path / "writes-0" / "link").symlink_to("model")
    os.mkfifo(tmp_path / "writes-0" / "pipe")
    found, total = writes.in_overlay(tmp_path)
    assert [one.path for one in found] == ["/home/user/model"]
    assert total == 5


def test_a_trial_without_an_overlay_wrote_nothing_there(tmp_path):
    assert writes.in_overlay(tmp_path) == ((), 0)


def test_the_sum_is_of_all_files_though_only_the_largest_are_told(tmp_path):
    files = {f"f{number}": 1 for number in range(writes.MOST_LISTED + 5)}
    overlay(tmp_path, 0, "/home/user", **files)
    found, total = writes.in_overlay(tmp_path)
    assert len(found) == writes.MOST_LISTED
    assert total == writes.MOST_LISTED + 5
