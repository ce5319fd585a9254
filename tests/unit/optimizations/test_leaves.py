"""What a backward pass leads to, and gradients that a script takes for itself."""

import pytest

FP16 = {"precision-fp16": {}}


def test_the_leaves_of_a_graph_are_found_once_each(train):
    run = train(
        {},
        """
        from hotlap.optimizations import leaves

        w, b, x = (torch.ones(2, requires_grad=True) for _ in range(3))
        frozen = torch.ones(2)
        loss, other = (w * x * w * frozen + b).sum(), (w * 2).sum()
        names = {id(w): "w", id(b): "b", id(x): "x"}

        def reached(*args):
            return sorted(names[id(one)] for one in leaves.reached(torch, *args))

        told["one"] = reached(loss)
        told["several"] = reached([other, loss])
        told["itself"] = reached(w)
        told["asked for"] = reached(loss, [x])
        told["nothing"] = reached(torch.ones(()))
        """,
    )
    assert run.told == {
        "one": ["b", "w", "x"],
        "several": ["b", "w", "x"],
        "itself": ["w"],
        "asked for": ["x"],
        "nothing": [],
    }


@pytest.mark.parametrize("frozen", [True, False])
def test_gradients_of_an_input_are_true_under_fp16(train, frozen):
    """Langevin steps and adversarial examples: the script uses them by hand."""
    script = f"""
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for round in range(3):
            model.requires_grad_(not {frozen})
            x = torch.ones(2, 4, requires_grad=True)
            model(x).sum().backward()
            told[str(round)] = x.grad.flatten().tolist()
            model.requires_grad_(True)
            optimizer.zero_grad()
            model(x.detach() - 0.1 * x.grad).square().mean().backward()
            optimizer.step()
        """
    plain, run = train({}, script), train(FP16, script)
    for name, gradient in plain.told.items():
        assert run.told[name] == pytest.approx(gradient, rel=1e-2)
    why = "the script takes gradients of a tensor that no optimizer trains"
    assert run.done["precision-fp16"] == {"status": "refused", "detail": why}


def test_a_model_that_nobody_optimizes_does_not_end_fp16(train):
    """A perceptual loss whose network is not frozen: nobody reads its gradients."""
    script = """
        torch.manual_seed(0)
        model, judge = nn.Linear(4, 4), nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (judge(model(torch.ones(2, 4))).mean() * 0.01).backward()
            optimizer.step()
        told["gradient"] = judge.weight.grad.flatten().tolist()
        """
    plain, run = train({}, script), train(FP16, script)
    assert run.told["gradient"] == pytest.approx(plain.told["gradient"], rel=2e-2)
    assert run.done["precision-fp16"]["status"] == "applied"


CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
optimizer = torch.optim.SGD([*model[0].parameters(), *model[2].parameters()], lr=10.0)

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, x):
        return model[2](checkpoint(model[1], model[0](x), use_reentrant=True))

whole = Whole()
for x in DataLoader(torch.randn(32, 4), batch_size=8):
    optimizer.zero_grad()
    (whole(x).square().mean() * 0.01).backward()
    optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
told["middle"] = model[1].weight.grad.flatten().tolist()
"""


def test_a_backward_pass_within_another_is_scaled_once(train):
    plain, run = train({}, CHECKPOINTED), train(FP16, CHECKPOINTED)
    assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-2)
    assert run.told["middle"] == pytest.approx(plain.told["middle"], abs=1e-2)
    assert run.done["precision-fp16"] == {"status": "applied", "detail": "Whole"}  # none skipped
