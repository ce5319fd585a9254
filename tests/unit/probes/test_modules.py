import copy
import gc
import io
import pickle
import threading
import weakref
from types import SimpleNamespace

import older
import pytest
import torch
from torch import nn

from hotlap.probes import modules
from hotlap.probes.modules import DOOR, children, holding, holds, outermost, watch


class Recorder:
    def __init__(self):
        self.forwards = []
        self.passes = SimpleNamespace(timeline=SimpleNamespace(watching=True))

    def forward(self, module, inner, args, kwargs):
        self.forwards.append(module)
        return inner(*args, **kwargs)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x, scale=1.0):
        return self.head(self.body(x)) * scale


class Stateful(nn.Module):
    """Says itself what belongs into a pickle, as modules that hold a lock or a file do."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)
        self.lock = threading.Lock()

    def forward(self, x):
        return self.body(x)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.lock = threading.Lock()


@pytest.fixture
def net():
    return Net()


@pytest.fixture
def recorder():
    return Recorder()


def ids(parameters):
    return {id(parameter) for parameter in parameters}


def test_the_outermost_module_is_the_one_no_other_holds(net):
    wrapper = nn.Sequential(net)
    other = nn.Linear(2, 2)
    found = outermost([net.body, net, other, wrapper, net.head])
    assert found == [other, wrapper]


def test_a_module_holds_what_its_parts_hold(net):
    assert holds(net, ids([net.head.weight]))
    assert not holds(net.body, ids([net.head.weight]))
    assert not holds(nn.ReLU(), ids([net.head.weight]))


def test_without_an_optimizer_whatever_could_be_trained_is_held(net):
    assert holds(net, set())
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    assert not holds(net, set())


def test_living_modules_that_hold_what_is_trained_are_found(net):
    stranger = Net()
    found = holding(torch, ids(net.body.parameters()))
    assert {id(module) for module in found} == {id(net), id(net.body)}
    assert stranger not in found


def test_a_module_that_does_not_like_to_be_asked_is_passed_over(net):
    class Broken(nn.Module):
        def parameters(self, recurse=True):
            raise RuntimeError("not yet")

    broken = Broken()
    found = holding(torch, ids(net.parameters()))
    assert any(module is net for module in found)
    assert not any(module is broken for module in found)


def test_graphs_of_the_compiler_are_no_models_of_the_script(net):
    graph = torch.fx.symbolic_trace(net)
    assert outermost([graph, graph.head]) == [graph]
    graph.compile_subgraph_reason = "return_value"  # as the compiler leaves them
    assert outermost([graph, graph.head, net, net.head]) == [net]
    assert outermost([graph, graph.head]) == [graph.head]


def test_the_search_keeps_nothing_alive():
    net, bystander = Net(), torch.ones(3)
    gone = weakref.ref(bystander)
    gc.disable()  # as scripts do: what only a collection frees would stay for good
    try:
        holding(torch, ids(net.parameters()))
        del bystander
        assert gone() is None
    finally:
        gc.enable()


def test_children_are_the_parts_that_are_trained(net):
    assert children([net], ids(net.head.parameters())) == [net.head]
    assert children([net], ids(net.parameters())) == [net.body, net.head]


def test_a_watched_module_gives_what_it_gave_before(net, recorder):
    x = torch.randn(3, 4)
    before = net(x, scale=2.0)
    watch(torch, net, recorder)
    assert torch.equal(net(x, scale=2.0), before)
    assert recorder.forwards == [net]


def test_only_the_module_itself_is_watched_not_its_parts(net, recorder):
    watch(torch, net, recorder)
    net.body(torch.randn(3, 4))
    assert recorder.forwards == []


def test_watching_twice_is_watching_once(net, recorder):
    watch(torch, net, recorder)
    watch(torch, net, recorder)
    net(torch.randn(3, 4))
    assert recorder.forwards == [net]


def test_hooks_of_the_users_run_as_they_did(net, recorder):
    seen = []
    net.register_forward_pre_hook(lambda module, args: seen.append("before"))
    net.register_forward_hook(lambda module, args, output: seen.append("after"))
    watch(torch, net, recorder)
    net(torch.randn(3, 4))
    assert seen == ["before", "after"]


def test_a_forward_replaced_later_is_the_one_called(net, recorder):
    watch(torch, net, recorder)
    net.forward = lambda x: x + 1
    assert net(torch.zeros(2)).tolist() == [1.0, 1.0]


def test_a_forward_that_raises_raises(net, recorder):
    watch(torch, net, recorder)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        net(torch.randn(3, 7))


def test_the_state_dict_knows_nothing_of_it(net, recorder):
    before = list(net.state_dict())
    watch(torch, net, recorder)
    assert list(net.state_dict()) == before
    assert [name for name, _ in net.named_modules()] == ["", "body", "head"]
    fresh = Net()
    fresh.load_state_dict(net.state_dict())
    assert torch.equal(fresh.head.weight, net.head.weight)


@pytest.mark.parametrize("make", [Net, Stateful])
def test_a_deep_copy_is_not_watched_and_has_weights_of_its_own(recorder, make):
    net = make()
    watch(torch, net, recorder)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert twin(torch.randn(3, 4)).abs().sum() == 0
    assert recorder.forwards == []
    net(torch.randn(3, 4))
    assert recorder.forwards == [net]


def saved_and_loaded(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [lambda m: pickle.loads(pickle.dumps(m)), saved_and_loaded])
@pytest.mark.parametrize("make", [lambda: nn.Sequential(nn.Linear(4, 2), nn.ReLU()), Stateful])
def test_a_module_read_back_is_not_watched(recorder, again, make):
    module = make()
    x = torch.randn(3, 4)
    watch(torch, module, recorder)
    expected = module(x)
    fresh = again(module)
    recorder.forwards.clear()
    assert torch.equal(fresh(x), expected)
    assert recorder.forwards == []
    assert not callable(fresh.__dict__.get(DOOR))


class Steps:
    """A recorder as `Roots` sees it."""

    def __init__(self, *trained):
        self.steps = 0
        self.optimizers = self
        self.trained = trained
        self.hooks = SimpleNamespace(aside=False)

    def parameters(self):
        return self.trained

    def forward(self, module, inner, args, kwargs):
        return inner(*args, **kwargs)


def test_roots_are_the_outermost_modules_of_what_is_trained(net):
    stranger = Net()
    wrapper = nn.Sequential(net)
    roots = modules.Roots(torch, Steps(*net.parameters()))
    roots.find_once()
    assert [id(module) for module in roots.modules] == [id(wrapper)]
    assert roots.names() == ["Sequential"]
    assert ids(roots.parameters()) == ids(net.parameters())
    assert DOOR not in stranger.__dict__


def test_what_a_model_was_is_known_when_it_is_gone():
    net = Net()
    recorder = Steps(*net.parameters())
    roots = modules.Roots(torch, recorder)
    roots.find_once()
    before = roots.makeup()
    recorder.trained = ()
    del net
    gc.collect()
    assert roots.modules == []
    assert roots.names() == ["Net"]
    assert roots.makeup() == before
    assert before.layers["Linear"]
    assert set(before.types) == {"float32"}


def test_a_root_that_is_found_in_the_bare_pass_is_not_watched_in_it(net):
    recorder = Steps(*net.parameters())
    recorder.hooks.aside = True
    roots = modules.Roots(torch, recorder)
    roots.find_once()
    assert roots.modules == [net]
    assert DOOR not in net.__dict__


def test_looking_for_the_successor_of_a_model_disturbs_the_step():
    recorder, first, second = Steps(), Net(), Net()
    roots = modules.Roots(torch, recorder)
    recorder.trained = list(first.parameters())
    assert not roots.find_once()  # the first time nothing is being measured yet
    assert not roots.search_again()
    recorder.trained = list(second.parameters())
    assert roots.search_again()
    assert roots.modules == [second]
    assert not roots.search_again()


def test_containers_that_nobody_calls_are_left_for_their_parts(net):
    recorder = Steps(*net.parameters())
    roots = modules.Roots(torch, recorder)
    roots.find_once()
    roots.descend_unless_called()
    assert roots.modules == [net]
    recorder.steps = 2
    roots.descend_unless_called()
    assert roots.modules == [net.body, net.head]


def test_modules_that_are_called_stay_the_roots(net):
    recorder = Steps(*net.parameters())
    roots = modules.Roots(torch, recorder)
    roots.find_once()
    roots.called = True
    recorder.steps = 5
    roots.descend_unless_called()
    assert roots.modules == [net]


def test_the_search_is_given_up_after_a_few_times():
    weight = nn.Parameter(torch.zeros(1))
    roots = modules.Roots(torch, Steps(weight))
    for _ in range(10):
        roots.find_once()
    assert roots.modules == []
    late = nn.Module()
    late.weight = weight
    roots.find_once()
    assert roots.modules == []


COMPILED = """
from types import SimpleNamespace
import torch
from torch import nn
from hotlap.probes.modules import watch

