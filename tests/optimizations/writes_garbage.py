"""Writes garbage where the record belongs, and goes on training.

## What it does
Writes garbage where the record belongs, and goes on training.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "writes-garbage"
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

    from hotlap.probes import writing

    def garbage(folder, pid, content):
        path = folder / "records" / f"{os.getpid()}.json"
        path.write_text('{"schema": 1, "steps": "many", "windows": 3')

    writing.record = garbage
    training.applied(NAME)
