"""loader-workers: what becomes of DataLoaders that a script makes."""

import pytest

WORKERS = {"loader-workers": {"workers": 2}}
DATA = "data = TensorDataset(torch.arange(32.0))\n"


def test_the_training_loader_is_made_with_workers(train):
    run = train(
        WORKERS,
        DATA
        + """
loader = DataLoader(data, batch_size=4, shuffle=True)
told["workers"] = loader.num_workers
told["samples"] = sorted(int(x) for (batch,) in loader for x in batch)
told["by place"] = DataLoader(data, 4, True).num_workers
told["asked for already"] = DataLoader(data, shuffle=True, num_workers=2).num_workers
""",
    )
    assert run.told == {
        "workers": 2,
        "samples": list(range(32)),
        "by place": 2,
        "asked for already": 2,
    }
    assert run.done == {"loader-workers": {"status": "applied", "detail": "num_workers=2"}}


def test_a_subclass_with_arguments_of_its_own_is_still_itself(train):
    run = train(
        WORKERS,
        DATA
        + """
class Named(DataLoader):
    def __init__(self, data, name, size=8):
        self.name = name
        super().__init__(data, size, shuffle=True, drop_last=True)

loader = Named(data, "mine")
told.update(vars(loader), kind=type(loader).__name__)
told = {key: told[key] for key in ("name", "num_workers", "batch_size", "drop_last", "kind")}
""",
    )
    assert run.told == {
        "name": "mine",
        "num_workers": 2,
        "batch_size": 8,
        "drop_last": True,
        "kind": "Named",
    }


def test_loaders_that_evaluate_are_left_alone(train):
    """Those made after one that shuffles, and do not shuffle themselves."""
    run = train(
        WORKERS,
        DATA
        + """
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

def of(shuffle):
    return DistributedSampler(data, num_replicas=1, rank=0, shuffle=shuffle)

def workers(**given):
    return DataLoader(data, **given).num_workers

class Share:
    def __init__(self, sampler):
        self.batch_sampler = BatchSampler(sampler, 4, False)

    def __iter__(self):
        return iter(self.batch_sampler)

told["train"] = [
    workers(batch_sampler=Share(RandomSampler(data))),
    workers(batch_sampler=BatchSampler(RandomSampler(data), 4, False)),
    workers(shuffle=True),
    workers(sampler=RandomSampler(data)),
    workers(sampler=of(shuffle=True)),
    workers(sampler=list(range(32))),
]
told["evaluate"] = [
    workers(),
    workers(shuffle=False, batch_size=8),
    workers(sampler=SequentialSampler(data)),
    workers(sampler=of(shuffle=False)),
    workers(batch_sampler=BatchSampler(SequentialSampler(data), 4, False)),
    workers(batch_sampler=Share(SequentialSampler(data))),  # as accelerate makes it anew
]
""",
    )
    assert run.told["train"] == [2] * 6
    assert run.told["evaluate"] == [0] * 6


def test_a_script_that_never_shuffles_still_gets_its_workers(train):
    run = train(WORKERS, DATA + 'told["workers"] = DataLoader(data).num_workers\n')
    assert run.told["workers"] == 2


def test_a_dataset_that_streams_is_not_repeated(train):
    run = train(
        WORKERS,
        """
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(6))

        told["samples"] = [int(x) for batch in DataLoader(Stream(), batch_size=2) for x in batch]
        """,
    )
    assert run.told["samples"] == [0, 1, 2, 3, 4, 5]
    assert run.done["loader-workers"]["status"] == "refused"
    assert "IterableDataset" in run.done["loader-workers"]["detail"]


def test_no_workers_takes_away_what_only_workers_can_have(train):
    run = train(
        {"loader-workers": {"workers": 0}},
        DATA
        + """
loader = DataLoader(
    data, 4, shuffle=True, num_workers=2, prefetch_factor=4, persistent_workers=True,
    multiprocessing_context="fork", timeout=30,
)
told["workers"] = loader.num_workers
told["rest"] = [loader.prefetch_factor, loader.persistent_workers, loader.timeout]
told["batches"] = len(list(loader))
""",
    )
    assert run.told == {"workers": 0, "rest": [None, False, 0], "batches": 8}


