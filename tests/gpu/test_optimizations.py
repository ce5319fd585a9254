"""Optimizations at work on a device: each is applied, and the same is learned with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

TRAINING = """
warnings.simplefilter("default")  # torch warns of itself when it imports its compiler
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
        )

    def forward(self, x):
        return self.body(x)

labels = torch.arange(208) % 10
images = torch.randn(208, 3, 16, 16) + labels.view(-1, 1, 1, 1) / 5
order = torch.randperm(208, generator=torch.Generator().manual_seed(1)).tolist()
model = nn.DataParallel(Net().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(images, labels), batch_size=16, sampler=order)
losses, kept, dtypes = [], [], set()
for epoch in range(3):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        kept.append((out.detach(), out.detach().float().sum().item()))
        dtypes.add(str(out.dtype))
model.eval()
with torch.no_grad():
    told["evaluated"] = [model(images[:50].cuda()).float().abs().mean().item()]
told["losses"] = losses
told["kept"] = all(abs(out.float().sum().item() - total) < 1e-3 * (1 + abs(total))
                   for out, total in kept)
told["dtypes"] = sorted(dtypes)
told["grads"] = sorted({str(p.grad.dtype) for p in model.parameters()})
told["names"] = list(model.state_dict())[:2]
"""

ONE_BY_ONE: dict[str, dict[str, dict[str, Any]]] = {
    "tf32": {"tf32": {}},
    "precision-bf16": {"precision-bf16": {}},
    "precision-fp16": {"precision-fp16": {}},
    "channels-last": {"channels-last": {}},
    "compile": {"compile": {"mode": "default"}},
    "graphs": {"compile": {"mode": "reduce-overhead"}},
    "memory-budget": {"compile": {}, "memory-budget": {"percent": 10}},
    "fused-optimizer": {"fused-optimizer": {}},
    "copies": {"pinned-memory": {}, "non-blocking-copy": {}},
    "prefetch": {"loader-workers": {"workers": 2}, "pinned-memory": {}, "device-prefetch": {}},
}
EVERYTHING: dict[str, dict[str, Any]] = {
    "tf32": {},
    "cudnn-benchmark": {},
    "precision-bf16": {},
    "channels-last": {},
    "compile": {"mode": "reduce-overhead"},
    "fused-optimizer": {},
    "loader-workers": {"workers": 2},
    "persistent-workers": {},
    "pinned-memory": {},
    "non-blocking-copy": {},
}


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return {}


def learn(train: Callable[..., Any], plain: dict[str, Any], recipe: dict[str, Any]) -> Any:
    if not plain:
        plain.update(train({}, TRAINING).told)
    return train(recipe, TRAINING)


@pytest.mark.parametrize("recipe", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_it_is_applied_and_learns_the_same(
    recipe: dict[str, Any], train: Callable[..., Any], plain: dict[str, Any]
) -> None:
    check(learn(train, plain, recipe), plain, recipe)


def test_all_of_them_together_learn_the_same(
    train: Callable[..., Any], plain: dict[str, Any]
) -> None:
    check(learn(train, plain, EVERYTHING), plain, EVERYTHING)


def check(run: Any, plain: dict[str, Any], recipe: dict[str, Any]) -> None:
    assert {name: run.done[name]["status"] for name in recipe} == dict.fromkeys(recipe, "applied")
    assert run.told["kept"]  # what the script holds is not overwritten by later steps
    assert run.told["names"] == plain["names"]
    assert run.told["grads"] == plain["grads"]
    assert len(run.told["losses"]) == len(plain["losses"]) == 39
    precise = not {"precision-bf16", "precision-fp16", "tf32"} & set(recipe)
    for found, expected in zip(run.told["losses"], plain["losses"], strict=True):
        assert found == pytest.approx(expected, abs=0.02 if precise else 0.15)
    assert run.told["losses"][-1] < 0.8 * run.told["losses"][0]
    assert run.told["evaluated"] == pytest.approx(plain["evaluated"], rel=0.2)


UNIT = """
class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.Dropout(0.1),
        )

    def forward(self, x):
        return x + self.body(x)

