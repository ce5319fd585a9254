"""Asks for more memory than there is.

## What it does
Asks for more memory than there is.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "runs-out-of-memory"
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
    training.applied(NAME)
    training.when_training_starts(NAME, lambda module: training.torch.empty(1 << 50))
