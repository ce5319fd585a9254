"""Which optimizers are one to the loop, and the rounds that follow from it."""

import pytest

from hotlap.probes.roles import MOST_KNOWN, Roles
from hotlap.probes.steps import Rounds

HERE, THERE = ("/home/user/train.py", 7, "main"), ("/home/user/train.py", 9, "main")


class Parameter:
    pass


class Optimizer:
    def __init__(self, parameter):
        self.param_groups = [{"params": [parameter]}]


@pytest.fixture
def roles():
    return Roles()


def made(roles, parameter=None, place=HERE):
    optimizer = Optimizer(parameter or Parameter())
    roles.made(optimizer, place)
    return optimizer


def test_a_new_optimizer_of_the_same_parameters_is_the_same_one(roles):
    parameter = Parameter()
    found = {roles.of(made(roles, parameter)) for _ in range(5)}
    assert len(found) == 1


def test_optimizers_made_on_one_line_before_either_steps_are_two(roles):
    first, second = made(roles), made(roles)
    assert [roles.of(one) for one in (first, second, first, second)] == [0, 1, 0, 1]


def test_an_optimizer_for_a_fresh_copy_of_the_model_takes_over_the_role(roles):
    kept = []  # whether the old copies are gone or not
    for task in range(20):
        optimizer = made(roles)
        kept += [optimizer] if task % 2 else []
        assert [roles.of(optimizer) for _ in range(8)] == [0] * 8


def test_copies_that_are_made_together_each_time_keep_their_roles(roles):
    for _ in range(5):
        clients = [made(roles) for _ in range(4)]
        assert [roles.of(one) for one in clients] == [0, 1, 2, 3]


def test_optimizers_of_other_lines_have_roles_of_their_own(roles):
    first = made(roles)
    assert roles.of(first) == 0
    assert roles.of(made(roles, place=THERE)) == 1
    assert roles.of(first) == 0


def test_one_that_steps_on_had_no_successor(roles):
    first = made(roles)
    assert roles.of(first) == 0
    second = made(roles)  # later, by the same function
    assert roles.of(second) == 0
    assert [roles.of(one) for one in (first, second, first, second)] == [0, 1, 0, 1]


def test_two_models_whose_optimizers_are_made_anew_each_step_are_two(roles):
    parameters = Parameter(), Parameter()
    found = [roles.of(made(roles, one)) for _ in range(4) for one in parameters]
    assert found[2:] == [0, 1] * 3


def test_an_optimizer_nobody_saw_being_made_has_a_role(roles):
    assert roles.of(Optimizer(Parameter())) == 0


@pytest.mark.parametrize("thing", [object(), Optimizer("not to be referred to weakly")])
def test_hardly_an_optimizer_is_the_same_one_each_time(roles, thing):
    roles.made(thing, HERE)
    assert roles.of(thing) == roles.of(thing)


def test_copies_without_end_are_not_remembered_without_end(roles):
    for _ in range(3 * MOST_KNOWN):
        roles.of(made(roles))
    assert len(roles._known) <= MOST_KNOWN


def test_each_step_on_a_fresh_copy_ends_a_round():
    roles, rounds = Roles(), Rounds()
    ended = []
    for _ in range(40):
        optimizer = made(roles)
        ended += [rounds.stepped(roles.of(optimizer)) for _ in range(8)]
    assert all(ended)
    assert rounds.only is not None


def test_a_round_of_meta_learning_ends_with_the_meta_optimizer():
    roles, rounds = Roles(), Rounds()
    meta = made(roles, place=THERE)
    ended = []
    for _ in range(40):
        for _ in range(4):
            inner = made(roles)
            ended += [rounds.stepped(roles.of(inner)) for _ in range(3)]
        ended.append(rounds.stepped(roles.of(meta)))
    assert ended[13:] == ([False] * 12 + [True]) * 39