torch.manual_seed(0)
"""
BLOCKS = f"""{UNIT}
warnings.simplefilter("default")  # torch warns of itself when it imports its compiler
torch.backends.cudnn.deterministic = True
model = nn.Sequential(nn.Conv2d(3, 32, 1), *[Unit() for _ in range(16)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for step in range(6):
    torch.cuda.reset_peak_memory_stats()
    loss = model(torch.randn(32, 3, 32, 32, device="cuda")).square().mean()
    told["kept"] = torch.cuda.memory_allocated()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
told["losses"] = losses
told["peak"] = torch.cuda.max_memory_allocated()
told["counted"] = int(model[1].body[1].num_batches_tracked)
"""


def test_blocks_that_are_computed_again_learn_the_same_in_less_memory(train: Callable) -> None:
    plain = train({}, BLOCKS).told
    run = train({"activation-checkpointing": {"every": 1}}, BLOCKS)
    assert run.done["activation-checkpointing"]["detail"] == "16 Unit"
    assert run.told["losses"] == pytest.approx(plain["losses"], rel=1e-5)
    assert run.told["counted"] == 6
    assert run.told["peak"] < 0.5 * plain["peak"]


def test_a_compiler_with_a_budget_keeps_less_and_drops_the_same(train: Callable) -> None:
    plain = train({"compile": {}}, BLOCKS).told
    run = train({"compile": {}, "memory-budget": {"percent": 50}}, BLOCKS)
    assert run.done["memory-budget"] == {"status": "applied", "detail": "50 %"}
    assert run.told["losses"] == pytest.approx(plain["losses"], rel=1e-3)
    assert run.told["kept"] < 0.7 * plain["kept"]
    assert run.told["peak"] < plain["peak"]


CENTRED = """
warnings.simplefilter("default")  # torch warns of itself when it imports its compiler
torch.manual_seed(0)

class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.register_buffer("mean", torch.linspace(0.5, 1.5, 64))

    def forward(self, x):
        h = (self.layer(x) - self.mean).sin().square()
        with torch.no_grad():
            self.mean.mul_(-1.5)
        return h

model = nn.Sequential(Centred(), Centred(), Centred()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
losses = []
for step in range(6):
    loss = model(torch.randn(256, 64, device="cuda")).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
told["losses"] = losses
told["graphs"] = torch._dynamo.utils.counters["aot_autograd"]["ok"]
"""


@pytest.mark.parametrize("more", [{}, {"memory-budget": {"percent": 10}}])
def test_a_buffer_that_is_read_and_overwritten_is_learned_with(
    train: Callable, more: dict[str, Any]
) -> None:
    plain = train({}, CENTRED).told
    run = train({"compile": {}, **more}, CENTRED).told
    assert run["losses"] == pytest.approx(plain["losses"], rel=1e-3)
    assert (plain["graphs"], run["graphs"]) == (0, 1)


@pytest.mark.parametrize("more", [("precision-bf16", "channels-last"), ("precision-fp16",)])
def test_they_do_so_beside_other_optimizations(train: Callable, more: tuple[str, ...]) -> None:
    others: dict[str, Any] = {name: {} for name in more}
    plain = train(others, BLOCKS).told
    run = train({"activation-checkpointing": {"every": 2}, **others}, BLOCKS)
    assert {one["status"] for one in run.done.values()} == {"applied"}
    assert run.done["activation-checkpointing"]["detail"] == "8 Unit"
    assert "until" not in run.done["activation-checkpointing"]
    assert run.told["losses"] == pytest.approx(plain["losses"], rel=1e-3)
    assert run.told["counted"] == 6
    assert run.told["peak"] < plain["peak"]


CAPTURED = f"""{UNIT}
model = nn.Sequential(nn.Conv2d(3, 32, 1), *[Unit() for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 3, 16, 16, device="cuda")

def step():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(5):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
losses = []
for _ in range(30):
    graph.replay()
    losses.append(loss.item())
told["losses"] = losses
"""


def test_a_step_that_is_captured_by_hand_keeps_its_activations(train: Callable) -> None:
    run = train({"activation-checkpointing": {}}, CAPTURED)
    assert run.done["activation-checkpointing"]["detail"] == "4 Unit"
    assert "CUDA graph" in run.done["activation-checkpointing"]["until"]
    assert run.told["losses"][-1] < run.told["losses"][0]
