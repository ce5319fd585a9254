"""What a script has on for debugging, by the line that switched it on."""

import json

import pytest

WATCHED = """
import json, os, warnings
from types import SimpleNamespace
os.environ.update({variables})
import torch
from hotlap.probes import uses
recorder = SimpleNamespace(uses=uses.Uses())
uses.install(torch, recorder)
seen = recorder.uses
def backward():
    seen.anomalies = torch.is_anomaly_enabled()
{script}
print(json.dumps(seen._debugging()))
"""


def debugging(in_python, script, variables="{}"):
    return json.loads(in_python(WATCHED.format(script=script, variables=variables)))


@pytest.mark.parametrize(
    "script",
    [
        "torch.autograd.set_detect_anomaly(True); backward()",
        "with torch.autograd.set_detect_anomaly(True): backward()",
        "warnings.simplefilter('ignore')\nwith torch.autograd.detect_anomaly(): backward()",
    ],
)
def test_anomaly_detection_is_seen(in_python, script):
    assert "detect_anomaly" in debugging(in_python, script)


@pytest.mark.parametrize(
    "script",
    [
        "backward()",
        "torch.autograd.set_detect_anomaly(False); backward()",
        "with torch.autograd.set_detect_anomaly(True): pass\nbackward()",
    ],
)
def test_what_is_off_again_when_it_trains_is_not_told(in_python, script):
    assert debugging(in_python, script) == {}


def test_torchs_own_warning_of_it_names_the_scripts_line(in_python):
    script = """
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with torch.autograd.detect_anomaly():
        pass
assert "uses.py" not in said[0].filename, said[0].filename
"""
    debugging(in_python, script)


def test_variables_for_debugging_are_told(in_python):
    variables = "{'CUDA_LAUNCH_BLOCKING': '1', 'TORCH_DISTRIBUTED_DEBUG': 'OFF'}"
    assert debugging(in_python, "", variables) == {"CUDA_LAUNCH_BLOCKING": None}
