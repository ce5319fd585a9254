"""fused-optimizer: the flag, and that everything around it works as before."""

import numpy as np
import older
import pytest

FUSED = {"fused-optimizer": {}}
MODEL = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

def steps(optimizer, number=5):
    generator = torch.Generator().manual_seed(1)
    for _ in range(number):
        optimizer.zero_grad()
        model(torch.randn(16, 4, generator=generator)).square().mean().backward()
        optimizer.step()

def weights():
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
"""


@pytest.mark.parametrize(
    "made",
    [
        "torch.optim.SGD(model.parameters(), 0.1, 0.9)",
        "torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9, foreach=True)",
        "torch.optim.Adam(params=model.parameters(), lr=0.01, amsgrad=True)",
        "torch.optim.AdamW(iter(model.parameters()), 0.01)",
        pytest.param(
            "torch.optim.AdamW(model.named_parameters(), 0.01)", marks=older.named_parameters
        ),
        "torch.optim.Adagrad((p for p in model.parameters()), lr=0.01)",
    ],
)
def test_a_fused_optimizer_comes_to_the_plain_ones_weights(train, made):
    script = MODEL + f"optimizer = {made}\nsteps(optimizer)\ntold['weights'] = weights()\n"
    plain = train({}, script + "told['fused'] = optimizer.param_groups[0]['fused']\n")
    fused = train(FUSED, script + "told['fused'] = optimizer.param_groups[0]['fused']\n")
    assert (plain.told["fused"], fused.told["fused"]) == (None, True)
    assert fused.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-6)
    assert fused.done["fused-optimizer"]["status"] == "applied"


def test_groups_keep_the_settings_they_were_given(train):
    run = train(
        FUSED,
        MODEL
        + """
groups = [
    {"params": model[0].parameters(), "lr": 0.5},
    {"params": model[2].parameters(), "weight_decay": 0.1},
]
optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9)
steps(optimizer)
told["groups"] = [
    [group["lr"], group["weight_decay"], len(group["params"]), group["fused"]]
    for group in optimizer.param_groups
]
told["same"] = all(a is b for a, b in zip(groups, optimizer.param_groups))
""",
    )
    assert run.told == {"groups": [[0.5, 0, 2, True], [0.01, 0.1, 2, True]], "same": True}


def test_a_class_of_the_scripts_own_is_fused_where_its_step_is_torchs(train):
    run = train(
        FUSED,
        MODEL
        + """
class Mine(torch.optim.SGD):
    def __init__(self, params, rate):
        super().__init__(params, lr=rate, momentum=0.9)

class Counts(Mine):
    steps = 0

    def step(self, closure=None):
        self.steps += 1
        return super().step(closure)

