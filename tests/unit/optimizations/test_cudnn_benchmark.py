"""cudnn-benchmark: a switch of torch's own."""


def test_the_switch_is_on(train):
    run = train({"cudnn-benchmark": {}}, 'told["on"] = torch.backends.cudnn.benchmark')
    assert run.told == {"on": True}
    assert run.done["cudnn-benchmark"]["status"] == "applied"
