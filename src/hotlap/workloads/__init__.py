"""Ordinary training scripts, as a person would write them: what gets profiled and tuned."""
