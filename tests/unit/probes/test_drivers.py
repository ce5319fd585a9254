"""A library that runs the loop is told from one that the script's own loop calls."""

import os
import threading

import pytest
import torch

from hotlap.probes import places, sampling
from hotlap.probes.drivers import DEEPEST, Driver
from hotlap.probes.sampling import Sampler

SITE = "/opt/lib/python3.11/site-packages/"
TORCH = os.path.join(os.path.dirname(torch.__file__), "optim", "optimizer.py")
SCRIPT = "/home/user/train.py"


def code(file, name):
    found = compile(f"def {name}(): pass", file, "exec").co_consts[0]
    assert found.co_name == name
    return found


SCRIPTS = code(SCRIPT, "main")
TRAINING_STEP = code(SCRIPT, "training_step")
FIT = code(SITE + "lightning/fit.py", "fit")
RUN = code(SITE + "lightning/loops.py", "run")
LOG = code(SITE + "lightning/logging.py", "log")
WRAPPED = code(SITE + "accelerate/optimizer.py", "step")
METRICS = code(SITE + "torchmetrics/metric.py", "update")
STEP = code(TORCH, "wrapper")


def stack(*frames):
    """As a sampler reads it, the innermost first; written here as they call each other."""
    return list(reversed(frames))


def by_hand():
    sampler = Sampler(0, lambda: "other")
    sampler._worker = threading.Thread()  # which never starts: nobody samples but the test
    return sampler


def lines_seen(reference, *stacks):
    """Of each line, in how many samples which library was running."""
    sampler = by_hand()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "stack_of", lambda thread: reference)
        sampler.start()
        for one in stacks:
            patch.setattr(sampling, "stack_of", lambda thread, one=one: one)
            sampler.sample()
        sampler.count()
        sampler.finish()
    seen = sampler.summary().get("other", [])
    return {(line["function"], line["line"], line["package"]): line["samples"] for line in seen}


def test_a_line_that_only_starts_a_librarys_loop_is_told_with_the_library():
    start = (SCRIPTS, 17), (FIT, 5)
    seen = lines_seen(
        stack(*start, (RUN, 9), (STEP, 530)),
        stack(*start, (RUN, 7), (LOG, 1)),
        stack(*start, (RUN, 8)),
        stack(*start, (RUN, 9), (TRAINING_STEP, 4)),
        stack(*start, (RUN, 9), (TRAINING_STEP, 4), (LOG, 2)),
    )
    assert seen == {("main", 17, "lightning"): 2, ("training_step", 4, None): 2}


def test_a_library_that_is_called_in_the_scripts_own_loop_is_its_lines_cost():
    seen = lines_seen(
        stack((SCRIPTS, 20), (STEP, 530)),
        *[stack((SCRIPTS, 21), (METRICS, at), (LOG, 2)) for at in (3, 3, 4)],
    )
    assert seen == {("main", 21, None): 3}


def test_a_library_that_wraps_the_optimizer_runs_no_loop():
    seen = lines_seen(
        stack((SCRIPTS, 20), (WRAPPED, 8), (STEP, 530)),
        stack((SCRIPTS, 20), (WRAPPED, 6)),
        stack((SCRIPTS, 21), (METRICS, 3)),
    )
    assert seen == {("main", 20, None): 1, ("main", 21, None): 1}


def test_a_closure_that_takes_all_of_the_time_leaves_the_loop_with_who_calls_the_optimizer():
    own = lines_seen(
        stack((SCRIPTS, 20), (STEP, 538)), stack((SCRIPTS, 20), (STEP, 530), (METRICS, 3))
    )
    assert own == {("main", 20, None): 1}
    start = (SCRIPTS, 17), (FIT, 5), (RUN, 9)
    seen = lines_seen(stack(*start, (STEP, 538)), stack(*start, (STEP, 530), (LOG, 3)))
    assert seen == {("main", 17, "lightning"): 1}


def test_what_a_window_begins_with_is_not_held_against_the_next():
    sampler = by_hand()
    first = sampler._driver
    sampler.start()
    assert sampler._driver is not first
    sampler.finish()


def test_a_stack_whose_outermost_frames_are_not_known_tells_nothing():
    start = [(SCRIPTS, 17), (FIT, 5)]
    driver = Driver(stack(*start, (STEP, 530)))
    driver.meet(stack(*start, (RUN, 9)))
    driver.meet([(LOG, 1)] * DEEPEST)
    assert driver.package() == ("lightning", 1)
    assert Driver([(LOG, 1)] * DEEPEST).package() is None


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (SITE + "lightning/pytorch/loops/fit_loop.py", "lightning"),
        (SITE + "six.py", "six"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy"),
        (TORCH, None),
        (os.__file__, None),
        (SCRIPT, None),
        (places.__file__, None),
    ],
)
def test_a_library_is_named_by_its_folder(file, library):
    assert places.package(file) == library