compiled = []

def backend(graph, inputs):
    compiled.append(graph)
    return graph.forward

class Recorder:
    calls = 0
    passes = SimpleNamespace(timeline=SimpleNamespace(watching=True))
    def forward(self, module, inner, args, kwargs):
        self.calls += 1
        return inner(*args, **kwargs)

recorder = Recorder()
x = torch.randn(3, 4)
"""


def test_a_compiled_module_is_neither_recompiled_nor_broken_by_watching(in_python):
    in_python(
        COMPILED
        + """
wrapped = torch.compile(nn.Linear(4, 2), backend=backend)
expected = wrapped(x)
assert len(compiled) == 1
watch(torch, wrapped, recorder)
for _ in range(3):
    assert torch.equal(wrapped(x), expected)
assert (len(compiled), recorder.calls) == (1, 3), (len(compiled), recorder.calls)

inner = nn.Linear(4, 2)
inner.compile(backend=backend)
expected = inner(x)
before = len(compiled)
watch(torch, inner, recorder)
assert torch.equal(inner(x), expected)
assert (len(compiled), recorder.calls) == (before, 4)
"""
    )


@older.parts_built_in
def test_a_module_that_is_watched_and_then_compiled_as_a_part_is_in_one_graph(in_python):
    in_python(
        COMPILED
        + """
