"""channels-last: where weights and images lie in memory, and that nothing else is changed."""

import pytest

LAST = {"channels-last": {}}
MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 2)
        self.layouts = []

    def forward(self, images):
        self.layouts.append(images.is_contiguous(memory_format=torch.channels_last))
        return self.head(self.conv(images).mean((2, 3)))

def is_last(tensor):
    return tensor.is_contiguous(memory_format=torch.channels_last)

def steps(model, optimizer, number=3):
    generator = torch.Generator().manual_seed(1)
    for _ in range(number):
        optimizer.zero_grad()
        model(torch.randn(4, 3, 8, 8, generator=generator)).square().mean().backward()
        optimizer.step()

def weights(model):
    return torch.cat([p.detach().contiguous().flatten() for p in model.parameters()]).tolist()
"""


def test_weights_images_and_momentum_are_laid_out_alike(train):
    script = (
        MODEL
        + """
model = Model()
before = [id(p) for p in model.parameters()]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
steps(model, optimizer)
told["same parameters"] = before == [id(p) for p in model.parameters()]
told["images"] = model.layouts
told["laid out"] = [
    is_last(model.conv.weight),
    is_last(optimizer.state[model.conv.weight]["momentum_buffer"]),
    is_last(model.conv.weight.grad),
]
told["weights"] = weights(model)
"""
    )
    plain, run = train({}, script), train(LAST, script)
    assert run.told["same parameters"]
    assert run.told["images"] == [True] * 3
    assert run.told["laid out"] == [True] * 3
    assert plain.told["laid out"] == [False] * 3
    assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-5)
    assert run.done["channels-last"] == {"status": "applied", "detail": "Model"}


def test_images_by_name_are_converted_and_other_arguments_are_not(train):
    run = train(
        LAST,
        MODEL
        + """
class Two(Model):
    def forward(self, *, images, scale, noise=None):
        self.noise = noise
        return super().forward(images) * scale

