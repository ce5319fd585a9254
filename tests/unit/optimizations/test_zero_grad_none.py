"""zero-grad-none: gradients go instead of becoming zeros, and nobody can tell."""

import pytest

NONE = {"zero-grad-none": {}}
GONE = """
kept = torch.Tensor.grad  # torch's own way to a gradient

def gone(parameter):
    return kept.__get__(parameter) is None
"""


def test_gradients_go_whatever_the_script_asks_for(train):
    run = train(
        NONE,
        GONE
        + """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
clearing = {
    "optimizer": lambda: optimizer.zero_grad(set_to_none=False),
    "by place": lambda: optimizer.zero_grad(False),
    "default": lambda: optimizer.zero_grad(),
    "model": lambda: model.zero_grad(set_to_none=False),
}
for name, clear in clearing.items():
    model(torch.ones(2, 4)).sum().backward()
    clear()
    told[name] = gone(model.weight)
""",
    )
    assert run.told == dict.fromkeys(("optimizer", "by place", "default", "model"), True)
    assert run.done["zero-grad-none"]["status"] == "applied"


def test_a_script_that_lets_them_go_by_itself_is_told_so(train):
    run = train(
        NONE,
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
        """,
    )
    why = "gradients are dropped between steps already (torch's default)"
    assert run.done["zero-grad-none"] == {"status": "refused", "detail": why}


HEADS = """
trunk = nn.Linear(4, 8)
heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))
model = nn.ModuleList([trunk, *heads])

def weights():
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()

def loss(number):
    return heads[number // 2 % 3](trunk(torch.randn(16, 4)).tanh()).square().mean()

class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        if closure is not None:
            with torch.enable_grad():
                closure()
        for p in self.param_groups[0]["params"]:
            p.mul_(0.9 if p.grad is not None else 0.5)

optimizer = MADE

def closure():
    optimizer.zero_grad(set_to_none=False)
    result = loss(number)
    result.backward()
    return result

for number in range(12):
    STEP
told["weights"] = weights()
told["none"] = [p.grad is None for p in model.parameters()]
"""
PLAIN_STEP = "closure(); optimizer.step()"


@pytest.mark.parametrize(
    ("made", "step"),
    [
        ("torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=0.1)", PLAIN_STEP),
        ("torch.optim.SGD(model.parameters(), 0.1, 0.9)", "optimizer.step(closure)"),
        ("torch.optim.AdamW(model.parameters(), 0.01)", PLAIN_STEP),
        ("Own(model.parameters())", PLAIN_STEP),
        ("Own(model.parameters())", "optimizer.step(closure)"),
        (  # a step without a backward pass: momentum goes on
            "torch.optim.SGD(model.parameters(), 0.1, 0.9)",
            PLAIN_STEP + "; optimizer.zero_grad(False); optimizer.step()",
        ),
    ],
)
def test_parameters_not_used_in_every_step_are_trained_as_before(train, made, step):
    script = HEADS.replace("MADE", made).replace("STEP", step)
    plain, ours = train({}, script), train(NONE, script)
    assert ours.told == plain.told
    assert ours.done["zero-grad-none"]["status"] == "applied"


GRADIENTS = """
model = nn.Linear(4, 1)
never = nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *never.parameters()], lr=0.1)
x = torch.ones(2, 4)
model(x).sum().backward()
"""


@pytest.mark.parametrize(
    "goes_on",
    [
        "model.weight.grad = torch.ones(1, 4); model(x).sum().backward(); optimizer.step()",
        "optimizer.zero_grad(); optimizer.step()",
        "optimizer.step()",
        "model = torch.compile(model, backend='eager'); model(x).sum().backward()",
    ],
)
def test_after_a_backward_pass_or_a_step_everything_is_as_it_would_have_been(train, goes_on):
    script = f"""
optimizer.zero_grad(set_to_none=False)
{goes_on}
told["weight"] = model.weight.tolist()
told["none"] = [p.grad is None for p in (*model.parameters(), *never.parameters())]
"""
    plain, ours = train({}, GRADIENTS + script), train(NONE, GRADIENTS + script)
    assert ours.told == plain.told
    assert ours.done["zero-grad-none"]["status"] == "applied"


@pytest.mark.parametrize(
    "held",
    [
        "held = [p.grad for p in model.parameters()]",
        "held = [p.grad.view(-1) for p in model.parameters()]",
        "held = [p.grad.detach() for p in model.parameters()]",
        "held = [p.grad.data for p in model.parameters()]",
        "held = [p.grad.numpy() for p in model.parameters()]",
        "held = [torch.from_dlpack(p.grad) for p in model.parameters()]",
        """
