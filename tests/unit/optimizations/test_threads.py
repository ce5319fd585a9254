"""threads: the number stands, whatever the script sets before it trains."""

import pytest


def test_the_number_stands_when_training_starts(train):
    run = train(
        {"threads": {"threads": 3}},
        """
        told["imported"] = torch.get_num_threads()
        torch.set_num_threads(1)
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 4))
        told["training"] = torch.get_num_threads()
        """,
    )
    assert run.told == {"imported": 3, "training": 3}
    assert run.done["threads"] == {"status": "applied", "detail": "3 threads"}


def test_a_script_that_trains_nothing_has_the_number_as_well(train):
    run = train({"threads": {"threads": 3}}, "told['number'] = torch.get_num_threads()\n")
    assert run.told == {"number": 3}
    assert run.done["threads"] == {"status": "applied", "detail": "3 threads"}


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_are_limited_after_the_scripts_own_beginning(train, tmp_path, context):
    (tmp_path / "cv2.py").write_text("def setNumThreads(number): global threads; threads = number")
    (tmp_path / "threadpoolctl.py").write_text(
        "import cv2\ndef threadpool_limits(number): cv2.pools = number"
    )
    (tmp_path / "told_by_workers.py").write_text(
        """
import os, sys
import torch

def begin(worker):
    import cv2
    torch.set_num_threads(1)
    cv2.setNumThreads(7)
    os.environ["BEGUN"] = str(worker)

class Data:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        cv2 = sys.modules["cv2"]
        numbers = os.environ["OMP_NUM_THREADS"], os.environ["BEGUN"]
        return [torch.get_num_threads(), cv2.threads, cv2.pools, *map(int, numbers)]
"""
    )
    run = train(
        {"threads": {"threads": 1, "worker-threads": 2}},
        f"""
        import sys
        sys.path.insert(0, os.getcwd())
        os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), *sys.path])
        from told_by_workers import Data, begin
        loader = DataLoader(
            Data(), num_workers=1, worker_init_fn=begin, multiprocessing_context="{context}"
        )
        told["numbers"] = [torch.cat(row).tolist() for row in loader]
        again = DataLoader(Data(), worker_init_fn=loader.worker_init_fn)
        told["once"] = again.worker_init_fn is loader.worker_init_fn
        """,
    )
    assert run.told == {"numbers": [[2, 2, 2, 2, 0]] * 2, "once": True}
    assert run.done["threads"]["status"] == "applied"


def test_workers_are_left_alone_where_nothing_is_said_of_them(train):
    run = train(
        {"threads": {"threads": 2}},
        "told['own'] = DataLoader(range(2), num_workers=1).worker_init_fn\n",
    )
    assert run.told["own"] is None
