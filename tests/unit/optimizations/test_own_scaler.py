"""A script that scales its loss by itself: what would scale or step otherwise leaves it alone."""

import pytest

SCRIPT = """
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
MAKE
generator = torch.Generator().manual_seed(1)
losses = []
for _ in range(30):
    x = torch.randn(16, 4, generator=generator)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
told["losses"] = losses
"""
SCALER = "scaler = torch.amp.GradScaler('cpu')\n"
OWN = """
class Own(torch.optim.Adam):
    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p -= 0.05 * p.grad
optimizer = Own(model.parameters(), lr=0.05)
"""


def both(train, recipe, made):
    script = SCRIPT.replace("MAKE", made)
    plain, run = train({}, script), train(recipe, script)
    assert run.told["losses"] == pytest.approx(plain.told["losses"], rel=1e-4)
    (said,) = run.done.values()
    return said


@pytest.mark.parametrize("first", [True, False])
def test_a_loss_is_not_scaled_twice(train, first):
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
    made = SCALER + optimizer if first else optimizer + SCALER
    said = both(train, {"precision-fp16": {}}, made)
    assert said == {"status": "refused", "detail": "the script scales its loss by itself"}


def test_a_scaler_made_after_the_first_step_ends_the_scaling(train):
    """The model has been called before, so its call has been changed already."""
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
    said = both(train, {"precision-fp16": {}}, optimizer + "model(torch.ones(2, 4))\n" + SCALER)
    assert said["status"] == "refused"


@pytest.mark.parametrize("name", ["fused-optimizer", "foreach-optimizer"])
def test_a_step_of_ones_own_gets_gradients_that_are_unscaled(train, name):
    said = both(train, {name: {}}, OWN + SCALER)
    assert said == {"status": "refused", "detail": "Own has a step of its own"}


def test_fused_sgd_leaves_unscaling_and_skipping_to_the_scaler(train):
    """Its own way of skipping leaves momentum uninitialised when the first step overflows."""
    script = """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
        before = model.weight.tolist()
        scaler.scale(model(torch.full((2, 4), 9.0)).sum()).backward()
        scaler.step(optimizer)
        told["state"] = len(optimizer.state)
        told["same"] = model.weight.tolist() == before
        """
    assert train({"fused-optimizer": {}}, script).told == {"state": 0, "same": True}


def test_fused_sgd_is_refused_after_a_scaler(train):
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)\n"
    said = both(train, {"fused-optimizer": {}}, SCALER + optimizer)
    assert said["status"] == "refused"


def test_a_scaler_that_is_off_changes_nothing(train):
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
    off = "scaler = torch.amp.GradScaler('cpu', enabled=False)\n"
    run = train({"precision-fp16": {}}, SCRIPT.replace("MAKE", optimizer + off))
    assert run.done["precision-fp16"]["status"] == "applied"
