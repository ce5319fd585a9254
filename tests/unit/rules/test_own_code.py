"""The script's own code: where it is, which line is named, and what is none of it."""

import msgspec
import pytest
from test_verdict import BASE, CPU, STEP, line, on_cpu, on_device, record

from hotlap.records import Line
from hotlap.rules import counted_at_backward, many_small_operations, slow_model_code, slow_user_code
from hotlap.rules.verdict import BETWEEN, attribute, busiest, judge


def test_the_line_that_costs_most_is_named():
    line = Line(file="/home/user/train.py", line=42, function="log", share=0.9, samples=90)
    made = msgspec.structs.replace(CPU["other"], lines={"other": (line,)})
    assert "mostly at train.py:42" in judge(made).sentence


@pytest.mark.parametrize(
    ("samples", "place"),
    [
        ((1,), ""),
        ((1, 1), ""),
        ((4,), ""),
        ((5,), ", mostly at train.py:1"),
        ((20, 17), ", mostly at train.py:1"),
        ((9, 5, 5, 5, 5), ", most often at train.py:1"),
        ((9, 8, 8, 8), ""),
        ((50, 50), ""),
        ((15, *[8] * 10), ""),
    ],
)
def test_a_line_is_blamed_on_many_samples_only(samples, place):
    lines = tuple(line(at, count, sum(samples)) for at, count in enumerate(samples, 1))
    made = msgspec.structs.replace(CPU["other"], lines={"other": lines})
    assert f" between the phases{place}." in judge(made).sentence
    found = slow_user_code.check(made, judge(made))
    assert (found.line, "no line stands out" in found.evidence) == (
        (1, False) if place else (None, True)
    )


def test_inside_the_model_a_line_is_held_against_the_samples_that_were_not_in_torch():
    lines = {"forward": (line(3, 40, 60, in_torch=40), line(6, 12, 60), line(7, 8, 60))}
    made = msgspec.structs.replace(on_cpu({"forward": 0.6, "other": 0.4}), lines=lines)
    assert "inside the model, mostly at train.py:6" in judge(made).sentence


def test_what_stands_between_model_and_backward_pass_is_between_the_phases_too():
    lines = {"other": (line(9, 10, 10),), "gap": (line(7, 30, 40), line(8, 10, 40))}
    made = msgspec.structs.replace(CPU["other"], lines=lines)
    assert "between the phases, mostly at train.py:7." in judge(made).sentence
    found = slow_user_code.check(made, judge(made))
    assert (found.line, "in 30 of 50 samples" in found.evidence) == (7, True)


def test_python_inside_the_model_is_said_to_be_there():
    phases = {"forward": 0.98, "other": 0.02}
    lines = {"forward": (line(6, 40, 40, "forward"),), "other": (line(12, 10, 10),)}
    made = msgspec.structs.replace(on_cpu(phases, operations=10.0), lines=lines)
    sentence = judge(made).sentence
    assert sentence.startswith("98 % of every 1.00 s step goes to the script's own code inside")
    assert sentence.endswith("the model, mostly at train.py:6.")
    found = slow_model_code.check(made, judge(made))
    assert found.summary == "98 % of the step is the script's own code inside the model."
    assert (found.line, "forward() was running in 40 of 40" in found.evidence) == (6, True)
    assert "tensor operations" in found.advice
    assert slow_user_code.check(made, judge(made)) is None


@pytest.mark.parametrize("make", [on_cpu, on_device])
def test_the_call_of_the_backward_pass_is_not_the_scripts_own_code(make):
    made = make({"forward": 0.2, "backward": 0.7, "optimizer": 0.1})
    lines = {"forward": (line(9, 10, 10, in_torch=10),), "backward": (line(83, 75, 75),)}
    by_itself = msgspec.structs.replace(made, lines=lines)
    assert slow_model_code.check(by_itself, judge(by_itself)).line == 83
    lines["backward"] = (line(83, 75, 75, in_torch=75),)
    waits_for_torch = msgspec.structs.replace(made, lines=lines)
    assert slow_model_code.check(waits_for_torch, judge(waits_for_torch)) is None
    assert attribute(waits_for_torch)["other"] == pytest.approx(0.0)
    assert sum(attribute(waits_for_torch).values()) == pytest.approx(sum(attribute(made).values()))


def test_a_gradient_of_ones_own_is_named_before_the_call_of_the_backward_pass():
    lines = {"backward": (line(83, 50, 80, in_torch=50), line(12, 30, 80, "backward"))}
    made = msgspec.structs.replace(on_cpu({"forward": 0.2, "backward": 0.8}, work=0.5), lines=lines)
    found = slow_model_code.check(made, judge(made))
    assert (found.line, "backward() was running in 30 of 80" in found.evidence) == (12, True)
    assert found.summary == "50 % of the step is the script's own code inside the model."


def test_operators_that_wait_for_a_core_are_not_the_scripts_own_code():
    made = on_cpu({"forward": 0.3, "backward": 0.7}, work=0.3)
    assert judge(made).bottleneck == "other"
    kernels = msgspec.structs.replace(made.kernels, operator_seconds={"forward": 0.95})
    waiting = msgspec.structs.replace(made, kernels=kernels)
    assert judge(waiting).bottleneck == "compute"
    assert attribute(waiting)["other"] == pytest.approx(0.05)


