"""compile: hooks of modules that come and go while the model trains."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_compile import COUNTED

TRAINED = (
    COUNTED
    + """
COMPILED
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = sgd(model)
x = torch.randn(8, 4)
ran, losses, handle = [], [], None
for number in range(9):
    if number == 3:
        handle = HOOK
    if number == 6:
        handle.remove()
    ran.append(step(model, x))
    losses.append(model(x).sum().item())
told["losses"], told["ran"] = losses, ran
finish()
"""
)


@pytest.mark.parametrize(
    "hook",
    [
        "model[0].register_forward_pre_hook(lambda _, given: (given[0] * 0.5,))",
        "model[1].register_forward_hook(lambda _, given, result: result * 0.5)",
        "model.register_forward_hook(lambda _, given, result: result * 0.5)",
        "model[2].register_full_backward_hook(lambda _, i, o: tuple(g * 9 for g in i))",
        "model[1].register_full_backward_pre_hook(lambda _, o: tuple(g * 9 for g in o))",
        "nn.modules.module.register_module_forward_hook("
        "lambda module, _, result: result * 0.5 if module is model[0] else None)",
    ],
)
def test_a_hook_counts_from_when_it_is_registered_until_it_is_removed(train, hook):
    script = TRAINED.replace("HOOK", hook)
    plain = train({}, script.replace("COMPILED", ""))
    run = train({}, script.replace("COMPILED", "compiled()"))
    assert run.told["losses"] == pytest.approx(plain.told["losses"], rel=1e-5)
    assert (run.told["ran"][:3], run.told["ran"][6:]) == ([True] * 3, [True] * 3)
    assert run.done["compile"] == {"status": "applied", "detail": "Sequential, default"}


def test_hooks_of_something_else_take_no_compilation(train):
    hook = "nn.Linear(2, 2).register_forward_hook(lambda *_: None)"
    run = train({}, TRAINED.replace("HOOK", hook).replace("COMPILED", "compiled()"))
    assert run.told["compilations"] == 1


def test_a_script_that_keeps_registering_hooks_trains_on_uncompiled(train):
    run = train(
        {},
        COUNTED
        + """
compiled()
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
optimizer = sgd(model)
ran, seen = [], []
for _ in range(8):
    with model[0].register_forward_hook(lambda _, given, result: seen.append(1)):
        ran.append(step(model, torch.ones(8, 4)))
told["ran"], told["seen"] = ran, len(seen)
finish()
""",
    )
    assert run.told["ran"] == [True] * 5 + [False] * 3
    assert run.told["seen"] == 8
    assert run.told["compilations"] == 5
    assert run.done["compile"]["until"] == "the script keeps registering hooks of its modules"


@pytest.mark.parametrize("hooks", [0, 1])
def test_looking_for_hooks_warns_the_script_of_nothing(train, hooks):
    """Newer torch calls the setting that is asked for deprecated."""
    run = train(
        {},
        f"""
        import torch._dynamo
        from hotlap.optimizations import module_hooks

        if {hooks}:
            nn.modules.module.register_module_forward_hook(lambda *_: None)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            module_hooks.unseen(torch)
        told["warned"] = [str(one.message) for one in warned]
        """,
    )
    assert run.told["warned"] == []


def test_looking_at_the_compiler_warns_of_nothing(train):
    """The script's user would see it, and a script that takes warnings for errors would end."""
    script = TRAINED.replace("HOOK", "nn.Linear(2, 2).register_forward_hook(lambda *_: None)")
    script = script.replace("COMPILED", "warnings.simplefilter('error', FutureWarning)\ncompiled()")
    assert train({}, script).done["compile"]["status"] == "applied"
