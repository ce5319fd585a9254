"""activation-checkpointing: what of a model is a block, when it is offered, a script with it."""

from pathlib import Path

import msgspec
import pytest
import torch
from torch import nn

from hotlap import records
from hotlap.optimizations import activation_checkpointing
from hotlap.rules.verdict import judge
from hotlap.search import planning


def names(model):
    return [type(one).__name__ for one in activation_checkpointing.blocks(torch, model)]


def test_blocks_are_the_outermost_of_those_that_repeat():
    class Inner(nn.Module):
        class Norm(nn.LayerNorm):
            """A layer of one's own is no block: there is nothing in it to compute again."""

            def __init__(self):
                super().__init__(16)

        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(16, 16), Inner.Norm()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = Inner(), Inner()

    assert names(nn.ModuleList([Outer(), Outer(), Outer()])) == ["Outer"] * 3
    assert names(nn.Sequential(Outer(), nn.Linear(16, 2))) == ["Inner"] * 2
    stages = nn.Sequential(nn.Sequential(Inner(), Inner()), nn.Sequential(Inner(), nn.ReLU()))
    assert names(stages) == ["Inner"] * 3
    assert names(nn.Sequential(Outer(), Outer(), Inner.Norm())) == ["Outer"] * 2
    shared = Inner()
    assert names(nn.ModuleList([shared, shared, Inner()])) == ["Inner"] * 2


def test_sequences_and_layers_of_torchs_own_are_blocks_where_there_are_no_others():
    def unit():
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    assert names(nn.Sequential(unit(), nn.Sequential(nn.ReLU()), unit())) == ["Sequential"] * 2
    layer = nn.TransformerEncoderLayer(16, 2, batch_first=True)
    assert names(nn.TransformerEncoder(layer, 3)) == ["TransformerEncoderLayer"] * 3


SCRIPT = """
class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        norm, relu = nn.BatchNorm1d(64), nn.ReLU(inplace=True)
        self.layers = nn.Sequential(nn.Linear(16, 64), norm, relu, nn.Dropout(0.2))
        self.last = nn.Linear(64, 16)

    def forward(self, x):
        return x + self.last(self.layers(x))

model = nn.Sequential(*[Unit() for _ in range(4)], nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
told["losses"] = []
for _ in range(6):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    told["losses"].append(loss.item())
told["counted"] = int(model[0].layers[1].num_batches_tracked)
told["doors"] = copy.deepcopy(model)[0]._compiled_call_impl is None
"""


@pytest.mark.parametrize("more", [{}, {"precision-bf16": {}}], ids=["alone", "bf16"])
def test_a_script_learns_the_same_under_a_recipe_with_it(train, more):
    recipe = {"activation-checkpointing": {"every": 1}, **more}
    plain, run = train(more, SCRIPT), train(recipe, SCRIPT)
    assert run.told == plain.told
    assert run.told["counted"] == 6
    assert run.done["activation-checkpointing"] == {"status": "applied", "detail": "4 Unit"}


def test_it_is_offered_for_memory_where_activations_take_a_part_of_it():
    record = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
    replace = msgspec.structs.replace

    def having(activations):
        memory = replace(record.memory, activations_bytes=activations, peak_bytes=1000)
        return replace(record, memory=memory)

    refusal = activation_checkpointing.refusal
    assert refusal(having(40)) == "activations are 4.0 % of the memory at the peak"
    assert refusal(having(600)) is None
    assert refusal(having(None)) is None
    verdict = judge(record)
    assert activation_checkpointing.promise(record, verdict) == 0.0
    for goal, offered in (("memory", True), ("speed", False)):
        found = planning.plan(having(600), verdict, planning.Choice(goal=goal))
        names = [one.label for one in found.candidates]
        assert ("activation-checkpointing 1" in names) is offered
