"""An answer as a study gives it, with text in it that a page, a table or a sheet must not obey."""

from __future__ import annotations

from typing import Any

from hotlap.answers import (
    FAILED,
    MEASURED,
    SCHEMA,
    Answer,
    Axis,
    Called,
    Column,
    Done,
    Picture,
    Row,
    Series,
    Timed,
)

EVIL = "<script>alert(1)</script> | =1+1 @here"


def answer(**changes: Any) -> Answer:
    rows = (
        Row(
            name="batch 8",
            values={"batch": 8.0, "rate": 812.4, "step": 0.0098, "memory": 5 << 20},
            intervals={"rate": (800.1, 825.2)},
            best=True,
            runs=2,
        ),
        Row(name="batch 16", values={"batch": 16.0, "rate": None, "note": EVIL}, reason=EVIL),
        Row(name="batch 32", status=FAILED, reason=EVIL),
    )
    words = ("python", "-m", "hotlap.workloads.cifar", "--data", EVIL)
    cells = (
        Done(cell=Timed(row="batch 8", words=words), status=MEASURED, seconds=3.0, folder="001"),
        Done(
            cell=Called(row="batch 32", function="x:y", arguments={"n": EVIL}),
            status=FAILED,
            reason=EVIL,
        ),
    )
    curve = Series(
        name="samples/s", x=(8.0, 16.0), y=(812.4, None), low=(800.1, None), high=(825.2, None)
    )
    bars = Series(name=EVIL, x=("batch 8", EVIL), y=(1.0, 2.0))
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "hotlap": "0.1.0",
        "study": "batchsize",
        "question": "Which batch?",
        "created": "2026-11-15T10:00:00+0000",
        "folder": "/home/user/.hotlap/study-batchsize-20261115-100000",
        "options": {"quick": True, "device": "cpu", "data": EVIL},
        "machine": {"processor": "AMD EPYC", "cores": 2.0, "torch": "2.13.0"},
        "seconds": 12.0,
        "columns": (
            Column(name="rate", title="samples/s", unit="rate", interval=True),
            Column(name="step", title="step", unit="seconds"),
            Column(name="memory", title="memory", unit="bytes"),
            Column(name="note", title="note"),
        ),
        "rows": rows,
        "reading": "Best: batch 8 with 812 samples/s.",
        "pictures": (
            Picture(
                kind="lines",
                x=Axis(title="batch", log=True),
                y=Axis(title="samples/s"),
                series=(curve,),
                words="Samples a second.",
            ),
            Picture(
                kind="stacked",
                x=Axis(title="which"),
                y=Axis(title="bytes", unit="bytes"),
                series=(bars,),
                words=EVIL,
            ),
        ),
        "cells": cells,
    }
    return Answer(**{**content, **changes})
