"""Waits for ever at the first forward.

## What it does
Waits for ever at the first forward.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "hangs"
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
    import time

    training.applied(NAME)
    training.when_training_starts(NAME, lambda module: time.sleep(3600))
