"""Gradients, state and parameters that lie in memory in different ways, with fused updates."""

import pytest

FUSED = {"fused-optimizer": {}}
LAYOUTS = """
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.turned = nn.Parameter(torch.randn(6, 4).t())
        self.conv = nn.Conv2d(2, 3, 3)
        self.bias = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return (x @ self.turned).square().mean() + self.bias.sum() + self.conv.weight.sin().sum()

model = Net()
model.conv.to(memory_format=torch.channels_last)
weights = list(model.parameters())
kinds = {
    "momentum": lambda: torch.optim.SGD(weights, 0.01, momentum=0.9),
    "plain": lambda: torch.optim.SGD(weights, 0.01),
    "adam": lambda: torch.optim.Adam(weights, 0.01, amsgrad=True),
    "adagrad": lambda: torch.optim.Adagrad(weights, 0.01),
}
optimizer = kinds[KIND]()
for number in range(8):
    loss = model(torch.randn(5, 4))
    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    for one, gradient in zip(weights, gradients):
        if gradient is not None:
            one.grad = gradient if number % 3 else gradient.contiguous()
    if number == 4:  # the state of another layout, as from a checkpoint
        for state in optimizer.state.values():
            for key, value in state.items():
                if value is not None:
                    state[key] = value.contiguous()
    optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in weights]).tolist()
"""


@pytest.mark.parametrize("kind", ["momentum", "plain", "adam", "adagrad"])
def test_gradients_and_state_may_lie_in_memory_as_they_like(train, kind):
    script = f"KIND = {kind!r}\n" + LAYOUTS
    plain, fused = train({}, script), train(FUSED, script)
    assert fused.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-5)
    assert fused.done["fused-optimizer"]["status"] == "applied"


FLAT = """
torch.manual_seed(0)
model = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
warnings.simplefilter("ignore")  # torch's own, about performance
flat, begun = torch.zeros(sum(p.numel() for p in model.parameters())), 0
for p in model.parameters():
    p.grad = flat[begun : begun + p.numel()].view(p.shape)
    begun += p.numel()
for _ in range(4):
    flat.zero_()
    model(torch.randn(1, 2, 5, 5)).square().mean().backward()
    flat.mul_(0.5)
    optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
told["own"] = all(p.grad.untyped_storage().data_ptr() == flat.data_ptr()
                  for p in model.parameters())
"""


def test_gradients_in_a_buffer_of_the_scripts_stay_there(train):
    plain, fused = train({}, FLAT), train(FUSED, FLAT)
    assert fused.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-6)
    assert fused.told["own"]
    assert fused.done["fused-optimizer"]["status"] == "applied"


GAPS = """
memory = torch.ones(4, 8)
weight = nn.Parameter(memory[:, ::2])
optimizer = torch.optim.SGD([weight], 0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    (weight.square() * torch.arange(16).view(4, 4)).sum().backward()
    optimizer.step()
told["memory"] = memory.flatten().tolist()
"""


def test_a_parameter_with_gaps_in_memory_is_updated_plainly(train):
    plain, fused = train({}, GAPS), train(FUSED, GAPS)
    assert fused.told["memory"] == pytest.approx(plain.told["memory"])
    assert "gaps in memory" in fused.done["fused-optimizer"]["detail"]
