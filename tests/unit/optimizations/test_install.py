"""A recipe in a process, right after torch was imported."""

import json

import pytest
import torch

from hotlap.optimizations import OPTIMIZATIONS
from hotlap.settings import Limits

TRAINING = """
model = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = TensorDataset(torch.randn(32, 3, 8, 8), torch.arange(32) % 2)
warnings.simplefilter("ignore")
losses = []
for epoch in range(2):
    for images, labels in DataLoader(data, batch_size=8, shuffle=True, num_workers=0):
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(images.to("cpu")), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
told["losses"] = losses
"""
REFUSED = {"allocator", "persistent-workers", "loader-prefetch"}
REFUSED |= {"sample-cache", "uint8-transfer", "device-input"}  # these samples are just tensors
REFUSED |= {"activation-checkpointing"}  # this model is not made of blocks
REFUSED |= {"memory-budget"}  # nothing is compiled
REFUSED |= {"exchange-bf16"}  # it trains in one process
REFUSED |= set() if torch.cuda.is_available() else {"pinned-memory"}
SILENT = {"device-prefetch", "non-blocking-copy"}  # nothing is pinned on a CPU
SILENT |= {"gradient-views"}  # no model is wrapped for several processes


@pytest.mark.parametrize(
    "one", [one for one in OPTIMIZATIONS if one.NAME != "compile"], ids=lambda one: one.NAME
)
def test_an_ordinary_script_trains_under_each_of_them(train, one):
    recipe = {one.NAME: {}, **{name: {} for name in one.NEEDS}}
    run = train(recipe, TRAINING)
    assert len(run.told["losses"]) >= 4
    assert all(0 < loss < 10 for loss in run.told["losses"])
    expected = "refused" if one.NAME in REFUSED else None if one.NAME in SILENT else "applied"
    assert run.done.get(one.NAME, {}).get("status") == expected


def test_many_at_once_train_like_the_plain_script(train):
    names = ("channels-last", "fused-optimizer", "zero-grad-none", "threads", "tf32")
    plain, run = train({}, TRAINING), train({name: {} for name in names}, TRAINING)
    assert {name: run.done[name]["status"] for name in names} == dict.fromkeys(names, "applied")
    assert run.told["losses"] == pytest.approx(plain.told["losses"], abs=1e-4)


def test_one_that_fails_to_install_is_noted_and_the_others_are_applied(train):
    run = train({"threads": {"threads": 0}, "tf32": {}}, TRAINING)
    assert run.done["threads"]["status"] == "refused"
    assert "RuntimeError" in run.done["threads"]["detail"]
    assert run.done["tf32"]["status"] == "applied"


def test_what_scripts_look_up_keeps_its_signature(train):
    script = """
        import inspect

        looked_up = {
            "loader": DataLoader, "sgd": torch.optim.SGD, "adamw": torch.optim.AdamW,
            "optimizer": torch.optim.Optimizer.__init__, "backward": torch.autograd.backward,
            "clip": nn.utils.clip_grad_norm_, "clear": torch.optim.Optimizer.zero_grad,
            "call": nn.Module.__call__, "schedule": torch.optim.lr_scheduler.StepLR.step,
        }
        told.update({name: str(inspect.signature(thing)) for name, thing in looked_up.items()})
        """
    names = (one.NAME for one in OPTIMIZATIONS if one.NAME != "allocator")
    assert train({name: {} for name in names}, script).told == train({}, script).told


def test_a_watched_run_sees_the_training_and_the_recipe_still_applies(train):
    watch = {
        "limits": Limits(steps=30, guard_steps=12).as_dict(),
        "losses": True,
        "protected": [],
        "diverted": "diverted",
    }
    run = train(
        {"channels-last": {}, "precision-bf16": {}},
        f"""
import time
from hotlap.probes.install import install as watch

Path("trial").mkdir()
Path("trial/settings.json").write_text({json.dumps({**watch, "in_place": False, "started": 0.0})!r})
recorder = watch(torch, Path("trial"), time.time())
"""
        + """
class Model(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        told["inside"] = str(y.dtype)
        return y

model = Model(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(100):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
told["outside"] = str(loss.dtype)
told["steps"] = recorder.steps
told["models"] = recorder.roots.names()
""",
    )
    assert run.told["inside"] == "torch.bfloat16"
    assert run.told["outside"] == "torch.float32"
    assert run.told["steps"] > 40
    assert run.told["models"] == ["Model"]
    assert run.done["channels-last"]["status"] == "refused"
    assert run.done["precision-bf16"]["status"] == "applied"