def profiled(model_seconds, operations, *, work=0.135):
    """A CPU step of 0.0373 s, and what the kernels pass saw of another."""
    made = record(
        {"forward": 0.02, "backward": 0.0145, "other": 0.0028, "transfer": None},
        kernels={
            "profiled_step_seconds": 0.371,
            "profiled_model_seconds": model_seconds,
            "operations": {"forward": operations},
            "big_seconds": {"forward": work},
            "operator_seconds": {"forward": work},
        },
    )
    step = msgspec.structs.replace(made.step, median_seconds=0.0186, mean_seconds=0.0373)
    return msgspec.structs.replace(made, step=step)


def test_of_a_profiled_step_longer_than_most_only_its_part_counts():
    longer = profiled(0.35, 20_000)
    part = 0.0345 / (0.35 - 20_000 * 5e-6)
    found = attribute(longer)
    assert found["compute"] == pytest.approx(part * 0.135)
    assert found["launch"] == pytest.approx(0.0345 - part * 0.135)
    told = many_small_operations.check(longer, judge(longer)).evidence
    assert told.startswith(f"{round(part * 20_000):,} operations")


def test_what_torch_profiler_adds_makes_no_step_longer_than_most():
    slowed = profiled(0.1, 10_000, work=0.03)
    assert attribute(slowed)["compute"] == pytest.approx(0.03)
    unknown = profiled(None, 20_000)
    assert attribute(unknown)["compute"] == pytest.approx(0.0345)


def test_what_is_watched_takes_half_of_the_watched_time_at_least():
    """Many tiny operations: 5 µs for each are more than the whole step took."""
    longer = profiled(0.35, 80_000, work=0.05)
    part = 0.0345 / (0.35 / 2)
    assert attribute(longer)["compute"] == pytest.approx(part * 0.05)
    told = many_small_operations.check(longer, judge(longer)).evidence
    assert told.startswith(f"{round(part * 80_000):,} operations")


def test_a_line_that_computes_the_loss_is_not_the_scripts_own_code():
    phases = {"forward": 0.3, "backward": 0.1, "other": 0.6}
    loss, own = line(9, 34, 60, in_torch=34), line(11, 8, 60)
    made = msgspec.structs.replace(on_cpu(phases, work=0.1), lines={"gap": (loss, own)})
    named, _ = busiest(made, BETWEEN)
    assert named.line == 11
    made = msgspec.structs.replace(made, lines={"gap": (loss,)})
    assert busiest(made, BETWEEN) is None
    made = msgspec.structs.replace(made, lines={"other": (loss,)})  # as `loss.item()` after a step
    assert busiest(made, BETWEEN)[0].line == 9


def test_own_code_in_two_places_is_told_of_both():
    phases = {"forward": 0.3, "backward": 0.1, "other": 0.6}
    lines = {"forward": (line(5, 30, 30, "forward"),), "other": (line(9, 60, 60),)}
    made = msgspec.structs.replace(on_cpu(phases, work=0.1), lines=lines)
    verdict = judge(made)
    assert verdict.share == pytest.approx(0.9)
    assert verdict.sentence == (
        "90 % of every 1.00 s step goes to the script's own code: 60 % between the phases, mostly "
        "at train.py:9; 30 % inside the model, mostly at train.py:5."
    )
    findings = [rule.check(made, verdict) for rule in (slow_user_code, slow_model_code)]
    assert [found.line for found in findings] == [9, 5]
    assert [found.summary.partition(" of")[0] for found in findings] == ["60 %", "30 %"]


def test_where_another_thread_fetches_the_loop_may_be_waiting_for_it():
    made = on_cpu({"input": None, "forward": 0.2, "other": 0.8}, work=0.2)
    assert made.loaders
    assert "waits for them here" in slow_user_code.check(made, judge(made)).advice
    alone = msgspec.structs.replace(made, loaders=())
    assert "use a DataLoader" in slow_user_code.check(alone, judge(alone)).advice


def test_findings_on_uneven_steps_are_told_by_the_mean_as_the_verdict_is():
    step = msgspec.structs.replace(BASE.step, median_seconds=0.1, mean_seconds=1.0)
    made = msgspec.structs.replace(CPU["other"], step=step)
    assert judge(made).sentence.startswith("60 % of a step of 1.00 s (mean)")
    found = slow_user_code.check(made, judge(made))
    assert found.summary.startswith("60 % of the step")
    assert found.evidence.startswith("600 ms a step")


def test_what_small_operations_lost_to_others_is_not_the_scripts_own_code():
    made = on_cpu({"forward": 0.9, "other": 0.1}, operations=100.0)
    assert judge(made).bottleneck == "other"
    kernels = msgspec.structs.replace(made.kernels, lost_seconds={"forward": 0.85})
    assert judge(msgspec.structs.replace(made, kernels=kernels)).bottleneck == "launch"


def test_an_update_by_hand_is_no_code_to_be_done_less_often():
    step = msgspec.structs.replace(
        BASE.step, unit="backward", median_seconds=STEP, mean_seconds=STEP
    )
    made = msgspec.structs.replace(CPU["other"], step=step)
    assert "torch.optim" in slow_user_code.check(made, judge(made)).advice
    known = msgspec.structs.replace(made, models=("Linear",))
    assert "`other`" in counted_at_backward.check(known, judge(known)).advice
    unknown = msgspec.structs.replace(made, models=())
    assert "`forward`" in counted_at_backward.check(unknown, judge(unknown)).advice
