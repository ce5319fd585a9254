"""A training script as they are: correct, readable, and slow for reasons that do not show.

Images are made up here, so it needs no download. Try:  hotlap tune examples/slow.py
"""

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Grey images of bars, told apart by their direction; augmented one by one, in Python."""

    def __init__(self, count: int) -> None:
        self.labels = [index % 4 for index in range(count)]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        label = self.labels[index]
        image = torch.zeros(28, 28)
        for _ in range(6):
            at = random.randrange(4, 24)
            for step in range(28):
                if label == 0:
                    image[at, step] = 1.0
                elif label == 1:
                    image[step, at] = 1.0
                elif label == 2:
                    image[step, (at + step) % 28] = 1.0
                else:
                    image[step, (at - step) % 28] = 1.0
        if random.random() < 0.5:
            image = image + 0.3 * torch.randn(28, 28)
        return image.unsqueeze(0), label


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(512, 4),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.body(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(Shapes(4096), batch_size=options.batch, shuffle=True)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(options.epochs):
        total, right, seen = 0.0, 0, 0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            scores = model(images)
            loss = nn.functional.cross_entropy(scores, labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
            right += (scores.argmax(1) == labels).sum().item()
            seen += len(labels)
        print(f"epoch {epoch}: loss {total / seen:.3f}, accuracy {right / seen:.1%}", flush=True)
        torch.save(model.state_dict(), "slow.pt")


if __name__ == "__main__":
    main()
