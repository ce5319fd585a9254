"""exchange-bf16: gradients are rounded on their way between ranks, and nowhere else."""

import subprocess
import sys
import textwrap

import pytest

ALONE = """
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
"""
RECIPE = {"exchange-bf16": {}}


def trained(train, model, *, recipe=RECIPE, before="", after=""):
    lines = [
        *("torch.manual_seed(0)", f"model = {model}", before),
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "for _ in range(2):",
        "    optimizer.zero_grad()",
        "    model(torch.ones(4, dtype=torch.long)).float().square().sum().backward()",
        "    optimizer.step()",
        "told['types'] = sorted({str(one.grad.dtype) for one in model.parameters()})",
        after,
    ]
    return train(recipe, ALONE + "\n".join(lines))


NET = "nn.Sequential(nn.Embedding(8, 4{sparse}), nn.Linear(4, 4))"
WRAPPED = f"DistributedDataParallel({NET.format(sparse='')})"
ROUNDED = """
told["rounded"] = all(
    torch.equal(one.grad, one.grad.bfloat16().float()) for one in model.parameters()
)
"""


def test_gradients_are_rounded_and_stay_float32(train):
    run = trained(train, WRAPPED, after=ROUNDED)
    assert run.told == {"types": ["torch.float32"], "rounded": True}
    assert run.done["exchange-bf16"]["status"] == "applied"
    assert not trained(train, WRAPPED, recipe={}, after=ROUNDED).told["rounded"]


def test_a_wrapper_within_the_model_gets_it_as_well(train):
    run = trained(train, f"nn.Sequential({WRAPPED}, nn.Identity())", after=ROUNDED)
    assert run.told["rounded"]
    assert run.done["exchange-bf16"]["status"] == "applied"


def test_float64_is_sent_as_it_is(train):
    run = trained(
        train, f"DistributedDataParallel({NET.format(sparse='')}.double())", after=ROUNDED
    )
    assert run.told == {"types": ["torch.float64"], "rounded": False}


@pytest.mark.parametrize(
    ("model", "before", "why"),
    [
        (NET.format(sparse=""), "", "no DistributedDataParallel"),
        (f"DistributedDataParallel({NET.format(sparse=', sparse=True')})", "", "sparse"),
        (
            WRAPPED,
            "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
            "model.register_comm_hook(None, default_hooks.allreduce_hook)",
            "communication hook of its own",
        ),
    ],
    ids=["not wrapped", "sparse", "hooked"],
)
def test_where_it_does_not_apply_it_says_why(train, model, before, why):
    run = trained(train, model, before=before)
    assert run.done["exchange-bf16"]["status"] == "refused"
    assert why in run.done["exchange-bf16"]["detail"]


def test_two_ranks_get_the_mean_of_their_gradients(tmp_path):
    script = tmp_path / "mean.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, torch
            from torch import distributed, nn
            from torch.nn.parallel import DistributedDataParallel
            from hotlap.optimizations.exchange_bf16 import halved

            rank, store = int(sys.argv[1]), distributed.FileStore(sys.argv[2], 2)
            distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
            torch.manual_seed(0)
            model = DistributedDataParallel(nn.Linear(64, 8), bucket_cap_mb=0.001)
            model.register_comm_hook(model.process_group, halved(torch))
            inputs = torch.randn(2, 16, 64)
            model(inputs[rank]).square().mean().backward()
            alone = nn.Linear(64, 8)
            alone.load_state_dict(model.module.state_dict())
            sum(alone(one).square().mean() for one in inputs).div(2).backward()
            for ours, exact in zip(model.parameters(), alone.parameters()):
                assert (ours.grad - exact.grad).norm() < 0.01 * exact.grad.norm()
            distributed.barrier()
            distributed.destroy_process_group()
            """
        )
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), tmp_path / "store"], stderr=subprocess.PIPE
        )
        for rank in range(2)
    ]
    for one in ranks:
        _, errors = one.communicate(timeout=120)
        assert one.returncode == 0, errors.decode()
