"""Scripts that take weights or gradients apart with `view`, known from their source."""

import ast

import pytest

from hotlap.optimizations import flattening


@pytest.mark.parametrize(
    "source",
    [
        "flat = [p.detach().view(-1) for p in model.parameters()]",
        "for name, p in model.named_parameters(): p.data.view(-1)[0] = 0",
        "p.grad.view(-1)",
        "self.weight.view(self.weight.size(0), -1).mean(1)",
        "gradients = torch.autograd.grad(loss, x)[0]; gradients.view(4, -1).norm(2, 1)",
        "found = torch.autograd.grad(loss, all)\nfor g in found: g.view(-1)",
        "all = list(model.parameters())\nflat = [one.view(-1) for one in all]",
        "def flat(params): return torch.cat([one.view(-1) for one in params])",
    ],
)
def test_weights_and_gradients_are_known_by_where_they_come_from(source):
    assert list(flattening._lines(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "x = x.view(x.size(0), -1)",
        "p.grad.contiguous().view(-1)",
        "for p in model.parameters(): p.grad = flat[:p.numel()].view(p.shape)",
        "self.weight.view(torch.int32)",
        "x = conv2d(x, self.weight); x.view(4, -1)",
        "optimizer = SGD(model.parameters())\nfor x in loader: model(x).view(-1)",
    ],
)
def test_what_else_is_viewed_is_left_alone(source):
    assert not list(flattening._lines(ast.parse(source)))


def test_a_model_of_such_a_script_is_left_as_it_is(train):
    run = train(
        {"channels-last": {}},
        """
        import sys
        Path("own_norms.py").write_text(
            "import torch\\n"
            "def norm(model):\\n"
            "    return torch.cat([p.grad.view(-1) for p in model.parameters()]).norm()\\n"
        )
        sys.path.insert(0, os.getcwd())
        from own_norms import norm

        model = nn.Conv2d(3, 4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(1, 3, 5, 5)).sum().backward()
        told["norm"] = norm(model).item()
        optimizer.step()
        """,
    )
    why = flattening.WHY.format("own_norms.py:3")
    assert run.done["channels-last"] == {"status": "refused", "detail": why}
