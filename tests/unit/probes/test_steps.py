import pytest

from hotlap.probes.steps import (
    CALLED,
    ENDED,
    EPOCH,
    EVALUATION,
    FETCHED,
    HISTORY,
    LOOKED,
    STEP,
    TRAINED,
    Rounds,
    Tally,
)


def ends(sequence):
    rounds = Rounds()
    return [rounds.stepped(optimizer) for optimizer in sequence]


def test_one_optimizer_ends_a_step_each_time():
    assert ends([1] * 10) == [True] * 10


def test_a_gan_of_two_optimizers_makes_one_step_per_round():
    found = ends([1, 2] * 10)
    assert found[0]  # nobody knows yet that another one is coming
    assert found[2:] == [False, True] * 9


def test_two_optimizers_stepped_together_make_one_step():
    assert sum(ends([1, 2] * 50)[2:]) == 49


def test_a_critic_stepped_five_times_for_each_generator_step_makes_one_step_of_six():
    found = ends([1, 1, 1, 1, 1, 2] * 10)
    assert found[6:] == [False, False, False, False, False, True] * 9


def test_three_optimizers_make_one_step_per_round():
    assert ends([1, 2, 3] * 10)[3:] == [False, False, True] * 9


@pytest.mark.parametrize(
    "round_",
    [[1], [1, 2], [1, 2, 3], [1, 1, 1, 1, 1, 2], [2, 1, 1, 1, 1, 1], [1, 2, 2, 2]],
    ids=str,
)
@pytest.mark.parametrize("times", [2, 3, 10, 100])
def test_in_the_end_there_are_as_many_steps_as_rounds(round_, times):
    rounds = Rounds()
    ended = sum(rounds.stepped(optimizer) for optimizer in round_ * times)
    assert ended - rounds.early == times


def test_steps_of_one_optimizer_before_another_joins_it_are_steps():
    rounds = Rounds()
    for optimizer in [1] * 30 + [1, 2] * 50:
        rounds.stepped(optimizer)
    assert rounds.early == 0


def test_an_optimizer_that_appears_late_adds_no_steps_of_its_own():
    found = ends([1] * 100 + [1, 2] * 50)
    assert found == [True] * 100 + [True, False] * 50


def test_an_optimizer_that_steps_a_single_time_ends_no_round():
    found = ends([1] * 100 + [2] + [1] * 200)
    assert [index for index, ended in enumerate(found) if not ended] == [100]


def test_steps_go_on_after_an_optimizer_vanishes():
    after = ends([1, 2] * 10 + [1] * 300)[20:]
    assert not any(after[: HISTORY // 2])  # it may yet come back
    assert all(after[HISTORY:])


def test_optimizers_that_each_step_for_a_while_are_not_waited_for_longer_and_longer():
    found = ends([number for number in range(100) for _ in range(30)])
    assert sum(found[-300:]) >= 150


def test_past_the_limit_of_time_nobody_is_waited_for_that_is_late():
    rounds = Rounds()
    for _ in range(10):
        for optimizer in [1] * 20 + [2]:
            rounds.stepped(optimizer)
    found = [rounds.stepped(1, late=True) for _ in range(40)]
    assert not any(found[:20])  # a round like the others
    assert all(found[30:])


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param([2, 1, 1, 1, 1, 1], id="the rarer one first"),
        pytest.param([1, 1, 2, 1, 1, 1], id="the rarer one in between"),
        pytest.param([1, 1, 1, 1, 1, 2], id="the rarer one last"),
    ],
)
def test_a_round_ends_with_the_rarer_optimizer_wherever_it_stands(pattern):
    late = ends(pattern * 40)[-20 * len(pattern) :]
    assert late == [optimizer == 2 for optimizer in pattern] * 20


@pytest.mark.parametrize("number", [1, 2, 4, 8])
def test_optimizers_in_turn_make_one_step_per_round_for_ever(number):
    late = ends([*range(number)] * 100)[-20 * number :]
    assert late == ([False] * (number - 1) + [True]) * 20


@pytest.mark.parametrize("number", [3, 5, 6, 7])
def test_optimizers_in_turn_whose_number_does_not_divide_the_history(number):
    assert sum(ends([*range(number)] * 100)[-20 * number :]) == 20


def test_an_optimizer_that_steps_every_forty_steps_ends_a_round_always_or_never():
    assert sum(ends(([2] + [1] * 39) * 40)[-400:]) in (10, 390, 400)


def test_the_samples_of_a_step_are_those_of_the_batch_it_trained_on():
    tally = Tally()
    tally.fetched(32, loader=7)
    assert tally.backward() == [7]
    assert tally.close() == (32, STEP)


