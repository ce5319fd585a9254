"""Every optimization, whatever it does: its page, its names, its word on records of every kind."""

import ast
import inspect
import json
import math
import pkgutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hotlap import optimizations, records
from hotlap.optimizations import OPTIMIZATIONS, named
from hotlap.recipes import SEEN_BY_COMPILER, Recipe
from hotlap.rules import slow_input
from hotlap.rules.verdict import judge

SECTIONS = ("What it does", "Why it helps", "When it does not help", "By hand")
NAMES = [one.NAME for one in OPTIMIZATIONS]
SAMPLE = records.load(Path(__file__).parents[1] / "unit" / "data" / "profile-schema-1.json")
replace = msgspec.structs.replace

every_optimization = pytest.mark.parametrize("one", OPTIMIZATIONS, ids=NAMES)


def having(record=SAMPLE, **environment):
    return replace(record, environment={**record.environment, **environment})


def loading(**facts):
    (loader,) = SAMPLE.loaders
    return replace(SAMPLE, loaders=(replace(loader, **facts),))


SCRIPT = {
    "autocast": None,
    "scaler": False,
    "keeps_gradients": True,
    "cudnn_benchmark": False,
    "matmul_precision": "highest",
    "layers": {"Sequential": 1, "Conv2d": 4, "Linear": 2},
    "types": {"float32": 12},
}
GPU = {"device": "cuda", "device_name": "H100", "devices": 1, "capability": [9, 0]}
RECORDS = {
    "sample": SAMPLE,
    "script": having(script=SCRIPT),
    "gpu": having(having(loading(workers=4, prefetch_factor=2)), **GPU, script=SCRIPT),
    "old gpu": having(**{**GPU, "capability": [6, 1]}, script=SCRIPT),
    "several ranks": having(
        **GPU, script={**SCRIPT, "exchange": {"bytes": 1 << 30, "hook": False}}
    ),
    "own hook": having(script={**SCRIPT, "exchange": {"hook": True, "views": True}}),
    "mixed precision": having(**GPU, script={**SCRIPT, "autocast": "float16", "scaler": True}),
    "half precision": having(
        replace(SAMPLE, optimizers=(replace(SAMPLE.optimizers[0], name="SGD"),)),
        script={**SCRIPT, "types": {"float32": 10, "bfloat16": 2}},
    ),
    "half precision on a gpu": having(
        **GPU, script={**SCRIPT, "types": {"float32": 10, "bfloat16": 2}}
    ),
    "no loader": replace(SAMPLE, loaders=()),
    "loader of no training": loading(trained=0),
    "streams": loading(iterable=True, batches=None, sampler=None),
    "batch sampler": loading(batch_size=None),
    "many workers": loading(workers=8, prefetch_factor=8, persistent_workers=True),
    "no optimizer": replace(SAMPLE, optimizers=(), step=replace(SAMPLE.step, unit="backward")),
    "lbfgs": having(
        replace(SAMPLE, optimizers=(replace(SAMPLE.optimizers[0], name="LBFGS", can_fuse=False),)),
        **GPU,
    ),
    "steps in backward": having(replace(SAMPLE, step=replace(SAMPLE.step, unit="backward")), **GPU),
    "empty script": having(script={}),
    "odd script": having(script=None, capability="9.0", cores=None, threads=None, world_size=None),
    "knows nothing": replace(
        SAMPLE,
        phases={
            name: replace(phase, seconds=None, share=None) for name, phase in SAMPLE.phases.items()
        },
        loaders=(),
        optimizers=(),
        epoch_start_share=None,
        kernels=None,
        environment={},
    ),
}

every_record = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)


def recipe_of(one, settings):
    """The recipe it is tried in: with what it needs."""
    return Recipe.of({one.NAME: settings, **{name: {} for name in one.NEEDS}})


def test_names_are_given_once():
    assert len(NAMES) == len(set(NAMES))
    assert optimizations.known()[: len(OPTIMIZATIONS)] == OPTIMIZATIONS


@every_optimization
def test_an_optimization_is_named_like_its_file(one):
    assert one.__name__ == "hotlap.optimizations." + one.NAME.replace("-", "_")
    assert optimizations.named(one.NAME) is one


