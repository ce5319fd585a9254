"""Models that are called inside of torch.func's transforms: the gradients of each sample."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_compile import COUNTED

EACH_SAMPLE = """
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 3, 8, 8)

def loss(params, image):
    return torch.func.functional_call(model, params, (image[None],)).square().mean()

for _ in range(2):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    params = {name: one.detach() for name, one in model.named_parameters()}
    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(params, x)
told["each"] = each["2.bias"].flatten().tolist()
"""


def test_the_gradients_of_each_sample_are_those_without_channels_last(train):
    plain, run = train({}, EACH_SAMPLE), train({"channels-last": {}}, EACH_SAMPLE)
    assert run.told["each"] == pytest.approx(plain.told["each"], rel=1e-4)
    assert run.done["channels-last"]["status"] == "applied"


def test_they_neither_run_compiled_nor_end_it(train):
    plain = train({}, EACH_SAMPLE)
    run = train({}, COUNTED + "compiled()\n" + EACH_SAMPLE + "finish()\n")
    assert run.told["each"] == pytest.approx(plain.told["each"], rel=1e-4)
    assert run.told["runs"] == 2
    assert run.done["compile"]["status"] == "applied"


@pytest.mark.parametrize("name", ["channels-last", "precision-bf16"])
def test_what_is_asked_in_every_forward_pass_leaves_a_compiled_one_whole(train, name):
    run = train(
        {name: {}},
        COUNTED
        + """
compiled()
model = nn.Conv2d(3, 4, 3)
optimizer = sgd(model)
told["ran"] = [step(model, torch.randn(4, 3, 8, 8)) for _ in range(2)]
finish()
""",
    )
    assert run.told == {"ran": [True, True], "compilations": 1, "runs": 2}