def test_zipped_loaders_add_up_and_have_all_been_trained_on():
    tally = Tally()
    for _ in range(3):
        for loader, size in ((7, 32), (8, 16), (9, 4)):
            tally.fetched(size, loader=loader)
        assert tally.backward() == [7, 8, 9]
        assert tally.close() == (52, STEP)


def test_accumulation_adds_up_the_batches_of_a_step():
    tally = Tally()
    for _ in range(4):
        tally.fetched(8, loader=7)
        tally.backward()
    assert tally.close() == (32, STEP)


def test_a_second_backward_on_the_same_batch_counts_it_once():
    tally = Tally()
    tally.fetched(16, loader=7)
    assert tally.backward() == [7]
    assert tally.backward() == []
    assert tally.close() == (16, STEP)


def test_a_batch_fetched_ahead_belongs_to_the_next_step():
    tally = Tally()
    tally.fetched(32, loader=7)
    seen = []
    for size in (32, 32, 5):
        tally.fetched(size, loader=7)  # accelerate fetches the next before training on this one
        tally.backward()
        seen.append(tally.close())
    assert [kind for _, kind in seen] == [STEP] * 3
    assert [samples for samples, _ in seen[:2]] == [32, 32]


def test_nothing_carries_over_from_one_step_to_the_next():
    tally = Tally()
    tally.fetched(32, loader=7)
    tally.backward()
    tally.loader_started = True
    assert tally.close() == (32, EPOCH)
    tally.fetched(16, loader=7)
    tally.backward()
    assert tally.close() == (16, STEP)


def test_a_step_in_which_a_loader_was_started_is_the_start_of_an_epoch():
    tally = Tally()
    tally.loader_started = True
    assert tally.close()[1] == EPOCH


def test_a_step_in_which_the_model_was_evaluated_is_evaluation():
    tally = Tally()
    tally.loader_started = True
    tally.evaluated = True
    assert tally.close()[1] == EVALUATION
    assert tally.close()[1] == STEP


def test_batches_nobody_trains_on_are_evaluation_even_without_the_eval_flag():
    tally = Tally()
    for _ in range(4):
        tally.fetched(32, loader=9)
    tally.backward()
    assert tally.close()[1] == EVALUATION


def test_one_batch_fetched_ahead_is_no_evaluation():
    tally = Tally()
    tally.fetched(32, loader=7)
    tally.fetched(32, loader=7)
    tally.backward()
    assert tally.close()[1] == STEP


def test_a_batch_dropped_at_a_windows_end_is_not_counted_later():
    tally = Tally()
    tally.fetched(32, loader=7)
    tally.fetched(8, loader=9)
    tally.drop_pending()
    assert tally.pending == {}
    assert tally.backward() == []
    assert tally.close() == (None, STEP)


def test_a_batch_of_unknown_size_leaves_the_samples_unknown():
    tally = Tally()
    tally.fetched(None, loader=7)
    assert tally.backward() == [7]
    assert tally.close() == (None, STEP)


def test_calls_with_a_single_sample_do_not_count_beside_whole_batches():
    tally = Tally()
    for samples in (1, 1, 1, 128):
        tally.forward(1, samples, replay=False)
    assert tally.close() == (128, STEP)
    for _ in range(10):
        tally.forward(1, 1, replay=False)
    assert tally.close() == (10, STEP)


def test_without_a_loader_the_models_input_is_counted():
    tally = Tally()
    tally.forward(1, 64, replay=False)
    tally.backward()
    assert tally.close() == (64, STEP)


def test_accumulation_without_a_loader_adds_up_the_forwards():
    tally = Tally()
    for _ in range(3):
        tally.forward(1, 16, replay=False)
        tally.backward()
    assert tally.close() == (48, STEP)


def test_a_closure_that_repeats_the_batch_counts_it_once():
    tally = Tally()
    for _ in range(20):  # LBFGS asks for the loss again and again
        tally.forward(1, 64, replay=True)
        tally.backward()
    assert tally.close() == (64, STEP)


def test_of_several_models_the_one_called_least_saw_each_batch_once():
    tally = Tally()
    tally.forward(1, 32, replay=False)  # the generator
    tally.forward(2, 32, replay=False)  # the discriminator, on true and made images
    tally.forward(2, 32, replay=False)
    assert tally.close() == (32, STEP)


