"""compile: what runs compiled, and how often that takes a compilation."""

import json
import textwrap

import older
import pytest

COUNTED = """
from hotlap.optimizations import named

warnings.simplefilter("default")  # torch's compiler warns of what it does itself
warnings.filterwarnings("error", module="hotlap")  # but not of what is done here
compilations, runs = [], []

def backend(graph, inputs, **kwargs):  # counts, and runs the graph as it is
    compilations.append([list(one.shape) for one in inputs if isinstance(one, torch.Tensor)])

    def run(*args):
        runs.append(1)
        return graph.forward(*args)

    return run

plain_compile = torch.compile
torch.compile = lambda call, **kwargs: plain_compile(call, backend=backend, **kwargs)

def compiled(mode="default"):
    named("compile").install(training, {"mode": mode})

def sgd(*modules):
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.01)

def step(model, *args, **kwargs):
    before = len(runs)
    loss = model(*args, **kwargs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return len(runs) > before

def finish():
    told["compilations"], told["runs"] = len(compilations), len(runs)
"""


def test_a_compiled_script_trains_and_saves_as_before(in_python, forked, tmp_path):
    """With torch's own compiler, in a process that starts as a script does."""
    script = """
        import copy, io, json, os, pickle, sys, warnings
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath("compiled")
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # else each of them imports torch as well
        warnings.simplefilter("default")  # torch warns of itself when it imports its compiler
        from pathlib import Path
        import torch
        from hotlap.optimizations.install import install
        training = install(torch, Path("trial"), {"recipe": json.loads(sys.argv[1])})
        from torch import nn
        from torch._dynamo.utils import counters

        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.0), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        data = torch.utils.data.TensorDataset(torch.randn(22, 4))
        evaluated = []
        for epoch in range(2):
            model.train()
            for (x,) in torch.utils.data.DataLoader(data, batch_size=8):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                evaluated.append(model(data.tensors[0]).sum().item())
        model.train()
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        copies += (torch.load(file, weights_only=False),)
        for one in copies:
            one(data.tensors[0][:8]).mean().backward()
        print(json.dumps({
            "names": list(model.state_dict()),
            "evaluated": evaluated,
            "weights": [w for p in model.parameters() for w in p.flatten().tolist()],
            "copies": [list(one.state_dict()) for one in copies],
            "graphs": counters["stats"]["unique_graphs"],
            "done": training.done,
        }))
        """
    run = json.loads(in_python(script, '{"compile": {"mode": "default"}}'))
    assert forked(textwrap.dedent(script), "{}") == 0, (tmp_path / "stderr").read_text()
    plain = json.loads((tmp_path / "stdout").read_text())
    assert (plain["graphs"], run["graphs"]) == (0, 1)  # not for the last batch, not to evaluate
    assert run["done"]["compile"] == {"status": "applied", "detail": "Sequential, default"}
    assert run["names"] == plain["names"] == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert run["copies"] == [plain["names"]] * 3
    assert run["evaluated"] == pytest.approx(plain["evaluated"], rel=1e-4, abs=1e-5)
    assert run["weights"] == pytest.approx(plain["weights"], rel=1e-4, abs=1e-5)


def test_a_smaller_last_batch_and_an_evaluation_run_uncompiled(train):
    run = train(
        {},
        COUNTED
        + """
compiled()
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
optimizer = sgd(model)
ran = []
for size in (8, 8, 3, 8, 8, 3):
    ran.append(step(model, torch.ones(size, 4)))
model.eval()
model(torch.ones(8, 4))
model.train()
with torch.no_grad():
    model(torch.ones(8, 4))
finish()
told["ran"] = ran
""",
    )
    assert run.told["ran"] == [True, True, False, True, True, False]
    assert (run.told["compilations"], run.told["runs"]) == (1, 4)


def test_shapes_that_come_to_stay_after_a_dry_run_are_compiled_for(train):
    run = train(
        {},
        COUNTED
        + """
compiled()
model = nn.Linear(4, 4)
optimizer = sgd(model)
told["ran"] = [step(model, torch.ones(size, 4)) for size in (1, 8, 8, 8, 8, 3, 8)]
finish()
told["shapes"] = sorted(max(shape) for shape in compilations[-1])
""",
    )
    assert run.told["ran"] == [True, False, False, True, True, False, True]
    assert run.told["compilations"] == 2


def test_where_shapes_keep_changing_it_compiles_for_any_shape(train):
    run = train(
        {},
        COUNTED
        + """
compiled()
model = nn.Linear(4, 4)
optimizer = sgd(model)
told["ran"] = [step(model, torch.ones(size, 4)) for size in range(2, 14)]
finish()
""",
    )
    assert run.told["ran"] == [True, False, False, False] + [True] * 8
    assert run.told["compilations"] == 2


def test_numbers_that_change_with_each_call_do_not_take_a_compilation_each(train):
    run = train(
        {},
        COUNTED
        + """
class Model(nn.Linear):
    def forward(self, x, *, step, options):
        y = super().forward(x) * (step + 1)
        return y if options["plain"] else y + 1

compiled()
model = Model(4, 4)
optimizer = sgd(model)
x = torch.ones(8, 4)
told["ran"] = [step(model, x, step=n, options={"plain": True}) for n in range(2, 14)]
finish()
""",
    )
    assert run.told["ran"][:4] == [True, False, False, False]
    assert all(run.told["ran"][4:])
    assert run.told["compilations"] <= 3


