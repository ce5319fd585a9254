import pytest
from hypothesis import given
from hypothesis import strategies as st
from raws import ENDING, SPLIT, bare, merged, raw, row, watched, window

from hotlap.records import PHASES, as_told
from hotlap.rules import slow_rank
from hotlap.trials.merging import merge

# Which steps count -------------------------------------------------------------------------


def test_the_step_is_the_median_of_the_bare_windows():
    step = merged(raw(window("warmup", row(9.0)), bare(1, 2), bare(3))).step
    assert step.median_seconds == 2
    assert (step.count, step.seen) == (3, 90)
    assert step.watched_seconds is None


def test_the_windows_that_agreed_are_preferred_to_those_before_them():
    windows = [bare(9, 9), bare(8), bare(1), bare(1), bare(1)]
    assert merged(raw(*windows, settled=True)).step.median_seconds == 1
    assert merged(raw(*windows, settled=True)).step.count == 3
    assert merged(raw(*windows)).step.count == 6


def test_disturbed_steps_do_not_count():
    step = merged(raw(window("bare", row(50.0, disturbed=True), row(1.0), row(1.0)))).step
    assert (step.mean_seconds, step.count) == (1.0, 2)


def test_steps_with_evaluation_in_them_do_not_count():
    step = merged(raw(window("bare", row(1.0), row(30.0, kind="evaluation"), row(1.0)))).step
    assert (step.mean_seconds, step.count) == (1.0, 2)


def test_a_rare_loader_start_is_left_out_of_the_step():
    rows = [row(1.0)] * 50 + [row(2.0, kind="epoch")]
    record = merged(raw(window("bare", *rows)))
    assert record.step.mean_seconds == 1.0
    assert record.epoch_start_seconds == pytest.approx(1.0)
    assert record.epoch_start_share == pytest.approx(1 / 52)


def test_with_epochs_of_a_few_batches_starting_the_loader_is_part_of_the_step():
    rows = [row(4.0, kind="epoch"), row(1.0), row(1.0)] * 5
    record = merged(raw(window("bare", *rows)))
    assert record.step.count == 15
    assert record.step.mean_seconds == pytest.approx(2.0)
    assert record.epoch_start_share == pytest.approx(0.5)


def test_with_epochs_of_a_few_batches_evaluation_still_does_not_count():
    rows = [row(4.0, kind="epoch"), row(1.0), row(90.0, kind="evaluation")] * 5
    record = merged(raw(window("bare", *rows)))
    assert (record.step.count, record.step.mean_seconds) == (10, pytest.approx(2.5))
    assert record.epoch_start_share == pytest.approx(3 / 5)


def after_evaluation(seconds, later, **changes):
    """A step that evaluated between two epochs; `later`: seconds since the next one began."""
    made = row(seconds, kind="evaluation", **changes)
    return {**made, "resumed": row(later, kind="epoch", **changes)}


def test_starting_a_loader_after_an_evaluation_counts_without_the_evaluation():
    epoch = [after_evaluation(50.0, 4.0), *[row(1.0)] * 7]
    record = merged(raw(window("bare", *epoch * 3)))
    assert record.starting_share == pytest.approx(1 / 8)
    assert record.epoch_start_seconds == pytest.approx(3.0)
    assert record.epoch_start_share == pytest.approx(3 / 11)
    assert record.step.mean_seconds == pytest.approx(11 / 8)
    assert record.step.samples_per_second == pytest.approx(32 * 8 / 11)


def test_the_phases_after_an_evaluation_are_those_of_a_step():
    later = {**after_evaluation(50.0, 4.0), "phases": {"input": 25.0, "other": 25.0}}
    later["resumed"]["phases"] = {"input": 4.0}
    plain = row(1.0, phases={"forward": 1.0})
    record = merged(raw(window("bare", row(1.0)), window("phases", later, *[plain] * 4)))
    assert record.phases["input"].share == pytest.approx(0.5)


