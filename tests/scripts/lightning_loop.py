"""LightningModule and Trainer."""

# expect: samples=32 unit=optimizer
import argparse

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        )

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(6400, 64)
    labels = inputs[:, :10].argmax(dim=1)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        max_steps=args.steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(), loader)
    print(f"trained {trainer.global_step} steps")


if __name__ == "__main__":
    main()