model = Two()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
noise = torch.ones(4, 2)
model(images=torch.ones(4, 3, 8, 8), scale=2.0, noise=noise)
told["images"] = model.layouts
told["same"] = model.noise is noise
""",
    )
    assert run.told == {"images": [True], "same": True}


def test_a_dry_run_of_lazy_modules_is_left_alone(train):
    run = train(
        LAST,
        """
        model = nn.Sequential(nn.LazyConv2d(8, 3), nn.Flatten(), nn.LazyLinear(2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        layouts = []
        for _ in range(2):
            model(torch.ones(2, 3, 6, 6)).sum().backward()
            layouts.append(model[0].weight.is_contiguous(memory_format=torch.channels_last))
        optimizer.step()
        told["layouts"] = layouts
        """,
    )
    assert run.told["layouts"] == [False, True]


def test_a_model_that_evaluates_first_is_converted_when_it_trains(train):
    run = train(
        LAST,
        MODEL
        + """
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.eval()
model(torch.ones(1, 3, 8, 8))
told["evaluated"] = is_last(model.conv.weight)
model.train()
model(torch.ones(1, 3, 8, 8))
told["trained"] = is_last(model.conv.weight)
""",
    )
    assert run.told == {"evaluated": False, "trained": True}


@pytest.mark.parametrize("kind", ["SGD, momentum=0.9", "AdamW"])
def test_a_plain_checkpoint_goes_on_under_it_with_fused_updates(train, kind):
    """Momentum laid out otherwise than its weights would be read in the wrong order."""
    name, _, more = kind.partition(",")
    script = (
        MODEL
        + f"""
def optimizer_of(model, **flags):
    return torch.optim.{name}(model.parameters(), lr=0.05, {more.strip() and more + ","} **flags)
"""
        + """
model = Model()
optimizer = optimizer_of(model, fused=True)
state = optimizer.state_dict()
names = ("momentum_buffer", "exp_avg", "exp_avg_sq")
state["state"] = {
    index: {"step": torch.tensor(3.0), **{name: torch.rand(p.shape) for name in names}}
    for index, p in enumerate(model.parameters())
}
optimizer.load_state_dict(state)
steps(model, optimizer)
told["weights"] = weights(model)
"""
    )
    plain, run = train({}, script), train(LAST, script)
    assert run.done["channels-last"]["status"] == "applied"
    assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-5)


def test_a_model_without_2d_convolutions_is_left_alone(train):
    run = train(
        LAST,
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.head = nn.Conv1d(4, 4, 1), nn.Linear(4, 4)

            def forward(self, heads):
                self.layout = heads.is_contiguous()
                return self.head(heads)

        model = Attention()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 3, 4, 4))
        told["untouched"] = model.layout
        """,
    )
    assert run.told["untouched"]
    assert run.done["channels-last"]["status"] == "refused"


def test_lbfgs_trains_on_as_it_did(train):
    """It looks at all gradients as one vector, through a view."""
    script = (
        MODEL
        + """
model = Model()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
images = torch.randn(4, 3, 8, 8)

def closure():
    optimizer.zero_grad()
    loss = model(images).square().mean()
    loss.backward()
    return loss

for _ in range(2):
    optimizer.step(closure)
told["weights"] = weights(model)
"""
    )
    plain, run = train({}, script), train(LAST, script)
    assert run.told == plain.told
    assert run.done["channels-last"]["status"] == "refused"
    assert "LBFGS" in run.done["channels-last"]["detail"]


def test_torchs_own_flattening_and_pruning_work_on_converted_weights(train):
    script = (
        MODEL
        + """
from torch.nn.utils import parameters_to_vector, prune, vector_to_parameters

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
steps(model, optimizer)
vector = parameters_to_vector(model.parameters())
told["vector"] = vector.tolist()
gradients = torch.nn.utils.parameters_to_vector(p.grad for p in model.parameters())
told["gradients"] = gradients.tolist()
vector.square().sum().backward()  # as a penalty on all weights
other = copy.deepcopy(model)
prune.random_unstructured(other.conv, "weight", amount=0.25)
told["random"] = other.conv.weight_mask.sum().item()
prune.global_unstructured([(model.conv, "weight")], prune.L1Unstructured, amount=0.1)
prune.l1_unstructured(model.conv, "weight", amount=0.5)
told["pruned"] = model.conv.weight_mask.flatten().tolist()
steps(model, optimizer)
vector = parameters_to_vector(model.parameters())
vector_to_parameters(vector.detach() * 0.5, model.parameters())
steps(model, optimizer)
told["weights"] = weights(model)
"""
    )
    for recipe in (LAST, {**LAST, "fused-optimizer": {}}):
        plain, run = train({}, script), train(recipe, script)
        assert run.done["channels-last"]["status"] == "applied"
        assert run.told["pruned"] == plain.told["pruned"]
        assert run.told["random"] == plain.told["random"]
        for name in ("vector", "gradients", "weights"):
            assert run.told[name] == pytest.approx(plain.told[name], abs=1e-5)


@pytest.mark.parametrize(
    "held",
    [
        "held = [p.data for p in model.parameters()]",
        "held = list(model.state_dict().values())",
        """
flat = torch.cat([p.detach().flatten() for p in model.parameters()])
held = list(flat.split([p.numel() for p in model.parameters()]))
for p, one in zip(model.parameters(), held):
    p.data = one.view(p.shape)
""",
    ],
)
def test_weights_that_the_script_holds_by_views_stay_where_they_are(train, held):
    script = (
        MODEL
        + f"""
model = Model()
{held}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    steps(model, optimizer, 1)
    for one in held:
        one.clamp_(-0.05, 0.05)
told["weights"] = weights(model)
"""
    )
    plain, run = train({}, script), train(LAST, script)
    assert run.told == plain.told
    assert "holds weights by views" in run.done["channels-last"]["detail"]


def test_weights_that_processes_share_are_trained_where_all_see_them(train):
    script = (
        MODEL
        + """
import os

model = Model()
model.share_memory()
before = weights(model)
child = os.fork()
if not child:
    steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 3)
    os._exit(0)
os.waitpid(child, 0)
told["changed"] = [one != other for one, other in zip(before, weights(model))]
steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
"""
    )
    run = train(LAST, script)
    assert any(run.told["changed"])
    assert run.told == train({}, script).told
    assert "other processes share its weights" in run.done["channels-last"]["detail"]