def test_where_nearly_every_step_evaluates_it_stays_part_of_the_step():
    record = merged(raw(window("bare", *[after_evaluation(50.0, 4.0)] * 20)))
    assert record.step.median_seconds == 50.0
    assert record.starting_share is None


def test_where_every_step_starts_a_loader_there_is_nothing_to_compare_with():
    record = merged(raw(window("bare", row(kind="epoch"), row(kind="epoch"))))
    assert record.step.count == 2
    assert (record.epoch_start_seconds, record.epoch_start_share) == (None, None)
    assert record.starting_share == 1


def test_where_every_step_starts_workers_the_wait_that_makes_no_batch_is_for_them():
    split = {"input": 0.9, "forward": 0.1}
    windows = (
        window("bare", row(2.0, kind="epoch"), row(2.0, kind="epoch")),
        window("phases", row(1.0, kind="epoch", phases=split)),
    )
    shares = {"wait_cpu_share": None, "workers_cpu_share": None}
    found = raw(*windows, input_cpu={**shares, "new_workers_making_seconds": 0.2})
    record = merged(found)
    assert record.epoch_start_share == pytest.approx(0.7)
    assert record.epoch_start_seconds == pytest.approx(1.4)
    slow = raw(*windows, input_cpu={**shares, "new_workers_making_seconds": 5.0})
    assert merged(slow).epoch_start_share == 0


def test_a_run_too_short_for_a_bare_window_is_judged_by_its_warm_up():
    record = merged(raw(window("warmup", row(3.0), row(2.0)), steps=3))
    assert record.step.median_seconds == 2.5
    assert record.step_seconds == (3.0, 2.0)


def test_a_process_without_a_single_interval_has_no_record():
    assert merged(raw(window("warmup"), steps=1)) is None
    assert merge([], ending=ENDING, telemetry=[]) is None


# Phases ------------------------------------------------------------------------------------

splits = st.fixed_dictionaries(
    {name: st.floats(1e-6, 10.0) for name in ("input", "forward", "gap", "backward", "other")},
    optional={"optimizer": st.floats(1e-6, 10.0)},
)


@given(st.lists(splits, min_size=1, max_size=5), st.floats(1e-4, 100.0))
def test_phases_add_up_to_the_step(stretches, step):
    record = merged(raw(bare(step), watched(*stretches)))
    known = [phase for phase in record.phases.values() if phase.seconds is not None]
    assert sum(phase.seconds for phase in known) == pytest.approx(step)
    assert sum(phase.share for phase in known) == pytest.approx(1.0)
    assert tuple(record.phases) == PHASES


def test_phases_are_laid_over_the_bare_step_not_the_watched_one():
    slow = {"input": 2.0, "forward": 2.0}
    record = merged(raw(bare(1.0), watched(slow)))
    assert record.phases["input"].seconds == pytest.approx(0.5)
    assert record.step.watched_seconds == 4.0


def test_the_phases_of_uneven_steps_are_told_of_the_mean():
    bursts = [{"forward": 1.0}] * 4 + [{"forward": 1.0, "other": 45.0}]
    record = merged(raw(bare(1, 1, 1, 1, 46), watched(*bursts)))
    assert record.step.whole_seconds == record.step.mean_seconds == 10
    assert sum(one.seconds or 0 for one in record.phases.values()) == pytest.approx(1.0)
    told = as_told(record)
    assert told.phases["other"].seconds == pytest.approx(9.0)
    assert as_told(told) == told


def test_waiting_for_what_another_thread_fetches_is_not_known():
    record = merged(raw(bare(1.0), watched({**SPLIT, "input": 0.0}), input_elsewhere=True))
    assert (record.phases["input"].seconds, record.phases["input"].share) == (None, None)
    assert record.input_cpu_share is None
    assert record.loaders


def test_the_gap_before_the_backward_pass_is_the_loss():
    record = merged(raw(bare(1.0), watched({"forward": 0.4, "gap": 0.2, "backward": 0.4})))
    assert record.phases["forward"].share == pytest.approx(0.6)
    assert record.phases["other"].share == 0


