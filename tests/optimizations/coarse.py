"""Computes in bfloat16, on any processor.

## What it does
Computes in bfloat16, on any processor.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "coarse"
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
    from hotlap.optimizations import precision

    training.around_forward(NAME, precision.around(training.torch, training.torch.bfloat16))
    training.when_training_starts(NAME, lambda module: training.applied(NAME))
