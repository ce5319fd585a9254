"""The supervisor as hotlap starts it: through the runner, with commands that know no torch."""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hotlap.errors import HotlapError, UsageError
from hotlap.settings import Limits
from hotlap.trials import runner, sockets, supervisor
from hotlap.trials.folder import TrialFolder

PYTHON = sys.executable
PATIENT = 20.0  # seconds a process may take to vanish before the test fails


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Runs Python code under the supervisor, without overlays unless asked."""
    monkeypatch.setenv("HOTLAP_OVERLAY", "0")

    def run(code, *, timeout=60.0, **options):
        folder = TrialFolder(tmp_path / "trial")
        folder.create()
        working = tmp_path / "work"
        working.mkdir(exist_ok=True)
        limits = Limits(timeout=timeout)
        words = [PYTHON, "-S", "-c", code] if isinstance(code, str) else code
        return runner.run(words, folder, limits=limits, working=working, **options)

    return run


def output(tmp_path):
    return (tmp_path / "trial" / "output.log").read_text()


def is_gone(pid):
    """Waits for a process to vanish, without sleeping."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ready, _, _ = select.select([handle], [], [], PATIENT)
    os.close(handle)
    return bool(ready)


def test_ctrl_c_while_it_is_started_leaves_nothing(start, monkeypatch):
    made, plain = [], subprocess.Popen

    def popen(*args, **kwargs):
        made.append(plain(*args, **kwargs))
        os.kill(os.getpid(), signal.SIGINT)
        return made[-1]

    monkeypatch.setattr("hotlap.trials.runner.subprocess.Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        start("import time; time.sleep(60)")
    assert made[0].returncode is not None, "it has ended by then, and was waited for"


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_the_commands(start, code):
    outcome = start(f"raise SystemExit({code})")
    assert (outcome.code, outcome.signal, outcome.stopped) == (code, None, None)
    assert outcome.left_running == []


def test_a_signal_that_ended_the_command_is_told(start):
    outcome = start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (outcome.code, outcome.signal, outcome.stopped) == (None, 9, None)


def test_the_command_runs_in_its_folder_with_the_trial_in_its_environment(start, tmp_path):
    start("import os; print(os.getcwd(), os.environ['HOTLAP_TRIAL'], os.getsid(0) == os.getpid())")
    assert output(tmp_path).split() == [str(tmp_path / "work"), str(tmp_path / "trial"), "True"]


def test_output_and_errors_are_kept_in_order(start, tmp_path):
    start(
        "import sys\n"
        "for i in range(3):\n"
        "    print(i, file=sys.stdout if i % 2 else sys.stderr, flush=True)"
    )
    assert output(tmp_path).split() == ["0", "1", "2"]


def test_the_command_has_default_signals_and_no_pipe_of_ours(start, tmp_path):
    start(
        "import os, signal\n"
        "names = ('SIGINT', 'SIGTERM', 'SIGHUP')\n"
        "print(*[signal.getsignal(getattr(signal, n)) == signal.SIG_DFL for n in names[1:]])\n"
        "kinds = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')\n"
        "         if os.path.exists(f'/proc/self/fd/{n}') and int(n) > 2]\n"
        "print([kind for kind in kinds if kind.startswith('pipe')])"
    )
    assert output(tmp_path).split("\n")[:2] == ["True True", "[]"]


def test_the_settings_are_there_before_the_command(start, tmp_path):
    start("import os; print(open(os.environ['HOTLAP_TRIAL'] + '/settings.json').read())")
    settings = json.loads(output(tmp_path))
    assert settings["limits"] == Limits().as_dict()
    assert settings["diverted"] == str(tmp_path / "trial" / "diverted")
    assert settings["protected"] == []


def test_overlays_that_are_switched_off_are_told(start):
    warnings = []
    outcome = start("pass", warn=warnings.append)
    assert outcome.overlay_refused == "HOTLAP_OVERLAY=0 is set"
    assert len(warnings) == 1
    assert "HOTLAP_OVERLAY=0" in warnings[0]


def test_in_place_there_is_nothing_to_warn_of(start):
    warnings = []
    outcome = start("pass", warn=warnings.append, in_place=True)
    assert (outcome.overlay_refused, warnings) == (None, [])


def test_a_command_that_cannot_be_executed_is_a_wrong_request(start, tmp_path):
    script = tmp_path / "odd"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(UsageError, match="could not be started: No such file"):
        start([str(script)])


@pytest.mark.parametrize("name", ["json", "select", "ctypes", "hotlap"])
def test_a_file_of_the_folder_named_like_a_module_is_not_imported(start, tmp_path, name):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / f"{name}.py").write_text("print('imported', flush=True)")
    assert start("pass").code == 0
    assert output(tmp_path) == ""


