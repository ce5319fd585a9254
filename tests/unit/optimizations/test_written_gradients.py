"""Gradients that a script writes to: in its source, and while it trains."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_gradient_accumulation import DATA, PARTS

from hotlap.optimizations import written_gradients


@pytest.mark.parametrize(
    "line",
    [
        "p.grad.mul_(0.5)",
        "p.grad.data.clamp_(-1, 1)",
        "p.grad.data.view(-1)[0] = 0",
        "p.grad += noise",
        "p.grad.data /= world",
        "p.grad = p.grad * 0.5",
        "g = p.grad.data\ng.clamp_(-1, 1)",
    ],
)
def test_writing_is_found_in_the_source(tmp_path, line):
    path = tmp_path / "train.py"
    path.write_text("loss.backward()\n" + line)
    assert written_gradients._line(str(path)) == 1 + len(line.splitlines())


@pytest.mark.parametrize(
    "line",
    [
        "p.grad = None",
        "norm = p.grad.data.norm(2)",
        "p.grad.detach_()",
        "p.add_(p.grad, alpha=-0.1)",
        "total += p.grad.norm().item() ** 2",
        "norms[name] = p.grad.norm()",
    ],
)
def test_reading_and_clearing_are_not_writing(tmp_path, line):
    path = tmp_path / "train.py"
    path.write_text(line)
    assert written_gradients._line(str(path)) is None


CHANGES = [
    "p.grad.mul_(0.5)",
    "p.grad.data.mul_(0.5)",
    "p.grad = p.grad * 0.5",
    "p.grad.mul_(0.5); nn.utils.clip_grad_norm_([p], 1e9)",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("closure", [True, False])
def test_gradients_changed_before_the_step_end_accumulation_without_an_update(
    train, change, closure
):
    """Each later step is what it is without: half of the gradient of what the loader hands out."""
    step = "optimizer.step(lambda: back(x, y))" if closure else "back(x, y); optimizer.step()"
    run = train(
        PARTS,
        DATA
        + f"""
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def back(x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    for p in model.parameters():
        {change}
    return loss

steps = []
for x, y in loader:
    sizes.append(len(x))
    whole = (2 * (model(x) - y)).mean().item()
    before = model[2].bias.item()
    {step}
    steps.append([before - model[2].bias.item(), 0.05 * whole])
told["steps"] = steps
finish()
""",
    )
    (first, _), *later = run.told["steps"]
    assert first == 0
    for moved, wanted in later:
        assert moved == pytest.approx(wanted, abs=1e-6)
    assert run.told["sizes"] == [4, 16]
    assert "between a backward pass and its step" in run.done["gradient-accumulation"]["detail"]