def test_of_the_gap_only_what_torch_did_is_the_loss_where_kernels_say_so():
    kernels = {"steps": 3, "operator_seconds": {"gap": 0.05}}
    split = {"forward": 0.4, "gap": 0.2, "backward": 0.4}
    record = merged(raw(bare(1.0), watched(split, split), kernels=kernels))
    assert record.phases["forward"].share == pytest.approx(0.45)
    assert record.phases["other"].share == pytest.approx(0.15)


def test_the_loss_is_what_a_device_takes_for_it_however_soon_it_was_issued():
    kernels = {
        "steps": 3,
        "operator_seconds": {"gap": 0.01},
        "device_busy_seconds": 0.9,
        "device_seconds": {"forward": 0.4, "gap": 0.15, "backward": 0.35},
    }
    split = {"forward": 0.4, "gap": 0.2, "backward": 0.4}
    record = merged(raw(bare(1.0), watched(split, split), kernels=kernels))
    assert record.phases["forward"].share == pytest.approx(0.55)
    assert record.phases["other"].share == pytest.approx(0.05)  # it waited for the script


@pytest.mark.parametrize(("busy", "loss"), [(None, 0.05), (0.1, 0.2)], ids=["CPU", "device"])
def test_of_longer_steps_under_the_profiler_only_a_part_is_the_loss(busy, loss):
    kernels = {
        "steps": 3,
        "profiled_model_seconds": 3.2,
        "operations": {"forward": 10.0, "gap": 90_000.0},
        "operator_seconds": {"gap": 0.2},
        "device_busy_seconds": busy,
    }
    split = {"forward": 0.4, "gap": 0.2, "backward": 0.4}
    record = merged(raw(bare(1.0), watched(split, split), kernels=kernels))
    assert record.phases["forward"].share == pytest.approx(0.4 + loss, abs=1e-4)
    assert record.phases["other"].share == pytest.approx(0.2 - loss, abs=1e-4)


def test_a_kernels_pass_that_failed_says_nothing_of_the_gap():
    kernels = {"steps": 0, "problem": "no whole step was seen"}
    record = merged(raw(bare(1.0), watched({"forward": 0.5, "gap": 0.5}), kernels=kernels))
    assert record.phases["forward"].share == pytest.approx(1.0)


def test_without_a_phases_window_no_phase_is_known():
    record = merged(raw(bare(1.0)))
    assert all(phase.seconds is None for phase in record.phases.values())
    assert all(phase.share is None for phase in record.phases.values())


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({}, {"transfer"}),
        ({"environment": {"device": "cuda:0"}}, set()),
        ({"loaders": []}, {"input", "transfer"}),
        ({"unit": "backward"}, {"optimizer", "transfer"}),
    ],
)
def test_a_phase_that_cannot_be_told_apart_is_null_and_never_0(changes, unknown):
    split = {"forward": 0.5, "backward": 0.5}
    record = merged(raw(bare(1.0), watched(split), **changes))
    assert {name for name, phase in record.phases.items() if phase.share is None} == unknown
    assert {name for name, phase in record.phases.items() if phase.seconds is None} == unknown


def test_the_fastest_and_slowest_steps_are_left_out_where_steps_are_even():
    even = [{"forward": 0.9, "other": 0.1}] * 18
    record = merged(raw(bare(1.0), watched(*even, {"other": 2.0}, {"input": 0.1})))
    assert record.phases["forward"].share == pytest.approx(0.9)
    assert record.phases["input"].share == 0


def test_where_cost_comes_in_bursts_the_slow_steps_are_the_point():
    bursts = [{"forward": 1.0}] * 9 + [{"forward": 1.0, "input": 9.0}]
    record = merged(raw(bare(1.0), watched(*bursts)))
    assert record.phases["input"].share == pytest.approx(9 / 19)