def test_every_file_with_a_name_is_in_the_list():
    folder = Path(optimizations.__file__).parent
    files = {path.stem for path in folder.glob("*.py") if "\nNAME = " in path.read_text()}
    assert {name.replace("-", "_") for name in NAMES} == files


@every_optimization
def test_a_page_has_its_sections_in_order(one):
    title, *sections = one.__doc__.split("\n## ")
    assert title.strip().endswith(".")
    assert "\n" not in title.strip()
    assert tuple(section.partition("\n")[0] for section in sections) == SECTIONS
    for section in sections:
        assert section.partition("\n")[2].strip().endswith((".", ")")), section


@every_optimization
def test_it_says_what_it_does_to_the_numbers(one):
    assert one.NUMERICS in ("identical", "close", "changes")


@every_optimization
def test_what_it_names_is_known_and_does_not_contradict_itself(one):
    assert set(one.CONFLICTS) | set(one.NEEDS) <= set(NAMES) - {one.NAME}
    assert not set(one.CONFLICTS) & set(one.NEEDS)
    for name in one.NEEDS:  # what it needs stands beside it, and is applied before it
        assert one.NAME not in optimizations.named(name).CONFLICTS
        assert NAMES.index(name) < NAMES.index(one.NAME)
        assert not optimizations.named(name).NEEDS


@every_optimization
def test_its_settings_are_numbers_or_words(one):
    for name, allowed in one.SETTINGS.items():
        assert name == name.lower().replace("_", "-")
        assert allowed is int or (allowed and all(isinstance(word, str) for word in allowed))
    assert set(getattr(one, "LEAST", {})) <= set(one.SETTINGS)


@every_optimization
def test_its_functions_take_what_the_protocol_says(one):
    for name in ("refusal", "promise", "candidates", "by_hand", "install"):
        wanted = list(inspect.signature(getattr(optimizations.Optimization, name)).parameters)[1:]
        assert list(inspect.signature(getattr(one, name)).parameters) == wanted


@every_record
@every_optimization
def test_it_has_an_answer_to_every_record(one, record):
    refusal = one.refusal(record)
    assert refusal is None or (refusal == refusal.strip() != "" and "None" not in refusal)
    promise = one.promise(record, judge(record))
    assert math.isfinite(promise)
    assert 0 <= promise <= 1
    candidates = one.candidates(record)
    assert candidates or refusal is not None  # what is not refused has something to try
    for settings in candidates:
        assert recipe_of(one, settings).changes[one.NAME] == settings
        assert one.by_hand(settings).strip()
    assert len({json.dumps(settings) for settings in candidates}) == len(candidates)


@every_optimization
def test_it_is_explained_without_settings_and_with_each_word(one):
    assert one.by_hand({}).strip()
    for name, allowed in one.SETTINGS.items():
        for word in allowed if allowed is not int else (1, 8):
            text = one.by_hand({name: word})
            assert text.strip()
            assert "None" not in text


@every_optimization
def test_what_is_written_by_hand_is_code(one):
    for name, allowed in {"": ("",), **one.SETTINGS}.items():
        for word in allowed if allowed is not int else (1, 8):
            text = one.by_hand({name: word})
            assert text.startswith("export ") or ast.parse(text).body, text  # else of the shell


