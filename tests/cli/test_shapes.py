"""Every shape of script in tests/scripts is profiled as it stands and counted right."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
from scripted import SCRIPTS, Answer, expected

PHASES = ("input", "transfer", "forward", "backward", "optimizer", "other")

# How each is started, where that is not simply `hotlap profile NAME.py`.
COMMANDS: dict[str, tuple[str, ...]] = {
    "package/train.py": ("python", "-m", "package.train"),
    "ddp.py": ("torchrun", "--nproc-per-node", "2", "ddp.py"),
    "ddp_exchange.py": ("torchrun", "--nproc-per-node", "2", "ddp_exchange.py"),
    "launch.sh": ("bash", "launch.sh"),
    "accelerate_loop.py": (
        *("accelerate", "launch", "--cpu", "--num_processes", "1", "--num_machines", "1"),
        *("--mixed_precision", "no", "--dynamo_backend", "no", "accelerate_loop.py"),
    ),
    "relative.py": ("relative.py", "--width", "512"),
}
SHAPES = (
    *("plain.py", "no_loader.py", "iterable.py", "iterable_workers.py", "workers_fork.py"),
    *("workers_spawn.py", "workers_forkserver.py", "persistent_workers.py", "custom_sampler.py"),
    *("batch_sampler.py", "collate_lambda.py", "worker_init_fn.py", "gan.py", "wgan.py"),
    *("accumulation.py", "lbfgs.py", "lazy.py", "autocast.py", "compiled.py", "evaluation.py"),
    *("evaluation_train_mode.py", "short_epochs.py", "package/train.py", "relative.py"),
    *("chdir.py", "lightning_loop.py", "accelerate_loop.py", "by_hand.py", "train_override.py"),
    *("own_source.py", "exec_config.py", "own_processes.py", "generator.py", "short.py"),
    *("ddp.py", "ddp_slow_rank.py", "launch.sh", "functional.py", "nested_batch.py"),
    *("swallow.py", "ignores_sigterm.py", "torch_func.py", "compiled_optimizer.py"),
    *("compiled_step.py", "activation_checkpoint.py", "step_in_backward.py", "nested_loader.py"),
    *("uncollated.py", "by_hand_gradients.py", "rollouts.py", "inner_optimizer.py"),
    *("endless_loader.py", "ddp_exchange.py"),
)
WITHOUT_LOADER = {
    *("no_loader.py", "generator.py", "swallow.py", "torch_func.py", "compiled_optimizer.py"),
    *("compiled_step.py", "activation_checkpoint.py", "step_in_backward.py", "rollouts.py"),
}


def start(hotlap: Callable[..., Answer], script: str, **more: Any) -> Answer:
    return hotlap(*COMMANDS.get(script, (script,)), **more)


FROM_TORCH_2_5 = {"compiled_optimizer.py"}  # compiled to the end: the compiler of 2.4 cannot


@pytest.mark.parametrize("script", SHAPES)
def test_a_script_of_this_shape_is_profiled_and_counted_right(
    script: str, hotlap: Callable[..., Answer]
) -> None:
    if script in FROM_TORCH_2_5 and version("torch").startswith("2.4."):
        pytest.skip("torch 2.4 does not run it, with hotlap or without")
    answer = start(hotlap, script)
    expect = expected(script)

    assert answer.code == 0, answer.errors
    result = answer.result
    assert result is not None
    assert result["problems"] == []
    step = result["step"]
    if expect.get("samples") == "none":  # all of it in one compiled call: nothing to count by
        assert step["samples"] is None
        return
    assert step["samples"] == float(expect.get("samples", 32))
    assert step["unit"] in expect.get("unit", "optimizer").split("|")
    assert step["median_seconds"] > 0
    assert step["count"] >= 5
    processes = int(expect.get("processes", 1))
    assert step["samples_per_second"] == pytest.approx(
        step["samples"] * processes / step["mean_seconds"], rel=0.5
    )
    assert len(result["ranks"]) == int(expect.get("ranks", expect.get("processes", 1)))
    phases = result["phases"]
    assert set(phases) == set(PHASES)
    measured = [phase["seconds"] for phase in phases.values() if phase["seconds"] is not None]
    assert sum(measured) == pytest.approx(step["median_seconds"], rel=0.02)
    assert phases["transfer"]["seconds"] is None  # no device to copy to: null, never 0
    assert (phases["input"]["seconds"] is None) == (script in WITHOUT_LOADER)
    assert phases["backward"]["seconds"] > 0
    assert phases["forward"]["seconds"] > 0
    assert result["memory"]["peak_bytes"] > result["memory"]["parameters_bytes"] > 0
    assert result["memory"]["gradients_bytes"] > 0
    MORE.get(script, lambda answer, result: None)(answer, result)


def nothing_moves_or_is_coloured_without_a_terminal(answer: Answer, result: dict[str, Any]) -> None:
    assert "\x1b[" not in answer.output + answer.errors
    assert answer.errors == ""


def it_is_called_too_short_as_it_ends_by_itself(answer: Answer, result: dict[str, Any]) -> None:
    assert "too-short" in [finding["rule"] for finding in result["findings"]]
    assert result["step"]["seen"] == 25
    assert result["kernels"] is not None, "a second look gives what the first could not"
    assert "too short to be worth tuning" in answer.output


def steps_counted_at_backward_are_said_so(answer: Answer, result: dict[str, Any]) -> None:
    assert result["phases"]["optimizer"]["seconds"] is None
    assert "counted-at-backward" in [finding["rule"] for finding in result["findings"]]
    assert "counted at backward" in " ".join(answer.output.split())  # wherever the line breaks


def slowest_rank_is_named(answer: Answer, result: dict[str, Any]) -> None:
    finding = next(found for found in result["findings"] if found["rule"] == "slow-rank")
    assert "Rank 1" in finding["summary"]
    assert sorted(rank["rank"] for rank in result["ranks"]) == [0, 1]
    assert result["verdict"]["bottleneck"] == "other"  # rank 1 sleeps in its own code


def the_exchange_is_found_with_how_often_it_takes_place(
    answer: Answer, result: dict[str, Any]
) -> None:
    assert result["verdict"]["bottleneck"] == "communication"
    assert result["environment"]["script"]["exchange"]["per_step"] == 2.0
    finding = next(found for found in result["findings"] if found["rule"] == "slow-exchange")
    assert "gradients sent 2 times a step over gloo" in finding["evidence"]
    assert "no_sync" in finding["advice"]


def own_compiling_is_left_alone(answer: Answer, result: dict[str, Any]) -> None:
    assert result["startup"]["compile_seconds"] > 0
    assert result["models"] == ["OptimizedModule"]


def evaluation_is_no_step(answer: Answer, result: dict[str, Any]) -> None:
    """It costs tens of steps; had it been counted, the slowest steps would show it."""
    assert result["step"]["high_seconds"] < 5 * result["step"]["median_seconds"]


MORE: dict[str, Callable[[Answer, dict[str, Any]], None]] = {
    "plain.py": nothing_moves_or_is_coloured_without_a_terminal,
    "short.py": it_is_called_too_short_as_it_ends_by_itself,
    "by_hand.py": steps_counted_at_backward_are_said_so,
    "ddp_slow_rank.py": slowest_rank_is_named,
    "ddp_exchange.py": the_exchange_is_found_with_how_often_it_takes_place,
    "compiled.py": own_compiling_is_left_alone,
    "evaluation.py": evaluation_is_no_step,
    "evaluation_train_mode.py": evaluation_is_no_step,
}


def test_a_script_that_reads_stdin_gets_it(hotlap: Callable[..., Answer]) -> None:
    answer = hotlap("stdin.py", stdin="width=128\n")
    assert answer.code == 0, answer.errors
    assert hotlap("stdin.py", stdin="").code == 3


def test_a_run_of_four_steps_still_gets_its_step_time(hotlap: Callable[..., Answer]) -> None:
    answer = hotlap("tiny.py")
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert answer.result["step"]["seen"] == 4
    assert answer.result["step"]["median_seconds"] > 0


def test_the_users_sitecustomize_still_runs(hotlap: Callable[..., Answer], tmp_path: Any) -> None:
    # It also plays an environment that has torch and nothing of what hotlap itself needs.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "os.environ['CHAINED'] = 'yes'\n"
        "if 'HOTLAP_TRIAL' in os.environ:\n"
        "    for name in ('msgspec', 'psutil', 'rich', 'typer', 'pynvml'):\n"
        "        sys.modules[name] = None\n"
    )
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nassert os.environ['CHAINED'] == 'yes'\n" + (SCRIPTS / "plain.py").read_text()
    )
    before = os.environ.get("PYTHONPATH")
    path = str(tmp_path) + (os.pathsep + before if before else "")
    answer = hotlap(str(script), cwd=tmp_path, PYTHONPATH=path)
    assert answer.code == 0, answer.errors
