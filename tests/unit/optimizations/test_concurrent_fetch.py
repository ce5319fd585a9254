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
            "cannot be told: the samples of Random are random",
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
