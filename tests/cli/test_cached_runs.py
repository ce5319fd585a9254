"""hotlap run with recipes that come between a script and its data: the samples stay the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripted import clean_environment

TRAINING = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Photos(Dataset):
    def __init__(self, transform):
        self.transform = transform
    def __len__(self):
        return 24
    def __getitem__(self, index):
        time.sleep(0.002)
        return self.transform(torch.full((4,), 10 * index, dtype=torch.uint8)), float(index)

torch.manual_seed(0)
data = Photos(lambda image: image.float() / 255 + torch.rand(()) / 9)
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    for images, numbers in loader:
        loss = (model(images).squeeze(1) - numbers).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(images.dtype, loss.item())
print(data[0][0].dtype)
"""
BOTH = "schema = 1\n[concurrent-fetch]\nthreads = 4\n[sample-cache]\npercent = 10\n"


def output(folder: Path, *words: str) -> tuple[list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, *words, "train.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_threads_and_a_cache_together_give_the_samples_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "hotlap.toml").write_text(BOTH)
    plain, _ = output(tmp_path)
    cached, told = output(tmp_path, "-m", "hotlap", "run")
    assert told[-1] == "hotlap: applied concurrent-fetch, sample-cache."
    assert len(plain) == 4
    assert cached == plain
