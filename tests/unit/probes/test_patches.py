from types import SimpleNamespace

import pytest
import torch

from hotlap.probes.accelerators import Accelerator
from hotlap.probes.ledger import Ledger
from hotlap.probes.patches import Doors, _names_device

CUDA = torch.device("cuda:0")
DTYPE = type("dtype", (), {})()


class Tensor:
    """Enough of a tensor that lives on a device or not."""

    is_cuda = False

    def __init__(self, is_cuda=False, pinned=False):
        self.is_cuda, self.pinned = is_cuda, pinned

    def to(self, *args, **kwargs):
        named = str(args[0] if args else kwargs.get("device"))
        return Tensor(is_cuda=named.startswith("cuda"))

    def cuda(self):
        return Tensor(is_cuda=True)

    def item(self):
        return 1.0

    def is_pinned(self):
        return self.pinned

    nbytes = 40

    tolist = cpu = numpy = item

    def __bool__(self):
        return True

    def __float__(self):
        return 1.0

    __int__ = __index__ = lambda self: 1


class Events:
    """Training takes place on stream 0."""

    current = 0

    def is_elsewhere(self):
        return self.current != 0

    def trains_on(self, stream):
        return (self.current if stream is None else stream) == 0


class Event:
    def wait(self, stream=None):
        return "waits"


class Recorder:
    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.ledger = Ledger()
        self.phases = []
        self.training = True
        self.passes = SimpleNamespace(timeline=SimpleNamespace(watching=True), events=Events())

    def mine(self):
        return self.training

    def enter(self, phase):
        self.phases.append(phase)

    def leave(self, phase):
        self.phases.append("/" + phase)


def make(device=CUDA):
    class Optimizer:
        def zero_grad(self):
            return "zeroed"

    class GradScaler:
        def step(self, optimizer):
            raise ValueError("the user's own")

        def unscale_(self, optimizer):
            return "unscaled"

        def update(self):
            return "updated"

    stub = SimpleNamespace(
        Tensor=type("Watched", (Tensor,), {}),
        cuda=SimpleNamespace(synchronize=lambda: None, Event=type("OfCuda", (Event,), {})),
        optim=SimpleNamespace(Optimizer=Optimizer),
        amp=SimpleNamespace(GradScaler=GradScaler),
        compiler=SimpleNamespace(is_compiling=lambda: False),
    )
    recorder = Recorder(Accelerator(stub, device) if device is not None else None)
    return stub, recorder, Doors(stub, recorder)


def snapshot(torch):
    owners = (torch.Tensor, torch.optim.Optimizer, torch.amp.GradScaler, torch.cuda)
    owners += (torch.cuda.Event,)
    return [dict(vars(owner)) for owner in owners]


def test_closing_puts_everything_back_exactly_as_it_was():
    torch, recorder, doors = make()
    before = snapshot(torch)
    doors.open(recorder.ledger)
    assert snapshot(torch) != before
    doors.close()
    assert snapshot(torch) == before
    doors.close()
    assert snapshot(torch) == before


def test_an_event_that_is_torchs_own_type_is_left_as_it_is():
    stub, recorder, doors = make()
    stub.cuda.Event = torch.Event  # as torch.mtia has it
    before = snapshot(stub)
    doors.open(recorder.ledger)
    assert stub.Tensor.to is not before[0].get("to")  # all else is watched
    doors.close()
    assert snapshot(stub) == before


def test_on_a_cpu_tensors_are_left_alone():
    torch, recorder, doors = make(device=None)
    before = snapshot(torch)
    doors.open(recorder.ledger)
    after = snapshot(torch)
    assert (after[0], after[3]) == (before[0], before[3])
    assert after[1] != before[1]
    doors.close()
    assert snapshot(torch) == before


def test_care_for_gradients_is_part_of_the_optimizer():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    assert torch.optim.Optimizer().zero_grad() == "zeroed"
    assert recorder.phases == ["optimizer", "/optimizer"]


def test_a_phase_is_left_even_when_the_users_code_raises():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    with pytest.raises(ValueError, match="the user's own"):
        torch.amp.GradScaler().step(None)
    assert recorder.phases == ["optimizer", "/optimizer"]


def test_a_copy_to_the_device_is_transfer_and_booked_on_its_line():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    recorder.ledger.steps = 1
    assert torch.Tensor(pinned=True).to("cuda").is_cuda
    assert recorder.phases == ["transfer", "/transfer"]
    (copy,) = recorder.ledger.copies()
    assert copy["file"] == __file__
    assert (copy["bytes_per_step"], copy["pinned"]) == (40, True)


