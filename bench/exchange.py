"""What do exchange-bf16 and gradient-views give where a network bounds the step?

Two ranks of `hotlap.workloads.cifar` train in two network namespaces of this machine, joined by a
link that lets through as many bits a second as `--link` says: what two machines on such a network
would see, but for their own cores. `hotlap tune` measures both optimizations on it, from outside.

    sudo python bench/exchange.py --link 1gbit --json bench/results/tune-exchange-cpu.json

It needs root, `ip` and `tc` (iproute2), and takes the namespaces down again. Nothing leaves the
machine.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotlap import tunings
from record import without_places

NAMES = ("hotlap-a", "hotlap-b")
ADDRESSES = ("10.213.7.1", "10.213.7.2")  # they exist in these namespaces alone
PORT = 29541
WORDS = "--quiet --model resnet10 --batch 8 --workers 0 --epochs 1000 --samples 20000"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--link", default="1gbit", help="as tc writes it: 1gbit, 300mbit")
    parser.add_argument("--budget", default="200s")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, network(options.link):
        result = tuned(Path(folder), options.budget)
    text = json.dumps(without_places(result)).encode()
    tunings.save(tunings.decode(text), options.json)
    print(f"{options.json}: {result['summary']}")


@contextmanager
def network(link: str) -> Iterator[None]:
    ends = [f"hotlap{number}" for number in range(2)]
    try:
        for name in NAMES:
            ip("netns", "add", name)
        first, second = NAMES
        ip(
            *("link", "add", ends[0], "netns", first),
            *("type", "veth", "peer", "name", ends[1], "netns", second),
        )
        for name, end, address in zip(NAMES, ends, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
            shape = ("tbf", "rate", link, "burst", "256kb", "latency", "50ms")
            subprocess.run(
                ["tc", "-n", name, "qdisc", "add", "dev", end, "root", *shape], check=True
            )
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def tuned(folder: Path, budget: str) -> dict[str, object]:
    script, result = folder / "launch.sh", folder / "tuning.json"
    script.write_text(launcher())
    subprocess.run(
        [
            *(sys.executable, "-m", "hotlap", "tune", "--in-place", "--budget", budget, "--force"),
            *("--only", "exchange-bf16", "--only", "gradient-views"),
            *("--json", str(result), "bash", str(script)),
        ],
        cwd=folder,
        check=True,
    )
    found: dict[str, object] = json.loads(result.read_text())
    return found


def launcher() -> str:
    """Starts a rank in each namespace, the first one in front."""
    rank = [
        f"GLOO_SOCKET_IFNAME=hotlap{number} RANK={number} LOCAL_RANK={number} "
        f"nsenter --net=/run/netns/{name} "
        f"{shlex.quote(sys.executable)} -m hotlap.workloads.cifar {WORDS}"
        for number, name in enumerate(NAMES)
    ]
    shared = f"MASTER_ADDR={ADDRESSES[0]} MASTER_PORT={PORT} WORLD_SIZE=2 OMP_NUM_THREADS=1"
    return f"export {shared}\n{rank[1]} &\n{rank[0]}\nwait\n"


if __name__ == "__main__":
    main()
