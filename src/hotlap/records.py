"""What a trial measured, as frozen records, and their JSON form.

Every record carries a schema version. `load` reads all versions there ever were; a record from a
newer hotlap is refused with a sentence. Files are JSON: reading one can never run code.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from hotlap.errors import RecordError

SCHEMA = 1
STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd")
UNEVEN_FROM = 1.3  # mean over median: a step whose cost comes in bursts is told by its mean
PHASES = ("input", "transfer", "forward", "backward", "optimizer", "other")
NO_RESULT = "is no result of hotlap. Name a run's folder, or a file that --json wrote."
MEMORY_PARTS = ("parameters", "gradients", "optimizer", "activations", "rest")


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Its part of one step; null where it cannot be told apart, never 0 for not measured."""

    seconds: float | None
    share: float | None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    median_seconds: float
    mean_seconds: float
    low_seconds: float  # 10th percentile
    high_seconds: float  # 90th percentile
    samples: float | None  # in one step, all ranks together
    samples_per_second: float | None
    count: int  # steps the figures above come from
    seen: int  # steps the command took in all
    unit: str  # optimizer, or backward where there is no optimizer object
    settled: bool  # three windows agreed
    watched_seconds: float | None  # the same step, looked into by the phases pass

    @property
    def is_uneven(self) -> bool:
        return self.mean_seconds > UNEVEN_FROM * self.median_seconds

    @property
    def whole_seconds(self) -> float:
        """What is told of a step: of uneven ones the mean, as the slow ones are the point."""
        return self.mean_seconds if self.is_uneven else self.median_seconds


