"""device-prefetch: which batch is handed out when. Streams and devices are played by others."""

import contextlib
from types import SimpleNamespace

import pytest

from hotlap.optimizations.device_prefetch import HELD, Ahead


class Tensor:
    layout, is_nested = "strided", False

    def __init__(self, name, is_cuda=False):
        self.name, self.is_cuda = name, is_cuda
        self.device = "cuda:0" if is_cuda else "cpu"

    def is_pinned(self):
        return True

    def to(self, device, non_blocking):
        LOG.append(f"copy {self.name}")
        assert non_blocking
        return Tensor(self.name, is_cuda=True)

    def record_stream(self, stream):
        LOG.append(f"{self.name} used on {stream.name}")


class Event:
    def record(self, stream):
        self.after = len(LOG)
        assert stream.name == "side"


class Stream:
    name = "side"

    def __init__(self, device):
        pass


class Main:
    name = "main"

    def wait_event(self, event):
        LOG.append("wait")


LOG = []
TORCH = SimpleNamespace(
    Tensor=Tensor,
    strided="strided",
    cuda=SimpleNamespace(
        Stream=Stream,
        Event=Event,
        stream=contextlib.nullcontext,
        current_stream=lambda device: Main(),
    ),
)


class Batches:
    """An iterator with workers: `ready` says how many batches have arrived."""

    def __init__(self, *batches, ready=0):
        self.left = list(batches)
        self.ready = ready
        self._task_info, self._rcvd_idx = {}, 0
        self._data_queue = SimpleNamespace(empty=lambda: not self.ready)

    def take(self):
        if not self.left:
            raise StopIteration
        self.ready = max(0, self.ready - 1)
        batch = self.left.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch


@pytest.fixture
def ahead():
    LOG.clear()
    notes = []
    training = SimpleNamespace(torch=TORCH, applied=lambda *note: notes.append(note))
    ahead = Ahead(training)
    parameter = SimpleNamespace(is_cuda=True, device="cuda:0")
    ahead.begin(SimpleNamespace(parameters=lambda: iter([parameter])))
    assert ahead.device == "cuda:0"
    return ahead


def take(ahead, batches):
    return ahead.next(batches, Batches.take)


def test_a_batch_that_is_ready_is_copied_before_it_is_asked_for(ahead):
    batches = Batches([Tensor("a"), "label"], [Tensor("b"), "label"], ready=2)
    images, label = take(ahead, batches)
    assert (images.name, images.is_cuda, label) == ("a", True, "label")
    assert LOG == ["copy a", "wait", "a used on main", "copy b"]
    LOG.clear()
    assert take(ahead, batches)[0].name == "b"
    assert LOG == ["wait", "b used on main"]


def test_a_batch_that_is_not_ready_is_not_waited_for(ahead):
    batches = Batches([Tensor("a")], [Tensor("b")], ready=1)
    take(ahead, batches)
    assert [one.name for (one,) in batches.left] == ["b"]
    assert take(ahead, batches)[0].name == "b"


def test_every_batch_comes_once_and_in_order_and_then_the_end(ahead):
    batches = Batches(*[[Tensor(str(number))] for number in range(7)], ready=3)
    seen = []
    for number in range(7):
        seen.append(take(ahead, batches)[0].name)
        batches.ready = number % 3
    assert seen == list("0123456")
    with pytest.raises(StopIteration):
        take(ahead, batches)


def test_a_problem_of_a_worker_is_told_in_its_turn(ahead):
    batches = Batches([Tensor("a")], KeyError("missing.jpg"), [Tensor("c")], ready=3)
    assert take(ahead, batches)[0].name == "a"
    with pytest.raises(KeyError, match=r"missing\.jpg"):
        take(ahead, batches)
    assert take(ahead, batches)[0].name == "c"


def test_what_was_copied_ahead_is_not_lost_when_an_evaluation_goes_on_with_it(ahead):
    batches = Batches([Tensor("a")], [Tensor("b")], [Tensor("c")], ready=3)
    take(ahead, batches)
    assert HELD in vars(batches)
    (second,) = ahead.leftover(batches, Batches.take)
    assert (second.name, second.is_cuda) == ("b", True)
    (third,) = ahead.leftover(batches, Batches.take)
    assert (third.name, third.is_cuda) == ("c", False)


def test_on_a_cpu_batches_come_as_they_would_have(train):
    run = train(
        {"device-prefetch": {}, "pinned-memory": {}},
        """
        warnings.simplefilter("ignore")  # there is nothing to pin for
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = TensorDataset(torch.arange(8.0).reshape(8, 1))
        loader = DataLoader(data, batch_size=2, num_workers=1, persistent_workers=True)
        epochs = []
        for epoch in range(3):
            epochs.append([])
            for (x,) in loader:
                model(x).sum().backward()
                epochs[-1] += x.flatten().tolist()
                if epoch == 1:
                    break
        told["epochs"] = epochs
        """,
    )
    whole = [float(number) for number in range(8)]
    assert run.told["epochs"] == [whole, whole[:2], whole]
    assert "device-prefetch" not in run.done
