"""gradient-accumulation: gradients that are no part of a round."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_gradient_accumulation import DATA, PARTS, both

SAM = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.05})
        self.base = torch.optim.SGD(self.param_groups, lr=0.05)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        for p in self.param_groups[0]["params"]:
            self.state[p]["old"] = p.clone()
            p.add_(0.05 * p.grad.sign())
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.copy_(self.state[p]["old"])
        self.base.step()
        self.zero_grad()

optimizer = SAM(model.parameters())
for epoch in range(2):
    for x, y in loader:
        sizes.append(len(x))
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.climb()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    told["last"] = len(x)
"""


@pytest.mark.parametrize("groups", ["self.param_groups", "list(model.parameters())"])
def test_an_optimizer_within_another_ends_it(train, groups):
    script = DATA + SAM.replace("self.param_groups, lr", groups + ", lr") + "finish()\n"
    script = script.replace("optimizer = SAM", "del optimizer\noptimizer = SAM")
    plain, run = train({}, script), train(PARTS, script)
    if groups == "self.param_groups":  # seen when it is made
        assert run.told == plain.told
    assert run.told["last"] == 16
    said = run.done["gradient-accumulation"]
    assert said == {"status": "refused", "detail": "several optimizers step in turns"}


@pytest.mark.parametrize(
    "clears",
    ["optimizer.zero_grad()", "model.zero_grad()", "for p in model.parameters(): p.grad = None"],
)
def test_gradients_cleared_before_the_step_end_it(train, clears):
    """A second look at the same batch: the gradients of the first one are not to be kept."""
    run = train(
        PARTS,
        DATA
        + f"""
for epoch in range(2):
    for x, y in loader:
        sizes.append(len(x))
        model(x).sum().backward()
        {clears}
        nn.functional.mse_loss(model(x), y).backward()
        if len(sizes) > 1:
            whole = (2 * (model(x) - y)).mean()
            told.setdefault("gradient", [model[2].bias.grad.item(), whole.item()])
        optimizer.step()
        {clears}
    told["last"] = len(x)
""",
    )
    assert run.told["last"] == 16
    assert run.told["gradient"][0] == pytest.approx(run.told["gradient"][1], rel=1e-4)
    assert "between a backward pass and its step" in run.done["gradient-accumulation"]["detail"]


@pytest.mark.parametrize("frozen", [True, False])
def test_gradients_of_an_input_are_not_divided(train, frozen):
    script = f"""
for x, y in loader:
    sizes.append(len(x))
    model.requires_grad_(not {frozen})
    noise = torch.ones(2, 4, requires_grad=True)
    model(noise).sum().backward()
    model.requires_grad_(True)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    if len(sizes) == 1:
        told["noise"] = noise.grad.flatten().tolist()
    optimizer.step()
finish()
"""
    plain, run = train({}, DATA + script), train(PARTS, DATA + script)
    assert run.told["noise"] == pytest.approx(plain.told["noise"], rel=1e-5)
    said = run.done["gradient-accumulation"]
    assert said["status"] == ("applied" if frozen else "refused")
    if frozen:
        assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-5)


def test_a_backward_pass_within_another_is_weighed_once(train):
    both(
        train,
        """
from torch.utils.checkpoint import checkpoint

for x, y in loader:
    sizes.append(len(x))
    optimizer.zero_grad()
    result = checkpoint(model[2], model[1](model[0](x)), use_reentrant=True)
    nn.functional.mse_loss(result, y).backward()
    optimizer.step()
""",
        updates=4,
    )


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("workers", [0, 2])
def test_parts_of_an_uneven_batch_weigh_by_their_samples(train, ahead, workers):
    """Also where a script asks for batches ahead, as trainers of libraries do."""
    script = f"""
from collections import deque

def read_ahead(batches):
    held = deque()
    for batch in batches:
        held.append(batch)
        if len(held) > {ahead}:
            yield held.popleft()
    yield from held

data = TensorDataset(*data[:22])
loader = DataLoader(data, batch_size=16, num_workers={workers})
for epoch in range(3):
    for x, y in read_ahead(loader):
        sizes.append(len(x))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
finish()
"""
    plain, run = train({}, DATA + script), train(PARTS, DATA + script)
    assert run.told["sizes"] == [1, 2, 4]
    assert run.told["updates"] == plain.told["updates"] == 6
    assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-5)