def test_a_mistake_in_the_script_is_torchs_to_report(train):
    run = train(
        WORKERS,
        DATA
        + """
for given in ({"shuffled": True}, {"shuffle": True, "sampler": list(range(32))}):
    try:
        DataLoader(data, **given)
    except (TypeError, ValueError) as problem:
        told[str(problem)] = type(problem).__name__
""",
    )
    unexpected, exclusive = run.told
    assert "unexpected keyword argument 'shuffled'" in unexpected
    assert "mutually exclusive" in exclusive


def test_a_loader_that_does_not_take_the_change_is_made_as_it_was_and_noted(train):
    run = train(
        {},
        DATA
        + """
training.change_loaders("odd", lambda arguments: arguments.update(prefetch_factor=4))
told["batches"] = len(list(DataLoader(data, batch_size=4, shuffle=True)))
""",
    )
    assert run.told["batches"] == 8
    assert run.done["odd"]["status"] == "refused"
    assert "does not take it" in run.done["odd"]["detail"]


def test_the_signature_of_a_loader_stays(train):
    run = train(
        WORKERS,
        """
        import inspect

        told["names"] = list(inspect.signature(DataLoader.__init__).parameters)
        """,
    )
    assert run.told["names"][:5] == ["self", "dataset", "batch_size", "shuffle", "sampler"]


HOLDING = """
import functools, io, mmap, random, tempfile
import numpy
from torch.utils.data import ConcatDataset, Dataset, Subset

rng = numpy.random.default_rng(0)
file = tempfile.TemporaryFile()
file.write(bytes(64))
file.flush()

class Data(Dataset):
    def __init__(self, held=None, transform=None):
        self.held, self.transform = held, transform

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return index

class FromOutside(Data):
    def __getitem__(self, index):
        return rng.random()

class Noise:
    def __init__(self, generator):
        self.generator = generator

    def __call__(self, value):
        return value

def plain(value):
    return random.choice([value]) + numpy.random.normal() + torch.rand(())

choice, seed = random.choice, numpy.random.seed

def shared(value):
    return choice([value]), seed(0)

data = MADE
told["workers"] = DataLoader(data, batch_size=4, shuffle=True, OPTIONS).num_workers
"""


def workers(train, made, options="", recipe=WORKERS):
    run = train(recipe, HOLDING.replace("MADE", made).replace("OPTIONS", options))
    return run.told["workers"], run.done["loader-workers"]


@pytest.mark.parametrize(
    ("made", "where"),
    [
        ("Data(numpy.random.default_rng(0))", "held"),
        ("Data(numpy.random.RandomState(0))", "held"),
        ("Data(random.Random(0))", "held"),
        ("Data(torch.Generator())", "held"),
        ("Data(transform=Noise(random.Random(0)))", "transform.generator"),
        ("Data(transform=[plain, functools.partial(plain, rng)])", "transform[1][0]"),
        ("Subset(ConcatDataset([Data(random.Random(0))]), [0, 1])", "dataset.datasets[0].held"),
        ("FromOutside()", "__getitem__.rng"),
    ],
)
def test_a_data_set_with_a_random_generator_of_its_own_gets_no_workers(train, made, where):
    number, done = workers(train, made)
    assert number == 0
    why = f"{where} is a random generator, and each worker would repeat it in every epoch"
    assert done == {"status": "refused", "detail": why}


@pytest.mark.parametrize("made", ["Data(file)", "Subset(Data([file]), [0, 1])"])
def test_a_data_set_with_an_open_file_gets_no_workers(train, made):
    number, done = workers(train, made)
    assert number == 0
    assert done["status"] == "refused"
    assert done["detail"].endswith("is an open BufferedRandom, which workers cannot share")


@pytest.mark.parametrize(
    "made",
    [
        "Data(plain)",
        "Data(transform=shared)",
        "Data(random.SystemRandom())",
        "Data(io.BytesIO(bytes(9)))",
        "Data(mmap.mmap(file.fileno(), 0))",
        "Data(numpy.random.SeedSequence(0))",
    ],
)
def test_what_workers_can_share_is_no_reason(train, made):
    assert workers(train, made)[0] == 2


