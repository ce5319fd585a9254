"""memory-budget: compiled code keeps less, learns the same, and says where there is none."""

import textwrap
from pathlib import Path

import msgspec
import pytest
from splitting import COMPILED as BEGINNING

from hotlap import records
from hotlap.optimizations import named
from hotlap.recipes import Recipe
from hotlap.rules.verdict import judge
from hotlap.search.planning import Choice, plan

RECORD = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
COMPILED = f"""{BEGINNING}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x)).sin()
        return x

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


NO_OWN_SAY = """
own = Net()
with torch._functorch.config.patch(activation_memory_budget=0.3):
    train(torch.compile(own))
"""


def test_a_budget_around_the_calls_is_the_scripts_own_too(train):
    done = train(recipe(50), COMPILED + "import torch._functorch.config\n" + NO_OWN_SAY).done
    assert done["memory-budget"]["status"] == "refused"
    assert done["memory-budget"]["detail"] == "the script has a budget of its own: 30 %"


WAYS = {
    "weights that are updated by hand": """
        model = torch.compile(Net())
        for _ in range(3):
            model(torch.randn(256, 16)).square().mean().backward()
            with torch.no_grad():
                for one in model.parameters():
                    one -= 0.1 * one.grad
                    one.grad = None
    """,
    "an optimizer that is compiled as well": """
        model = torch.compile(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        update = torch.compile(optimizer.step)
        for _ in range(3):
            model(torch.randn(256, 16)).square().mean().backward()
            update()
            optimizer.zero_grad()
    """,
    "counters that are cleared": """
        model = torch.compile(Net())
        for _ in range(3):
            train(model, steps=1)
            torch._dynamo.utils.counters.clear()
    """,
    "a thread": """
        trained = threading.Thread(target=train, args=(torch.compile(Net()),))
        trained.start()
        trained.join()
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_seen_to_be_kept_with(train, way):
    run = train(recipe(1), COMPILED + textwrap.dedent(WAYS[way]))
    assert run.done["memory-budget"] == {"status": "applied", "detail": "1 %"}
    given = 4 * (16 * 16 + 16) * 4 + 256 * 16 * 4  # weights and biases, and the input
    assert run.told.get("kept", given) <= given


NOT_KEPT = {
    "evaluation alone": """
        model = Net()
        evaluated = torch.compile(model)
        with torch.no_grad():
            evaluated(torch.randn(256, 16))
        train(model)
    """,
    "a backend that splits another way": """
        from functorch.compile import default_partition, make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
        import torch._functorch.partitioners
        backend = aot_autograd(
            fw_compiler=lambda graph, _: make_boxed_func(graph.forward),
            partition_fn=default_partition,
        )
        train(plain(Net(), backend=backend))
    """,
}


@pytest.mark.parametrize("way", NOT_KEPT)
def test_it_is_told_that_it_is_not_kept_by(train, way):
    done = train(recipe(50), COMPILED + textwrap.dedent(NOT_KEPT[way])).done
    assert done["memory-budget"]["status"] == "refused"
    assert "no backward pass, or one that its backend" in done["memory-budget"]["detail"]


def test_a_graph_that_torch_keeps_no_budget_for_gets_what_it_wants(train):
    script = """
    import torch._functorch.partitioners as partitioners
    whole = partitioners.choose_saved_values_set

    def choose(graph, nodes, memory_budget=1.0):
        assert memory_budget == 1.0, "of another color\\nand more"
        return whole(graph, nodes, memory_budget=memory_budget)

    partitioners.choose_saved_values_set = choose
    training = install(torch, Path("trial"), {"recipe": {"memory-budget": {"percent": 20}}})
    train(torch.compile(Net()))
    """
    usual = train({}, WITH_ITS_OWN)
    run = train({}, COMPILED + textwrap.dedent(script))
    failed = "torch keeps no such budget for one of its graphs: AssertionError: of another color"
    assert run.done["memory-budget"] == {"status": "refused", "detail": failed}
    assert run.told == usual.told


def test_the_last_of_two_recipes_in_one_process_counts(train):
    script = """
    import hotlap
    sizes = []
    for percent in (50, 1):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = torch.compile(Net())
        hotlap.Recipe({"memory-budget": {"percent": percent}}).apply(model)
        train(model)
        sizes.append(told["kept"])
    told["sizes"] = sizes
    """
    half, little = train({}, COMPILED + textwrap.dedent(script)).told["sizes"]
    assert little < half


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
