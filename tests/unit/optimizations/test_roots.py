"""The search for what is trained: which modules are roots, and that it comes to an end."""

import older
from watched import WATCHED


def test_the_outermost_module_is_the_root_and_the_search_then_ends(train):
    run = train(
        {},
        WATCHED
        + """
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
criterion = nn.CrossEntropyLoss()
optimizer = sgd(model)
told["before"] = watched()
for _ in range(3):
    step(criterion(model(x), torch.tensor([0, 1])), optimizer)
told["roots"] = [one is model for one in found]
told["after"] = watched()
""",
    )
    assert run.told == {"before": True, "roots": [True], "after": False}


def test_calls_that_do_not_train_find_nothing(train):
    run = train(
        {},
        WATCHED
        + """
model, frozen = nn.Linear(4, 4), nn.Linear(4, 4)
model(x)  # nothing is optimized yet
optimizer = sgd(model)
frozen(x)  # nobody trains it
nn.MSELoss()(x, x)  # nothing to train
with torch.no_grad():
    model(x)
model.eval()
model(x)
told["first"] = len(found)
model.train()
model(x)
told["then"] = [one is model for one in found]
""",
    )
    assert run.told == {"first": 0, "then": [True]}


def test_an_exception_in_a_forward_pass_leaves_the_search_as_it_was(train):
    run = train(
        {},
        WATCHED
        + """
class Fails(nn.Linear):
    def forward(self, x):
        raise KeyError("mine")

optimizer = sgd(nn.Linear(4, 4))
try:
    Fails(4, 4)(x)
except KeyError as problem:
    told["problem"] = str(problem)
told["watched"] = watched()
""",
    )
    assert run.told == {"problem": "'mine'", "watched": True}


def test_two_models_are_two_roots_though_thousands_of_other_calls_lie_between(train):
    """A GAN whose samples pass through transforms that are modules."""
    run = train(
        {},
        WATCHED
        + """
D, G, transform = nn.Linear(4, 1), nn.Linear(4, 4), nn.Identity()
d, g = sgd(D), sgd(G)
for _ in range(700):
    transform(x)
step(D(x).mean(), d)
for _ in range(700):
    transform(x)
told["watched"] = watched()
step(D(G(x)).mean(), g)
told["roots"] = [[one is D for one in found], [one is G for one in found]]
told["after"] = watched()
""",
    )
    assert run.told == {"watched": True, "roots": [[True, False], [False, True]], "after": False}


def test_parts_that_are_called_by_themselves_are_roots(train):
    run = train(
        {},
        WATCHED
        + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classifier = nn.Linear(4, 4), nn.Linear(4, 2)

model = Model()
optimizer = sgd(model)
for _ in range(2):
    step(model.classifier(model.features(x)).mean(), optimizer)
told["roots"] = [found[0] is model.features, found[1] is model.classifier, len(found)]
told["after"] = watched()
""",
    )
    assert run.told == {"roots": [True, True, 2], "after": False}


def test_a_whole_that_is_called_after_its_part_takes_over(train):
    run = train(
        {},
        """
        calls = []

        def wrap(module, call):
            def wrapped(*args):
                calls.append(type(module).__name__)
                return call(*args)

            return wrapped

        training.around_forward("counted", wrap)
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        head = nn.Linear(4, 4)
        other = torch.optim.SGD(head.parameters(), lr=0.1)
        x = torch.ones(2, 4)
        model[0](x)
        model(x)  # passes through the part, once
        model[0](x)
        told["calls"] = calls
        """,
    )
    assert run.told["calls"] == ["Linear", "Sequential"]


def test_a_model_that_comes_with_a_later_optimizer_is_found_too(train):
    """Cross-validation: the first model is gone, and the next may lie where it lay."""
    run = train(
        {},
        WATCHED
        + """
kinds = []
training.when_training_starts("kinds", lambda module: kinds.append(type(module).__name__))
for fold in range(5):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = sgd(model)
    step(model(x).mean(), optimizer)
    assert not watched()
    found.clear()
    del model, optimizer
told["kinds"] = kinds
""",
    )
    assert run.told["kinds"] == ["Sequential"] * 5


def test_a_new_optimizer_for_the_same_model_changes_nothing(train):
    run = train(
        {},
        WATCHED
        + """
model = nn.Linear(4, 4)
for epoch in range(3):
    optimizer = sgd(model)
    step(model(x).mean(), optimizer)
told["roots"] = len(found)
told["watched"] = watched()
""",
    )
    assert run.told == {"roots": 1, "watched": False}


def test_lazy_modules_are_roots_once_they_have_their_shapes(train):
    run = train(
        {},
        WATCHED
        + """
model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
optimizer = sgd(model)
model(x)  # in training mode, and an optimizer holds what has no shape yet
told["dry run"] = len(found)
model(x)
told["then"] = len(found)
""",
    )
    assert run.told == {"dry run": 0, "then": 1}


def test_the_search_gives_up_on_parameters_that_are_never_called(train):
    run = train(
        {},
        WATCHED
        + """
model, unused = nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = sgd(model, unused)
for _ in range(600):
    model(x)
told["watched"] = watched()
""",
    )
    assert run.told["watched"] is False


def test_modules_called_from_several_threads_begin_once_each(train):
    run = train(
        {},
        WATCHED
        + """
models = [nn.Linear(4, 4) for _ in range(4)]
optimizers = [sgd(model) for model in models]
together = threading.Barrier(8)
problems = []

def work(model):
    try:
        together.wait()
        for _ in range(50):
            model(x).mean().backward()
    except Exception as problem:
        problems.append(problem)

threads = [threading.Thread(target=work, args=(model,)) for model in models * 2]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for model in models:
    model(x)
told["problems"] = len(problems)
told["roots"] = sorted(found.count(model) for model in models)
told["watched"] = watched()
""",
    )
    assert run.told == {"problems": 0, "roots": [1, 1, 1, 1], "watched": False}


def test_what_a_script_puts_in_the_place_of_a_modules_call_stays(train):
    run = train(
        {},
        WATCHED
        + """
calls = []
before = torch.nn.Module.__call__

def mine(self, *args):
    calls.append(type(self).__name__)
    return before(self, *args)

torch.nn.Module.__call__ = mine
model = nn.Sequential(nn.Linear(4, 4))
optimizer = sgd(model)
model(x)
model(x)
told["calls"] = calls
told["still there"] = torch.nn.Module.__call__ is mine
told["roots"] = len(found)
""",
    )
    assert run.told["calls"] == ["Sequential", "Linear"] * 2
    assert run.told["still there"]
    assert run.told["roots"] == 1


def test_a_model_the_script_compiles_is_a_root_without_a_break_in_its_graph(train):
    run = train(
        {"channels-last": {}},
        WATCHED
        + """
from torch._dynamo.utils import counters

images = torch.ones(2, 3, 8, 8)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())
compiled = torch.compile(model, backend="eager", fullgraph=True)
optimizer = sgd(model)
for _ in range(3):
    step(compiled(images).mean(), optimizer)
