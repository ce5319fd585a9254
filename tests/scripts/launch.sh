#!/bin/sh
# Shell launcher: runs plain.py, which lies beside it.
# expect: samples=32 unit=optimizer
python "$(dirname "$0")/plain.py" "$@"
