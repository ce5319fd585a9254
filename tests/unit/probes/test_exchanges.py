"""How much DistributedDataParallel sends, and how often: counted by calls and backward passes."""

import gc
import weakref

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from hotlap.probes.exchanges import Exchanges


@pytest.fixture
def group():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture
def wrapped(group):
    frozen = nn.Linear(4, 4).requires_grad_(False)
    return DistributedDataParallel(nn.Sequential(frozen, nn.Linear(4, 2)))


def steps(exchanges, root, *, calls, backwards, number=4):
    for step in range(number):
        for _ in range(calls):
            exchanges.called(root, step)
        for _ in range(backwards):
            exchanges.passed_back(step)
    return exchanges.summary()


def test_a_model_that_is_not_wrapped_exchanges_nothing():
    assert steps(Exchanges(torch), nn.Linear(4, 2), calls=1, backwards=1) is None


def test_what_is_trained_is_what_is_sent(wrapped):
    assert steps(Exchanges(torch), wrapped, calls=1, backwards=1) == {
        "bytes": 4 * (4 * 2 + 2),
        "backend": "gloo",
        "hook": False,
        "views": False,
        "per_step": 1.0,
    }


@pytest.mark.parametrize(
    ("calls", "backwards", "times"),
    [(4, 4, 4.0), (2, 1, 1.0), (1, 3, 1.0)],
    ids=["accumulation", "two views of a batch, one loss", "gradients of several losses"],
)
def test_calls_that_share_a_backward_pass_exchange_once(wrapped, calls, backwards, times):
    found = steps(Exchanges(torch), wrapped, calls=calls, backwards=backwards)
    assert found["per_step"] == times


def test_a_call_that_is_told_not_to_exchange_does_not_count(wrapped):
    exchanges = Exchanges(torch)
    for step in range(4):
        with wrapped.no_sync():
            exchanges.called(wrapped, step)
        exchanges.called(wrapped, step)
        exchanges.passed_back(step)
        exchanges.passed_back(step)
    assert exchanges.summary()["per_step"] == 1.0


def test_each_of_two_wrapped_models_exchanges_by_itself(wrapped):
    other = DistributedDataParallel(nn.Linear(2, 2))
    exchanges = Exchanges(torch)
    for step in range(4):
        for root in (wrapped, other):
            exchanges.called(root, step)
            exchanges.passed_back(step)
    assert exchanges.summary()["per_step"] == 1.0


def test_the_step_that_is_not_over_does_not_count(wrapped):
    assert steps(Exchanges(torch), wrapped, calls=2, backwards=2, number=1)["per_step"] is None


def test_a_wrapper_below_the_model_that_is_called_is_found(wrapped):
    root = nn.Sequential(wrapped, nn.ReLU())
    assert steps(Exchanges(torch), root, calls=1, backwards=1)["per_step"] == 1.0


def test_hooks_and_views_of_the_script_are_told(group):
    model = DistributedDataParallel(nn.Linear(4, 2), gradient_as_bucket_view=True)

    def hook(state, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model.register_comm_hook(None, hook)
    found = steps(Exchanges(torch), model, calls=1, backwards=1)
    assert (found["hook"], found["views"]) == (True, True)


def test_a_model_that_was_dropped_is_free_to_go(group):
    model = DistributedDataParallel(nn.Linear(4, 2))
    exchanges = Exchanges(torch)
    steps(exchanges, model, calls=1, backwards=1)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert exchanges.summary()["bytes"] == 40