class Theirs(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.grad

optimizer = Mine(model.parameters(), 0.1)
steps(optimizer)
told["mine"] = optimizer.param_groups[0]["fused"]
optimizer = Counts(model.parameters(), 0.1)
steps(optimizer)
told["counts"] = [optimizer.param_groups[0]["fused"], optimizer.steps]
optimizer = Theirs(model.parameters())
steps(optimizer)
told["theirs"] = "fused" in optimizer.param_groups[0]
""",
    )
    assert run.told == {"mine": True, "counts": [None, 5], "theirs": False}
    assert run.done["fused-optimizer"]["detail"] == "SGD"
    assert run.done["fused-optimizer"]["except"] == "Counts has a step of its own"


def test_an_optimizer_that_cannot_be_fused_is_made_plainly_and_noted(train):
    run = train(
        FUSED,
        MODEL
        + """
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
steps(optimizer)
told["fused"] = "fused" in optimizer.param_groups[0]
""",
    )
    assert run.told["fused"] is False
    assert run.done["fused-optimizer"]["status"] == "refused"
    assert "RMSprop" in run.done["fused-optimizer"]["detail"]


@pytest.mark.parametrize(
    ("flag", "why"), [("fused", "already is fused"), ("differentiable", "through the update")]
)
def test_what_the_script_chose_itself_stands_and_is_told(train, flag, why):
    made = f"optimizer = torch.optim.Adam(model.parameters(), {flag}=True)"
    run = train(FUSED, MODEL + made)
    assert why in run.done["fused-optimizer"]["detail"]
    assert run.done["fused-optimizer"]["status"] == "refused"


def test_one_that_is_made_as_another_is_fused_once(train):
    run = train(FUSED, MODEL + "torch.optim.AdamW(model.parameters())\n" * 2)
    assert run.done["fused-optimizer"] == {"status": "applied", "detail": "AdamW"}


@older.named_parameters
def test_what_torch_refuses_leaves_no_trace_in_the_scripts_groups(train):
    run = train(
        {},
        MODEL
        + """
def refused(kind, arguments):  # torch says so only after it has filled in the groups
    arguments.update(fused=True, foreach=True)

training.change_optimizers("odd", refused)
groups = [{"params": model.named_parameters(), "lr": 0.5}]
optimizer = torch.optim.SGD(groups, lr=0.1)
steps(optimizer)
group = optimizer.param_groups[0]
told = {key: group[key] for key in ("lr", "fused", "foreach", "momentum")}
told["parameters"] = [len(group["params"]), len(group["param_names"])]
""",
    )
    flags = {"fused": None, "foreach": None}
    assert run.told == {"lr": 0.5, "momentum": 0, "parameters": [4, 4], **flags}
    assert run.done["odd"]["status"] == "refused"
    assert "SGD does not take it" in run.done["odd"]["detail"]


def test_a_mistake_in_the_script_is_torchs_to_report(train):
    run = train(
        FUSED,
        MODEL
        + """
for given in ({"lr": -1.0}, {"rate": 1.0}):
    try:
        torch.optim.SGD(model.parameters(), **given)
    except (TypeError, ValueError) as problem:
        told[type(problem).__name__] = str(problem)
""",
    )
    assert "Invalid learning rate: -1.0" in run.told["ValueError"]
    assert "unexpected keyword argument 'rate'" in run.told["TypeError"]


def test_schedules_and_checkpoints_work_with_it(train):
    run = train(
        FUSED,
        MODEL
        + """
optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
for _ in range(3):
    steps(optimizer, 1)
    schedule.step()
told["rate"] = optimizer.param_groups[0]["lr"]
again = torch.optim.AdamW(model.parameters(), lr=1.0)
again.load_state_dict(optimizer.state_dict())
steps(again, 1)
told["counted"] = int(next(iter(again.state.values()))["step"])
""",
    )
    assert run.told == {"rate": 0.125, "counted": 4}


def test_a_checkpoint_of_the_plain_optimizer_does_not_undo_it(train):
    script = (
        MODEL
        + """
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
state = optimizer.state_dict()
state["state"] = {
    index: {
        "step": torch.tensor(3.0),
        "exp_avg": torch.zeros(p.shape),
        "exp_avg_sq": torch.ones(p.shape),
    }
    for index, p in enumerate(model.parameters())
}
for group in state["param_groups"]:
    group.update(fused=None, foreach=None, lr=0.5)
optimizer.load_state_dict(state)
steps(optimizer, 2)
told["group"] = [optimizer.param_groups[0][name] for name in ("fused", "lr")]
told["saved"] = state["param_groups"][0]["fused"]
told["weights"] = weights()
"""
    )
    plain, fused = train({}, script), train(FUSED, script)
    assert fused.told["group"] == [True, 0.5]
    assert fused.told["saved"] is None  # the script's own dict
    assert fused.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-5)


HEADS = """
trunk = nn.Linear(4, 8)
heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))
model = nn.ModuleList([trunk, *heads])

def weights():
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()

