"""The bare pass runs on torch as it came; what stood there comes back afterwards."""

from __future__ import annotations

SCRIPT = """
import time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.optim.optimizer import _global_optimizer_pre_hooks
from torch.utils.data.dataloader import _BaseDataLoaderIter

plain = (
    _BaseDataLoaderIter.__next__,
    torch.autograd.backward,
    nn.Module.train,
    len(_global_optimizer_pre_hooks),
)

def now():
    return (
        _BaseDataLoaderIter.__next__,
        torch.autograd.backward,
        nn.Module.train,
        len(_global_optimizer_pre_hooks),
    )

from hotlap.probes.install import install
recorder = install(torch, Path("trial"), time.time())
watched = now()
assert watched[:2] != plain[:2] and watched[3] == plain[3] + 1

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = {}
data = TensorDataset(torch.randn(4000, 4))
other = DataLoader(data, batch_size=1000)
for (x,) in DataLoader(data, batch_size=2):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    stage = recorder.schedule.stage
    if stage == "bare" and "bare" not in seen:
        seen["bare"] = now()
        assert "_compiled_call_impl" not in model.__dict__, "no door in the bare pass"
        recorder._tally.evaluated = False
        model.eval()
        assert recorder._tally.evaluated, "evaluation is known by its mode"
        model.train()
        recorder._tally.evaluated = False
        next(iter(other))
        assert recorder._tally.evaluated, "and by a loader nobody trained from"
    elif stage == "phases" and "phases" not in seen:
        seen["phases"] = now()
        assert "_compiled_call_impl" in model.__dict__
    if stage == "done":
        break
assert recorder.problems == [], recorder.problems
assert seen["bare"][0] is plain[0]
assert seen["bare"][1] is plain[1]
assert seen["bare"][2] is not plain[2]
assert seen["bare"][3] == watched[3], "torch guards compiled optimizers on its hooks"
assert seen["phases"][0] is watched[0]
assert seen["phases"][1] is watched[1]
assert seen["phases"][2] is plain[2]
assert now() == watched
"""


def test_the_bare_pass_runs_on_torch_as_it_came(in_python, tmp_path, monkeypatch):
    import json
    import time

    from hotlap.settings import Limits

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "trial"
    folder.mkdir()
    (folder / "settings.json").write_text(
        json.dumps(
            {
                "limits": Limits(steps=30).as_dict(),
                "protected": ["/"],
                "diverted": str(folder / "diverted"),
                "in_place": True,
                "started": time.time(),
            }
        )
    )
    in_python(SCRIPT)
