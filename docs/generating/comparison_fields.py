"""What each field of a comparison means. The order of the structs is the order of the page."""

from __future__ import annotations

import msgspec

from hotlap import comparisons

FIELDS: dict[type[msgspec.Struct], dict[str, str]] = {
    comparisons.Comparison: {
        "schema": "The version of this format.",
        "hotlap": "The version of hotlap that wrote it.",
        "kind": "`profile`, `tuning` or `study`: what the two are.",
        "created": "When they were compared: local time with its offset from UTC.",
        "before": "The first.",
        "after": "The second.",
        "summary": "What differs, in a sentence or two.",
        "outcome": "Of profiles that of the step, or of a sample where a step has others now; of "
        "tunings that of the step with what they found; of studies that of all rows, `different` "
        "where they went several ways. Empty where nothing could be judged.",
        "column": "Of a study: the group of figures that the summary tells of.",
        "figures": "Every number that one of them has.",
        "changes": "What is set in another way.",
        "findings": "The findings of both: new ones, those that are gone, those still there.",
        "guard": "Of tunings: whether the command as it is learns the same. Else null.",
        "notes": "What one has to know to read it.",
    },
    comparisons.Side: {
        "source": "As it was named.",
        "created": "When it was measured.",
        "hotlap": "The version of hotlap that measured it.",
        "command": "What was run.",
        "machine": "On what, with the version of torch.",
    },
    comparisons.Figure: {
        "name": "What it is: `step`, a phase, a part of the memory; of a study the row.",
        "group": "`step`, `phases`, `memory`, `start`, `gain`; of a study the title of the column.",
        "unit": "As in the columns of a [study](study.md#column).",
        "before": "In the first; null where it was not measured. SI units.",
        "after": "In the second.",
        "ratio": "After over before, of any unit, with a 95 % interval: of seconds, unlike in a "
        "tuning, less than 1 is faster. Null where its noise is not known.",
        "outcome": "One of the [outcomes](#outcomes); empty where its noise is not known.",
    },
    comparisons.Change: {
        "name": "What it is.",
        "before": "In the first, as a word; – where it has none.",
        "after": "In the second.",
    },
    comparisons.Seen: {
        "rule": "The [rule](rules/index.md) that found it.",
        "status": "`new`, `gone` or `still there`.",
        "summary": "What was found.",
        "file": "The file it points at.",
        "line": "The line in it.",
    },
}
