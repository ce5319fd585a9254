"""gradient-accumulation: schedules of the learning rate count updates, or epochs, as before."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_gradient_accumulation import DATA, PARTS, both


def test_a_schedule_stepped_with_each_batch_counts_updates(train):
    plain, run = both(
        train,
        """
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=8)
rates = []
for epoch in range(2):
    for x, y in loader:
        sizes.append(len(x))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()
    rates.append(schedule.get_last_lr()[0])
told["rates"] = rates
""",
        updates=8,
    )
    assert run["rates"] == pytest.approx(plain["rates"])


def test_a_schedule_made_between_two_updates_begins_all_the_same(train):
    run = train(
        PARTS,
        DATA
        + """
for x, y in loader:
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    break
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5)
told["rates"] = [schedule.get_last_lr()[0], optimizer.param_groups[0]["lr"]]
""",
    )
    assert run.told["rates"] == [0.05, 0.05]


def test_a_schedule_stepped_with_each_epoch_counts_epochs(train):
    """Also where the last batch is smaller: its parts are, too."""
    run = train(
        PARTS,
        DATA
        + """
from torch.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR

data = TensorDataset(torch.randn(40, 4), torch.randn(40, 1))  # two batches and a half
parts = [ConstantLR(optimizer, 1.0, 1), ExponentialLR(optimizer, 0.5)]
schedule = SequentialLR(optimizer, parts, milestones=[1])
rates = []
for epoch in range(4):
    for x, y in DataLoader(data, batch_size=16):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    schedule.step()
    rates.append(optimizer.param_groups[0]["lr"])
told["rates"], told["updates"] = rates, len(updates)
""",
    )
    assert run.told["rates"] == pytest.approx([0.1, 0.05, 0.025, 0.0125])
    assert run.told["updates"] == 12


LOOP = """
for epoch in range(3):
    for x, y in loader:
        sizes.append(len(x))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()
told["rate"] = schedule.get_last_lr()[0]
"""


@pytest.mark.parametrize(
    ("made", "apart"),  # its last step is one before the end, so the last of the parts is nearer
    [
        ("OneCycleLR(optimizer, max_lr=0.1, total_steps=3 * len(loader))", 0.05),
        ("LambdaLR(optimizer, lambda step, total=3 * len(loader): 1 - step / total)", 1e-5),
        (
            "SequentialLR(optimizer, [ConstantLR(optimizer, 0.5, len(loader)), "
            "LinearLR(optimizer, 1, 0.01, 2 * len(loader))], [len(loader)])",
            1e-5,
        ),
    ],
)
def test_a_schedule_made_for_the_length_of_the_loader_comes_to_its_end(train, made, apart):
    script = DATA + "from torch.optim.lr_scheduler import *\nschedule = " + made + LOOP
    plain, run = train({}, script + "finish()"), train(PARTS, script + "finish()")
    assert run.told["updates"] == plain.told["updates"] == 12
    assert run.told["rate"] == pytest.approx(plain.told["rate"], rel=0.1, abs=0.01)
    assert run.told["rate"] < 0.03
    assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=apart)
