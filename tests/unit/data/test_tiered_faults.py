"""The tiered cache when samples, workers and disks fail: training goes on, and it is said."""

import json
import os
import subprocess
import sys
import textwrap
import warnings

import pytest
from numbers_kept import MB, RIGHT, Numbers, epoch

from hotlap.data.failures import SampleError
from hotlap.data.tiered import Tiered

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def test_a_sample_that_fails_stops_the_epoch_with_its_index():
    cached = Tiered(Numbers(broken=[0, 11]), ram=MB)
    with pytest.raises(SampleError, match=r"sample (0|11): OSError: cannot read"):
        epoch(cached)


def test_a_source_that_never_works_is_an_error_at_once():
    with pytest.raises(SampleError, match="sample 0: OSError: cannot read 0"):
        Tiered(Numbers(broken=range(40)), ram=MB)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_fails_is_skipped_and_counted_when_asked_to(workers):
    cached = Tiered(Numbers(broken=[0, 11]), ram=MB, on_error="skip")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert epoch(cached, num_workers=workers) == {
            index: label for index, label in RIGHT.items() if index not in (0, 11)
        }
    assert cached.failures.count == 2
    assert cached.failures.indices == [0, 11]
    if not workers:
        assert len(told) == 1
        assert "is skipped" in str(told[0].message)


def in_python(script):
    """What a script printed as JSON; torch's loaders may interrupt whoever is around."""
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
    answer = subprocess.run(
        [sys.executable, "-c", code + textwrap.dedent(script)], capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_a_worker_that_is_killed_ends_the_epoch_and_not_the_cache():
    raised, seen = in_python("""
        import json, os, signal, torch
        from torch.utils.data import DataLoader
        from numbers_kept import MB, Numbers, epoch
        from hotlap.data.tiered import Tiered

        class Deadly(Numbers):
            def __getitem__(self, index):
                if index == 30 and torch.utils.data.get_worker_info() is not None:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().__getitem__(index)

        def tried(raised):
            try:
                if not raised:
                    list(DataLoader(cached, batch_size=4, num_workers=2))
                return raised, sorted(epoch(cached))
            except (RuntimeError, OSError, EOFError) as problem:
                return str(problem) or type(problem).__name__, None

        cached, raised, seen = Tiered(Deadly(), ram=MB), "", None
        while seen is None:
            try:  # the broken connection tells, and torch's handler, whenever that comes
                raised, seen = tried(raised)
            except RuntimeError as problem:  # while the other was being told
                raised = str(problem)
        print(json.dumps([raised, seen]))
        """)
    assert raised
    assert seen == list(range(40))


def test_a_file_system_that_is_full_ends_the_filling_and_not_the_training(tmp_path):
    """A small tmpfs of its own, in a namespace of its own."""
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(f"""
        import json, sys, warnings
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from numbers_kept import Numbers, epoch
        from hotlap.data.tiered import Tiered
        cached = Tiered(Numbers(size=500), ram=0, disk=10**9, path={str(tmp_path / "small")!r})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            epochs = [sorted(epoch(cached)), sorted(epoch(cached))]
        print(json.dumps([epochs, [str(one.message) for one in told], cached.hits()]))
        """)
    )
    (tmp_path / "small").mkdir()
    mount = (
        f"mount -t tmpfs -o size=100k none {tmp_path / 'small'} && exec {sys.executable} {script}"
    )
    answer = subprocess.run(
        ["unshare", "--mount", "--user", "--map-root-user", "sh", "-c", mount],
        capture_output=True,
        text=True,
    )
    if "unshare" in answer.stderr or "permission denied" in answer.stderr.lower():
        pytest.skip(f"no file systems of one's own here: {answer.stderr}")
    assert answer.returncode == 0, answer.stderr
    epochs, told, hits = json.loads(answer.stdout)
    assert epochs == [list(range(40))] * 2
    assert len(told) == 1
    assert "is full" in told[0]
    assert 0 < hits["disk"] < 40


def test_a_limit_on_files_ends_the_filling_and_not_the_training(tmp_path):
    epochs, told, hits = in_python(f"""
        import json, resource, signal, warnings
        from numbers_kept import Numbers, epoch
        from hotlap.data.tiered import Tiered
        cached = Tiered(Numbers(size=500), ram=0, disk=10**9, path={str(tmp_path)!r})
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            epochs = [sorted(epoch(cached)), sorted(epoch(cached))]
        print(json.dumps([epochs, [str(one.message) for one in told], cached.hits()]))
        """)
    assert epochs == [list(range(40))] * 2
    assert len(told) == 1
    assert "is full" in told[0]
    assert 0 < hits["disk"] < 40


def test_a_folder_that_cannot_be_written_is_said_and_done_without(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(UserWarning, match="cannot hold a cache"):
        cached = Tiered(Numbers(), ram=MB, disk=MB, path=tmp_path / "file" / "below")
    assert epoch(cached) == RIGHT
