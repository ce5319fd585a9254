"""Makes a study's JSON fit for bench/results: of every path only the last part stays.

hotlap study ladder --device cuda --epochs 5 --data cifar10.tar.xz --json ladder.json
python bench/record_study.py ladder.json bench/results/study-ladder-h200.json
make docs
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path, PurePosixPath
from typing import Any

from hotlap import answers


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
    parser.add_argument("study", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    content = without_places(json.loads(options.study.read_text()))
    answer = answers.decode(json.dumps(content).encode(), source=str(options.study))
    answers.save(answer, options.target)
    print(f"{options.target}: {len(answer.cells)} cells of {answer.study}, {answer.reading}")


if __name__ == "__main__":
    main()
