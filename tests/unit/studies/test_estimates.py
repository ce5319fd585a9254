"""Intervals from the spread between runs, and which rows differ beyond it."""

import pytest

from hotlap.studies.estimates import Costs, Means, Timing, mean


def costing(costs, windows=()):
    return Costs({row: [Timing(one, windows) for one in own] for row, own in costs.items()})


def test_an_estimate_lies_in_its_interval_and_a_rate_is_its_inverse():
    costs = costing({"a": [1.0, 1.02], "b": [2.0, 2.05]})
    cost, rate = costs.estimate("a"), costs.rate("a", amount=10)
    assert cost.low < cost.value < cost.high
    assert rate.value == pytest.approx(10 / cost.value)
    assert rate.low == pytest.approx(10 / cost.high)
    assert cost.runs == 2


def test_what_is_twice_as_dear_is_proven_to_be_and_what_is_a_little_dearer_is_not():
    costs = costing({"a": [1.0, 1.02], "b": [2.0, 2.05], "c": [1.01, 1.03]})
    assert costs.gain("a", over="c").low < 1
    assert costs.gain("a", over="b").low > 1.5


def test_noise_leaves_a_large_difference_unproven():
    assert costing({"a": [1.0, 9.0], "b": [4.0, 30.0]}).gain("a", over="b").low < 1


def test_rows_without_figures_have_no_estimate():
    costs = costing({"a": [], "b": [0.0]})
    assert costs.measured == []
    assert costs.estimate("a") is None
    assert costs.rate("nobody") is None


def test_windows_that_scatter_within_a_run_widen_the_interval():
    steady = costing({"a": [1.0]}, (1.0, 1.0, 1.0)).estimate("a")
    restless = costing({"a": [1.0]}, (0.5, 1.0, 1.5)).estimate("a")
    assert restless.high - restless.low > steady.high - steady.low


RESTLESS = (44.0, 34.0, 34.9, 43.7, 47.1, 47.9)  # ms of a step, of a host that others share
SETTLED = (57.2, 56.9, 55.8)  # in one of its slow spells


def test_a_single_run_is_believed_no_better_than_windows_of_any_row():
    """It may have been over within one slow spell, which only others show to be one."""
    settled = {"stock": [Timing(44.0, (44.0, 44.1, 43.9))], "fp16": [Timing(56.9, SETTLED)]}
    assert Costs(settled).gain("fp16", over="stock").high < 1.0
    elsewhere = Costs({**settled, "tf32": [Timing(43.8, RESTLESS)]})
    assert elsewhere.gain("fp16", over="stock").high > 1.0
    assert elsewhere.estimate("stock").high > 1.2 * elsewhere.estimate("stock").value


def test_a_spell_of_a_few_windows_is_seen():
    spell = Timing(44.0, (44.0, 44.0, 44.1, 43.9, 60.0, 60.0, 60.2))
    assert Costs({"a": [spell]}).estimate("a").high > 1.3 * 44.0


def test_second_runs_say_what_windows_can_only_hint_at():
    def found(windows, *values):
        rows = {name: [Timing(one, windows) for one in values] for name in "abcd"}
        return Costs(rows).estimate("a")

    assert found(RESTLESS, 44.0, 58.0) == found(SETTLED, 44.0, 58.0)
    assert found(RESTLESS, 44.0).high > found(SETTLED, 44.0).high


def test_a_single_run_is_believed_the_more_the_more_second_runs_of_others_agree():
    def width(others):
        pairs = {f"{number}": [Timing(40.0, RESTLESS)] * 2 for number in range(others)}
        found = Costs({"alone": [Timing(44.0, RESTLESS)], **pairs}).estimate("alone")
        return found.high / found.low

    assert width(0) > width(4) > width(16) > 1.0


def test_windows_in_which_it_compiled_widen_nothing():
    plain = Timing(44.0, (44.0, 44.1, 43.9, 44.0))
    for compiling in ((900.0,), (900.0, 500.0), (900.0, 500.0, 200.0)):
        compiled = Timing(44.0, (*compiling, *plain.windows))
        found = [Costs({"a": [one], "b": [plain]}).estimate("a") for one in (compiled, plain)]
        assert found[0] == found[1]


def test_windows_of_a_run_that_does_not_count_widen_nothing():
    disturbed = Timing(3.0, (2.0, 3.0, 4.0), disturbed=True)
    one, other = Timing(1.0, (1.0, 1.0, 1.01)), Timing(1.01, (1.0, 1.01, 1.0))
    for quiet in ([one], [one, other]):
        others = {"b": [one, one]}
        beside = Costs({"a": [*quiet, disturbed], **others}).estimate("a")
        assert beside == Costs({"a": quiet, **others}).estimate("a")


def test_a_disturbed_run_does_not_count_beside_a_quiet_one():
    alone = costing({"a": [1.0, 1.0], "b": [2.0]})
    disturbed = Timing(3.0, (), disturbed=True)
    beside = Costs({"a": [Timing(1.0), Timing(1.0), disturbed], "b": [Timing(2.0)]})
    assert beside.estimate("a") == alone.estimate("a")
    assert beside.gain("a", over="b") == alone.gain("a", over="b")


def test_a_row_of_disturbed_runs_is_told_with_a_wider_interval_and_the_others_are_not():
    quiet = costing({"a": [1.0], "b": [2.0], "c": [2.0]})
    loud = Costs({"a": [Timing(1.0, (), True)], "b": [Timing(2.0)], "c": [Timing(2.0)]})

    def width(found):
        return found.high / found.low

    assert width(loud.estimate("a")) > 1.5 > 1.2 > width(quiet.estimate("a"))
    assert width(loud.gain("a", over="b")) > 1.5
    assert loud.estimate("b") == quiet.estimate("b")
    assert loud.gain("b", over="c") == quiet.gain("b", over="c")


def test_a_single_run_beside_a_busy_machine_has_no_interval_and_neither_have_its_gains():
    busy = Timing(0.3, (), disturbed=True, busy=True)
    costs = Costs({"a": [busy], "b": [Timing(1.0)], "c": [busy, busy]})
    assert costs.estimate("a").interval == (0.3, 0.3)
    assert costs.rate("a").interval == (1 / 0.3, 1 / 0.3)
    for one, other in (("a", "b"), ("b", "a"), ("a", "c")):
        gain = costs.gain(one, over=other)
        assert gain.low == gain.ratio == gain.high
    assert costs.estimate("b").low < 1.0
    assert costs.estimate("c").high > 1.3 * costs.estimate("c").value


def test_the_mean_of_one_seed_knows_nothing_of_its_spread():
    assert mean([]) is None
    assert mean([0.7]).interval == (0.7, 0.7)
    found = mean([0.6, 0.7, 0.8])
    assert found.value == pytest.approx(0.7)
    assert found.low < 0.6
    assert found.high > 0.8


def test_few_seeds_borrow_their_spread_from_all_rows():
    means = Means({"a": [0.70, 0.72], "b": [0.50, 0.52], "c": [0.9], "d": []})
    assert means.degrees == 2
    one, alone = means.estimate("a"), means.estimate("c")
    assert one.value == pytest.approx(0.71)
    assert one.high - one.low == pytest.approx(2 * 4.303 * 0.02 / 2, rel=0.02)
    assert alone.high - alone.low > one.high - one.low
    assert means.estimate("d") is None


def test_without_a_second_seed_no_spread_is_made_up():
    means = Means({"a": [0.7], "b": [0.5]})
    assert means.degrees == 0
    assert means.estimate("a").interval == (0.7, 0.7)
