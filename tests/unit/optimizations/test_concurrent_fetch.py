"""concurrent-fetch: which data sets are fetched by threads, and which are left alone."""

import pytest

THREADS = {"concurrent-fetch": {"threads": 8}}
DATA = """
from torch.utils.data import Dataset

class Stored(Dataset):
    def __init__(self, transform=None):
        self.transform = transform
        self.threads = set()

    def __len__(self):
        return 32

    def __getitem__(self, index):
        self.threads.add(threading.get_ident())
        value = torch.tensor([float(index)])
        return value if self.transform is None else self.transform(value)

def of(loader):
    told["kind"] = type(loader.dataset).__name__
    told["values"] = [float(x) for batch in loader for x in batch.flatten()]
"""


def test_a_batch_is_fetched_by_several_threads_in_its_order(train):
    run = train(
        THREADS,
        DATA
        + """
data = Stored()
of(DataLoader(data, batch_size=8))
told["threads"] = len(data.threads) > 1
""",
    )
    assert run.told["kind"] == "Concurrent"
    assert run.told["values"] == [float(index) for index in range(32)]
    assert run.told["threads"]
    assert run.done["concurrent-fetch"] == {"status": "applied", "detail": "dataset=Concurrent"}


def test_workers_fetch_by_threads_as_well(train):
    run = train(THREADS, DATA + "of(DataLoader(Stored(), batch_size=8, num_workers=1))")
    assert run.told["values"] == [float(index) for index in range(32)]


def test_a_random_transform_stays_random_and_the_rest_is_compared(train):
    run = train(
        THREADS,
        DATA + "of(DataLoader(Stored(lambda x: x + torch.rand(1)), batch_size=8))",
    )
    assert run.told["kind"] == "Concurrent"
    assert [int(value) for value in run.told["values"]] == list(range(32))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            """
class Shared(Stored):
    def __getitem__(self, index):
        self.at = index  # as a file that is sought and then read
        import time; time.sleep(0.002)
        return torch.tensor([float(self.at)])
of(DataLoader(Shared(), batch_size=8))
""",
            "its samples come out differently when threads fetch them",
        ),
        (
            """
class Random(Stored):
    def __getitem__(self, index):
        return torch.rand(1)
told["values"] = len(list(DataLoader(Random(), batch_size=8)))
""",
            "told: the samples of Random are random, and it has no `transform` to look into",
        ),
        (
            """
class Several(Stored):
    def __getitems__(self, indices):
        return [self[index] for index in indices]
of(DataLoader(Several(), batch_size=8))
""",
            "Several hands out whole batches itself",
        ),
        ("of(DataLoader(Stored(), batch_size=None))", "hands out samples, not batches"),
        (
            """
class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(4.0))
of(DataLoader(Stream(), batch_size=2))
""",
            "an IterableDataset hands out one sample after another",
        ),
        (
            """
class Exotic(Stored):
    def __getitem__(self, index):
        return {index}
told["values"] = len(list(DataLoader(Exotic(), batch_size=8, collate_fn=list)))
""",
            "is of type builtins.set",
        ),
    ],
)
def test_what_cannot_be_trusted_to_threads_is_left_alone(train, script, reason):
    run = train(THREADS, DATA + script)
    assert run.told["values"]
    assert run.told.get("kind") != "Concurrent"
    assert run.done["concurrent-fetch"]["status"] == "refused"
    assert reason in run.done["concurrent-fetch"]["detail"]


def test_no_thread_is_left_before_workers_are_forked(train):
    run = train(
        THREADS,
        DATA + 'DataLoader(Stored(), batch_size=8)\ntold["threads"] = threading.active_count()',
    )
    assert run.told == {"threads": 1}


def test_random_numbers_of_the_script_are_not_touched(train):
    script = DATA + "torch.manual_seed(3)\nDataLoader(Stored(), batch_size=8)\n"
    script += 'told["drawn"] = torch.rand(3).tolist()'
    assert train(THREADS, script).told == train({}, script).told


@pytest.mark.parametrize(
    "made",
    [
        "numpy.random.default_rng(0)",
        "numpy.random.RandomState(0)",
        "random.Random(0)",
        "torch.Generator()",
    ],
)
@pytest.mark.parametrize("random", ["Noisy(generator)", "Stored(Noise(generator))"])
def test_a_generator_of_the_data_set_goes_on_as_if_nothing_was_fetched(train, made, random):
    script = f"""
import numpy, random

class Noise:
    def __init__(self, generator):
        self.generator = generator

    def __call__(self, value):
        if isinstance(self.generator, torch.Generator):
            return value + torch.rand(1, generator=self.generator)
        return value + self.generator.random()

class Noisy(Stored):
    def __init__(self, generator):
        super().__init__()
        self.noise = Noise(generator)

    def __getitem__(self, index):
        return self.noise(super().__getitem__(index))

generator = {made}
DataLoader({random}, batch_size=8)
told["drawn"] = [float(Noise(generator)(0.0)) for _ in range(3)]
"""
    assert train(THREADS, DATA + script).told == train({}, DATA + script).told