@pytest.mark.parametrize(
    "entry",
    [
        "raise SystemExit('a reason')",
        "import os, sys; os.write(int(sys.argv[3]), b'"
        '{"event": "covered", "protected": [], "upper": null, "reason": null}\\n\')',
    ],
)
def test_a_supervisor_that_ends_before_the_command_began_is_told(start, monkeypatch, entry):
    monkeypatch.setattr(runner, "_ENTRY", entry)
    with pytest.raises(HotlapError, match=r"ended before it did so.*output\.log"):
        start("pass")


DETACHED = """
import os, sys
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        os.close(write)
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.execvp("sleep", ["sleep", "1000"])
    os._exit(0)
os.close(write)
print(os.read(read, 20).decode(), flush=True)
os.wait()
"""


def test_a_detached_grandchild_is_ended_and_told(start, tmp_path):
    outcome = start(DETACHED)
    assert outcome.code == 0
    assert len(outcome.left_running) == 1
    assert "sleep 1000" in outcome.left_running[0] or outcome.left_running[0].startswith(PYTHON)
    assert is_gone(int(output(tmp_path)))


def test_a_command_that_ignores_being_asked_is_killed_with_its_children(start, tmp_path):
    outcome = start(
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "if child: print(os.getpid(), child, flush=True)\n"
        "while True: signal.pause()",
        timeout=0.3,
    )
    assert (outcome.stopped, outcome.signal, outcome.code) == ("timeout", 9, None)
    assert outcome.left_running == []
    assert all(is_gone(int(pid)) for pid in output(tmp_path).split())


def test_a_command_that_cleans_up_when_asked_may_do_so(start, tmp_path):
    outcome = start(
        "import signal, sys\n"
        "def bye(*args):\n"
        "    print('cleaned up', flush=True)\n"
        "    sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "while True: signal.pause()",
        timeout=0.5,
    )
    assert (outcome.stopped, outcome.code) == ("timeout", 7)
    assert "cleaned up" in output(tmp_path)


def test_children_of_a_command_that_ends_at_once_may_still_clean_up(start, tmp_path):
    """As srun does below a shell: killed, it would leave its nodes allocated."""
    outcome = start(
        "import os, signal, sys, time\n"
        "def bye(*args):\n"
        "    time.sleep(0.4)\n"
        "    print('gave back', flush=True)\n"
        "    sys.exit(0)\n"
        "if os.fork() == 0:\n"
        "    signal.signal(signal.SIGTERM, bye)\n"
        "    print('holding', flush=True)\n"
        "while True: signal.pause()",
        timeout=1.0,
    )
    assert (outcome.stopped, outcome.signal) == ("timeout", 15)
    assert output(tmp_path).split("\n")[:2] == ["holding", "gave back"]


def test_srun_that_a_finished_command_left_running_may_give_back_what_it_holds(start, tmp_path):
    outcome = start(
        "import ctypes, os, signal, sys, time\n"
        "read, write = os.pipe()\n"
        "if os.fork():\n"
        "    os.read(read, 1)\n"
        "    sys.exit(0)\n"
        "ctypes.CDLL(None).prctl(15, b'srun')\n"  # the name it has
        "def bye(*args):\n"
        "    time.sleep(0.2)\n"
        "    print('gave back', flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "os.write(write, b'1')\n"
        "while True: signal.pause()"
    )
    assert outcome.code == 0
    assert len(outcome.left_running) == 1
    assert "gave back" in output(tmp_path)


def test_a_command_interrupted_by_whoever_also_ends_it_counts_as_interrupted(start, tmp_path):
    """As a batch system does, which sends its signal to every process of a job."""

    def both(state):
        pid = tmp_path / "work" / "pid"
        if pid.exists() and pid.read_text():
            os.kill(int(pid.read_text()), signal.SIGKILL)
            assert is_gone(int(pid.read_text()))
            raise KeyboardInterrupt

    code = "import os, signal\nopen('pid', 'w').write(str(os.getpid()))\nsignal.pause()"
    outcome = start(code, progress=both)
    assert (outcome.stopped, outcome.signal) == ("interrupted", 9)


