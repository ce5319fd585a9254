"""zero-grad-none: gradients go instead of becoming zeros."""


def test_gradients_go_whatever_the_script_asks_for(train):
    run = train(
        {"zero-grad-none": {}},
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        clearing = {
            "optimizer": lambda: optimizer.zero_grad(set_to_none=False),
            "by place": lambda: optimizer.zero_grad(False),
            "default": lambda: optimizer.zero_grad(),
            "model": lambda: model.zero_grad(set_to_none=False),
        }
        for name, clear in clearing.items():
            model(torch.ones(2, 4)).sum().backward()
            clear()
            told[name] = model.weight.grad is None
        """,
    )
    assert run.told == dict.fromkeys(("optimizer", "by place", "default", "model"), True)
    assert run.done["zero-grad-none"]["status"] == "applied"


def test_a_script_that_lets_them_go_by_itself_is_told_so(train):
    run = train(
        {"zero-grad-none": {}},
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
        """,
    )
    why = "the script already lets gradients go (torch's default)"
    assert run.done["zero-grad-none"] == {"status": "refused", "detail": why}