def test_waiting_for_what_was_copied_ahead_is_transfer():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    assert torch.cuda.Event().wait() == "waits"  # for something else
    assert recorder.phases == []
    recorder.passes.events.current = 7
    torch.Tensor(pinned=True).to("cuda")
    assert torch.cuda.Event().wait() == "waits"  # before the copy, for the training
    recorder.passes.events.current = 0
    assert recorder.phases == ["transfer", "/transfer"]
    assert torch.cuda.Event().wait(7) == torch.cuda.Event().wait(stream=7) == "waits"
    assert recorder.phases == ["transfer", "/transfer"]
    assert torch.cuda.Event().wait(0) == "waits"
    assert recorder.phases == ["transfer", "/transfer"] * 2
    recorder.training = False
    assert torch.cuda.Event().wait() == "waits"
    assert recorder.phases == ["transfer", "/transfer"] * 2


def test_a_change_of_type_on_the_cpu_is_no_transfer():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    torch.Tensor().to(DTYPE)
    assert recorder.phases == []
    assert recorder.ledger.copies() == []


def test_reading_from_the_device_is_a_wait_and_reading_on_the_cpu_is_none():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    on_device = torch.Tensor(is_cuda=True)
    on_device.item()
    float(on_device)
    on_device.to("cpu")
    torch.Tensor().item()
    torch.cuda.synchronize()
    assert sorted(wait["what"] for wait in recorder.ledger.waits()) == [
        ".item()",
        ".to()",
        "float()",
        "torch.cuda.synchronize()",
    ]
    assert {wait["file"] for wait in recorder.ledger.waits()} == {__file__}


def test_waiting_for_whatever_device_there_is_is_a_wait_too():
    torch, recorder, doors = make()
    torch.accelerator = SimpleNamespace(synchronize=lambda: "done")
    doors.open(recorder.ledger)
    assert torch.accelerator.synchronize() == "done"
    assert [wait["what"] for wait in recorder.ledger.waits()] == ["torch.accelerator.synchronize()"]
    doors.close()
    assert list(vars(torch.accelerator)) == ["synchronize"]
    assert not hasattr(torch.accelerator.synchronize, "__wrapped__")


def test_code_that_is_being_compiled_sees_the_plain_functions():
    torch, recorder, doors = make()
    torch.compiler.is_compiling = lambda: True
    doors.open(recorder.ledger)
    assert torch.Tensor().to("cuda").is_cuda
    assert torch.Tensor(is_cuda=True).item() == 1.0
    assert torch.optim.Optimizer().zero_grad() == "zeroed"
    assert recorder.phases == []
    assert recorder.ledger.waits() == recorder.ledger.copies() == []


def test_a_pass_whose_times_are_not_to_be_trusted_books_nowhere():
    torch, recorder, doors = make()
    doors.open(recorder.ledger.nowhere)
    torch.Tensor().to("cuda")
    torch.Tensor(is_cuda=True).item()
    assert recorder.phases == ["transfer", "/transfer"]
    assert recorder.ledger.waits() == recorder.ledger.copies() == []


def test_other_threads_pass_unseen():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    recorder.training = False
    torch.Tensor().to("cuda")
    torch.Tensor(is_cuda=True).item()
    assert recorder.ledger.waits() == recorder.ledger.copies() == []


def test_in_a_step_nobody_looks_into_nothing_is_booked():
    torch, recorder, doors = make()
    doors.open(recorder.ledger)
    recorder.passes.timeline.watching = False
    torch.Tensor().to("cuda")
    torch.Tensor(is_cuda=True).item()
    torch.cuda.synchronize()
    assert recorder.ledger.waits() == recorder.ledger.copies() == []
    assert recorder.phases == []


@pytest.mark.parametrize(
    ("args", "kwargs", "names"),
    [
        (("cuda",), {}, True),
        (("cuda:1",), {}, True),
        (("cpu",), {}, False),
        ((DTYPE,), {}, False),
        ((), {"dtype": DTYPE}, False),
        ((), {"device": "cuda"}, True),
        ((object(),), {}, True),
        ((), {}, False),
    ],
)
def test_only_a_device_or_a_tensor_may_take_a_tensor_off_the_cpu(args, kwargs, names):
    assert _names_device(args, kwargs) is names
