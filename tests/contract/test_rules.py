"""Every rule, whatever it finds: its page, its silence on a healthy record, its word on a sick one.

A new rule needs one builder in SICK below; everything else it gets for free.
"""

import msgspec
import pytest

from hotlap.records import (
    Copy,
    Ending,
    Finding,
    Kernels,
    Line,
    Loader,
    Memory,
    Optimizer,
    Phase,
    Rank,
    Record,
    Startup,
    Step,
    Usage,
    Verdict,
    Wait,
    Written,
)
from hotlap.rules import RULES, find
from hotlap.rules.verdict import judge

SECTIONS = ("What it finds", "Why it matters", "When it is wrong", "What to do")
GIB = 1 << 30
replace = msgspec.structs.replace


def phases(**seconds):
    plain = {"input": 0.002, "transfer": 0.001, "forward": 0.03, "backward": 0.06}
    found = {**plain, "optimizer": 0.005, "other": 0.002, **seconds}
    whole = sum(one for one in found.values() if one is not None)
    return {
        name: Phase(seconds=one, share=None if one is None else one / whole)
        for name, one in found.items()
    }


def healthy() -> Record:
    """A GPU that computes nearly all the time, fed by workers that keep up."""
    return Record(
        step=Step(
            median_seconds=0.1,
            mean_seconds=0.1,
            low_seconds=0.099,
            high_seconds=0.101,
            samples=256.0,
            samples_per_second=2560.0,
            count=300,
            seen=400,
            unit="optimizer",
            settled=True,
            watched_seconds=0.1,
        ),
        phases=phases(),
        startup=Startup(
            seconds=5.0,
            import_seconds=2.0,
            first_batch_seconds=0.5,
            first_step_seconds=6.0,
            compile_seconds=None,
        ),
        memory=Memory(
            kind="device",
            peak_bytes=10 * GIB,
            reserved_bytes=12 * GIB,
            parameters_bytes=GIB,
            gradients_bytes=GIB,
            optimizer_bytes=2 * GIB,
            activations_bytes=6 * GIB,
            rest_bytes=0,
        ),
        usage=Usage(
            cores=4.0,
            other_cores=0.1,
            gpu_busy=0.98,
            gpu_throttled_share=0.0,
            foreign_gpu_processes=0.0,
            samples=20,
        ),
        kernels=Kernels(
            steps=3,
            operations={"forward": 300.0, "backward": 600.0},
            device_busy_seconds=0.095,
            device_seconds={"forward": 0.03, "backward": 0.06, "optimizer": 0.005},
            kernels=500.0,
            copies=2.0,
        ),
        loaders=(
            Loader(
                dataset="ImageFolder",
                sampler="RandomSampler",
                iterable=False,
                batches=1000,
                batch_size=256,
                workers=8,
                prefetch_factor=2,
                pin_memory=True,
                persistent_workers=True,
                context=None,
                trained=400,
                file="/home/user/train.py",
                line=20,
            ),
        ),
        epoch_start_seconds=None,
        epoch_start_share=None,
        input_cpu_share=0.6,
        lines={},
        waits=(),
        copies=(
            Copy(
                file="/home/user/train.py",
                line=40,
                per_step=1.0,
                bytes_per_step=38e6,
                pinned=True,
            ),
        ),
        optimizers=(
            Optimizer(
                name="AdamW",
                torchs_own=True,
                tensors=160,
                fused=True,
                foreach=None,
                can_fuse=True,
                file="/home/user/train.py",
                line=30,
            ),
        ),
        models=("ResNet",),
        ranks=(Rank(rank=None, pid=1, steps=400, median_seconds=0.1, own_seconds=0.04),),
        losses=(2.0, 1.5, 1.0),
        step_seconds=(0.1, 0.1),
        environment={
            "cores": 16.0,
            "device": "cuda:0",
            "devices": 1,
            "shared_memory_bytes": 8 * GIB,
        },
        ending=Ending(code=None, signal=15, stopped="enough", seconds=45.0),
        problems=(),
    )


