"""pinned-memory: an argument of the training loader."""


def test_the_training_loader_pins_and_the_evaluating_one_does_not(train):
    run = train(
        {"pinned-memory": {}},
        """
        data = TensorDataset(torch.ones(8))
        told["train"] = DataLoader(data, shuffle=True).pin_memory
        told["evaluate"] = DataLoader(data).pin_memory
        """,
    )
    assert run.told == {"train": True, "evaluate": False}
    assert run.done["pinned-memory"] == {"status": "applied", "detail": "pin_memory=True"}