held = torch.ones(5)
model.weight.grad, model.bias.grad = held[:4].view(1, 4), held[4:]
""",
    ],
)
def test_gradients_that_the_script_holds_are_overwritten_as_it_asks(train, held):
    script = f"""
{held}
optimizer.zero_grad(set_to_none=False)
told["held"] = [one.sum().item() for one in held]
(3 * model(x)).sum().backward()
told["again"] = [one.sum().item() for one in held]
"""
    plain, ours = train({}, GRADIENTS + script), train(NONE, GRADIENTS + script)
    assert ours.told == plain.told
    assert ours.done["zero-grad-none"]["detail"] == "the script holds on to its gradients"


def test_gradients_of_all_sorts_of_layers_are_known_to_be_held_by_nobody(train):
    run = train(
        NONE,
        GONE
        + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.memory, self.words = nn.GRU(8, 8, batch_first=True), nn.Embedding(4, 8)
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        x = self.norm(self.conv(x)).flatten(2).transpose(1, 2) + self.words.weight[0]
        return self.attention(self.memory(x)[0]).mean() + self.words(torch.tensor([1])).mean()

model = Model()
model(torch.randn(2, 3, 6, 6)).backward()
model.zero_grad(set_to_none=False)
told["left"] = [name for name, p in model.named_parameters() if not gone(p)]
""",
    )
    assert run.told["left"] == []


def test_where_torch_does_not_tell_who_holds_them_gradients_stay(train):
    run = train(
        {},
        """
import types
from hotlap.optimizations import zero_grad_none
from hotlap.optimizations.training import Training

without = types.SimpleNamespace(_C=None, Tensor=torch.Tensor, nn=nn, zeros=torch.zeros)
training = Training(without, None)
before = torch.nn.Module.zero_grad
zero_grad_none.install(training, {})
told["same"] = torch.nn.Module.zero_grad is before
told["done"] = training.done
""",
    )
    why = "this torch does not tell who else holds a gradient's memory"
    assert run.told["same"]
    assert run.told["done"]["zero-grad-none"] == {"status": "refused", "detail": why}


READ = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=0.1)
x = torch.randn(16, 4)
for number in range(9):
    optimizer.zero_grad(set_to_none=False)
    WITHIN
    model(x).square().mean().backward()
    if number % 3 == 0:
        model[0].requires_grad_(number % 2 == 0)
    optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
"""


@pytest.mark.parametrize(
    "within",
    [
        "for p in model.parameters(): p.grad is not None and p.grad.add_(0.01 * p.data)",
        "told[str(number)] = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()",
        "told[str(number)] = [p.grad is None for p in model.parameters()]",
        "model.zero_grad(set_to_none=False); told[str(number)] = [None is model[0].weight.grad]",
        "model[0].weight.grad = None",
        "del model[0].weight.grad",
        "number % 2 and setattr(model[0].weight, 'grad', torch.ones(8, 4))",
    ],
)
def test_gradients_read_or_written_before_the_backward_pass_are_as_before(train, within):
    script = READ.replace("WITHIN", within)
    plain, ours = train({}, script), train(NONE, script)
    assert ours.told == plain.told
    assert ours.done["zero-grad-none"]["status"] == "applied"


def test_gradients_are_read_in_torchs_own_way_after_the_backward_pass(train):
    run = train(
        NONE,
        GRADIENTS
        + """
optimizer.zero_grad(set_to_none=False)
told["before"] = "grad" in vars(nn.Parameter)
model(x).sum().backward()
told["after"] = "grad" in vars(nn.Parameter)
""",
    )
    assert run.told == {"before": True, "after": False}


def test_no_parameter_is_kept_alive_by_it(train):
    run = train(
        NONE,
        """
        import gc, weakref

        model = nn.Linear(4, 1)
        model(torch.ones(2, 4)).sum().backward()
        model.zero_grad(set_to_none=False)
        reference = weakref.ref(model.weight)
        del model
        gc.collect()
        told["gone"] = reference() is None
        nn.Linear(4, 1)(torch.ones(2, 4)).sum().backward()
        """,
    )
    assert run.told == {"gone": True}
