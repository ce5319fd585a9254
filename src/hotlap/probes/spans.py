"""Spans of time: what they cover together, and where two sets of them overlap."""

from __future__ import annotations

Span = tuple[float, float]


def union(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(spans: list[Span]) -> float:
    return sum(end - start for start, end in spans)


def overlap(first: list[Span], second: list[Span]) -> float:
    total, i, j = 0.0, 0, 0
    while i < len(first) and j < len(second):
        start = max(first[i][0], second[j][0])
        end = min(first[i][1], second[j][1])
        total += max(0.0, end - start)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return total