REFUSED = {
    "gpu": {"threads": "runs on a GPU"},
    "old gpu": {
        "tf32": "Ampere",
        "precision-bf16": "Ampere",
        "precision-fp16": "tensor cores",
        "compile": "7.0",
    },
    "mixed precision": {
        "precision-bf16": "float16",
        "precision-fp16": "scales its loss",
        "gradient-accumulation": "scales its loss",
        "fused-optimizer": "GradScaler",
        "tf32": "float16",
    },
    "half precision": {"fused-optimizer": "is wrong on a CPU"},
    "half precision on a gpu": dict.fromkeys(
        ("precision-bf16", "precision-fp16"), "the model's parameters are bfloat16, float32"
    ),
    "no loader": dict.fromkeys(
        ("loader-workers", "persistent-workers", "loader-prefetch", "batch-size"), "no DataLoader"
    ),
    "loader of no training": {"loader-workers": "no DataLoader"},
    "streams": {"loader-workers": "IterableDataset"},
    "batch sampler": dict.fromkeys(("batch-size", "gradient-accumulation"), "batch sampler"),
    "many workers": {"persistent-workers": "already live on", "loader-prefetch": "already keep 8"},
    "no optimizer": {
        **dict.fromkeys(("compile", "precision-bf16", "channels-last"), "no optimizer steps"),
        "fused-optimizer": "none was made",
        "foreach-optimizer": "no optimizer",
        "gradient-accumulation": "no optimizer is seen to step",
    },
    "lbfgs": {
        "precision-fp16": "LBFGS",
        "gradient-accumulation": "LBFGS",
        "channels-last": "LBFGS",
        "fused-optimizer": "LBFGS",
    },
    "steps in backward": {"precision-fp16": "when to look for overflow"},
    "empty script": {"channels-last": "no 2-d", "zero-grad-none": "dropped between steps already"},
    "sample": dict.fromkeys(
        ("tf32", "cudnn-benchmark", "pinned-memory", "device-prefetch", "non-blocking-copy"),
        "runs on the CPU",
    ),
}
OFFERED = {
    "script": {"channels-last", "zero-grad-none", "fused-optimizer", "loader-workers"},
    "gpu": {
        *("tf32", "cudnn-benchmark", "pinned-memory", "device-prefetch", "non-blocking-copy"),
        *("precision-bf16", "precision-fp16", "compile", "allocator", "loader-prefetch"),
        *("persistent-workers", "batch-size", "gradient-accumulation"),
    },
}


@pytest.mark.parametrize(
    ("record", "name", "why"),
    [(record, name, why) for record, found in REFUSED.items() for name, why in found.items()],
)
def test_what_a_record_rules_out_is_refused_with_its_reason(record, name, why):
    assert why in optimizations.named(name).refusal(RECORDS[record])


@pytest.mark.parametrize(
    ("record", "name"),
    [(record, name) for record, names in OFFERED.items() for name in sorted(names)],
)
def test_what_a_record_allows_is_offered(record, name):
    assert optimizations.named(name).refusal(RECORDS[record]) is None


def test_what_the_compiler_sees_is_known():
    assert set(SEEN_BY_COMPILER) <= set(NAMES)


def test_importing_them_imports_the_standard_library_and_nothing_else():
    """They are imported into the training process, beside whatever it has installed."""
    modules = [
        f"hotlap.optimizations.{one.name}"
        for one in pkgutil.iter_modules([str(Path(optimizations.__file__).parent)])
    ]
    code = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        f"import {', '.join(modules)}\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(json.dumps(sorted(names - set(sys.stdlib_module_names))))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["hotlap"]


@every_optimization
def test_torch_is_imported_inside_of_functions_only(one):
    tree = ast.parse(Path(one.__file__).read_text())
    for node in tree.body:
        assert not (isinstance(node, ast.Import) and any("torch" in a.name for a in node.names))


OWN = '''"""One of somebody's own."""
NAME, NUMERICS, CONFLICTS, NEEDS, SETTINGS = "own-one", "identical", (), (), {"number": int}

def refusal(record): return None
def promise(record, verdict): return 0.1
def candidates(record): return [{"number": 1}]
def by_hand(settings): return "nothing"
def environment(settings, plain): return {"OWN": str(settings["number"])}
def install(training, settings): training.applied(NAME)
'''


def test_one_in_a_file_of_ones_own_is_known_and_comes_last(tmp_path, monkeypatch):
    file = tmp_path / "own_one.py"
    file.write_text(OWN)
    monkeypatch.setenv(optimizations.FILES_VARIABLE, str(file))
    optimizations.known.cache_clear()
    try:
        assert [one.NAME for one in optimizations.known()] == [*NAMES, "own-one"]
        recipe = Recipe.of({"own-one": {"number": 3}, "tf32": {}})
        assert list(recipe.changes) == ["tf32", "own-one"]
        assert optimizations.environment(dict(recipe.changes), {}) == {"OWN": "3"}
    finally:
        optimizations.known.cache_clear()


