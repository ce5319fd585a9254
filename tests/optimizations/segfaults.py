"""Ends the process with a segmentation fault at the first forward.

## What it does
Ends the process with a segmentation fault at the first forward.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "segfaults"
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
    training.when_training_starts(NAME, lambda module: os.kill(os.getpid(), signal.SIGSEGV))