def test_once_a_loader_feeds_training_the_forwards_no_longer_count():
    tally = Tally()
    tally.fetched(8, loader=7)
    tally.backward()
    tally.close()
    tally.forward(1, 999, replay=False)
    tally.backward()
    assert tally.close() == (None, STEP)


def test_batches_that_are_kept_and_used_again_are_counted_by_what_the_model_is_called_with():
    tally = Tally()
    for _ in range(3):
        tally.fetched(8, loader=7)
    for expected in (8, 8, None, 8, 8):  # the last of the first three is still at hand
        tally.forward(1, 8, replay=False)
        tally.backward()
        assert tally.close()[0] == expected
    assert not tally.uses_loader
    tally.fetched(5, loader=7)
    tally.forward(1, 8, replay=False)
    tally.backward()
    assert tally.close() == (5, STEP)
    assert tally.uses_loader


def test_steps_that_nobody_looked_into_do_not_say_that_no_loader_feeds_them():
    tally = Tally()
    tally.fetched(8, loader=7)
    tally.backward()
    for _ in range(9):
        tally.close()
    assert tally.uses_loader


def test_calls_in_evaluation_mode_do_not_count_beside_those_in_training_mode():
    tally = Tally()
    tally.forward(1, 2708, replay=False, training=False)  # after the step before
    tally.forward(1, 2708, replay=False)
    tally.backward()
    assert tally.close() == (2708, STEP)
    for _ in range(2):  # it is trained like that, with its statistics frozen
        tally.tell((CALLED, (1, False), 16, False))
        tally.tell((TRAINED, None, None, False))
    assert tally.close() == (32, STEP)


def test_whole_batches_count_before_single_samples_in_whatever_mode():
    tally = Tally()
    tally.forward(1, 64, replay=False, training=False)
    for _ in range(5):
        tally.forward(1, 1, replay=False)
    assert tally.close() == (64, STEP)


@pytest.mark.parametrize("replay", [True, False])
def test_a_forward_of_unknown_size_changes_nothing(replay):
    tally = Tally()
    tally.forward(1, None, replay=replay)
    assert tally.close() == (None, STEP)


def test_what_is_told_is_worked_out_when_somebody_asks():
    told, asked = Tally(), Tally()
    for samples in (8, 8, 4):
        told.tell((FETCHED, samples, 1, False))
        told.tell((TRAINED, None, None, False))
        told.tell((ENDED, None, None, False))
    expected = []
    for samples in (8, 8, 4):
        asked.fetched(samples, 1)
        asked.backward()
        expected.append(asked.close())
    assert told.samples == 0
    assert told.closed() == expected == [(8, STEP), (8, STEP), (4, STEP)]
    assert told.closed() == []


def test_what_was_told_after_the_last_end_belongs_to_the_step_under_way():
    tally = Tally()
    tally.tell((FETCHED, 8, 1, False))
    tally.tell((TRAINED, None, None, False))
    tally.tell((ENDED, None, None, False))
    tally.tell((FETCHED, 6, 1, False))
    tally.tell((TRAINED, None, None, False))
    assert tally.closed() == [(8, STEP)]
    assert tally.close() == (6, STEP)


def test_calls_and_looks_can_be_told_too():
    tally = Tally()
    tally.tell((CALLED, (7, True), 16, False))
    assert tally.close() == (16, STEP)
    tally.tell((FETCHED, 8, 1, False))
    tally.tell((LOOKED, None, None, False))
    tally.tell((FETCHED, 8, 1, False))
    tally.tell((LOOKED, None, None, False))
    tally.tell((FETCHED, 8, 1, False))
    assert tally.close()[1] == EVALUATION


def test_each_loader_that_is_trained_on_is_heard_of():
    heard = []
    tally = Tally(heard.append)
    tally.tell((FETCHED, 8, 1, False))
    tally.tell((FETCHED, 8, 2, False))
    tally.tell((TRAINED, None, None, False))
    assert heard == []
    tally.close()
    assert heard == [1, 2]


def test_batches_that_cannot_be_counted_leave_it_to_what_the_model_is_called_with():
    tally = Tally()
    for _ in range(2):
        tally.fetched(None, loader=7)
        tally.forward(1, 32, replay=False)
        tally.backward()
        assert tally.close() == (32, STEP)


def test_batches_that_were_looked_at_before_the_model_was_known_are_not_trained_on():
    heard = []
    tally = Tally(heard.append)
    for _ in range(2):  # as Lightning does before it trains
        tally.fetched(100, loader=2)
    for _ in range(3):
        tally.fetched(8, loader=1)
        tally.backward()
        assert tally.close() == (8, STEP)
    assert heard == [1, 1, 1]
