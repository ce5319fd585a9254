"""Writes what the docs take from the code: a page per rule, the record's fields, the overhead.

    python docs/generate.py            writes
    python docs/generate.py --check    exits 1 and names the pages that are stale

A whole page is written for each rule. In a page written by hand, what stands between
`<!-- begin NAME -->` and `<!-- end NAME -->` is replaced. A rule without its four sections, or a
field of the record without a description, ends in an error.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
if str(ROOT / "src") not in sys.path:
    sys.path.insert(0, str(ROOT / "src"))

from hotlap import records  # noqa: E402
from hotlap.rules import RULES  # noqa: E402

SECTIONS = ("What it finds", "Why it matters", "When it is wrong", "What to do")

# What each field means. The order of the structs is the order of the page.
FIELDS: dict[type[msgspec.Struct], dict[str, str]] = {
    records.Profile: {
        "schema": "The version of this format.",
        "hotlap": "The version of hotlap that wrote it.",
        "command": "The command as it was given.",
        "created": "When the profile was made: local time with its offset from UTC.",
        "folder": "The folder of the run.",
        "verdict": "What bounds the step.",
        "findings": "What the rules found, in the order of the rules.",
        "step": "How long a step takes and what it trains on.",
        "phases": "The parts of a step by name: `input`, `transfer`, `forward`, `backward`, "
        "`optimizer`, `other`. All six are always there.",
        "startup": "What happened before the first step.",
        "memory": "The memory of two warm steps.",
        "usage": "The machine while the steps were measured.",
        "kernels": "What torch.profiler saw over a few steps. Null where the command ended before "
        "that pass.",
        "loaders": "The DataLoaders that were iterated, the one that fed most training first. At "
        "most 8.",
        "epoch_start_seconds": "What a step takes more when a DataLoader is started in it. Null "
        "where no such step, or no other step, was seen.",
        "epoch_start_share": "What starting DataLoaders takes of the training time seen.",
        "input_cpu_share": "How much of the waiting for input was CPU work, running or waiting for "
        "a core: of the workers where there are any, else of the waiting thread.",
        "lines": "By phase, the script's own lines that were running most often when sampled. At "
        "most 5 a phase. `gap` is what stands between the model and the backward pass.",
        "waits": "Lines where the host waits for the device, the longest first. At most 20.",
        "copies": "Lines that copy to the device, the largest first. At most 20.",
        "optimizers": "The optimizers that were made. At most 8.",
        "models": "Class names of the outermost modules that are trained. At most 8.",
        "ranks": "The processes that train, one entry each.",
        "losses": "The value of each backward pass in order, up to 4096, where the trial was "
        "asked to keep them (a profile is not: a clone a step is felt). Null for one that is not "
        "finite.",
        "step_seconds": "Every step of the warm-up and of the bare windows in order, also those "
        "the figures leave out.",
        "environment": "What it ran on; see below.",
        "ending": "How the command ended and what became of its writes.",
        "problems": "What failed inside hotlap's own watching. Empty where all went well.",
    },
    records.Step: {
        "median_seconds": "The median step. In a distributed run that of the slowest rank.",
        "mean_seconds": "The mean step.",
        "low_seconds": "The 10th percentile.",
        "high_seconds": "The 90th percentile.",
        "samples": "Samples in one step, all ranks together. Null where they cannot be counted.",
        "samples_per_second": "Samples trained on per second, all processes together.",
        "count": "The number of steps the figures above come from.",
        "seen": "The number of steps that were seen, warm-up included.",
        "unit": "What ends a step: `optimizer`, or `backward` where no optimizer stepped.",
        "settled": "Whether three windows of bare steps agreed.",
        "watched_seconds": "The median step of the phases pass. Beside `median_seconds` it shows "
        "what that pass costs.",
    },
    records.Phase: {
        "seconds": "Its part of the median step. Null where it cannot be told apart, never 0 for "
        "not measured.",
        "share": "Its share of the step.",
    },
    records.Verdict: {
        "bottleneck": "`input`, `transfer`, `launch`, `sync`, `compute`, `optimizer`, "
        "`communication` or `other`.",
        "share": "The bottleneck's share of the step.",
        "detail": "For `input`: `fetching` or `transforming`. Else null.",
        "sentence": "The verdict in words.",
        "shares": "The share of every candidate, the largest first.",
    },
    records.Finding: {
        "rule": "The name of the rule; its page is [rules/](rules/index.md).",
        "summary": "The fact in one sentence.",
        "evidence": "The figures it rests on.",
        "advice": "The next move.",
        "file": "The file it is about, where there is one.",
        "line": "The line in that file.",
    },
    records.Startup: {
        "seconds": "From starting the command to asking for the first batch; without a DataLoader "
        "to the first backward pass.",
        "import_seconds": "Importing torch.",
        "first_batch_seconds": "From asking for the first batch to having it. Null without a "
        "DataLoader.",
        "first_step_seconds": "From starting the command to the end of its first step.",
        "compile_seconds": "What torch.compile took. Null where it was not used.",
    },
    records.Memory: {
        "kind": "`device` (memory torch allocated on the GPU) or `process` (resident memory of "
        "the training process).",
        "peak_bytes": "The peak over the steps of the memory pass.",
        "reserved_bytes": "What torch's allocator reserved at most. Null on a CPU.",
        "parameters_bytes": "Parameters and buffers.",
        "gradients_bytes": "Gradients of the parameters.",
        "optimizer_bytes": "Tensors in the state of the optimizers.",
        "activations_bytes": "What the forward pass leaves for the backward pass. Null where it "
        "could not be told.",
        "rest_bytes": "The peak less everything above. On a CPU this holds the interpreter and "
        "its libraries.",
    },
    records.Usage: {
        "cores": "Cores the command's processes burned.",
        "other_cores": "Cores everything else on the machine burned.",
        "memory_bytes": "Resident memory of the command's processes, added up.",
        "read_bytes_per_second": "Read from disk by the command's processes.",
        "gpu_busy": "The share of time in which a kernel ran, as NVML says.",
        "gpu_memory_bytes": "GPU memory in use, by all processes.",
        "gpu_clock_hertz": "The clock of the GPU's multiprocessors.",
        "gpu_throttled_share": "The share of readings in which the GPU lowered its clock for "
        "another reason than idling, a set clock or its power cap.",
        "foreign_gpu_processes": "Processes on the GPU that are not the command's.",
        "samples": "The number of readings the means come from.",
    },
    records.Kernels: {
        "steps": "The number of steps under torch.profiler.",
        "problem": "Why there are no figures. Null where there are.",
        "profiled_step_seconds": "The step under torch.profiler. Longer than the real one.",
        "operations": "By phase, the number of operators called.",
        "big_seconds": "By phase, the time within operators that take 15 µs or more of their own.",
        "operator_seconds": "By phase, the time within operators.",
        "blocked_seconds": "Time the host spent in CUDA's synchronising calls.",
        "communication_seconds": "Time in collectives that no computation overlapped.",
        "device_busy_seconds": "Time in which the device ran anything. Null without a device.",
        "device_seconds": "By phase, the time kernels and copies ran that were issued in it.",
        "kernels": "The number of kernels.",
        "copies": "The number of copies.",
        "to_device_seconds": "Time of copies to the device.",
        "from_device_seconds": "Time of copies from the device.",
    },
    records.Loader: {
        "dataset": "The class of the dataset.",
        "sampler": "The class of the sampler.",
        "iterable": "Whether it is an IterableDataset.",
        "batches": "Its length. Null where it has none.",
        "batch_size": "As it was given.",
        "workers": "`num_workers`.",
        "prefetch_factor": "As it was given.",
        "pin_memory": "As it was given.",
        "persistent_workers": "As it was given.",
        "context": "How workers are started, where that was given.",
        "trained": "The number of its batches that were trained on.",
        "file": "Where it was made.",
        "line": "The line in that file.",
    },
    records.Line: {
        "file": "The file.",
        "line": "The line.",
        "function": "The function.",
        "share": "Its share of the samples in this phase.",
        "samples": "The number of samples.",
    },
    records.Wait: {
        "what": "The call that waits, for example `.item()`.",
        "file": "The file.",
        "line": "The line.",
        "per_step": "Calls per step.",
        "seconds_per_step": "How long they hold the host per step.",
    },
    records.Copy: {
        "file": "The file.",
        "line": "The line.",
        "per_step": "Copies per step.",
        "bytes_per_step": "What is copied per step.",
        "pinned": "Whether every copy was from pinned memory.",
    },
    records.Optimizer: {
        "name": "Its class.",
        "torchs_own": "Whether it comes from torch.optim.",
        "tensors": "The number of parameter tensors.",
        "fused": "As it was given. Null where it was not, or where it has no such option.",
        "foreach": "As it was given. Null where it was not, or where it has no such option.",
        "can_fuse": "Whether it has the option `fused`.",
        "file": "Where it was made.",
        "line": "The line in that file.",
    },
    records.Rank: {
        "rank": "Its rank as the launcher said. Null outside a distributed run.",
        "pid": "Its process.",
        "steps": "The number of steps it was seen to take.",
        "median_seconds": "Its median step.",
        "own_seconds": "Its median step without the backward pass, where ranks wait for each "
        "other.",
    },
    records.Ending: {
        "code": "The exit code of the command. Null where a signal ended it.",
        "signal": "The signal that ended it, also when hotlap sent it.",
        "stopped": "Why hotlap stopped it: `enough`, `stalled` or `interrupted`. Null where it "
        "ended by itself.",
        "seconds": "How long it ran.",
        "protected": "The folders that an overlay covered.",
        "overlay_refused": "Why there was no overlay, where one was wanted.",
        "in_place": "Whether `--in-place` was given.",
        "written": "What the command wrote into the overlay, the largest files first. At most 20.",
        "written_bytes": "All it wrote into the overlay.",
        "written_in_place": "Without an overlay: files of the working directory that are new or "
        "changed. At most 20.",
        "diverted": "Paths of saves that were led into the trial's folder.",
        "left_running": "Processes the command left behind, which hotlap ended. At most 20.",
    },
    records.Written: {
        "path": "The path as the command sees it.",
        "bytes": "Its size.",
    },
}

ENVIRONMENT = {
    "python, torch, cuda, cudnn": "Versions. `cudnn` only with a device.",
    "device": "`cpu`, or `cuda:0` and so on: where the trained parameters are.",
    "device_name, device_bytes, device_uuid": "The GPU and its memory.",
    "devices": "The number of GPUs torch sees; 0 when it trains on a CPU.",
    "threads": "`torch.get_num_threads()`.",
    "affinity": "Cores the training process may run on.",
    "cores": "Cores hotlap may use: affinity, cut by the cgroup's quota.",
    "memory_bytes": "Memory of the machine, cut by the cgroup's limit.",
    "shared_memory_bytes": "The size of /dev/shm.",
    "processor, system": "The CPU's name; the operating system and its release.",
    "world_size": "The number of processes that train.",
}


class Missing(Exception):
    """Something in the code has no words in the docs, or the other way round."""


# Rules -----------------------------------------------------------------------------------------


def rule_pages() -> Iterator[tuple[Path, str]]:
    rows = ["| rule | what it says |", "|---|---|"]
    for rule in RULES:
        source = Path(inspect.getfile(rule))  # type: ignore[arg-type]
        text = inspect.getdoc(rule) or ""
        title, _, body = text.partition("\n\n")
        found = tuple(re.findall(r"^## (.+)$", body, re.MULTILINE))
        if found != SECTIONS:
            raise Missing(f"{rule.NAME} has the sections {found}, expected {SECTIONS}.")
        where = source.relative_to(ROOT).as_posix()
        yield (
            DOCS / "rules" / f"{rule.NAME}.md",
            f"{_notice(where)}\n# {rule.NAME}\n\n{title}\n\n{body.strip()}\n\n"
            f"---\n\n[All rules](index.md) · [source](../../{where})\n",
        )
        rows.append(f"| [{rule.NAME}]({rule.NAME}.md) | {' '.join(title.split())} |")
    yield (
        DOCS / "rules" / "index.md",
        f"{_notice('src/hotlap/rules/__init__.py')}\n# Rules\n\n"
        "A rule looks at a record and answers a finding, or nothing. It speaks only where it has\n"
        "evidence. Findings are shown in this order: what stands in the way of the numbers first,\n"
        "then what costs most, then notes.\n\n" + "\n".join(rows) + "\n",
    )


def _notice(source: str) -> str:
    return f"<!-- Generated by docs/generate.py from {source}. Do not edit. -->\n"


# The record ------------------------------------------------------------------------------------


def field_tables() -> str:
    parts = []
    for struct, meanings in FIELDS.items():
        fields = {field.name: field for field in msgspec.structs.fields(struct)}
        for name in fields.keys() - meanings.keys():
            raise Missing(f"{struct.__name__}.{name} has no description in docs/generate.py.")
        for name in meanings.keys() - fields.keys():
            raise Missing(f"{struct.__name__}.{name} is described, but there is no such field.")
        parts.append(f"### {struct.__name__}\n")
        parts.append("| field | type | unit | meaning |\n|---|---|---|---|")
        for name, meaning in meanings.items():
            kind = _type(fields[name].type)
            parts.append(f"| `{name}` | {kind} | {_unit(name)} | {meaning} |")
        parts.append("")
    _every_struct_is_described()
    parts.append("### environment\n\n| key | meaning |\n|---|---|")
    for keys, meaning in ENVIRONMENT.items():
        shown = ", ".join(f"`{key}`" for key in keys.split(", "))
        parts.append(f"| {shown} | {meaning} |")
    return "\n".join(parts)


def _every_struct_is_described() -> None:
    inside = {
        value
        for value in vars(records).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    }
    for struct in inside - FIELDS.keys() - {records.Record}:  # Profile has all fields of Record
        raise Missing(f"{struct.__name__} has no description in docs/generate.py.")


def _type(annotation: Any) -> str:
    """A list of Loader, number or null: as it is in JSON."""
    if annotation is Any:
        return "any"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        if issubclass(annotation, msgspec.Struct):
            return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
        return "null" if annotation is type(None) else names[annotation]
    inner = [_type(part) for part in annotation.__args__ if part is not Ellipsis]
    origin = getattr(annotation, "__origin__", None)
    if origin is tuple:
        return f"list of {inner[0]}"
    if origin is dict:
        return f"object of {inner[1]}"
    return " or ".join(inner)


def _unit(name: str) -> str:
    """Names carry their units, so the unit follows from the name."""
    for ending, unit in (
        ("read_bytes_per_second", "B/s"),
        ("samples_per_second", "1/s"),
        ("bytes_per_step", "B"),
        ("seconds_per_step", "s"),
        ("seconds", "s"),
        ("bytes", "B"),
        ("hertz", "Hz"),
        ("share", "0 to 1"),
        ("shares", "0 to 1"),
        ("gpu_busy", "0 to 1"),
    ):
        if name.endswith(ending):
            return unit
    return ""


# What watching costs ---------------------------------------------------------------------------


def overhead_table() -> str:
    files = sorted((ROOT / "bench" / "results").glob("overhead-*.json"))
    if not files:
        return "No result is recorded yet."
    parts = []
    for file in files:
        found = json.loads(file.read_text())
        machine = found["machine"]
        on = machine["gpu"] or f"{machine['cpu']}, {machine['cores']} cores"
        parts.append(
            f"[{file.name}](../bench/results/{file.name}): {on}, torch {machine['torch']}, "
            f"Python {machine['python']}, {machine['when'][:10]}.\n"
        )
        parts.append(
            "| pass | of a 10 ms step | 95 % interval | aim | within |\n|---|---|---|---|---|"
        )
        for name in ("bare", "phases"):
            row = found["of_10_ms"][name]
            low, high = row["share_interval"]
            parts.append(
                f"| {name} | {_percent(row['share'])} | {_percent(low)} to {_percent(high)} "
                f"| at most {row['limit'] * 100:g} % | {'yes' if row['within'] else 'no'} |"
            )
        parts.append("")
    return "\n".join(parts).rstrip()


def _percent(value: float) -> str:
    return f"{value * 100:.2f} %"


# Writing ---------------------------------------------------------------------------------------


def replaced(page: str, name: str, content: str) -> str:
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise Missing(f"A page has no {begin} … {end}.")
    return f"{before}{begin}\n{content}\n{end}{after}"


def pages() -> dict[Path, str]:
    """Every page that is generated, or holds a generated part, as it should be."""
    wanted = dict(rule_pages())
    for file, name, content in (
        ("record.md", "fields", field_tables()),
        ("measurement.md", "overhead", overhead_table()),
    ):
        wanted[DOCS / file] = replaced((DOCS / file).read_text(), name, content)
    return wanted


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the generated pages of the docs.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    options = parser.parse_args()
    try:
        wanted = pages()
    except Missing as problem:
        sys.exit(f"docs/generate.py: {problem}")
    left = set((DOCS / "rules").glob("*.md")) - wanted.keys()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if options.check:
        for path in sorted([*stale, *left]):
            print(f"{path.relative_to(ROOT)} is stale: run `make docs`")
        sys.exit(1 if stale or left else 0)
    (DOCS / "rules").mkdir(exist_ok=True)
    for path in stale:
        path.write_text(wanted[path])
    for path in left:  # the page of a rule that is gone
        path.unlink()


if __name__ == "__main__":
    main()
