import msgspec
import pytest
from test_verdict import BASE, CPU, line

from hotlap.rules import heavy_optimizer
from hotlap.rules.verdict import judge


def updating(lines, **changes):
    optimizer = msgspec.structs.replace(BASE.optimizers[0], name="Adam", fused=None, **changes)
    return msgspec.structs.replace(
        CPU["optimizer"], optimizers=(optimizer,), lines={"optimizer": lines}
    )


def found(made):
    return heavy_optimizer.check(made, judge(made))


def test_a_hook_of_the_scripts_own_is_named_and_not_the_method():
    made = updating((line(7, 28, 30, "averages"), line(20, 2, 30, "train", in_torch=2)))
    finding = found(made)
    assert (finding.file, finding.line) == ("/home/user/train.py", 7)
    assert "averages() was running in 28 of 30 samples" in finding.evidence
    assert "fused" not in finding.advice
    assert judge(made).sentence.endswith("most of it the script's own code at train.py:7.")


@pytest.mark.parametrize(
    "lines",
    [
        (line(20, 30, 30, "train", in_torch=30),),  # torch runs what the line calls
        (line(20, 20, 30, "train", in_torch=20), line(7, 10, 30, "averages")),
        (line(7, 4, 4, "averages"),),  # too few to blame a line
        (),
    ],
)
def test_what_torch_itself_takes_is_the_methods(lines):
    made = updating(lines)
    assert found(made).advice == "Pass fused=True to Adam."
    assert judge(made).sentence.endswith("goes to updating parameters.")


def test_an_optimizer_of_the_scripts_own_is_no_hook():
    made = updating((line(7, 30, 30, "step"),), torchs_own=False, can_fuse=False)
    assert found(made).summary == "Adam takes 60 % of the step."
