"""What each field of a tuning means. The order of the structs is the order of the page."""

from __future__ import annotations

import msgspec

from hotlap import tunings

FIELDS: dict[type[msgspec.Struct], dict[str, str]] = {
    tunings.Tuning: {
        "schema": "The version of this format.",
        "hotlap": "The version of hotlap that wrote it.",
        "command": "The command as it was given.",
        "created": "When the tuning ended: local time with its offset from UTC.",
        "folder": "The folder of the run.",
        "goal": "`speed` or `memory`.",
        "budget_seconds": "What `--budget` allowed.",
        "options": "Of `only`, `skip`, `allow` and `steps_planned` those that were given.",
        "seconds": "How long it took, the diagnosis included.",
        "baseline": "The diagnosis: a whole profile of the command as it is.",
        "noise": "What runs of the same thing differ by.",
        "trials": "The rows of the table, in the order they were decided. What was not tried "
        "comes last.",
        "winner": "The recipe that was proven. Null where there is none, and after Ctrl-C.",
        "summary": "The outcome in a sentence.",
        "notes": "What stands in the way of the numbers: the summaries of the findings "
        "`busy-machine`, `unsettled-timing` and `too-short` of the baseline.",
        "baseline_runs": "The runs of the command as it is. The first is the diagnosis.",
        "complete": "False where it was interrupted.",
    },
    tunings.Trial: {
        "name": "What was tried: an optimization with its settings, `everything promising`, or "
        "`without NAME`.",
        "recipe": "Settings by optimization. Empty where nothing was run, unless it was a dry run.",
        "status": "One of the [statuses](#statuses).",
        "reason": "Why, where the status alone does not say it.",
        "against": "The recipe it was compared with, in words; `baseline` is the command as it is.",
        "speedup": "Against what stands in `against`.",
        "overall": "Against the baseline.",
        "guard": "Whether the loss curve is the baseline's.",
        "step_seconds": "The step, geometric mean over its runs.",
        "samples_per_second": "Samples trained on per second.",
        "peak_bytes": "Peak memory, median over its runs.",
        "start_seconds": "How much longer its start takes than the baseline's: until steps take "
        "their usual time. 0 where its runs start neither all later nor all sooner.",
        "start_is_cold": "False where it compiles, and only runs are known that found the "
        "compiler's cache filled.",
        "break_even_steps": "After how many steps the longer start is paid back. Null where it "
        "never is.",
        "kept": "Whether its recipe became the best so far.",
        "runs": "Every run of this recipe up to then.",
        "log": "What its last run printed.",
    },
    tunings.Speedup: {
        "ratio": "The time of what it is compared with over its own, per sample: above 1 is "
        "faster. (In a [comparison](compare.md#figure) it is after over before.)",
        "low": "The lower end of the 95 % interval.",
        "high": "The upper end.",
    },
    tunings.Guard: {
        "status": "`passed`, `changed` or `unclear`.",
        "reason": "In words.",
        "steps": "The number of steps that were compared.",
        "difference": "Its mean loss over the later half of those steps, less the baseline's.",
        "tolerance": "What that may be.",
    },
    tunings.Run: {
        "folder": "The folder of this trial.",
        "step_seconds": "The median of the mean steps of its timed windows. What starting the "
        "loader takes, where that was seen, is spread over the steps of an epoch.",
        "sample_seconds": "The same for one sample. Null where samples cannot be counted.",
        "windows": "The mean step of each timed window, in seconds.",
        "peak_bytes": "Peak memory.",
        "start_seconds": "From starting the command until steps take their usual time.",
        "compile_seconds": "What torch.compile took. Null where it was not used.",
        "cold": "Whether it compiled with an empty cache.",
        "filling": "Whether it filled a cache of samples. Its steps are those of a first epoch and "
        "are not compared.",
        "epoch_steps": "Batches of an epoch. Null where the loader does not know.",
        "seed": "What was added to the script's random seeds; 0 for nothing.",
        "other_cores": "Cores everything else on the machine burned meanwhile.",
        "disturbed": "Whether that was clearly more than in the quietest run so far. Such a run is "
        "left out of a comparison where both sides have others.",
        "seconds": "How long the command ran.",
        "steps": "The number of steps that were seen.",
        "ended": "Whether it ended by itself, before hotlap had measured enough and stopped it.",
        "losses": "The value of each backward pass in order, up to 4096: those of the guard's "
        "steps, and of the later ones too where a step takes 20 ms or more. Null for one that is "
        "not finite.",
        "status": "Why there is nothing to compare. Null where there is.",
        "reason": "The same in words.",
        "refused": "By optimization, why it could not be applied in this process.",
        "detail": "By optimization, what it did.",
    },
    tunings.Noise: {
        "runs": "The number of timed runs of the baseline.",
        "spread": "The standard deviation of a run's time, as a share of it; over all recipes that "
        "ran more than once.",
        "low": "Between two single runs of the same thing, a ratio above this",
        "high": "and below this is the machine's doing.",
    },
    tunings.Winner: {
        "recipe": "Settings by optimization.",
        "speedup": "Against the baseline.",
        "guard": "Whether the loss curve is the baseline's.",
        "parts": "Its changes, one by one.",
        "step_seconds": "The step, geometric mean over its runs.",
        "baseline_seconds": "The baseline's step.",
        "samples_per_second": "Samples trained on per second.",
        "peak_bytes": "Peak memory.",
        "baseline_peak_bytes": "The baseline's.",
        "start_seconds": "How much longer its start takes than the baseline's.",
        "break_even_steps": "After how many steps that is paid back. Null where it never is.",
        "profile": "Where its steps go. Null where the budget did not reach that far.",
        "runs": "Every run of it.",
    },
    tunings.Part: {
        "name": "The optimization.",
        "settings": "Its settings.",
        "numerics": "`identical`, `close` or `changes`.",
        "by_hand": "What one would write to have the same.",
        "speedup": "What it contributes: the time of the winner without it over the winner's. Null "
        "where that was not measured.",
        "note": "What to know about that figure.",
    },
}
