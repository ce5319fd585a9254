"""What is said to a SLURM cluster, and what its answers are taken for."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotlap.errors import UsageError
from hotlap.trials import slurm
from hotlap.trials.slurm import GONE, Full, Job, Slurm, Unanswered

Answered = subprocess.CompletedProcess[str]


def cluster(
    *options: str, code: int = 0, output: str = "", errors: str = ""
) -> tuple[Slurm, list[list[str]]]:
    asked: list[list[str]] = []

    def call(words: Sequence[str]) -> Answered:
        asked.append(list(words))
        return subprocess.CompletedProcess(list(words), code, output, errors)

    return Slurm(options, call=call), asked


def test_a_job_runs_the_words_as_they_are_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "100% done; rm -rf"
    folder.mkdir()
    made, asked = cluster("--gres=gpu:1", "--time=9", output="4711;cluster\n")
    number = made.submit(["python", "a b", "$HOME"], name="hotlap-x", folder=folder, seconds=61)
    assert number == "4711"
    (words,) = asked
    assert words[:2] == ["sbatch", "--parsable"]
    assert words.index("--time=2") < words.index("--time=9"), "the last one counts: the user's"
    assert f"--chdir={folder}" in words
    script = ["sh", "-c", "echo $1; pwd", "sh"]
    assert words[-5:] == [str(folder / "job.sh"), str(folder), "python", "a b", "$HOME"]
    subprocess.run(["sh", folder / "job.sh", folder, *script, "a  b"], check=True)
    assert (folder / "slurm.log").read_text() == f"a b\n{folder}\n"
    missing = subprocess.run(
        ["sh", folder / "job.sh", tmp_path / "no", "true"], check=False, capture_output=True
    )
    assert missing.returncode == 3


@pytest.mark.parametrize(
    ("code", "output", "errors", "said"),
    [
        (1, "", "sbatch: error: no\nsbatch: error: Invalid partition.\n", "Invalid partition. It"),
        (
            1,
            "",
            "sbatch: unrecognized option '--frob'\nTry \"sbatch --help\"\n",
            "option '--frob'.",
        ),
        (0, "what?\n", "", "did not take a job: what?."),
        (0, "", "", "no word"),
    ],
)
def test_a_job_that_is_not_taken_is_a_sentence(
    tmp_path: Path, code: int, output: str, errors: str, said: str
) -> None:
    made, _ = cluster("--partition=nope", code=code, output=output, errors=errors)
    with pytest.raises(UsageError, match="handed in with --partition=nope") as caught:
        made.submit(["true"], name="x", folder=tmp_path, seconds=1)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "errors",
    ["sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: failed\n", "temporarily unable to\n"],
)
def test_a_cluster_that_takes_no_more_for_now_is_told_from_one_that_refuses(
    tmp_path: Path, errors: str
) -> None:
    made, _ = cluster(code=1, errors=errors)
    with pytest.raises(Full):
        made.submit(["true"], name="x", folder=tmp_path, seconds=1)


@pytest.mark.parametrize(
    "errors", ["sbatch: error: Socket timed out on send/recv operation\n", "Unable to contact x\n"]
)
def test_a_job_of_which_nobody_knows_whether_it_was_taken_is_not_called_refused(
    tmp_path: Path, errors: str
) -> None:
    made, _ = cluster(code=1, errors=errors)
    with pytest.raises(Unanswered):
        made.submit(["true"], name="x", folder=tmp_path, seconds=1)


@pytest.mark.parametrize(
    "option",
    [
        *("--wrap=x", "--array=1-3", "-a", "--wait", "-o", "--output=x", "-D/tmp", "--test-only"),
        *("--arr=1", "--out=x", "-M", "--clusters=b", "--requeue", "-Qa0-1", "-voX", "--"),
    ],
)
def test_options_that_take_the_job_out_of_our_hands_are_refused(option: str) -> None:
    with pytest.raises(UsageError, match="Leave it out"):
        Slurm(["--partition=gpu", option])


@pytest.mark.parametrize(
    "words",
    [["x.sh"], ["--time=5", "x.sh"], ["--exclusive", "x.sh"], ["--excl", "x.sh"], ["-Q", "x.sh"]],
)
def test_a_word_that_sbatch_would_take_for_the_script_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"'x\.sh', which is no option"):
        Slurm(words)


def test_variables_that_hide_jobs_or_multiply_them_are_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SQUEUE_PARTITION", "SBATCH_ARRAY_INX", "SBATCH_ACCOUNT"):
        monkeypatch.setenv(name, "mine")
    done = slurm.call(["env"])
    assert "SBATCH_ACCOUNT=mine" in done.stdout
    assert "SQUEUE_" not in done.stdout
    assert "ARRAY" not in done.stdout


def test_other_options_are_taken(tmp_path: Path) -> None:
    given = ["-p", "gpu", "-A", "me", "--exclusive", "--exclude=n1", "-t", "10", "-w", "n2"]
    made, asked = cluster(*given, output="1")
    made.submit(["true"], name="x", folder=tmp_path, seconds=1)
    assert [word for word in asked[0] if word in given] == given


def test_jobs_are_asked_about_together_and_those_forgotten_are_gone() -> None:
    lines = "12|RUNNING|None|node[1-2]\n13|PENDING|Resources|\n14|TIMEOUT|TimeLimit|node3\n"
    made, asked = cluster(output=lines)
    found = made.jobs({"12", "13", "14", "15"})
    assert "--jobs=12,13,14,15" in asked[0]
    assert found == {
        "12": Job(state="RUNNING", reason="None", nodes="node[1-2]"),
        "13": Job(state="PENDING", reason="Resources"),
        "14": Job(state="TIMEOUT", reason="TimeLimit", nodes="node3"),
        "15": GONE,
    }
    assert [number for number, job in sorted(found.items()) if job.ended] == ["14", "15"]
    assert not Job(state="STOPPED").ended, "what is not known as an end is none"


def test_jobs_are_taken_back_together() -> None:
    made, asked = cluster()
    made.cancel(["2", "1"])
    made.cancel([])
    made.cancel_named("hotlap-x")
    assert asked == [
        ["scancel", "--quiet", "1", "2"],
        ["scancel", "--quiet", "--name=hotlap-x"],
    ]


def test_only_unknown_jobs_make_an_error_an_answer() -> None:
    made, _ = cluster(code=1, errors="slurm_load_jobs error: Invalid job id specified\n")
    assert made.jobs({"1"}) == {"1": GONE}
    made, _ = cluster(code=1, errors="Unable to contact slurm controller\n")
    with pytest.raises(Unanswered, match="Unable to contact"):
        made.jobs({"1"})


def test_without_slurm_the_next_move_is_said(tmp_path: Path) -> None:
    def call(words: Sequence[str]) -> Answered:
        raise FileNotFoundError(words[0])

    with pytest.raises(UsageError, match="needs sbatch, which is not there"):
        Slurm(call=call).submit(["true"], name="x", folder=tmp_path, seconds=1)


def test_a_controller_that_does_not_answer_may_do_so_later() -> None:
    def call(words: Sequence[str]) -> Answered:
        raise subprocess.TimeoutExpired(list(words), 60)

    with pytest.raises(Unanswered, match="squeue"):
        Slurm(call=call).jobs({"1"})


def test_its_programs_are_out_of_reach_of_ctrl_c() -> None:
    code = "import os; print(os.getsid(0) == os.getpid())"
    assert slurm.call(["python3", "-c", code]).stdout.strip() == "True"