@pytest.mark.parametrize("wrapper", ["DataParallel", "parallel.DistributedDataParallel"])
def test_what_a_wrapper_passes_its_calls_to_is_compiled(train, tmp_path, wrapper):
    run = train(
        {},
        COUNTED
        + """
torch.distributed.init_process_group("gloo", init_method="file:///INIT", rank=0, world_size=1)
compiled()
model = nn.WRAPPER(nn.Linear(4, 4))
optimizer = sgd(model)
told["ran"] = [step(model, torch.ones(8, 4)) for _ in range(3)]
finish()
told["names"] = list(model.state_dict())
torch.distributed.destroy_process_group()
""".replace("WRAPPER", wrapper).replace("/INIT", str(tmp_path / "init")),
    )
    assert run.told["ran"] == [True] * 3
    assert run.told["compilations"] == 1
    assert run.told["names"] == ["module.weight", "module.bias"]
    assert run.done["compile"]["detail"] == "Linear, default"


def test_both_models_of_a_gan_are_compiled(train):
    run = train(
        {},
        COUNTED
        + """
compiled()
D, G = nn.Linear(4, 1), nn.Linear(2, 4)
real, noise = torch.ones(8, 4), torch.ones(8, 2)
d, g = sgd(D), sgd(G)
for _ in range(3):
    d.zero_grad()
    (D(real).mean() - D(G(noise).detach()).mean()).backward()
    d.step()
    g.zero_grad()
    D(G(noise)).mean().backward()
    g.step()
finish()
told["finite"] = bool(torch.isfinite(G.weight).all())
""",
    )
    assert run.told["finite"]
    assert run.told["compilations"] == 3  # D also for images that take gradients
    assert run.told["runs"] == 3 * 5


def test_many_models_do_not_use_up_each_others_compilations(train):
    """torch gives up after eight for one function."""
    run = train(
        {},
        COUNTED
        + """
compiled()
models = [nn.Linear(4, size) for size in range(1, 13)]
optimizer = sgd(*models)
told["ran"] = [[step(model, torch.ones(8, 4)) for model in models] for _ in range(2)]
finish()
""",
    )
    assert run.told["ran"] == [[True] * 12] * 2
    assert run.told["compilations"] == 12


def test_parts_called_by_themselves_are_compiled_and_then_the_whole(train):
    run = train(
        {},
        COUNTED
        + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classifier = nn.Linear(4, 4), nn.Linear(4, 2)
        self.unused = nn.Linear(1, 1)

    def forward(self, x):
        return self.classifier(self.features(x))

compiled()
model = Model()
optimizer = sgd(model)
x = torch.ones(8, 4)
told["parts"] = [step(lambda x: model.classifier(model.features(x)), x) for _ in range(2)]
told["first"] = [len(compilations), len(runs)]
told["whole"] = [step(model, x) for _ in range(2)]
finish()
""",
    )
    assert run.told["parts"] == [True, True]
    assert run.told["first"] == [2, 4]
    assert run.told["whole"] == [True, True]
    assert (run.told["compilations"], run.told["runs"]) == (3, 6)


@older.parts_built_in
def test_a_compiled_part_within_what_the_script_compiles_is_one_graph(train):
    run = train(
        {},
        COUNTED
        + """
compiled()
model = nn.Linear(4, 4)
optimizer = sgd(model)
x = torch.ones(8, 4)
step(model, x)

@torch.compile
def loss_of(x):
    return model(x).square().mean()

loss_of(x).backward()
finish()
""",
    )
    assert (run.told["compilations"], run.told["runs"]) == (2, 2)


def test_steps_are_marked_once_and_outputs_handed_out_as_copies(train):
    """What keeps CUDA graphs from writing over what the script still holds."""
    run = train(
        {},
        COUNTED
        + """
marks, addresses = [], []
torch.compiler.cudagraph_mark_step_begin = lambda: marks.append(1)
inner = backend

def backend(graph, inputs, **kwargs):
    run = inner(graph, inputs, **kwargs)

    def noting(*args):
        outputs = run(*args)
        addresses.extend(one.data_ptr() for one in outputs)
        return outputs

    return noting

@dataclass
class Answer:
    logits: torch.Tensor

class Model(nn.Linear):
    def forward(self, x):
        return Answer(super().forward(x))

compiled("reduce-overhead")
model = Model(4, 4)
optimizer = sgd(model)
for _ in range(3):
    answers = [model(torch.ones(8, 4)) for _ in range(2)]
    told.setdefault("copies", answers[0].logits.data_ptr() not in addresses)
    sum(answer.logits.mean() for answer in answers).backward()
    optimizer.step()
told["marks"] = len(marks)
finish()
""",
    )
    assert run.told == {"copies": True, "marks": 3, "compilations": 1, "runs": 6}


def test_a_model_that_does_not_compile_is_left_as_it_is_where_training_is_for_real(train):
    script = (
        COUNTED
        + """
def backend(graph, inputs, **kwargs):
    raise NotImplementedError("no such kernel")

compiled()
model = nn.Linear(4, 4)
optimizer = sgd(model)
try:
    told["ran"] = [step(model, torch.ones(8, 4)) for _ in range(3)]
except torch._dynamo.exc.BackendCompilerFailed as problem:
    told["problem"] = str(problem)
"""
    )
    assert "no such kernel" in train({}, script).told["problem"]
    forgiving = train({}, script, forgiving=True)
    assert forgiving.told == {"ran": [False] * 3}
    assert "does not compile" in forgiving.done["compile"]["except"]
