"""pinned-memory: an argument of the training loader."""


def test_the_training_loader_pins_and_the_evaluating_one_does_not(train):
    run = train(
        {"pinned-memory": {}},
        """
        (getattr(torch, "accelerator", None) or torch.cuda).is_available = lambda: True
        data = TensorDataset(torch.ones(8))
        told["train"] = DataLoader(data, shuffle=True).pin_memory
        told["evaluate"] = DataLoader(data).pin_memory
        """,
    )
    assert run.told == {"train": True, "evaluate": False}
    assert run.done["pinned-memory"] == {"status": "applied", "detail": "pin_memory=True"}


def test_without_a_gpu_nothing_is_pinned_and_it_is_said(train):
    run = train(
        {"pinned-memory": {}},
        """
        (getattr(torch, "accelerator", None) or torch.cuda).is_available = lambda: False
        told["pins"] = DataLoader(TensorDataset(torch.ones(8)), shuffle=True).pin_memory
        """,
    )
    assert run.told == {"pins": False}
    assert run.done["pinned-memory"] == {"status": "refused", "detail": "there is no GPU"}