FILE = """
from torch.utils.data import Dataset
Path("blob").write_bytes(b"".join(bytes([i % 251]) * 3072 for i in range(512)))

class Blob(Dataset):
    def __init__(self):
        self.f = self.opened()

    def opened(self):
        return None

    def __len__(self):
        return 512

    def file(self):
        return self.f

    def __getitem__(self, index):
        file = self.file()
        file.seek(index * 3072)
        return torch.frombuffer(bytearray(file.read(3072)), dtype=torch.uint8)
"""
BUFFERED = """
class Mine(Blob):
    def opened(self):
        return open("blob", "rb")
"""
LAZY = """
class Mine(Blob):
    def file(self):
        if self.f is None:
            self.f = open("blob", "rb", buffering=0)
        return self.f
"""
SEPARATE = """
class Mine(Blob):
    def file(self):
        return open("blob", "rb", buffering=0)
"""
TRIED = """
from hotlap.optimizations import concurrent_fetch
warnings.simplefilter("ignore", ResourceWarning)
told["reasons"] = [concurrent_fetch._untrusted(Mine(), 32) for _ in range(20)]
"""


@pytest.mark.parametrize("kind", [BUFFERED, LAZY], ids=["buffered", "lazy"])
def test_a_file_that_threads_would_share_is_refused_every_time(train, kind):
    reasons = train({}, FILE + kind + TRIED).told["reasons"]
    assert len(reasons) == 20
    assert all("f is an open" in reason for reason in reasons), reasons


def test_a_file_opened_for_each_sample_is_accepted_every_time(train):
    assert train({}, FILE + SEPARATE + TRIED).told["reasons"] == [None] * 20


def test_a_shared_place_shows_itself_without_a_file(train):
    """The comparison alone, where nothing that is held gives it away."""
    run = train(
        {},
        FILE
        + BUFFERED
        + """
from hotlap.optimizations import concurrent_fetch
blob = Mine()
alone = concurrent_fetch._alone(blob, list(range(12)))
told["differs"] = [concurrent_fetch._differs(blob, alone, 32) for _ in range(5)]
blob.f.close()
""",
    )
    assert any(run.told["differs"])  # a race: nobody can promise each


def test_what_looking_opened_is_not_handed_to_workers(train):
    """They would share the place in it, which the data set avoids by opening late."""
    run = train(
        THREADS,
        FILE
        + LAZY
        + """
warnings.simplefilter("ignore", ResourceWarning)
data = Mine()
DataLoader(data, batch_size=8, num_workers=2)
told["opened"] = data.f is not None
""",
    )
    assert run.told == {"opened": False}
    assert run.done["concurrent-fetch"]["status"] == "refused"


def test_a_data_set_that_counts_its_samples_is_left_alone(train):
    run = train(
        THREADS,
        DATA
        + """
class Counted(Stored):
    made = 0
    def __getitem__(self, index):
        self.made += 1
        return super().__getitem__(index) * (2 if self.made > 5000 else 1)
data = Counted()
of(DataLoader(data, batch_size=8))
told["made"] = data.made
""",
    )
    assert (run.told["kind"], run.told["made"]) == ("Counted", 32)
    assert run.done["concurrent-fetch"] == {
        "status": "refused",
        "detail": "making a sample changes `made`, which threads would do in any order",
    }


PAIRS = (
    DATA
    + """
class Flip:
    flips = False
    def __call__(self, value):
        KEPT = torch.rand(()) < 0.01  # hardly ever another value than before
        return -value if KEPT else value

data = Stored(Flip())
of(DataLoader(data, batch_size=8))
told["setting"] = "__setattr__" in vars(Flip)
told["held"] = sorted(vars(data.transform))
"""
)


def test_a_transform_that_keeps_what_it_draws_for_a_sample_is_left_alone(train):
    """Its image may be flipped as another thread's was."""
    run = train(THREADS, PAIRS.replace("KEPT", "self.flips"))
    assert (run.told["kind"], run.told["setting"]) == ("Stored", False)
    assert run.done["concurrent-fetch"] == {
        "status": "refused",
        "detail": "making a sample sets `transform.flips`, which threads would do at the same time",
    }
    run = train(THREADS, PAIRS.replace("KEPT", "flips"))
    assert (run.told["kind"], run.told["held"]) == ("Concurrent", [])