def test_waits_are_laid_over_the_bare_step_as_phases_are():
    wait = {"what": ".item()", "file": None, "line": None, "per_step": 2.0}
    waits = [{**wait, "seconds_per_step": 0.5}]
    slowed = merged(raw(bare(1.0), watched({"forward": 2.0}), waits=waits))
    assert slowed.waits[0].seconds_per_step == pytest.approx(0.25)
    assert slowed.waits[0].per_step == 2.0
    faster = merged(raw(bare(1.0), watched({"forward": 0.5}), waits=waits))
    assert faster.waits[0].seconds_per_step == pytest.approx(0.5)
    unwatched = merged(raw(bare(1.0), waits=waits))
    assert unwatched.waits[0].seconds_per_step == pytest.approx(0.5)


def test_evaluation_in_a_phases_window_does_not_count():
    evaluation = row(5.0, kind="evaluation", phases={"other": 5.0})
    record = merged(raw(bare(1.0), watched({"forward": 1.0}, evaluation)))
    assert record.phases["forward"].share == pytest.approx(1.0)


def test_what_was_caught_of_a_phase_that_is_none_goes_to_other():
    by_hand = raw(
        bare(1.0),
        watched({"input": 0.1, "forward": 0.4, "backward": 0.3, "optimizer": 0.2}),
        unit="backward",  # clip_grad_norm_ is all there is to be seen of an optimizer
        loaders=[],
    )
    phases = merged(by_hand).phases
    assert (phases["optimizer"].share, phases["input"].share) == (None, None)
    assert phases["other"].share == pytest.approx(0.3)
    assert sum(phase.share or 0.0 for phase in phases.values()) == pytest.approx(1.0)


# Ranks and processes -----------------------------------------------------------------------


def rank(number, seconds=1.0, *, own=0.5, world=2, **changes):
    split = {"input": own, "backward": seconds - own}
    windows = (bare(seconds, seconds), watched(split))
    return raw(*windows, pid=100 + number, rank=number, world_size=world, **changes)


def test_the_samples_of_all_ranks_add_up():
    record = merged(rank(1), rank(0))
    assert record.step.samples == 64
    assert record.step.samples_per_second == pytest.approx(64)
    assert record.environment["world_size"] == 2
    assert [(one.rank, one.pid) for one in record.ranks] == [(0, 100), (1, 101)]


def test_a_distributed_step_is_as_long_as_its_slowest_ranks():
    record = merged(rank(0, 1.0), rank(1, 1.2))
    assert record.step.median_seconds == pytest.approx(1.2)


def test_every_figure_of_a_distributed_step_is_of_the_same_rank():
    step = merged(rank(0, 1.0), rank(1, 3.0)).step
    assert step.low_seconds <= step.median_seconds <= step.high_seconds
    assert step.mean_seconds == pytest.approx(3.0)
    assert step.watched_seconds == pytest.approx(3.0)


def test_the_slowest_rank_is_the_one_that_tells_what_the_time_is_spent_on():
    record = merged(rank(0, own=0.2), rank(1, own=0.7), rank(2, own=0.2, world=3))
    assert record.phases["input"].share == pytest.approx(0.7)
    assert [one.own_seconds for one in record.ranks] == pytest.approx([0.2, 0.7, 0.2])


def test_a_rank_that_works_in_bursts_is_the_slowest():
    even, split = [0.1] * 5, {"input": 0.1, "backward": 0.9}
    bursts = [{"input": own, "backward": 0.0} for own in (0.1, 0.1, 0.1, 0.1, 4.6)]
    waiting = raw(bare(*even, 4.6), watched(*[split] * 5), pid=100, rank=0, world_size=2)
    sleeping = raw(bare(*even, 4.6), watched(*bursts), pid=101, rank=1, world_size=2)
    record = merged(waiting, sleeping)
    assert [one.own_seconds for one in record.ranks] == pytest.approx([0.1, 1.0])
    assert slow_rank.slowest(record).rank == 1
    assert record.phases["input"].share == pytest.approx(1.0)  # those of the rank that sleeps