HEALTHY = healthy()


def ended(**changes):
    return replace(HEALTHY, ending=replace(HEALTHY.ending, **changes))


def stepping(record=HEALTHY, **changes):
    return replace(record, step=replace(record.step, **changes))


def loading(record=HEALTHY, **changes):
    return replace(record, loaders=(replace(HEALTHY.loaders[0], **changes),))


def on_machine(record=HEALTHY, **changes):
    return replace(record, environment={**HEALTHY.environment, **changes})


def stalled():
    return ended(stopped="stalled")


def too_short():
    return stepping(ended(stopped=None, code=0, signal=None), settled=False)


def busy_machine():
    return replace(HEALTHY, usage=replace(HEALTHY.usage, other_cores=9.0))


def unsettled_timing():
    return stepping(settled=False)


def slow_input():
    return replace(loading(workers=2), phases=phases(input=0.2))


def loader_restart():
    record = replace(HEALTHY, epoch_start_seconds=3.0, epoch_start_share=0.2)
    return loading(record, persistent_workers=False)


def small_shared_memory():
    return on_machine(shared_memory_bytes=64 << 20)


def oversubscribed_cores():
    return on_machine(loading(workers=32), cores=4.0)


def slow_copies():
    copy = replace(HEALTHY.copies[0], pinned=False)
    return replace(HEALTHY, phases=phases(transfer=0.05), copies=(copy,))


def host_waits():
    wait = Wait(
        what=".item()", file="/home/user/train.py", line=50, per_step=2.0, seconds_per_step=0.02
    )
    return replace(HEALTHY, waits=(wait,))


def many_small_operations():
    kernels = replace(
        HEALTHY.kernels,
        kernels=5000.0,
        device_busy_seconds=0.02,
        device_seconds={"forward": 0.007, "backward": 0.013},
    )
    return replace(HEALTHY, kernels=kernels)


def heavy_optimizer():
    optimizer = replace(HEALTHY.optimizers[0], fused=None)
    return replace(HEALTHY, phases=phases(optimizer=0.06), optimizers=(optimizer,))


def slow_user_code():
    line = Line(file="/home/user/train.py", line=60, function="log", share=0.8, samples=80)
    return replace(HEALTHY, phases=phases(other=0.05), lines={"other": (line,)})


def slow_model_code():
    line = Line(file="/home/user/net.py", line=8, function="forward", share=0.8, samples=80)
    device = {"forward": 0.01, "backward": 0.03}
    kernels = replace(HEALTHY.kernels, device_busy_seconds=0.04, device_seconds=device)
    return replace(HEALTHY, kernels=kernels, lines={"forward": (line,)})


def debugging_left_on():
    script = {"debugging": {"detect_anomaly": ["/home/user/train.py", 12]}}
    return replace(HEALTHY, environment={**HEALTHY.environment, "script": script})


def slow_rank():
    ranks = tuple(
        Rank(rank=rank, pid=rank + 1, steps=400, median_seconds=0.1, own_seconds=own)
        for rank, own in enumerate((0.04, 0.04, 0.08, 0.04))
    )
    return replace(HEALTHY, ranks=ranks)


def slow_exchange():
    ranks = tuple(
        Rank(rank=rank, pid=rank + 1, steps=400, median_seconds=0.1, own_seconds=0.04)
        for rank in range(4)
    )
    sent = {"bytes": GIB, "backend": "nccl", "hook": False, "views": False, "per_step": 1.0}
    environment = {**HEALTHY.environment, "script": {"exchange": sent}}
    kernels = replace(
        HEALTHY.kernels,
        communication_seconds=0.04,
        device_seconds={"forward": 0.025, "backward": 0.025},
    )
    return replace(HEALTHY, ranks=ranks, environment=environment, kernels=kernels)


def idle_wrapper():
    return replace(HEALTHY, models=("DataParallel",))


def counted_at_backward():
    return stepping(unit="backward")


def written_in_place():
    return ended(written_in_place=("runs/model.pt",), overlay_refused="namespaces are refused")


