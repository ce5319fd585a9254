"""Lays a recorded study out so that `hotlap study --resume` goes on with it.

A machine that is lent for half an hour forgets everything in the end, and a study may need longer.
What it measured so far is in its JSON (`hotlap study --json`, also after Ctrl-C or a time limit):

    python bench/resume.py bench/results/study-ladder-h200.json --data cifar10-jpeg.tar.xz

makes a folder below `./.hotlap` of it and prints the command that goes on. Only runs on a machine
of the same kind, with the same torch, are gone on with; `--resume` looks at that.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hotlap import answers
from hotlap.trials.folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--data", type=Path, help="where the images are on this machine")
    parser.add_argument("--out", type=Path, default=Path(".hotlap"))
    given = parser.parse_args()
    answer = answers.load(given.record)
    options = dict(answer.options)
    if "data" in options:
        if given.data is None or not given.data.exists():
            parser.error(f"the record is of images; say with --data where they are: {given.data}")
        options["data"] = str(given.data.absolute())
    run = RunFolder.new(f"study-{answer.study}", out=given.out)
    run.remember([f"{name}={value}" for name, value in options.items()])
    answers.save(answer, run.study)
    said = [
        [f"--{name}", *([] if value is True else [str(value)])] for name, value in options.items()
    ]
    words = [word for one in said for word in one]
    good = sum(one.good for one in answer.cells)
    print(f"{run.path}: {good} measured cells. Go on with")
    print(shlex.join(["hotlap", "study", "--resume", *words, answer.study]))


if __name__ == "__main__":
    main()
