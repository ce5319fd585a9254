"""What is shown of a command's output."""

from hotlap.trials.output import ending, tail

CRASH = """\
epoch 1
Fatal Python error: Segmentation fault

Thread 0x00007f1 [hotlap-sampler] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/venv/hotlap/probes/sampling.py", line 117 in _run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f2 (most recent call first):
  File "/home/user/prefetch.py", line 8 in run

Current thread 0x00007f3 (most recent call first):
  File "/home/user/train.py", line 30 in <module>
"""


def test_of_a_crash_the_threads_of_the_command_are_shown(tmp_path):
    log = tmp_path / "output.log"
    log.write_text(CRASH)
    shown = tail(log)
    assert "hotlap" not in shown
    assert "threading.py" not in shown
    assert [line for line in shown.splitlines() if "File" in line] == [
        '  File "/home/user/prefetch.py", line 8 in run',
        '  File "/home/user/train.py", line 30 in <module>',
    ]


def test_control_characters_and_lines_written_over_are_left_out(tmp_path):
    log = tmp_path / "output.log"
    log.write_text("\x1b[1mbold\x1b[0m\r\n 10 %\r 90 %\r100 %\n\nlast\r")
    assert tail(log) == "bold\n100 %\nlast"
    assert tail(tmp_path / "none.log") == ""


SITE = "/venv/lib/python3.11/site-packages/torch/distributed"
LAUNCHER = [
    "Traceback (most recent call last):",
    '  File "/venv/bin/torchrun", line 8, in <module>',
    "    sys.exit(main())",
    *[f'  File "{SITE}/run.py", line {line}, in main' for line in range(30)],
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "train.py FAILED",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-11-16_09:15:12",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : 1 (pid: 31533)",
]


def raised(who, error, *frames):
    lines = ["Traceback (most recent call last):"]
    lines += [f'  File "{file}", line {line}, in main\n    step()' for file, line in frames]
    return [who + line for line in "\n".join([*lines, error]).split("\n")]


def written(tmp_path, *lines):
    log = tmp_path / "output.log"
    log.write_text("\n".join(lines) + "\n")
    return log


def test_a_scripts_traceback_is_shown_though_its_launcher_says_more(tmp_path):
    boom = raised("[rank1]: ", "RuntimeError: boom", ("/home/user/train.py", 17))
    closed = raised("[rank0]: ", "RuntimeError: closed by peer", ("/home/user/train.py", 15))
    shown = ending(written(tmp_path, "epoch 1", *boom, *closed, *LAUNCHER)).splitlines()
    assert shown[: len(boom)] == boom
    assert "closed by peer" not in "\n".join(shown)  # rank 1 was the first to fail
    assert shown[-1] == LAUNCHER[-1]
    assert len(shown) <= 32


def test_the_lines_of_two_ranks_may_be_mixed(tmp_path):
    boom = raised("[rank1]: ", "RuntimeError: boom", ("/home/user/train.py", 17))
    other = raised("[rank0]: ", "RuntimeError: other", ("/home/user/train.py", 15))
    mixed = [line for pair in zip(other, boom, strict=True) for line in pair]
    shown = ending(written(tmp_path, *mixed, *LAUNCHER)).splitlines()
    assert shown[: len(boom)] == boom


def test_the_end_alone_is_shown_where_the_traceback_is_in_it(tmp_path):
    own = raised("", "ValueError: odd", ("/home/user/train.py", 3))
    log = written(tmp_path, *[f"epoch {number}" for number in range(50)], *own)
    assert ending(log) == tail(log)


def test_a_launcher_alone_is_shown_by_its_end(tmp_path):
    log = written(tmp_path, *LAUNCHER)
    assert ending(log) == tail(log)


def test_a_traceback_the_script_went_on_after_is_not_dug_up(tmp_path):
    caught = raised("", "ValueError: caught", ("/home/user/train.py", 3))
    log = written(tmp_path, *caught, *[f"epoch {number}" for number in range(50)])
    assert ending(log) == tail(log)


def test_of_a_deep_traceback_the_beginning_and_the_end_are_shown(tmp_path):
    deep = raised("[rank1]: ", "RecursionError: deep", *[("/home/user/train.py", 9)] * 500)
    shown = ending(written(tmp_path, *deep, *LAUNCHER)).splitlines()
    assert shown[0] == deep[0]
    assert "[rank1]: RecursionError: deep" in shown
    assert len(shown) < 40
