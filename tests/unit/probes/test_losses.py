import math

import pytest
import torch

from hotlap.probes import losses
from hotlap.probes.losses import Losses


class Scalar:
    """Enough of a tensor of one element, on a device."""

    is_cpu = False

    def __init__(self, value, numel=1):
        self.value = value
        self.size = numel

    def numel(self):
        return self.size

    def detach(self):
        return self

    def clone(self):
        return Scalar(self.value, self.size)

    def __float__(self):
        return self.value


def test_losses_are_read_in_the_order_of_the_backward_passes():
    kept = Losses()
    for value in (3.0, 2.0, 1.0):
        kept.keep(Scalar(value))
    assert kept.values() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_none(value):
    kept = Losses()
    kept.keep(Scalar(value))
    kept.keep(Scalar(1.0))
    assert kept.values() == [None, 1.0]


def test_a_loss_changed_after_its_backward_pass_is_kept_as_it_was():
    kept = Losses()
    loss = Scalar(5.0)
    kept.keep(loss)
    loss.value = 99.0
    assert kept.values() == [5.0]


def test_of_several_tensors_the_first_is_the_loss():
    kept = Losses()
    kept.keep([Scalar(2.0), Scalar(7.0)])
    kept.keep((Scalar(4.0),))
    assert kept.values() == [2.0, 4.0]


@pytest.mark.parametrize("tensors", [Scalar(0.0, numel=8), [], (), None, iter(())])
def test_what_is_no_single_number_is_not_kept(tensors):
    kept = Losses()
    kept.keep(tensors)
    assert kept.values() == []


def test_losses_do_not_grow_without_bound(monkeypatch):
    monkeypatch.setattr(losses, "MOST", 3)
    kept = Losses()
    for value in range(10):
        kept.keep(Scalar(float(value)))
    assert kept.values() == [0.0, 1.0, 2.0]


def test_a_curve_that_was_closed_is_not_gone_on_with():
    """A step about as long as makes the difference: it is measured anew for each window."""
    kept = Losses()
    for number, step_seconds in enumerate((0.021, 0.019, 0.021, 0.021)):
        kept.close_if_felt(step_seconds)
        kept.keep(Scalar(float(number)))
    assert kept.values() == [0.0]


def test_of_a_loss_on_the_cpu_the_number_is_kept_and_no_tensor():
    kept = Losses()
    loss = torch.tensor([[2.5]], dtype=torch.bfloat16, requires_grad=True)
    kept.keep(loss)
    assert kept._kept == [2.5]
    assert kept.values() == [2.5]
