"""precision-fp16: scaled inside of the backward pass, true outside of it."""

import pytest

FP16 = {"precision-fp16": {}}
MODEL = """
model = nn.Linear(4, 2)
with torch.no_grad():
    model.weight.fill_(0.5)
    model.bias.zero_()
x = torch.arange(8.0).reshape(2, 4) / 7

def gradients():
    return torch.cat([p.grad.flatten() for p in model.parameters()]).tolist()

def weights():
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
"""
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


def both(train, script):
    plain, run = train({}, script), train(FP16, script)
    assert run.done["precision-fp16"]["status"] == "applied"
    return plain, run


def test_gradients_are_true_outside_of_the_backward_pass(train):
    plain, run = both(
        train,
        MODEL
        + SGD
        + """
loss = model(x).square().mean() * 0.01
told["loss"] = loss.item()
loss.backward()
told["gradients"] = gradients()
told["norm"] = nn.utils.clip_grad_norm_(model.parameters(), 0.001).item()
told["clipped"] = gradients()
optimizer.step()
told["weights"] = weights()
""",
    )
    for name in ("loss", "gradients", "norm", "clipped", "weights"):
        assert run.told[name] == pytest.approx(plain.told[name], rel=1e-2), name
    assert run.told["loss"] != plain.told["loss"]  # it did compute in float16


def test_gradients_too_small_for_float16_survive(train):
    plain, run = both(
        train,
        MODEL
        + SGD
        + """
(model(x).square().mean() * 1e-8).backward()
told["gradients"] = gradients()
""",
    )
    assert max(map(abs, plain.told["gradients"])) < 6e-8  # the smallest number of float16
    assert run.told["gradients"] == pytest.approx(plain.told["gradients"], rel=1e-2)


def test_gradients_of_several_backward_passes_add_up(train):
    plain, run = both(
        train,
        MODEL
        + SGD
        + """
(model(x).sum() * 0.01).backward()
told["one"] = gradients()
(model(x).sum() * 0.02).backward()
told["two"] = gradients()
first, second = model(x).sum() * 0.01, model(x).square().sum() * 0.01
torch.autograd.backward([first, second], [torch.tensor(2.0), None])
told["four"] = gradients()
model(x).backward(torch.full((2, 2), 0.01))
told["five"] = gradients()
""",
    )
    for name in ("one", "two", "four", "five"):
        assert run.told[name] == pytest.approx(plain.told[name], rel=1e-2), name


def test_a_step_that_overflows_is_skipped_counted_and_halves_the_scale(train):
    run = train(
        FP16,
        MODEL
        + SGD
        + """
before = weights()
steps = []
for round in range(4):
    optimizer.zero_grad()
    (model(x).sum() * 2.0).backward()  # overflows down to a scale of 16384
    optimizer.step()
    steps.append(weights() != before)
told["stepped"] = steps
told["finite"] = bool(torch.isfinite(model.weight).all())
""",
    )
    assert run.told == {"stepped": [False, False, False, True], "finite": True}
    assert run.done["precision-fp16"]["skipped_steps"] == 3


def test_the_scale_grows_again_after_many_good_steps(train):
    run = train(
        FP16,
        MODEL
        + SGD
        + """
from hotlap.optimizations import precision_fp16

precision_fp16.GROWS_AFTER = 3
scaling = torch.optim.SGD.step._hotlap_guard
scales = []
for round in range(8):
    optimizer.zero_grad()
    (model(x).sum() * 1e-4).backward()
    scales.append(scaling.scale)
    optimizer.step()
told["scales"] = [scale / 65536 for scale in scales]
""",
    )
    assert run.told["scales"] == [1, 1, 1, 2, 2, 2, 4, 4]


def test_two_optimizers_after_one_backward_pass_both_skip(train):
    run = train(
        FP16,
        MODEL
        + """
first = torch.optim.SGD([model.weight], lr=0.1)
second = torch.optim.Adam([model.bias], lr=0.1)
before = weights()
(model(x).sum() * 4.0).backward()
first.step()
second.step()
told["same"] = weights() == before
""",
    )
    assert run.told == {"same": True}
    assert run.done["precision-fp16"]["skipped_steps"] == 1


