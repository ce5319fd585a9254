"""A training package, run as python -m package.train from the folder above."""