part = nn.Linear(4, 4)
watch(torch, part, recorder)
whole = torch.compile(nn.Sequential(part, nn.ReLU()), backend=backend, fullgraph=True)
assert torch.equal(whole(x), nn.functional.linear(x, part.weight, part.bias).relu())
whole(x)
assert (len(compiled), recorder.calls) == (1, 0)
"""
    )


@pytest.mark.parametrize("make", [Net, Stateful])
def test_an_average_of_a_watched_module_has_weights_of_its_own(recorder, make):
    module = make()
    watch(torch, module, recorder)
    average = torch.optim.swa_utils.AveragedModel(module)
    x = torch.randn(3, 4)
    before = average(x)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert torch.equal(average(x), before)
    assert recorder.forwards == []


@pytest.mark.parametrize(
    "made_of",
    [
        torch.jit.script,
        lambda module: torch.jit.trace(module, torch.ones(3, 4)),
        torch.fx.symbolic_trace,
        lambda module: torch.export.export(module, (torch.ones(3, 4),)).module(),
    ],
    ids=["script", "trace", "fx", "export"],
)
@pytest.mark.filterwarnings("ignore")
def test_a_watched_module_can_be_turned_into_another_form(recorder, made_of):
    module = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    watch(torch, module, recorder)
    x = torch.randn(3, 4)
    assert torch.equal(made_of(module)(x), module(x))