def test_what_overflowed_for_one_model_does_not_skip_the_others_step(train):
    """A GAN: the discriminator's gradients are only cleared in its next turn."""
    run = train(
        FP16,
        """
        D, G, x = nn.Linear(2, 1), nn.Linear(2, 2), torch.ones(4, 2)
        d = torch.optim.SGD(D.parameters(), lr=0.1)
        g = torch.optim.SGD(G.parameters(), lr=0.1)
        before = G.weight.tolist(), D.weight.tolist()
        d.zero_grad()
        (D(x).sum() * 4.0).backward()
        d.step()
        told["discriminator stepped"] = D.weight.tolist() != before[1]
        g.zero_grad()
        (D(G(x)).sum() * 1e-3).backward()
        g.step()
        told["generator stepped"] = G.weight.tolist() != before[0]
        """,
    )
    assert run.told == {"discriminator stepped": False, "generator stepped": True}
    assert run.done["precision-fp16"]["skipped_steps"] == 1


def test_weights_that_no_optimizer_holds_have_true_gradients_too(train):
    """Clipping by the norm of the whole model, while only its head is optimized."""
    script = """
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
        for round in range(3):
            optimizer.zero_grad()
            (model(torch.ones(2, 4)).sum() * SCALE).backward()
            told[f"norm {round}"] = nn.utils.clip_grad_norm_(model.parameters(), 100.0).item()
            optimizer.step()
        """
    plain, run = both(train, script.replace("SCALE", "0.01"))
    assert run.told == pytest.approx(plain.told, rel=2e-2)
    overflowing = train(FP16, script.replace("SCALE", "8.0"))
    assert all(norm == norm for norm in overflowing.told.values())  # no NaN stays in them


def test_sparse_gradients_are_true_as_well(train):
    plain, run = both(
        train,
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.head = nn.Embedding(6, 4, sparse=True), nn.Linear(4, 1)

            def forward(self, index):
                return self.head(self.words(index))

        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):  # the second adds to the first
            (model(torch.tensor([1, 1, 3])).sum() * 0.01).backward()
        told["gradients"] = model.words.weight.grad.to_dense().flatten().tolist()
        """,
    )
    assert run.told["gradients"] == pytest.approx(plain.told["gradients"], rel=1e-2)


def test_a_backward_pass_that_fails_leaves_true_gradients_behind(train):
    plain, run = both(
        train,
        MODEL
        + SGD
        + """
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 0.01
    @staticmethod
    def backward(ctx, gradient): return gradient / (1 / 0)

(model(x).sum() * 0.01).backward()
try:
    Fails.apply(model(x).sum()).backward()
except ZeroDivisionError:
    told["gradients"] = gradients()
try:
    model(x).backward()
except RuntimeError as problem:
    told["problem"] = str(problem)
""",
    )
    assert run.told["gradients"] == pytest.approx(plain.told["gradients"], rel=1e-2)
    assert run.told["problem"] == plain.told["problem"]
    assert "only for scalar outputs" in run.told["problem"]


def test_overflow_in_a_closure_is_seen_before_the_update(train):
    """How Lightning steps every optimizer."""
    run = train(
        FP16,
        MODEL
        + SGD
        + """
calls = []

def closure():
    calls.append(1)
    optimizer.zero_grad()
    loss = model(x).sum() * 2.0  # overflows down to a scale of 16384
    loss.backward()
    return loss

before = weights()
losses = [optimizer.step(closure).item() for _ in range(5)]
told["called"] = len(calls)
told["losses"] = [loss == losses[0] for loss in losses]
told["finite"] = all(weight == weight and abs(weight) < 10 for weight in weights())
""",
    )
    assert run.told == {
        "called": 5,
        "losses": [True, True, True, True, False],  # three steps skipped, the fourth done
        "finite": True,
    }
    assert run.done["precision-fp16"]["skipped_steps"] == 3


def test_a_script_without_a_model_to_train_is_not_scaled(train):
    run = train(
        FP16,
        """
        weight = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        weight.sum().backward()
        told["gradient"] = weight.grad.tolist()
        optimizer.step()
        told["weight"] = weight.tolist()
        """,
    )
    assert run.told["gradient"] == [1.0, 1.0]
    assert run.told["weight"] == pytest.approx([0.9, 0.9])
    assert run.done == {}


def test_a_schedule_goes_on_over_skipped_steps(train):
    run = train(
        FP16,
        MODEL
        + SGD
        + """
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
(model(x).sum() * 4.0).backward()
optimizer.step()
schedule.step()  # torch would warn here had the optimizer not been asked to step
told["rate"] = optimizer.param_groups[0]["lr"]
""",
    )
    assert run.told["rate"] == 0.05


def test_lbfgs_trains_on_as_it_did(train):
    script = (
        MODEL
        + """
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)

def closure():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss

optimizer.step(closure)
told["weights"] = weights()
"""
    )
    plain, run = train({}, script), train(FP16, script)
    assert run.told == plain.told
    assert "LBFGS" in run.done["precision-fp16"]["detail"]
    assert run.done["precision-fp16"]["status"] == "refused"
