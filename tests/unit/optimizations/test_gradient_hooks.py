"""Scripts that see or change gradients within the backward pass are left with true ones."""

import pytest

FP16 = {"precision-fp16": {}}
PARTS = {"gradient-accumulation": {"parts": 2}}
SCRIPT = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
BEFORE
for epoch in range(4):
    for number, (x, y) in enumerate(loader):
        EACH
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
"""
CLAMP = "[p.register_hook(lambda g: g.clamp(-0.05, 0.05)) for p in model.parameters()]"
CLAMP_MODULE = (
    "model[2].register_full_backward_hook(lambda _, i, o: tuple(g.clamp(-0.05, 0.05) for g in i))"
)
STEP_WITHIN = """
inner = {p: torch.optim.SGD([p], lr=0.05) for p in model.parameters()}

def step(p):
    inner[p].step()
    inner[p].zero_grad()

for p in model.parameters():
    p.register_post_accumulate_grad_hook(step)
"""
CLAMP_ALL = (
    "warnings.simplefilter('ignore'); nn.modules.module.register_module_full_backward_pre_hook("
    "lambda _, o: tuple(g.clamp(-0.05, 0.05) for g in o))"
)


@pytest.mark.parametrize("recipe", [FP16, PARTS])
@pytest.mark.parametrize("hooks", [CLAMP, CLAMP_MODULE, CLAMP_ALL, STEP_WITHIN])
def test_hooks_see_the_gradients_that_they_would_see(train, recipe, hooks):
    script = SCRIPT.replace("BEFORE", hooks).replace("EACH", "pass")
    plain, run = train({}, script), train(recipe, script)
    assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-6)
    (said,) = run.done.values()
    assert said["status"] == "refused"
    assert said["detail"].startswith(("hooks on gradients would see", "several optimizers"))


@pytest.mark.parametrize("recipe", [FP16, PARTS])
def test_a_hook_that_comes_while_it_trains_ends_it(train, recipe):
    late = f"if (epoch, number) == (2, 0): {CLAMP}"
    run = train(recipe, SCRIPT.replace("BEFORE", "").replace("EACH", late))
    (said,) = run.done.values()
    assert said["status"] == "refused"
    assert all(weight == weight for weight in run.told["weights"])


def test_a_gradient_kept_within_the_model_is_true(train):
    script = """
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            middle = model[0](torch.ones(2, 4))
            middle.retain_grad()
            model[1](middle).mean().backward()
        told["gradient"] = middle.grad.flatten().tolist()
        """
    plain, run = train({}, script), train(FP16, script)
    assert run.told["gradient"] == pytest.approx(plain.told["gradient"], rel=1e-2)


def test_hooks_of_a_model_at_hand_are_seen(train):
    run = train(
        {},
        """
        from hotlap.optimizations import gradient_hooks

        def model(): return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))

        none, tensor, module, after = (model() for _ in range(4))
        tensor[0].weight.register_hook(lambda gradient: None)
        module[1].register_full_backward_pre_hook(lambda *_: None)
        after[1].bias.register_post_accumulate_grad_hook(lambda *_: None)
        told["there"] = [gradient_hooks.there(one) for one in (none, tensor, module, after)]
        """,
    )
    assert run.told["there"] == [False, True, True, True]
