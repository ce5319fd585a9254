"""non-blocking-copy: which copies are changed. Pinned memory is played: there is no device here."""

PLAYED = """
asked = []
plain_to = torch.Tensor.to

def to(tensor, *args, **kwargs):
    asked.append(kwargs.get("non_blocking", any(one is True for one in args)))
    return plain_to(tensor, *args, **kwargs)

def batch_of(pinned):
    iterator = object.__new__(Iterator)
    iterator._pin_memory = pinned
    return next(iterator)

Iterator = torch.utils.data.dataloader._BaseDataLoaderIter
Iterator.__next__ = lambda self: torch.arange(4.0)
torch.Tensor.to = to
torch.Tensor.is_pinned = lambda tensor, *args: True
from hotlap.optimizations import named

named("non-blocking-copy").install(training, {})
batch = batch_of(pinned=True)
"""


def test_a_loaders_pinned_batch_is_copied_without_waiting(train):
    run = train(
        {},
        PLAYED
        + """
copied = batch.to("cpu")
told["asked"] = asked
told["values"] = copied.tolist()
""",
    )
    assert run.told == {"asked": [True], "values": [0.0, 1.0, 2.0, 3.0]}
    assert run.done["non-blocking-copy"]["status"] == "applied"


def test_the_scripts_own_word_stands_however_it_is_given(train):
    run = train(
        {},
        PLAYED
        + """
batch.to("cpu", non_blocking=False)
batch.to("cpu", torch.float64, False)
batch.to(torch.float64, True)
batch.to(torch.ones(1), False)
told["asked"] = asked
""",
    )
    assert run.told["asked"] == [False, False, True, False]
    assert run.done == {}


def test_other_tensors_are_left_alone(train):
    run = train(
        {},
        PLAYED
        + """
torch.ones(4, 2).to("cpu")  # not a loader's
batch_of(pinned=False).to("cpu")
torch.eye(3).to_sparse().to("cpu")  # these have no address
torch.func.vmap(lambda row: row.to(torch.float64))(torch.ones(2, 2))
told["asked"] = asked
""",
    )
    assert run.told["asked"] == [False] * 4
    assert run.done == {}


def test_memory_that_a_loaders_tensor_once_had_is_not_taken_for_it(train):
    """The script may have pinned it, and may write to it while the copy is under way."""
    run = train(
        {},
        PLAYED
        + """
mine = torch.from_numpy(batch.numpy())  # at the same address
mine.to("cpu")
del batch
mine.to("cpu")
told["asked"] = asked
""",
    )
    assert run.told["asked"] == [True, False]