def test_workers_are_enough_for_the_step_the_device_could_do():
    """Two workers, a third of the step waiting; the device needs a quarter of it, or nearly all."""
    two = loading(workers=2, prefetch_factor=2)
    two = having(replace(two, environment={**two.environment, "cores": 16}), **GPU)
    shares = {"input": replace(SAMPLE.phases["input"], share=0.36)}
    two = replace(two, phases={**SAMPLE.phases, **shares})
    kernels = records.Kernels(steps=3, device_busy_seconds=0.365 * two.step.median_seconds)
    first = named("loader-workers").candidates
    assert first(replace(two, kernels=kernels))[0] == {"workers": 9}
    idle = msgspec.structs.replace(kernels, device_busy_seconds=0.0)
    assert first(replace(two, kernels=idle))[0] == {"workers": 12}
    busy = msgspec.structs.replace(kernels, device_busy_seconds=two.step.median_seconds)
    assert first(replace(two, kernels=busy))[0] == {"workers": 5}
    assert first(replace(two, kernels=None))[0] == {"workers": 5}


def waiting(*, cpu, cores=2, **machine):
    """No workers, nine tenths of the step waiting for input."""
    plain = loading(workers=0, prefetch_factor=None)
    room = {"cores": cores, "memory_bytes": 64 << 30, "shared_memory_bytes": 8 << 30, **machine}
    share = {"input": records.Phase(seconds=0.02, share=0.9)}
    return replace(
        plain,
        environment={**plain.environment, **room},
        phases={**SAMPLE.phases, **share},
        input_cpu_share=cpu,
    )


def numbers(record):
    return [settings["workers"] for settings in named("loader-workers").candidates(record)]


def test_workers_that_only_wait_for_storage_may_outnumber_the_cores():
    assert numbers(waiting(cpu=0.1)) == [8, 4, 2]
    assert numbers(waiting(cpu=0.9)) == [2, 1]
    assert numbers(waiting(cpu=None)) == [2, 1]
    assert max(numbers(waiting(cpu=0.1, memory_bytes=4 << 30))) == 5
    assert numbers(waiting(cpu=0.1, shared_memory_bytes=64 << 20)) == [1]


def test_a_batch_that_is_waited_for_briefly_is_not_handed_over_between_processes():
    record = waiting(cpu=0.9)
    long, brief = (
        replace(record, phases={**record.phases, "input": records.Phase(seconds=one, share=0.9)})
        for one in (2e-3, 0.2e-3)
    )
    promise = named("loader-workers").promise
    assert promise(brief, judge(long)) < 0.2 * promise(long, judge(long))
    advice = slow_input.check(brief, judge(brief)).advice
    assert "num_workers" not in advice
    assert "__getitems__" in advice


@pytest.mark.parametrize(
    ("workers", "making", "share", "first"),
    [(2, 0.1, 0.8, 0), (8, 0.3, 0.2, 4), (1, 0.4, 0.3, None)],
)
def test_of_workers_that_are_idle_while_training_waits_fewer_are_enough(
    workers, making, share, first
):
    record = waiting(cpu=1.0, cores=8)
    record = replace(
        record,
        loaders=(replace(record.loaders[0], workers=workers),),
        phases={**record.phases, "input": records.Phase(seconds=0.1, share=share)},
        input_making_share=making,
    )
    finding = slow_input.check(record, judge(record))
    assert "hand" in finding.summary
    if first is None:
        assert "num_workers=" not in finding.advice
    else:
        assert numbers(record)[0] == first
        assert f"num_workers={first} " in finding.advice


@pytest.mark.parametrize("cpu", [0.1, 0.9, None])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_finding_names_the_number_of_workers_that_is_tried_first(cpu, workers):
    record = waiting(cpu=cpu, cores=4)
    loader = replace(record.loaders[0], workers=workers)
    record = replace(record, loaders=(loader,))
    finding = slow_input.check(record, judge(record))
    assert f"num_workers={numbers(record)[0]}," in finding.advice
