"""The reduced precisions leave out what a record would have refused: a run has none."""

import pytest

SCRIPT = """
MODEL
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    LOSS.backward()
    optimizer.step()
told["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
"""
HALF = "model, head = nn.Linear(4, 2).bfloat16(), torch.ones(2, 2).bfloat16()"
HALF_LOSS = "(model(torch.ones(8, 4).bfloat16()) @ head).float().square().mean()"


def left_out(train, name, model, loss):
    script = SCRIPT.replace("MODEL", model).replace("LOSS", loss)
    plain, run = train({}, script), train({name: {}}, script)
    assert run.told == plain.told
    assert run.done[name]["status"] == "refused"
    return run.done[name]["detail"]


@pytest.mark.parametrize("name", ["precision-bf16", "precision-fp16"])
def test_a_model_of_reduced_precision_is_left_as_it_is(train, name):
    why = left_out(train, name, HALF, HALF_LOSS)
    assert why == "the model's parameters are bfloat16"


def test_float16_is_left_out_on_a_cpu(train):
    model = "precision_fp16.DEVICES = ('cuda',)\nmodel = nn.LSTM(8, 8)"
    why = left_out(train, "precision-fp16", model, "model(torch.ones(5, 4, 8))[0].square().mean()")
    assert why == "training runs on the CPU"


def test_bfloat16_is_left_out_where_the_processor_lacks_it(train):
    model = "reading.processor_flags = set\nmodel = nn.Linear(4, 2)"
    why = left_out(train, "precision-bf16", model, "model(torch.ones(8, 4)).square().mean()")
    assert "AMX" in why


@pytest.mark.parametrize("name", ["precision-bf16", "precision-fp16"])
def test_what_comes_out_under_the_scripts_own_autocast_is_of_its_type(train, name):
    run = train(
        {name: {}},
        """
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            told["types"] = [str(model(torch.ones(2, 4)).dtype)]
        told["types"].append(str(model(torch.ones(2, 4)).dtype))
        """,
    )
    assert run.told["types"] == ["torch.bfloat16", "torch.float32"]