def test_a_command_started_by_slurm_has_no_overlay_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("HOTLAP_OVERLAY", raising=False)
    folder, said = TrialFolder(tmp_path / "trial"), []
    folder.create()
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text("#!/bin/sh\nexit 0\n")
    srun.chmod(0o755)
    words = [str(srun), "true"]
    limits = Limits(timeout=60.0)
    outcome = runner.run(words, folder, limits=limits, working=tmp_path, warn=said.append)
    assert (outcome.code, outcome.protected, outcome.upper) == (0, [], None)
    assert outcome.overlay_refused == "srun has it started by SLURM, out of hotlap's reach"
    assert len(said) == 1
    assert outcome.overlay_refused in said[0]


MEETING = """
import json, os, signal
from multiprocessing.connection import Listener
if os.fork():
    listener = Listener(family='AF_UNIX')
    print(listener.address, flush=True)
    open(os.path.join(os.environ['TMPDIR'], 'mine.txt'), 'w').write('kept')
    progress = os.environ['HOTLAP_TRIAL'] + '/progress/1.json'
    open(progress, 'w').write(json.dumps({'stage': 'done', 'steps': 9}))
while True: signal.pause()
"""


def test_sockets_of_a_stopped_command_are_not_left_in_the_temporary_folder(
    start, tmp_path, monkeypatch
):
    with tempfile.TemporaryDirectory(prefix="short") as name:  # a socket's path is
        monkeypatch.setenv("TMPDIR", name)
        start(MEETING)
        address = Path(output(tmp_path).strip())
        assert address.parent.parent == Path(name)
        assert address.parent.name.startswith("pymp-")
        assert os.listdir(name) == ["mine.txt"]


def test_sockets_of_others_stay(start, monkeypatch):
    with (
        tempfile.TemporaryDirectory(prefix="pymp-") as name,
        socket.socket(socket.AF_UNIX) as others,
    ):
        others.bind(f"{name}/listener-others")
        others.listen()
        assert Path(name) / "listener-others" in sockets.held_by([os.getpid()])
        start("import signal; signal.pause()", timeout=0.3)
        assert os.listdir(name) == ["listener-others"]


def test_enough_is_enough_once_every_process_says_done(start, tmp_path):
    outcome = start(
        "import json, os, signal\n"
        "folder = os.environ['HOTLAP_TRIAL'] + '/progress/'\n"
        "open(folder + '1.json', 'w').write(json.dumps({'stage': 'done', 'steps': 9}))\n"
        "while True: signal.pause()"
    )
    assert (outcome.stopped, outcome.signal) == ("enough", signal.SIGTERM)


def test_progress_is_told_while_the_command_runs(start):
    states = []
    start("import signal; signal.pause()", timeout=0.3, progress=states.append)
    assert states
    assert states[0]["stage"] == "start"
    assert [state["seconds"] for state in states] == sorted(state["seconds"] for state in states)


PARENT = """
import sys
from pathlib import Path
from hotlap.settings import Limits
from hotlap.trials import runner, sockets, supervisor
from hotlap.trials.folder import TrialFolder

folder = TrialFolder(Path(sys.argv[1]))
folder.create()
pipe = sys.argv[2]
code = f"import os, signal; open({pipe!r}, 'w').write(str(os.getpid())); signal.pause()"
command = [sys.executable, "-S", "-c", code]
runner.run(command, folder, limits=Limits(), working=Path(sys.argv[1]))
"""


def test_killing_hotlap_ends_the_command(tmp_path):
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    parent = subprocess.Popen(
        [PYTHON, "-c", PARENT, str(tmp_path / "trial"), str(pipe)],
        env={**os.environ, "HOTLAP_OVERLAY": "0"},
    )
    try:
        child = int(pipe.read_text())  # waits until the command writes
        assert Path(f"/proc/{child}").exists()
    finally:
        parent.kill()
        parent.wait()
    assert is_gone(child)


def test_descriptors_beyond_the_first_thousand_are_waited_for_as_well():
    read, write = os.pipe()
    high = fcntl.fcntl(read, fcntl.F_DUPFD, 1500)
    try:
        assert supervisor.readable(high, seconds=0) == []
        os.write(write, b".")
        assert supervisor.readable(high, seconds=1) == [high]
    finally:
        for descriptor in (read, write, high):
            os.close(descriptor)
