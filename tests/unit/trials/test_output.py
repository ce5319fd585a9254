"""What is shown of a command's output."""

from hotlap.trials.output import tail

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
