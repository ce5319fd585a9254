"""Starts a process that outlives the training.

## What it does
Starts a process that outlives the training.

## Why it helps
It does not: it is planted, for tests.

## When it does not help
Always.

## By hand
Nobody would.
"""

NAME = "leaves-children"
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
    import subprocess
    import sys

    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    subprocess.Popen(
        [sys.executable, "-S", "-c", code, "hotlap-test-orphan"], start_new_session=True
    )
    training.applied(NAME)
