"""What each field of a study's answer means. The order of the structs is the order of the page."""

from __future__ import annotations

import msgspec

from hotlap import answers

CELL = {
    "row": "The row of the table it counts for.",
    "run": "Which run of that row it is, from 0 on.",
    "limit_seconds": "After this time it is stopped: in all, for `timed` without a step.",
    "variables": "Environment variables it was started with.",
    "skip": "Why it cannot be asked here. Empty where it can.",
}

FIELDS: dict[type[msgspec.Struct], dict[str, str]] = {
    answers.Answer: {
        "schema": "The version of this format.",
        "hotlap": "The version of hotlap that wrote it.",
        "study": "The name of the study.",
        "question": "What it asks.",
        "created": "When it ended: local time with its offset from UTC.",
        "folder": "The folder of the run.",
        "options": "Of `quick`, `device`, `data`, `epochs` and `seeds` those that hold.",
        "machine": "What it ran on, with the versions of Python and torch.",
        "seconds": "How long this call took. Cells from before a `--resume` are not in it.",
        "columns": "The columns of the table.",
        "rows": "The rows of the table.",
        "reading": "What the rows say, in a sentence or two.",
        "pictures": "What there is to draw.",
        "cells": "Every cell that was run, in order; those that were set aside stand last.",
        "complete": "False where it was interrupted.",
    },
    answers.Column: {
        "name": "The key in the rows.",
        "title": "How it is called in the table.",
        "unit": "`seconds`, `bytes`, `rate`, `share`, `accuracy`, `ratio`, `number`, `decimal`, or "
        "empty for words.",
        "interval": "Whether the table of a terminal shows its interval.",
        "spare": "Whether a narrow terminal leaves it out before others.",
    },
    answers.Row: {
        "name": "What was varied, in words.",
        "values": "By column, and what was varied as a number. SI units.",
        "intervals": "By column, the ends of the 95 % interval.",
        "status": "One of the [statuses](#statuses).",
        "reason": "Why, where the status is not `measured`; else which of its runs failed.",
        "best": "Whether it is proven to be what the question asks for. False in all rows where "
        "none is.",
        "runs": "How many cells its figures come from.",
    },
    answers.Picture: {
        "kind": "`lines`, `bands` (lines with their intervals as areas), `bars` or `stacked`.",
        "x": "The axis along.",
        "y": "The axis up.",
        "series": "What is drawn.",
        "words": "What it shows, for those who cannot see it.",
    },
    answers.Axis: {
        "title": "What is along it.",
        "log": "Whether it is logarithmic.",
        "unit": "`bytes` or `share` where its values are that, else empty.",
    },
    answers.Series: {
        "name": "As in the legend.",
        "x": "Numbers, or words.",
        "y": "The values; null for a gap.",
        "low": "Lower ends of the 95 % intervals; empty where there are none.",
        "high": "Upper ends.",
    },
    answers.Done: {
        "cell": "What was asked for. Its `kind` is `timed`, `trained` or `called`.",
        "status": "How it ended: one of the [statuses](#statuses).",
        "reason": "Why, where it was not measured.",
        "seconds": "How long it ran.",
        "folder": "Its folder within that of the run; what it printed is there in `output.log`.",
        "figures": "What it measured, as it is. Of `timed`: step time, samples, memory, phases; of "
        "`trained`: `epochs`, what the workload logged; of `called`: what the function answered. "
        "The last two have `telemetry` as well: the machine twice a second.",
        "disturbed": "Whether other processes burned clearly more cores than during the quietest "
        "run, or so many that the machine was busy. Its times count only where its row has no "
        "quiet one, and widen the interval then.",
        "busy": "Whether other processes burned more than a third of the cores, half a one at "
        "least ([busy-machine](rules/busy-machine.md)). A row with one such run alone has no "
        "interval.",
    },
    answers.Timed: {
        **CELL,
        "words": "The command. `python` is the interpreter of the study.",
        "recipe": "The optimizations it ran under.",
        "seconds": "At most so long are steps timed.",
        "window_seconds": "The length of a window; three that agree end it.",
        "phases": "Whether phases, memory and kernels are looked at too.",
    },
    answers.Trained: {
        **CELL,
        "words": "The command. `--log FILE` is added to it.",
        "recipe": "The optimizations it ran under.",
    },
    answers.Called: {
        **CELL,
        "function": "`module:function` below `hotlap.studies`.",
        "arguments": "Its keyword arguments.",
    },
}
