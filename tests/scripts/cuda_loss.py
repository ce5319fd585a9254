"""A loss that takes the GPU milliseconds, which the host issues in microseconds."""
# expect: samples=1 device=cuda

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(256, 4096).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs = torch.randn(2048, 256, device="cuda")
mixing = torch.randn(4096, 4096, device="cuda") / 64
while True:
    for batch in torch.utils.data.DataLoader(range(100), batch_size=1):
        made = model(inputs + 0.01 * batch.item())
        for _ in range(6):
            made = torch.tanh(made @ mixing)
        loss = made.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
