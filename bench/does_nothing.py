"""Does nothing at all.

## What it does
Does nothing at all.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "does-nothing"
NUMERICS = "identical"
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
