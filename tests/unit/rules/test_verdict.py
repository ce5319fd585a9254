from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap import records
from hotlap.records import PHASES, Kernels, Line, Phase, Wait
from hotlap.rules import (
    heavy_optimizer,
    slow_user_code,
)
from hotlap.rules.verdict import attribute, judge

BASE = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
STEP = 1.0


def record(phases, *, kernels=None, waits=(), **changes):
    """A record of a step of one second; phases not named are zero, those of None unknown."""
    seconds = {**dict.fromkeys(PHASES, 0.0), **phases}
    return msgspec.structs.replace(
        BASE,
        step=msgspec.structs.replace(BASE.step, median_seconds=STEP, mean_seconds=STEP),
        phases={
            name: Phase(seconds=one, share=None if one is None else one / STEP)
            for name, one in seconds.items()
        },
        kernels=Kernels(steps=3, **kernels) if kernels is not None else None,
        waits=tuple(
            Wait(what=".item()", file="/t.py", line=1, per_step=1.0, seconds_per_step=held)
            for held in waits
        ),
        lines=changes.pop("lines", {}),
        **changes,
    )


def test_workers_that_are_done_are_said_to_hand_batches_over():
    loader = msgspec.structs.replace(BASE.loaders[0], workers=2, trained=90)
    waits = record({"input": 0.8}, loaders=(loader,), input_cpu_share=1.0)
    assert "CPU work" in judge(waits).sentence
    done = msgspec.structs.replace(waits, input_making_share=0.1)
    assert judge(done).detail == "transforming"
    assert "hand batches over" in judge(done).sentence
    idle = msgspec.structs.replace(done, input_cpu_share=0.1)  # a sleep, or nothing at all
    assert judge(idle).detail == "transforming"
    alone = msgspec.structs.replace(loader, workers=0)
    assert "hand" not in judge(msgspec.structs.replace(done, loaders=(alone,))).sentence


def on_cpu(phases, *, work=0.0, outside=0.0, operations=0.0, communication=0.0):
    return record(
        {**phases, "transfer": None},
        kernels={
            "big_seconds": {"forward": work, "other": outside},
            "operations": {"forward": operations},
            "communication_seconds": communication,
        },
    )


def on_device(phases, *, busy=None, kernels=0.0, communication=0.0, waits=()):
    busy = busy or {}
    return record(
        phases,
        kernels={
            "device_busy_seconds": sum(busy.values()),
            "device_seconds": busy,
            "kernels": kernels,
            "communication_seconds": communication,
        },
        waits=waits,
    )


def line(number, samples, of, function="log", in_torch=0):
    place = {"file": "/home/user/train.py", "line": number, "function": function}
    return Line(**place, share=samples / of, samples=samples, in_torch=in_torch)


CPU = {
    "input": on_cpu({"input": 0.7, "forward": 0.3}, work=0.3),
    "compute": on_cpu({"input": 0.2, "forward": 0.4, "backward": 0.4}, work=0.7),
    "launch": on_cpu({"forward": 0.5, "backward": 0.5}, work=0.2, operations=20_000),
    "optimizer": on_cpu({"optimizer": 0.6, "forward": 0.4}, work=0.4),
    "communication": on_cpu({"forward": 0.2, "backward": 0.8}, work=0.3, communication=0.7),
    "other": on_cpu({"other": 0.6, "forward": 0.4}, work=0.4),
}

DEVICE = {
    "input": on_device({"input": 0.7, "forward": 0.3}, busy={"forward": 0.3}),
    "transfer": on_device({"transfer": 0.7, "forward": 0.3}, busy={"forward": 0.3}),
    "compute": on_device({"forward": 0.4, "backward": 0.6}, busy={"forward": 0.4, "backward": 0.5}),
    "launch": on_device(
        {"forward": 0.4, "backward": 0.6}, busy={"forward": 0.1, "backward": 0.1}, kernels=50_000
    ),
    "sync": on_device(
        {"forward": 0.5, "other": 0.5}, busy={"forward": 0.45}, kernels=10, waits=[0.3, 0.2]
    ),
    "optimizer": on_device(
        {"optimizer": 0.6, "forward": 0.4}, busy={"optimizer": 0.6, "forward": 0.4}
    ),
    "communication": on_device(
        {"forward": 0.3, "backward": 0.7}, busy={"forward": 0.3}, communication=0.6
    ),
    "other": on_device({"other": 0.6, "forward": 0.4}, busy={"forward": 0.4}),
}


