"""compile: a script that takes gradients of gradients trains on uncompiled."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_compile import COUNTED

FAILS_AT_THE_SECOND = """
def backend(graph, inputs, **kwargs):
    from torch._dynamo.backends.debugging import aot_eager
    compilations.append(1)
    return aot_eager(graph, inputs)
"""
PENALTY = """
torch.manual_seed(0)
D = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = sgd(D)
real = torch.randn(8, 4)
for _ in range(3):
    optimizer.zero_grad()
    (D(-real).mean() - D(real).mean()).backward()
    between = (0.5 * real).requires_grad_()
    (slope,) = torch.autograd.grad(D(between).sum(), between, create_graph=True)
    (slope.norm(2, 1) - 1).square().mean().backward()
    optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in D.parameters()]).tolist()
finish()
"""


def test_a_gradient_penalty_ends_it_and_training_goes_on(train):
    plain = train({}, COUNTED + PENALTY)
    run = train({}, COUNTED + FAILS_AT_THE_SECOND + "compiled()\n" + PENALTY)
    assert run.told["weights"] == pytest.approx(plain.told["weights"], rel=1e-5)
    assert run.told["compilations"] == 1  # for what came before the first penalty
    why = "the script takes gradients of gradients, which compiled models do not have"
    assert run.done["compile"] == {"status": "refused", "detail": why}


def test_inputs_that_take_gradients_are_compiled_for_once_no_penalty_has_come(train):
    """Adversarial examples: each step takes many such calls, and goes back once."""
    run = train(
        {},
        COUNTED
        + """
compiled()
model = nn.Linear(4, 1)
optimizer = sgd(model)
x = torch.ones(8, 4, requires_grad=True)
told["ran"] = [step(model, x) for _ in range(20)]
""",
    )
    assert run.told["ran"] == [False] * 16 + [True] * 4


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.autograd.grad(loss, x, create_graph=True)", True),
        ("loss.backward(create_graph=second_order)", True),
        ("torch.autograd.grad(loss, x, create_graph=False)", False),
        ("print('create_graph=True')  # create_graph=True", False),
    ],
)
def test_a_script_that_says_so_is_left_uncompiled(train, line, found):
    text = "def penalty(): " + line
    run = train(
        {},
        COUNTED
        + f"""
Path("penalties.py").write_text({text!r})
import sys
sys.path.insert(0, os.getcwd())
import penalties

compiled()
model = nn.Linear(4, 1)
optimizer = sgd(model)
told["ran"] = [step(model, torch.ones(8, 4)) for _ in range(2)]
""",
    )
    assert run.told["ran"] == [not found] * 2
    if found:
        assert "(penalties.py:1)" in run.done["compile"]["detail"]
        assert run.done["compile"]["status"] == "refused"
