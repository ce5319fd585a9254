"""Turns every gradient around.

## What it does
Turns every gradient around.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "sign-error"
NUMERICS = "close"
CONFLICTS = ()
NEEDS = ()
SETTINGS = {}


def refusal(record):
    return None


def promise(record, verdict):
    return 0.01


def candidates(record):
    return [{}]


def by_hand(settings):
    return "pass"


def install(training, settings):
    torch = training.torch
    plain = torch.autograd.backward

    def backward(tensors, grad_tensors=None, *args, **kwargs):
        return plain(tensors, -torch.ones_like(tensors), *args, **kwargs)

    torch.autograd.backward = backward
    training.applied(NAME)