def discarded_writes():
    written = (Written(path="/home/user/data/train.tar", bytes=GIB),)
    return ended(written=written, written_bytes=GIB)


def left_running():
    return ended(left_running=("python server.py",))


SICK = {
    "stalled": stalled,
    "too-short": too_short,
    "busy-machine": busy_machine,
    "unsettled-timing": unsettled_timing,
    "debugging-left-on": debugging_left_on,
    "slow-input": slow_input,
    "loader-restart": loader_restart,
    "small-shared-memory": small_shared_memory,
    "oversubscribed-cores": oversubscribed_cores,
    "slow-copies": slow_copies,
    "host-waits": host_waits,
    "many-small-operations": many_small_operations,
    "heavy-optimizer": heavy_optimizer,
    "slow-model-code": slow_model_code,
    "slow-user-code": slow_user_code,
    "slow-rank": slow_rank,
    "slow-exchange": slow_exchange,
    "idle-wrapper": idle_wrapper,
    "counted-at-backward": counted_at_backward,
    "written-in-place": written_in_place,
    "discarded-writes": discarded_writes,
    "left-running": left_running,
}

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.NAME)


def check(rule, record) -> Finding | None:
    return rule.check(record, judge(record))


def test_every_rule_has_a_record_made_for_it_and_no_record_lacks_its_rule():
    assert set(SICK) == {rule.NAME for rule in RULES}


def test_names_are_given_once():
    names = [rule.NAME for rule in RULES]
    assert len(names) == len(set(names))


@every_rule
def test_a_rule_is_named_like_its_file(rule):
    assert rule.__name__ == "hotlap.rules." + rule.NAME.replace("-", "_")


@every_rule
def test_a_rules_page_has_its_sections_in_order(rule):
    page = rule.__doc__
    assert page is not None
    title, *sections = page.split("\n## ")
    assert title.strip().endswith(".")
    assert "\n" not in title.strip()
    assert tuple(section.partition("\n")[0] for section in sections) == SECTIONS
    for section in sections:
        assert section.partition("\n")[2].strip().endswith((".", ":", ")")), section


@every_rule
def test_a_rule_says_nothing_on_a_healthy_record(rule):
    assert check(rule, HEALTHY) is None


@every_rule
def test_a_rule_speaks_on_the_record_made_for_it(rule):
    finding = check(rule, SICK[rule.NAME]())
    assert isinstance(finding, Finding)
    assert finding.rule == rule.NAME


@every_rule
def test_what_a_rule_says_is_whole_sentences_with_evidence(rule):
    finding = check(rule, SICK[rule.NAME]())
    for sentence in (finding.summary, finding.advice):
        assert sentence[0].isupper() or sentence[0] in "/0123456789"
        assert sentence.endswith(".")
        assert len(sentence.split()) >= 4
    assert finding.evidence.strip()
    assert "None" not in finding.summary + finding.evidence + finding.advice


@every_rule
def test_a_rule_survives_a_record_that_knows_next_to_nothing(rule):
    empty = replace(
        HEALTHY,
        phases={name: Phase(seconds=None, share=None) for name in HEALTHY.phases},
        usage=Usage(),
        kernels=None,
        loaders=(),
        input_cpu_share=None,
        copies=(),
        optimizers=(),
        models=(),
        ranks=(),
        losses=(),
        step_seconds=(),
        environment={},
    )
    assert check(rule, empty) is None


@every_rule
def test_the_record_made_for_a_rule_is_found_by_it_among_all(rule):
    record = SICK[rule.NAME]()
    found = find(record, judge(record))
    assert rule.NAME in {finding.rule for finding in found}
    order = [one.NAME for one in RULES]
    assert [finding.rule for finding in found] == sorted(
        (finding.rule for finding in found), key=order.index
    )


def test_a_healthy_record_has_no_findings_and_computes():
    verdict = judge(HEALTHY)
    assert isinstance(verdict, Verdict)
    assert verdict.bottleneck == "compute"
    assert find(HEALTHY, verdict) == ()
