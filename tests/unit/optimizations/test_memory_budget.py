"""memory-budget: compiled code keeps less, learns the same, and says where there is none."""

import textwrap
from pathlib import Path

import msgspec
import pytest

from hotlap import records
from hotlap.optimizations import named
from hotlap.recipes import Recipe
from hotlap.rules.verdict import judge
from hotlap.search.planning import Choice, plan

RECORD = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
COMPILED = """
warnings.simplefilter("default")  # torch's compiler warns of what it does itself
BACKEND = "aot_eager_decomp_partition"  # splits as the usual one does, and builds nothing
plain = torch.compile
torch.compile = lambda call, **kwargs: plain(call, backend=BACKEND)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x)).sin()
        return x

def nodes(node, seen):
    if node is not None and node not in seen:
        seen.add(node)
        yield node
        for before, _ in node.next_functions:
            yield from nodes(before, seen)

def kept(made):  # bytes that compiled code has for its backward pass, its weights among them
    compiled = (one for one in nodes(made.grad_fn, set()) if "Compiled" in one.name())
    tensors = [one for node in compiled for one in node.saved_tensors if one is not None]
    return sum({one.untyped_storage().data_ptr(): one.nbytes for one in tensors}.values())

def train(model, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    told["losses"] = []
    for _ in range(steps):
        made = model(torch.randn(256, 16))
        loss = made.square().mean()
        told["kept"] = kept(made)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        told["losses"].append(loss.item())
"""
WITH_HOTLAPS = COMPILED + "train(Net())"
WITH_ITS_OWN = COMPILED + "train(torch.compile(Net()))"


def recipe(percent, **others):
    return {"memory-budget": {"percent": percent}, **others}


@pytest.mark.parametrize("script", [WITH_HOTLAPS, WITH_ITS_OWN])
def test_less_is_kept_and_the_losses_are_the_same(train, script):
    compiled = {"compile": {}} if script is WITH_HOTLAPS else {}
    usual = train(compiled, script)
    half, little = (train(recipe(percent, **compiled), script) for percent in (50, 1))
    given = 4 * (16 * 16 + 16) * 4 + 256 * 16 * 4  # weights and biases, and the input
    assert usual.told["kept"] > 256 * 16 * 4 * 4  # an activation of each layer
    assert little.told["kept"] < half.told["kept"] < usual.told["kept"]
    assert little.told["kept"] <= given
    for run in (half, little):
        assert run.told["losses"] == pytest.approx(usual.told["losses"], rel=1e-5)
    assert half.done["memory-budget"] == {"status": "applied", "detail": "50 %"}


def test_where_nothing_is_compiled_it_is_refused(train):
    done = train(recipe(50), COMPILED + "train(Net())").done
    assert done["memory-budget"] == {"status": "refused", "detail": "nothing is compiled"}


def test_what_is_compiled_after_the_first_steps_counts(train):
    script = """
    model = Net()
    train(model, steps=2)
    early = training.done["memory-budget"]["status"]
    model.compile()
    train(model, steps=2)
    told["early"] = early
    """
    run = train(recipe(50), COMPILED + textwrap.dedent(script))
    assert run.told["early"] == "refused"
    assert run.done["memory-budget"] == {"status": "applied", "detail": "50 %"}


def test_a_budget_of_the_scripts_own_is_left_to_it(train):
    script = """
    import torch._functorch.config
    torch._functorch.config.activation_memory_budget = 0.3
    train(torch.compile(Net()))
    """
    done = train(recipe(50), COMPILED + textwrap.dedent(script)).done
    assert done["memory-budget"]["status"] == "refused"
    assert done["memory-budget"]["detail"] == "the script has a budget of its own: 30 %"


def test_a_budget_that_was_there_before_is_the_scripts_own_too(train):
    script = """
    model = torch.compile(Net())
    train(model, steps=1)
    torch._functorch.config.activation_memory_budget = 0.3
    torch._dynamo.utils.counters.clear()
    training = install(torch, Path("trial"), {"recipe": {"memory-budget": {"percent": 20}}})
    train(model, steps=1)
    """
    done = train({}, COMPILED + textwrap.dedent(script)).done
    assert done["memory-budget"]["detail"] == "the script has a budget of its own: 30 %"


@pytest.mark.parametrize("missing", ["config", "choose_saved_values_set"])
def test_a_torch_without_budgets_is_told_and_left_as_it_is(train, missing):
    script = """
    import types
    from hotlap.optimizations import memory_budget
    config = types.SimpleNamespace(activation_memory_budget=1.0)
    there = types.SimpleNamespace(config=config, choose_saved_values_set=print)
    delattr(there, MISSING)
    memory_budget._Budget(training, 50).arrived(there)
    told["left"] = config.activation_memory_budget
    """
    run = train({}, textwrap.dedent(script).replace("MISSING", repr(missing)))
    assert run.done["memory-budget"]["status"] == "refused"
    assert "has no such budget" in run.done["memory-budget"]["detail"]
    assert run.told["left"] == 1.0


def test_torchs_compiler_is_not_imported_before_the_script_needs_it(train):
    script = """
    import sys
    told["before"] = "torch._functorch.partitioners" in sys.modules
    train(torch.compile(Net()))
    told["after"] = "torch._functorch.partitioners" in sys.modules
    """
    told = train(recipe(50), COMPILED + textwrap.dedent(script)).told
    assert (told["before"], told["after"]) == (False, True)


# What is tried ---------------------------------------------------------------------------------


def record(*, compiles):
    seconds = 4.0 if compiles else None
    startup = msgspec.structs.replace(RECORD.startup, compile_seconds=seconds)
    return msgspec.structs.replace(RECORD, startup=startup)


def offered(found, **choice):
    made = plan(found, judge(found), Choice(**choice))
    tried = [one for one in made.candidates if one.name == "memory-budget"]
    refused = [one.reason for one in made.refused if one.name == "memory-budget"]
    return tried, refused


def test_it_comes_with_compile_where_the_script_compiles_nothing():
    tried, _ = offered(record(compiles=False), goal="memory")
    checkpointed = Recipe({"activation-checkpointing": {}, "precision-bf16": {}})
    assert [one.settings["percent"] for one in tried] == [50, 25, 10]
    assert list(tried[0].on(checkpointed).changes) == ["memory-budget", "compile", "precision-bf16"]
    graphs = Recipe({"compile": {"mode": "reduce-overhead"}})
    assert tried[0].on(graphs).changes["compile"] == {"mode": "reduce-overhead"}
    (theirs, *_), _ = offered(record(compiles=True), goal="memory")
    assert list(theirs.on(Recipe()).changes) == ["memory-budget"]


def test_it_is_for_memory_or_for_those_who_name_it():
    assert offered(record(compiles=False)) == ([], ["could save nothing, by the diagnosis"])
    assert offered(record(compiles=False), only=("memory-budget",))[0]


def test_without_what_it_needs_it_is_left_out():
    _, (why,) = offered(record(compiles=False), goal="memory", skip=("compile",))
    assert why == "needs compile, which is left out with --skip"
    tried, _ = offered(record(compiles=True), goal="memory", skip=("compile",))
    assert tried
    assert named("memory-budget").refusal(record(compiles=True)) is None