told["roots"] = [type(one).__name__ for one in found]
told["graphs"] = counters["stats"]["unique_graphs"]
told["channels last"] = model[0].weight.is_contiguous(memory_format=torch.channels_last)
""",
    )
    assert run.told == {"roots": ["OptimizedModule"], "graphs": 1, "channels last": True}


@older.parts_built_in
def test_a_step_the_script_compiles_is_not_disturbed_and_the_search_goes_on(train):
    run = train(
        {"channels-last": {}},
        WATCHED
        + """
from torch._dynamo.utils import counters

images = torch.ones(2, 3, 8, 8)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())
optimizer = sgd(model)

@torch.compile(backend="eager", fullgraph=True)
def loss_of(images):
    return model(images).mean()

for _ in range(3):
    step(loss_of(images), optimizer)
told["roots"] = len(found)
told["graphs"] = counters["stats"]["unique_graphs"]
told["watched"] = watched()
model(images)
told["then"] = len(found)
""",
    )
    assert run.told == {"roots": 0, "graphs": 1, "watched": True, "then": 1}


def test_a_model_with_a_changed_call_is_copied_and_pickled_without_it(train):
    run = train(
        {"precision-bf16": {}},
        WATCHED
        + """
model = nn.Linear(4, 4)
optimizer = sgd(model)
step(model(x).mean(), optimizer)
copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
torch.save(model, "model.pt")
copies.append(torch.load("model.pt", weights_only=False))
told["names"] = list(model.state_dict())
with torch.no_grad():
    for one in copies:
        one.weight.zero_()
        one.bias.fill_(1.0)
    told["outputs"] = [one(x).sum().item() for one in copies]
told["plain"] = [one.__dict__.get("_compiled_call_impl") for one in copies]
""",
    )
    assert run.told["names"] == ["weight", "bias"]
    assert run.told["outputs"] == [8.0] * 3  # 2 x 4 ones: of the copy's own weights
    assert run.told["plain"] == [None] * 3


def test_what_fails_at_the_start_is_left_out_where_training_is_for_real(train):
    script = """
        def fails(module):
            raise ValueError("not with me")

        training.when_training_starts("odd", fails)
        training.around_forward("odder", lambda module, call: fails(module))
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        try:
            told["shape"] = list(model(torch.ones(2, 4)).shape)
        except ValueError as problem:
            told["problem"] = str(problem)
        """
    forgiving = train({}, script, forgiving=True)
    assert forgiving.told == {"shape": [2, 4]}
    assert {one["detail"] for one in forgiving.done.values()} == {"ValueError: not with me"}
    assert train({}, script).told == {"problem": "not with me"}
