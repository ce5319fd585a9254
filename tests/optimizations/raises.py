"""Raises at the first forward, with a text of several lines.

## What it does
Raises at the first forward, with a text of several lines.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "raises"
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


def fail(module):
    raise RuntimeError("planted: the first line <b>\nand a second one")


def install(training, settings):
    training.applied(NAME)
    training.when_training_starts(NAME, fail)
