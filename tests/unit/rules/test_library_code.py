"""Where a library runs the loop, its code is not called the script's own."""

import msgspec
import pytest
from test_verdict import CPU, line, on_cpu

from hotlap.rules import slow_model_code, slow_user_code
from hotlap.rules.verdict import judge


def of_library(*given, library="lightning"):
    return msgspec.structs.replace(line(*given), package=library)


def seen(made, **lines):
    return msgspec.structs.replace(made, lines=lines)


def test_the_code_of_a_library_between_the_phases_is_said_to_be_its():
    made = seen(CPU["other"], other=(of_library(17, 8, 8),))
    assert judge(made).sentence == (
        "60 % of every 1.00 s step goes to the code of lightning between the phases, "
        "called at train.py:17."
    )
    found = slow_user_code.check(made, judge(made))
    assert found.summary == "60 % of the step is the code of lightning between the phases."
    assert "lightning, which is called here, was running in 8 of 8 samples" in found.evidence
    assert (found.file, found.line) == ("/home/user/train.py", 17)
    assert "callbacks" in found.advice
    assert "outside the loop" not in found.advice


def test_a_few_samples_all_of_a_library_are_enough_not_to_blame_the_script():
    made = seen(CPU["other"], other=(of_library(17, 2, 2),))
    assert judge(made).sentence.endswith("the code of lightning between the phases.")
    assert "callbacks" in slow_user_code.check(made, judge(made)).advice


@pytest.mark.parametrize("busiest", ["script", "library"])
def test_of_a_library_and_the_script_the_one_seen_more_often_is_named(busiest):
    calls = (30, 10) if busiest == "script" else (10, 30)
    made = seen(CPU["other"], other=(line(7, calls[0], 40), of_library(17, calls[1], 40)))
    found = slow_user_code.check(made, judge(made))
    assert found.line == (7 if busiest == "script" else 17)
    assert ("lightning" in found.summary) == (busiest == "library")


def test_what_was_seen_of_a_line_in_two_phases_is_one():
    lines = {"gap": (line(7, 10, 13), of_library(17, 3, 13)), "other": (of_library(17, 9, 9),)}
    made = seen(CPU["other"], **lines)
    found = slow_user_code.check(made, judge(made))
    assert found.line == 17
    assert "12 of 22 samples" in found.evidence


def test_the_code_of_a_library_inside_the_model_is_said_to_be_its():
    made = seen(on_cpu({"forward": 0.8, "other": 0.2}), forward=(of_library(11, 30, 30),))
    found = slow_model_code.check(made, judge(made))
    assert found.summary == "80 % of the step is the code of lightning inside the model."
    assert "tensor operations" not in found.advice
    assert judge(made).sentence.endswith(
        "goes to the code of lightning and the script's own code: "
        "80 % inside the model, called at train.py:11; 20 % between the phases."
    )