def loss(number):
    return heads[number // 2 % 3](trunk(torch.randn(16, 4)).tanh()).square().mean()

def train(optimizer):
    for number in range(12):
        optimizer.zero_grad()
        loss(number).backward()
        optimizer.step()
    told["weights"] = weights()
    told["flags"] = [optimizer.param_groups[0].get(name) for name in ("fused", "foreach")]
    told["momentum"] = [
        state["momentum_buffer"].tolist()
        for state in optimizer.state.values() if "momentum_buffer" in state
    ]
"""


@pytest.mark.parametrize(
    "made",
    [
        "torch.optim.SGD(model.parameters(), 0.1, 0.9, nesterov=True, weight_decay=0.1)",
        "torch.optim.Adam(model.parameters(), 0.01)",
        "torch.optim.AdamW(model.parameters(), 0.01, amsgrad=True)",
        "torch.optim.Adagrad(model.parameters(), 0.1)",
    ],
)
def test_parameters_that_get_gradients_later_than_others_stay_fused(train, made):
    script = HEADS + f"train({made})\n"
    plain, fused = train({}, script), train(FUSED, script)
    assert fused.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-6)
    assert len(fused.told["momentum"]) == len(plain.told["momentum"])
    for ours, theirs in zip(fused.told["momentum"], plain.told["momentum"], strict=True):
        assert np.allclose(ours, theirs, atol=1e-6)
    assert fused.told["flags"] == [True, None]
    assert fused.done["fused-optimizer"]["status"] == "applied"


def test_with_dampening_a_late_gradient_makes_the_optimizer_plain_again(train):
    script = HEADS + "train(torch.optim.SGD(model.parameters(), 0.1, 0.9, dampening=0.5))\n"
    plain, fused = train({}, script), train(FUSED, script)
    assert fused.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-6)
    assert fused.told["flags"] == plain.told["flags"] == [None, None]
    assert fused.done["fused-optimizer"]["status"] == "refused"
    assert "begin later" in fused.done["fused-optimizer"]["detail"]


SPARSE = """
warnings.simplefilter("ignore")  # torch warns of its own sparse tensors
words, head = nn.Embedding(20, 4, sparse=True), nn.Linear(4, 1)
groups = [{"params": head.parameters()}, {"params": words.parameters(), "lr": 0.2}]
optimizer = torch.optim.KIND(groups, lr=0.1)
other = nn.Linear(4, 1)
BESIDE

def loss():
    optimizer.zero_grad()
    loss = head(words(torch.randint(0, 20, (8, 3))).mean(1)).square().mean()
    loss.backward()
    return loss

for number in range(4):
    STEP
told["weights"] = [p.flatten().tolist() for p in (words.weight, head.weight, head.bias)]
told["flags"] = [group["fused"] for group in optimizer.param_groups]
told["scales"] = getattr(optimizer, "_step_supports_amp_scaling", False)
"""


@pytest.mark.parametrize("kind", ["SGD", "Adagrad"])
@pytest.mark.parametrize("step", ["loss(); optimizer.step()", "optimizer.step(loss)"])
def test_sparse_gradients_make_the_optimizer_plain_again(train, kind, step):
    script = SPARSE.replace("KIND", kind).replace("STEP", step).replace("BESIDE", "")
    plain, fused = train({}, script), train(FUSED, script)
    for ours, theirs in zip(fused.told["weights"], plain.told["weights"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
    assert (fused.told["flags"], fused.told["scales"]) == ([None, None], False)
    why = f"{kind}: it has sparse gradients, which the fused update does not take"
    assert fused.done["fused-optimizer"] == {"status": "refused", "detail": why}


def test_another_optimizer_stays_fused_beside_one_with_sparse_gradients(train):
    beside = "kept = torch.optim.Adam(other.parameters())"
    script = SPARSE.replace("KIND", "SGD").replace("STEP", "optimizer.step(loss)")
    run = train(FUSED, script.replace("BESIDE", beside))
    assert run.done["fused-optimizer"]["status"] == "applied"
    assert "sparse gradients" in run.done["fused-optimizer"]["except"]


def test_complex_parameters_are_updated_by_the_plain_optimizer(train):
    script = """
turns = nn.Parameter(torch.ones(3, dtype=torch.complex64))
optimizer = torch.optim.SGD([turns], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    (turns * (1 + 2j)).abs().square().sum().backward()
    optimizer.step()
told["weights"] = torch.view_as_real(turns).flatten().tolist()
"""
    plain, fused = train({}, script), train(FUSED, script)
    assert fused.told == plain.told
    why = fused.done["fused-optimizer"]["detail"]
    assert "complex" in why or "floating point" in why  # torch 2.4 refuses by itself


def test_adagrad_with_a_scaler_leaves_unscaling_to_it(train):
    script = """
model = nn.Linear(4, 1)
BEFORE
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
AFTER
told["scales"] = getattr(optimizer, "_step_supports_amp_scaling", False)
"""
    scaler = "scaler = torch.amp.GradScaler('cpu')"
    for before, after in ((scaler, ""), ("", scaler)):
        run = train(FUSED, script.replace("BEFORE", before).replace("AFTER", after))
        assert run.told["scales"] is False


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_sgd_on_half_precision_parameters_of_a_cpu_is_the_plain_one(train, kind):
    script = f"""
torch.manual_seed(0)
model = nn.Linear(64, 4).to(torch.{kind})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 64, dtype=torch.{kind})).float().square().mean().backward()
    optimizer.step()
told["weights"] = model.weight.flatten().tolist()
"""
    plain, fused = train({}, script), train(FUSED, script)
    assert fused.told == plain.told
    why = "SGD: torch's fused update of half-precision parameters is wrong on a CPU"
    assert fused.done["fused-optimizer"] == {"status": "refused", "detail": why}


@pytest.mark.parametrize("made", ["SGD([weight], 0.1, 0.9)", "Adagrad([weight], 0.1)"])
def test_momentum_of_another_type_than_its_parameter_makes_the_optimizer_plain_again(train, made):
    script = f"""
weight = nn.Parameter(torch.ones(40))
optimizer = torch.optim.{made}
for number in range(4):
    if number == 2:
        weight.data = weight.data.double()
    weight.grad = weight.detach().clone()
    optimizer.step()
told["weights"] = weight.tolist()
"""
    plain, fused = train({}, script), train(FUSED, script)
    assert fused.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-6)
    assert "of another type" in fused.done["fused-optimizer"]["detail"]


@pytest.mark.parametrize(("others", "status"), [("", "refused"), ("SGD(P, 0.1)", "applied")])
def test_an_optimizer_of_another_library_is_named(train, others, status):
    run = train(
        FUSED,
        MODEL
        + """
class Lion(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

P = list(model.parameters())
OTHERS
Lion(P)
""".replace("OTHERS", others and f"torch.optim.{others}"),
    )
    said = run.done["fused-optimizer"]
    assert said["status"] == status
    assert "Lion is none of torch's optimizers" in (said["detail"], said.get("except"))