@pytest.mark.parametrize("bottleneck", CPU)
def test_on_a_cpu_each_bottleneck_can_win(bottleneck):
    verdict = judge(CPU[bottleneck])
    assert verdict.bottleneck == bottleneck
    assert verdict.share == verdict.shares[bottleneck] > 0.2
    assert verdict.sentence.endswith(".")


@pytest.mark.parametrize("bottleneck", DEVICE)
def test_on_a_device_each_bottleneck_can_win(bottleneck):
    verdict = judge(DEVICE[bottleneck])
    assert verdict.bottleneck == bottleneck
    assert verdict.share == verdict.shares[bottleneck] > 0.2
    assert verdict.sentence.endswith(".")


def test_each_bottleneck_has_words_of_its_own():
    sentences = {judge(made).sentence.partition("goes to ")[2] for made in DEVICE.values()}
    assert len(sentences) == len(DEVICE)


shares = st.fixed_dictionaries({name: st.floats(0, 1) for name in PHASES})
part = st.floats(0, 1.5)
device_busy = st.fixed_dictionaries(
    {}, optional={name: part for name in (*PHASES, "gap") if name != "input"}
)


def scaled(found):
    whole = sum(found.values()) or 1.0
    return {name: seconds / whole * STEP for name, seconds in found.items()}


@given(shares, part, part, st.floats(0, 1e6), part)
def test_on_a_cpu_shares_never_exceed_the_step(phases, work, outside, operations, communication):
    phases = scaled({**phases, "transfer": 0.0})
    made = on_cpu(
        phases, work=work, outside=outside, operations=operations, communication=communication
    )
    found = attribute(made)
    assert all(seconds >= 0 for seconds in found.values())
    assert sum(found.values()) <= STEP * (1 + 1e-9)


@given(shares, device_busy, st.floats(0, 1e6), part, st.lists(part, max_size=3))
def test_on_a_device_shares_never_exceed_the_step(phases, busy, kernels, communication, waits):
    made = on_device(
        scaled(phases), busy=busy, kernels=kernels, communication=communication, waits=waits
    )
    found = attribute(made)
    assert all(seconds >= -1e-12 for seconds in found.values())
    assert sum(found.values()) <= STEP * (1 + 1e-9)
    assert sum(judge(made).shares.values()) <= 1 + 1e-9


@given(shares)
def test_without_kernels_the_phases_are_all_there_is(phases):
    made = record(scaled(phases))
    found = attribute(made)
    assert sum(found.values()) == pytest.approx(sum(scaled(phases).values()))
    assert "launch" not in found
    assert found.get("compute", 0.0) == pytest.approx(
        scaled(phases)["forward"] + scaled(phases)["backward"] if found else 0.0
    )


def test_a_kernels_pass_that_failed_is_as_good_as_none():
    made = record({"forward": 0.5, "input": 0.5}, kernels={"problem": "too many events"})
    assert attribute(made) == attribute(record({"forward": 0.5, "input": 0.5}))


def test_what_was_not_looked_into_is_not_called_computing():
    failed = record({"forward": 0.5, "backward": 0.5}, kernels={"problem": "too many events"})
    unreached = record({"forward": 0.5, "backward": 0.5})
    assert judge(failed).bottleneck == judge(unreached).bottleneck == "compute"
    told = "goes to forward and backward; whether to computing or to issuing many small operations "
    assert f"{told}could not be told (too many events)." in judge(failed).sentence
    assert f"{told}could not be told (it ended before" in judge(unreached).sentence


def test_without_any_phase_nothing_is_claimed():
    unknown = record(dict.fromkeys(PHASES))
    verdict = judge(unknown)
    assert attribute(unknown) == {}
    assert (verdict.bottleneck, verdict.shares) == ("other", {})
    assert "Too few steps" in verdict.sentence


def test_shares_are_told_largest_first():
    shares = list(judge(DEVICE["sync"]).shares.values())
    assert shares == sorted(shares, reverse=True)


def test_time_in_the_model_that_operations_cannot_explain_is_the_users_own():
    sleeping = on_cpu({"forward": 1.0}, work=0.1, operations=100)
    found = attribute(sleeping)
    assert found["launch"] == pytest.approx(100 * 40e-6)
    assert found["other"] == pytest.approx(0.9 - 100 * 40e-6)
    assert judge(sleeping).bottleneck == "other"


