"""foreach-optimizer: the flag, for every optimizer of torch's own that knows it."""

import pytest

FOREACH = {"foreach-optimizer": {}}
SCRIPT = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = MADE
generator = torch.Generator().manual_seed(1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 4, generator=generator)).square().mean().backward()
    optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
told["flags"] = [optimizer.param_groups[0].get(name) for name in ("foreach", "fused")]
"""


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop", "NAdam", "Rprop"])
def test_lists_of_parameters_come_to_the_same_weights(train, name):
    script = SCRIPT.replace("MADE", f"torch.optim.{name}(model.parameters(), lr=0.01)")
    plain, foreach = train({}, script), train(FOREACH, script)
    assert foreach.told["flags"][0] is True
    assert not foreach.told["flags"][1]
    assert foreach.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-6)
    assert foreach.done["foreach-optimizer"] == {"status": "applied", "detail": name}


@pytest.mark.parametrize(
    ("made", "flags", "said"),
    [
        ("AdamW(model.parameters(), fused=True)", [None, True], "already works on lists"),
        ("SGD(model.parameters(), lr=0.01, foreach=True)", [True, None], "already works on lists"),
        ("SGD(model.parameters(), lr=0.01, differentiable=False)", [True, None], "SGD"),
    ],
)
def test_what_the_script_chose_itself_stands(train, made, flags, said):
    run = train(FOREACH, SCRIPT.replace("MADE", f"torch.optim.{made}"))
    assert run.told["flags"] == flags
    assert said in run.done["foreach-optimizer"]["detail"]


def test_an_optimizer_that_does_not_know_lists_is_made_plainly_and_noted(train):
    run = train(
        FOREACH,
        SCRIPT.replace("MADE", "torch.optim.LBFGS(model.parameters())").replace(
            "optimizer.step()", "optimizer.step(lambda: 0.0)"
        ),
    )
    assert run.told["flags"] == [None, None]
    assert run.done["foreach-optimizer"]["status"] == "refused"
    assert "LBFGS" in run.done["foreach-optimizer"]["detail"]


def test_a_rate_in_a_tensor_is_more_than_lists_can_take(train):
    """torch refuses it in the constructor, before anything is made."""
    made = "torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))"
    run = train(FOREACH, SCRIPT.replace("MADE", made))
    assert run.told["flags"] == [None, None]
    assert "Adam does not take it" in run.done["foreach-optimizer"]["detail"]
