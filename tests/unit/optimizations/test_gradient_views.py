"""gradient-views: an argument of DistributedDataParallel, and gradients that are there once."""

import pytest

ALONE = """
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
"""
TRAINING = """
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)){more})
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
told["views"] = all(one.grad._is_view() for one in model.parameters())
told["weights"] = sum(one.double().sum().item() for one in model.parameters())
"""


@pytest.mark.parametrize("more", ["", ", None", ", gradient_as_bucket_view=False"])
def test_gradients_are_views_and_learning_is_the_same_to_the_bit(train, more):
    script = ALONE + TRAINING.format(more=more)
    plain = train({}, script)
    run = train({"gradient-views": {}}, script)
    assert (plain.told["views"], run.told["views"]) == (False, True)
    assert run.told["weights"] == plain.told["weights"]
    assert run.done["gradient-views"]["status"] == "applied"


def test_a_script_whose_gradients_are_views_is_told_so(train):
    run = train({"gradient-views": {}}, ALONE + TRAINING.format(more=", gradient_as_bucket_view=1"))
    assert run.told["views"]
    assert run.done["gradient-views"]["status"] == "refused"
    assert "already" in run.done["gradient-views"]["detail"]


def test_wrong_arguments_are_torchs_to_explain(train):
    run = train(
        {"gradient-views": {}},
        ALONE
        + """
        try:
            DistributedDataParallel(nn.Linear(4, 2), buckets=3)
        except TypeError as problem:
            told["said"] = str(problem)
        """.replace("        ", ""),
    )
    assert "buckets" in run.told["said"]
    assert run.done.get("gradient-views", {}).get("status") != "applied"
