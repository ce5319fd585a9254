"""Finds no space left on the disk.

## What it does
Finds no space left on the disk.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "fills-the-disk"
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


def full(module):
    import errno

    raise OSError(errno.ENOSPC, "No space left on device")


def install(training, settings):
    training.applied(NAME)
    training.when_training_starts(NAME, full)
