"""Why a command gave nothing to measure, in a sentence."""

from __future__ import annotations

from hotlap import units
from hotlap.errors import CommandFailed, Interrupted, NothingMeasured
from hotlap.reports.wording import first_line
from hotlap.settings import Limits
from hotlap.trials import kept_out, runner
from hotlap.trials.folder import TrialFolder
from hotlap.trials.output import SIGNALS, ending


def failed(outcome: runner.Outcome) -> bool:
    return outcome.signal is not None or outcome.code not in (0, None)


def how_it_failed(words: list[str], outcome: runner.Outcome) -> str:
    name = " ".join(map(first_line, words[:4])) + (" …" if len(words) > 4 else "")
    if outcome.signal is not None:
        number = outcome.signal
        return f"The command ({name}) was killed by signal {number} ({SIGNALS.get(number, '?')})"
    return f"The command ({name}) failed with exit code {outcome.code}"


def counted(outcome: runner.Outcome, steps: int) -> str:
    """A process that is killed takes the count of its last steps with it."""
    told = units.plural(steps, "step")
    return told if outcome.signal is None else f"at least {told}"


def why_nothing(
    words: list[str], outcome: runner.Outcome, trial: TrialFolder, limits: Limits
) -> Exception:
    output = ending(trial.output)
    where = f"Its output is in {trial.output}"
    if outcome.stopped == "interrupted":
        return Interrupted("Interrupted before a training step was measured.")
    if outcome.stopped is None and failed(outcome):
        text = f"{how_it_failed(words, outcome)} before a training step was measured. {where}"
        return CommandFailed(text, output=output)
    saw_torch = any(trial.seen.glob("*.json"))
    outside = kept_out.read(trial.path)
    if outcome.stopped == "timeout":
        text = f"No training step was seen in {limits.timeout:g} s, so the command was stopped. "
        text += "If it needs longer to start, allow it with --timeout. " + where
    elif outside and outside.in_words:
        text = f"{outside.why[:1].upper()}{outside.why[1:]}. Start it with a newer one."
    elif outside:
        text = f"hotlap could not watch this torch: {outside.why}. Please report it with "
        text += str(outside.file)
    elif left := [name for name in outcome.left_running if "multiprocessing" not in name]:
        text = (
            f"The command ended while something still ran in the background ({left[0]}), so that "
            f"was stopped. Let the script wait for it: leave out the &, or end with wait. {where}"
        )
    elif not saw_torch:
        text = (
            "The command ended without importing torch, so there is nothing to measure. If it "
            "does train with torch, its Python may have been started with -I or -E, which hides "
            f"hotlap from it. {where}"
        )
    elif outcome.stopped == "stalled":
        text = (
            f"The command trained for a single step and then for {outcome.idle:.0f} s for none, so "
            f"it was stopped. If its steps take that long, allow it with --timeout. {where}"
        )
    elif any(trial.records.glob("*.json")):
        text = f"The command ended after a single training step: too few to measure. {where}"
    else:
        text = (
            "The command ran and imported torch, but no optimizer stepped and no backward pass "
            f"was counted. Is this the command that trains? {where}"
        )
    return NothingMeasured(text, output=output)