@pytest.mark.parametrize(
    ("profiled", "waited", "own"),
    [
        ((1.0, 1.25), (0.6, 0.75), [0.4, 0.4]),  # longer steps: their collectives are longer too
        ((2.9, 1.25), (2.6, 0.84), [0.9, 0.9]),  # other steps: nothing is told by them
    ],
)
def test_collectives_of_longer_steps_are_not_held_against_usual_ones(profiled, waited, own):
    ranks = [
        rank(
            number,
            own=0.9,
            kernels={
                "steps": 4,
                "profiled_step_seconds": profiled[number],
                "communication_seconds": waited[number],
            },
        )
        for number in (0, 1)
    ]
    record = merged(*ranks)
    assert [one.own_seconds for one in record.ranks] == pytest.approx(own)
    assert slow_rank.slowest(record) is None


def test_a_rank_that_waits_for_others_outside_the_backward_pass_is_not_the_slowest():
    def waiting(number, seconds):
        kernels = {"steps": 4, "communication_seconds": seconds}
        return rank(number, own=0.9, kernels=kernels, models=[f"Rank{number}"])

    record = merged(waiting(0, 0.6), waiting(1, 0.08))
    assert [one.own_seconds for one in record.ranks] == pytest.approx([0.4, 0.9])
    assert slow_rank.slowest(record).rank == 1
    assert record.models == ("Rank1",)


def test_ranks_that_are_alike_are_told_by_the_first():
    first, second = rank(0, models=["First"]), rank(1, own=0.52, models=["Second"])
    assert merged(second, first).models == ("First",)


def test_several_processes_that_are_no_ranks_are_told_by_the_one_with_most_steps():
    short = raw(bare(1.0), pid=1, steps=5, models=["Short"])
    long = raw(bare(2.0), pid=2, steps=500, models=["Long"])
    record = merged(short, long)
    assert record.models == ("Long",)
    assert record.step.median_seconds == 2.0
    assert [one.pid for one in record.ranks] == [1, 2]


def test_the_samples_of_processes_that_are_no_ranks_are_those_of_the_one_that_tells():
    short = raw(window("bare", row(samples=8)), pid=1, steps=5)
    long = raw(window("bare", row(samples=32)), pid=2, steps=500)
    for order in ((short, long), (long, short)):
        step = merged(*order).step
        assert step.samples == 32
        assert step.samples_per_second == pytest.approx(40)


def test_jobs_side_by_side_are_not_ranks_of_one():
    jobs = [{**rank(number), "pid": pid} for pid, number in enumerate((0, 1, 0, 1))]
    record = merged(*jobs)
    assert [one.rank for one in record.ranks] == [None] * 4
    assert record.step.samples == 32
    assert record.step.samples_per_second == pytest.approx(4 * 32)


def test_processes_with_a_group_of_their_own_each_are_no_ranks():
    alone = [{**rank(0, world=1), "pid": pid} for pid in (1, 2)]
    assert [one.rank for one in merged(*alone).ranks] == [None, None]
    assert merged(*alone).step.samples == 32
    assert [one.rank for one in merged(alone[0]).ranks] == [0]


def test_losses_are_rank_zeros_whichever_rank_is_the_slowest():
    slow = merged(rank(0, own=0.2, losses=[1.0]), rank(1, own=0.7, losses=[9.0], models=["Slow"]))
    assert slow.models == ("Slow",)
    assert slow.losses == (1.0,)


def test_a_rank_that_measured_nothing_is_left_out():
    record = merged(rank(0), raw(window("warmup"), pid=101, rank=1, world_size=2, steps=1))
    assert len(record.ranks) == 1


def test_waiting_in_steps_that_take_longer_under_the_profiler_is_laid_over_a_usual_one():
    def waiting(number, seconds):
        kernels = {"steps": 4, "communication_seconds": seconds, "profiled_step_seconds": 1.25}
        return rank(number, own=0.9, kernels=kernels)

    record = merged(waiting(0, 0.75), waiting(1, 0.25))
    assert [one.own_seconds for one in record.ranks] == pytest.approx([0.4, 0.8])
