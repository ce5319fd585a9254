import errno
import os
import re
import stat
from pathlib import Path

import pytest

from hotlap.errors import UsageError
from hotlap.trials.folder import RunFolder, TrialFolder, remove_tree


def new(out, verb="profile"):
    return RunFolder.new(verb, out=out, now=lambda: 1_700_000_000.0)


def test_a_run_is_named_by_its_verb_and_time(tmp_path):
    run = new(tmp_path)
    assert run.path.parent == tmp_path
    assert re.fullmatch(r"profile-2023111[45]-\d{6}", run.path.name)
    assert run.path.is_dir()
    assert run.result == run.path / "profile.json"


def test_runs_of_the_same_second_do_not_share_a_folder(tmp_path):
    names = [new(tmp_path).path.name for _ in range(3)]
    assert names[1:] == [names[0] + "-2", names[0] + "-3"]


def test_without_a_folder_named_runs_are_kept_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = new(None)
    assert run.path.parent == tmp_path / ".hotlap"
    assert run.path.is_absolute()


def test_folders_that_are_missing_are_made(tmp_path):
    assert new(tmp_path / "a" / "b").path.is_dir()


def test_git_never_sees_the_runs(tmp_path):
    new(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "*\n"


def test_a_gitignore_that_is_there_is_left_alone(tmp_path):
    (tmp_path / ".gitignore").write_text("*.pt\n")
    new(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "*.pt\n"


def test_a_place_that_cannot_be_written_is_refused_with_the_next_move(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"results cannot be written to .*--out DIR"):
        new(tmp_path / "file" / "below")


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(UsageError, match="Permission denied"):
        new(tmp_path)


def test_a_trial_has_the_folders_its_process_writes_to(tmp_path):
    trial = new(tmp_path).trial("baseline")
    for folder in (trial.path, trial.records, trial.progress, trial.seen):
        assert folder.is_dir()
    assert trial.path.name == "baseline"
    assert not trial.output.exists()


def filled(path):
    trial = TrialFolder(path)
    trial.create()
    for name in ("writes-0", "writes-10", "scratch-0/work", "diverted"):
        (path / name).mkdir(parents=True)
        (path / name / "model.pt").write_text("x")
    (path / "writes-0.path").write_text("/home/user")
    (path / "output.log").write_text("loss 0.1")
    return trial


def test_what_the_command_wrote_goes_with_the_trial(tmp_path):
    trial = filled(tmp_path / "trial")
    trial.forget_writes(keep=False)
    assert {path.name for path in trial.path.iterdir()} == {
        "output.log",
        "records",
        "progress",
        "seen",
    }


def test_what_the_command_wrote_stays_when_it_is_to_be_kept(tmp_path):
    trial = filled(tmp_path / "trial")
    trial.forget_writes(keep=True)
    assert (trial.path / "writes-0" / "model.pt").exists()
    assert (trial.path / "diverted" / "model.pt").exists()
    assert (trial.path / "writes-10" / "model.pt").exists()
    assert (trial.path / "writes-0.path").read_text() == "/home/user"
    assert not (trial.path / "scratch-0").exists()


def test_writes_that_landed_elsewhere_go_too(tmp_path):
    trial, spare = filled(tmp_path / "trial"), filled(tmp_path / "spare").path
    trial.forget_writes(keep=False, elsewhere=spare)
    assert not spare.exists()
    assert not list(trial.path.glob("writes-*"))


def test_writes_that_landed_elsewhere_come_to_the_trial_when_they_are_kept(tmp_path):
    trial, spare = TrialFolder(tmp_path / "trial"), filled(tmp_path / "spare").path
    trial.create()
    trial.forget_writes(keep=True, elsewhere=spare)
    assert not spare.exists()
    assert (trial.path / "writes-0" / "model.pt").read_text() == "x"
    assert (trial.path / "writes-10" / "model.pt").read_text() == "x"
    assert (trial.path / "writes-0.path").read_text() == "/home/user"
    assert not list(trial.path.glob("scratch-*"))


@pytest.mark.parametrize("keep", [True, False])
def test_the_trials_own_folder_is_never_taken_for_the_spare_one(tmp_path, keep):
    trial = filled(tmp_path / "trial")
    trial.forget_writes(keep=keep, elsewhere=trial.path)
    assert trial.output.read_text() == "loss 0.1"
    assert (trial.path / "writes-0" / "model.pt").exists() is keep


def test_writes_kept_from_elsewhere_replace_what_a_failed_attempt_left(tmp_path):
    trial, spare = TrialFolder(tmp_path / "trial"), filled(tmp_path / "spare").path
    trial.create()
    (trial.path / "writes-0").mkdir()  # made before the overlay was refused there
    trial.forget_writes(keep=True, elsewhere=spare)
    assert (trial.path / "writes-0" / "model.pt").exists()


def test_writes_kept_from_another_disk_may_hold_what_cannot_be_copied(tmp_path, monkeypatch):
    trial, spare = TrialFolder(tmp_path / "trial"), filled(tmp_path / "spare").path
    trial.create()
    os.mkfifo(spare / "writes-0" / "pipe")  # as overlayfs' own marks of removed files

    def another_disk(*paths):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", another_disk)
    trial.forget_writes(keep=True, elsewhere=spare)
    assert (trial.path / "writes-0" / "model.pt").read_text() == "x"


def test_a_folder_without_permissions_is_removed_too(tmp_path):
    inner = tmp_path / "scratch-0" / "work" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")
    inner.chmod(0)
    inner.parent.chmod(0)
    remove_tree(tmp_path / "scratch-0")
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_given_before_a_folder_is_walked_into(tmp_path, monkeypatch):
    order = []
    plain = os.chmod
    monkeypatch.setattr(
        os, "chmod", lambda path, mode: (order.append((str(path), mode)), plain(path, mode))
    )
    (tmp_path / "a" / "b").mkdir(parents=True)
    remove_tree(tmp_path / "a")
    assert order == [
        (str(tmp_path / "a"), stat.S_IRWXU),
        (str(tmp_path / "a" / "b"), stat.S_IRWXU),
    ]


def test_a_link_is_removed_and_what_it_points_to_is_not(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "real" / "file").exists()
    assert not (tmp_path / "link").is_symlink()


def test_a_file_and_nothing_are_removed_alike(tmp_path):
    (tmp_path / "file").write_text("")
    remove_tree(tmp_path / "file")
    remove_tree(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_the_latest_run_is_found_whatever_dashes_its_verb_has(tmp_path):
    for _ in range(11):
        made = RunFolder.new("study-batch-size", out=tmp_path, now=lambda: 1_700_000_000.0)
        made.remember(["quick"])
    found = RunFolder.latest("study-batch-size", command=["quick"], out=tmp_path)
    assert found.path == made.path
    assert found.path.name.endswith("-11")


def test_two_do_not_work_in_one_run(tmp_path):
    run = RunFolder.new("tune", out=tmp_path)
    run.lock()
    with pytest.raises(UsageError, match="Another hotlap is at work"):
        RunFolder(run.path).lock()
    run.close()
    RunFolder(run.path).lock()
