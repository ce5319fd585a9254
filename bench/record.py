"""Makes what a study or a tuning wrote fit for bench/results: of a path only the last part stays.

hotlap study ladder --device cuda --epochs 5 --data cifar10.tar.xz --json ladder.json
python bench/record.py ladder.json bench/results/study-ladder-h200.json
hotlap tune --json mnist.json main.py
python bench/record.py mnist.json bench/results/tune-mnist-h200.json
make docs
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path, PurePosixPath
from typing import Any

from hotlap import answers, tunings


def without_places(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_places(value) for key, value in content.items()}
    if isinstance(content, list):
        return [without_places(value) for value in content]
    if isinstance(content, str) and content.startswith("/"):
        return PurePosixPath(content).name
    return content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    content = without_places(json.loads(options.result.read_text()))
    text, source = json.dumps(content).encode(), str(options.result)
    if "study" in content:
        answer = answers.decode(text, source=source)
        answers.save(answer, options.target)
        print(f"{options.target}: {len(answer.cells)} cells of {answer.study}, {answer.reading}")
    else:
        tuning = tunings.decode(text, source=source)
        tunings.save(tuning, options.target)
        print(f"{options.target}: {len(tuning.trials)} rows, {tuning.summary}")


if __name__ == "__main__":
    main()
