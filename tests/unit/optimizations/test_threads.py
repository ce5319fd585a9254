"""threads: the number stands, whatever the script sets before it trains."""


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