def test_operators_outside_the_phases_are_work_too():
    made = record(
        {"forward": 0.3, "other": 0.7, "transfer": None},
        kernels={"big_seconds": {"forward": 0.3, "other": 0.6}, "operations": {"forward": 1.0}},
    )
    assert attribute(made)["compute"] == pytest.approx(0.9)
    assert attribute(made)["other"] == pytest.approx(0.1)


BUSY = {"forward": 0.05, "backward": 0.05, "other": 0.8}


@pytest.mark.parametrize(
    "made",
    [
        on_cpu({**BUSY, "input": 0.1}, work=0.1, outside=0.75),
        on_device({**BUSY, "input": 0.1}, busy={**BUSY, "other": 0.75}),
    ],
)
def test_tensor_operations_between_the_phases_are_computing_to_verdict_and_finding_alike(made):
    made = msgspec.structs.replace(made, lines={"other": (line(8, 50, 63),)})
    assert judge(made).bottleneck == "compute"
    found = slow_user_code.check(made, judge(made))
    assert found.summary == "75 % of the step is tensor operations between the phases."
    assert (found.line, "DataLoader's workers" in found.advice) == (8, True)


def test_of_python_and_tensor_operations_between_the_phases_the_larger_is_told():
    made = on_cpu({**BUSY, "input": 0.1}, work=0.1, outside=0.2)
    found = slow_user_code.check(made, judge(made))
    assert found.summary == "60 % of the step is the script's own code between the phases."
    assert judge(made).shares["other"] == pytest.approx(0.6)


def test_a_step_that_is_one_compiled_call_is_not_the_scripts_own_code():
    made = on_cpu({"other": 0.9, "optimizer": 0.1}, outside=0.85)
    assert judge(made).bottleneck == "compute"
    assert slow_user_code.check(made, judge(made)) is None


def test_a_compiled_step_seen_on_a_quieter_machine_is_computing_all_the_same():
    made = on_cpu({"other": 1.0}, outside=0.4)
    kernels = msgspec.structs.replace(made.kernels, profiled_step_seconds=STEP / 2)
    quieter = msgspec.structs.replace(made, kernels=kernels)
    assert attribute(quieter)["compute"] == pytest.approx(0.8)


def test_waiting_wins_over_computing_from_a_fifth_of_the_step():
    def waiting(held):
        phases = {"forward": 0.7, "other": 0.3}
        return judge(on_device(phases, busy={"forward": 0.7}, waits=[held]))

    assert waiting(0.25).bottleneck == "sync"
    assert waiting(0.1).bottleneck == "compute"


def test_waiting_that_the_device_worked_through_costs_nothing():
    made = on_device({"forward": 1.0}, busy={"forward": 1.0}, waits=[0.9])
    assert judge(made).bottleneck == "compute"
    assert attribute(made)["sync"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("cpu", "detail", "words"),
    [
        (0.1, "fetching", "for storage"),
        (0.9, "transforming", "CPU work"),
        (None, None, "waiting for input."),
    ],
)
def test_waiting_for_input_is_told_apart_by_the_cpu_it_burns(cpu, detail, words):
    made = msgspec.structs.replace(CPU["input"], input_cpu_share=cpu)
    verdict = judge(made)
    assert verdict.detail == detail
    assert words in verdict.sentence


def test_only_input_has_a_detail():
    made = msgspec.structs.replace(CPU["compute"], input_cpu_share=0.1)
    assert judge(made).detail is None


def test_what_several_optimizers_take_is_said_of_all_of_them():
    one = msgspec.structs.replace(BASE.optimizers[0], name="Adam", tensors=4, fused=None)
    made = msgspec.structs.replace(CPU["optimizer"], optimizers=(one, one))
    found = heavy_optimizer.check(made, judge(made))
    assert found.summary == "2 optimizers (Adam) take 60 % of the step."
    assert "8 parameter tensors" in found.evidence


def test_uneven_steps_are_told_by_their_mean():
    step = msgspec.structs.replace(BASE.step, median_seconds=1.0, mean_seconds=2.0)
    assert (
        "a step of 2.00 s (mean)"
        in judge(msgspec.structs.replace(CPU["compute"], step=step)).sentence
    )
    assert "every 1.00 s step" in judge(CPU["compute"]).sentence
