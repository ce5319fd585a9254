"""Is killed with -9, as when memory runs out.

## What it does
Is killed with -9, as when memory runs out.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "is-killed"
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
    import os
    import signal

    training.applied(NAME)
    training.when_training_starts(NAME, lambda module: os.kill(os.getpid(), signal.SIGKILL))