class Startup(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float | None  # from starting the command to asking for the first batch
    import_seconds: float | None  # importing torch
    first_batch_seconds: float | None
    first_step_seconds: float | None  # from the command's start to the end of its first step
    compile_seconds: float | None  # torch.compile; null where it is not used


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    kind: str  # device, or process on a CPU
    peak_bytes: int | None
    reserved_bytes: int | None
    parameters_bytes: int | None
    gradients_bytes: int | None
    optimizer_bytes: int | None
    activations_bytes: int | None
    rest_bytes: int | None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The machine while the steps were measured (means)."""

    cores: float | None = None  # burned by the command
    other_cores: float | None = None  # burned by everything else on the machine
    stolen_cores: float | None = None  # of these, what a virtual machine's host gave to others
    memory_bytes: float | None = None
    read_bytes_per_second: float | None = None
    gpu_busy: float | None = None
    gpu_memory_bytes: float | None = None
    gpu_clock_hertz: float | None = None
    gpu_throttled_share: float | None = None
    foreign_gpu_processes: float | None = None
    samples: int = 0


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """Per step, from torch.profiler over a few steps. Counts and durations, never the clock."""

    steps: int
    problem: str | None = None
    profiled_step_seconds: float | None = None
    profiled_model_seconds: float | None = None  # forward and backward in it, without the loss
    operations: dict[str, float] = {}
    big_seconds: dict[str, float] = {}
    lost_seconds: dict[str, float] = {}
    operator_seconds: dict[str, float] = {}
    blocked_seconds: float = 0.0
    communication_seconds: float = 0.0
    device_busy_seconds: float | None = None
    device_seconds: dict[str, float] = {}
    kernels: float | None = None
    copies: float | None = None
    to_device_seconds: float | None = None
    from_device_seconds: float | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    line: int
    function: str
    share: float  # of the phase it was seen in
    samples: int
    in_torch: int = 0  # of these, those in which torch was running what the line calls
    package: str | None = None  # that was running: the line only starts its training loop


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    dataset: str
    sampler: str | None
    iterable: bool
    batches: int | None
    batch_size: int | None
    workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    context: str | None
    trained: int
    file: str | None
    line: int | None


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    torchs_own: bool
    tensors: int
    fused: bool | None
    foreach: bool | None
    can_fuse: bool
    file: str | None
    line: int | None


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A line where the host waits for the device."""

    what: str
    file: str | None
    line: int | None
    per_step: float
    seconds_per_step: float


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A line that copies to the device."""

    file: str | None
    line: int | None
    per_step: float
    bytes_per_step: float
    pinned: bool


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    rank: int | None
    pid: int
    steps: int
    median_seconds: float
    own_seconds: float | None  # without the backward pass or, if longer, collectives


class Written(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    bytes: int
    bytes_before: int | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the command ended and what became of its writes."""

    code: int | None
    signal: int | None
    stopped: str | None
    seconds: float
    protected: tuple[str, ...] = ()
    overlay_refused: str | None = None
    in_place: bool = False
    written: tuple[Written, ...] = ()
    written_bytes: int = 0
    written_in_place: tuple[str, ...] = ()
    diverted: tuple[str, ...] = ()
    left_running: tuple[str, ...] = ()


Told = TypeVar("Told", bound="Record")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One trial."""

    step: Step
    phases: dict[str, Phase]
    startup: Startup
    memory: Memory
    usage: Usage
    kernels: Kernels | None
    loaders: tuple[Loader, ...]
    epoch_start_seconds: float | None  # extra time of a step in which a loader was started
    epoch_start_share: float | None  # of all training time
    starting_share: float | None = None  # of the steps: those in which a loader was started
    input_cpu_share: float | None  # how much of waiting for input was burning CPU
    input_making_share: float | None = None  # of the workers' time: making batches
    lines: dict[str, tuple[Line, ...]]
    waits: tuple[Wait, ...]
    copies: tuple[Copy, ...]
    optimizers: tuple[Optimizer, ...]
    models: tuple[str, ...]
    ranks: tuple[Rank, ...]
    losses: tuple[float | None, ...]
    step_seconds: tuple[float, ...]
    environment: dict[str, Any]
    ending: Ending
    problems: tuple[str, ...]


def as_told(record: Told) -> Told:
    """Its phases as parts of what is told of a step: the mean where steps are uneven."""
    total = sum(phase.seconds or 0.0 for phase in record.phases.values())
    if not record.step.is_uneven or not total:
        return record
    factor = record.step.whole_seconds / total
    phases = {
        name: Phase(seconds=None if one.seconds is None else factor * one.seconds, share=one.share)
        for name, one in record.phases.items()
    }
    return msgspec.structs.replace(record, phases=phases)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    summary: str
    evidence: str
    advice: str
    file: str | None = None
    line: int | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    bottleneck: str
    share: float
    detail: str | None  # input: fetching or transforming
    sentence: str
    shares: dict[str, float]  # every candidate's share of the step


class Profile(Record, frozen=True, kw_only=True):
    """What `hotlap profile` answers: the record, and what follows from it."""

    schema: int
    hotlap: str
    command: tuple[str, ...]
    created: str
    folder: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    trace: str | None = None  # where what torch.profiler saw is kept, if it was asked for


Kind = TypeVar("Kind")

# One function for each older schema: takes that version's dict, answers the next version's.
OTHERS = {  # by a field that no profile has
    "trials": "a tuning",
    "study": "a study",
    "applied": "what a hotlap run applied",
}
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def parse(text: bytes, *, source: str, newest: int) -> dict[str, Any]:
    """The JSON of anything that carries a schema version, refused with a sentence if too new."""
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        if text.strip() and text.lstrip()[:1] != b"{":
            raise RecordError(f"{source} {NO_RESULT}") from problem
        raise RecordError(f"{source} is not JSON ({problem}). Was it cut short?") from problem
    version = content.get("schema") if isinstance(content, dict) else None
    if not isinstance(version, int) or version < 1:
        raise RecordError(f"{source} carries no schema version: it is not a record of hotlap.")
    if version > newest:
        raise RecordError(
            f"{source} has schema {version}, this hotlap reads up to {newest}. Upgrade hotlap."
        )
    return dict(content)


def decode(text: bytes, *, source: str = "the record") -> Profile:
    content = parse(text, source=source, newest=SCHEMA)
    for field, what in OTHERS.items():
        if field in content and "step" not in content:
            raise RecordError(f"{source} holds {what}, not a profile. Name the file of a profile.")
    for version in range(content["schema"], SCHEMA):
        content = MIGRATIONS[version](content)
    return fitted(content, Profile, source=source)


def fitted(content: dict[str, Any], kind: type[Kind], *, source: str) -> Kind:
    """As what it says it is, checked against its type."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as problem:
        schema = content["schema"]
        raise RecordError(f"{source} does not fit schema {schema}: {problem}.") from problem


def encode(profile: Profile) -> bytes:
    return encode_any(profile)


def encode_any(thing: msgspec.Struct) -> bytes:
    try:
        text = msgspec.json.encode(thing)
    except UnicodeEncodeError:  # a file name that is no text: shown with its bytes escaped
        text = msgspec.json.encode(_readable(msgspec.to_builtins(thing)))
    return msgspec.json.format(text, indent=2) + b"\n"


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(item) for item in value]
    return value


def load(path: str | os.PathLike[str]) -> Profile:
    """Reads a saved profile: the file `--json` wrote, or a run's folder."""
    file = Path(path)
    if file.is_dir():
        file = file / "profile.json"
    return decode(read(file), source=str(file))


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise RecordError(f"{file} cannot be read: {problem.strerror}.") from problem


def save(profile: Profile, path: str | os.PathLike[str]) -> None:
    write(encode(profile), Path(path))


def write(content: bytes, path: Path) -> None:
    with writing(path) as stream:
        stream.write(content)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """What is written arrives whole or not at all; through a link, not over it."""
    file = Path(os.path.realpath(path))
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        if _is_stream(path):  # by the name it has: that of a pipe leads nowhere
            with _opened(path) as stream:
                yield stream
            return
        with temporary.open("wb") as stream:
            yield stream
        temporary.replace(file)
    except OSError as problem:
        raise RecordError(f"{file} cannot be written: {problem.strerror}.") from problem
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """A device or a pipe is written to, never replaced; so is what /dev/stdout leads to."""
    ours = any(path.is_relative_to(name) for name in STREAMS)
    return path.exists() and (ours or not path.is_file())


def _opened(path: Path) -> BinaryIO:
    """Our own output goes on where it is; anything else is opened."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(number), path.stat()):
                return os.fdopen(os.dup(number), "wb")
    return path.open("wb")