def test_a_data_set_that_cannot_be_looked_at_gets_no_workers(train):
    made = "Data(type('Odd', (), {'__class__': property(lambda self: 1 / 0)})())"
    number, done = workers(train, made)
    assert number == 0
    assert done["detail"].endswith("cannot be told: division by zero")


@pytest.mark.parametrize("options", ["num_workers=1", "worker_init_fn=print"])
@pytest.mark.parametrize("made", ["Data(random.Random(0))", "Data(file)"])
def test_a_script_that_is_made_for_workers_may_have_others(train, made, options):
    assert workers(train, made, options)[0] == 2


def test_limiting_the_threads_of_workers_does_not_make_a_script_for_them(train):
    recipe = {"threads": {"threads": 1, "worker-threads": 1}, **WORKERS}
    assert workers(train, "Data(random.Random(0))", recipe=recipe)[0] == 0


def test_caches_of_ours_stand_between_a_data_set_and_its_workers(train):
    recipe = {"sample-cache": {"percent": 1}, "concurrent-fetch": {"threads": 2}, **WORKERS}
    script = """
import random, time
from torch.utils.data import Dataset

class Slow(Dataset):
    def __init__(self, held):
        self.held = held

    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((10,), index)

told["workers"] = [
    DataLoader(Slow(held), batch_size=4, shuffle=True).num_workers
    for held in (None, random.Random(0))
]
"""
    run = train(recipe, script)
    assert run.told["workers"] == [2, 0]
    assert run.done["sample-cache"]["status"] == "applied"


def test_a_data_set_that_counts_what_it_was_asked_for_is_left_alone(train):
    run = train(
        WORKERS,
        """
class Seen(torch.utils.data.Dataset):
    def __init__(self):
        self.seen = [0] * 8

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.seen[index] += 1
        return self.seen[index]

data = Seen()
loader = DataLoader(data, batch_size=4, shuffle=True)
told["samples"] = [[int(x) for batch in loader for x in batch] for _ in range(2)]
told["seen"] = data.seen
""",
    )
    assert run.told == {"samples": [[1] * 8, [2] * 8], "seen": [2] * 8}
    assert run.done["loader-workers"]["status"] == "refused"
    assert "making a sample changes `seen`" in run.done["loader-workers"]["detail"]


def test_a_data_set_whose_samples_depend_on_the_one_before_is_left_alone(train):
    script = """
class Mixed(torch.utils.data.Dataset):
    before = None

    def __len__(self):
        return 40

    def __getitem__(self, index):
        value, self.before = (index, -1 if self.before is None else self.before), index
        return torch.tensor(value)

torch.manual_seed(0)
loader = DataLoader(Mixed(), batch_size=4, shuffle=True)
told["samples"] = [[batch.tolist() for batch in loader] for _ in range(2)]
"""
    run = train(WORKERS, script)
    assert run.told == train({}, script).told
    assert run.done["loader-workers"]["status"] == "refused"
    assert "making a sample changes `before`" in run.done["loader-workers"]["detail"]


LIBRARY = """
import random
from torch.utils.data import Dataset

rng = random.Random(0)

class Table(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return SAMPLE

    def renamed(self):
        return rng.random()
"""


@pytest.mark.parametrize(("sample", "number"), [("index", 2), ("index + rng.random()", 0)])
def test_what_a_library_draws_from_for_something_else_is_no_reason(train, tmp_path, sample, number):
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "tables_of_ours.py").write_text(LIBRARY.replace("SAMPLE", sample))
    run = train(
        WORKERS,
        f"""
        import sys
        sys.path.append({str(installed)!r})
        from tables_of_ours import Table

        told["workers"] = DataLoader(Table(), batch_size=4, shuffle=True).num_workers
        """,
    )
    assert run.told["workers"] == number
    if not number:
        why = "making a sample changes `__getitem__.rng`"
        assert run.done["loader-workers"]["detail"].startswith(why)
