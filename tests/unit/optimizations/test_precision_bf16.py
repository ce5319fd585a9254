"""precision-bf16: bfloat16 inside of the model, float32 outside of it."""

BF16 = {"precision-bf16": {}}


def test_the_model_computes_in_bfloat16_and_nobody_outside_sees_it(train):
    run = train(
        BF16,
        """
        class Model(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                self.inside = str(y.dtype)
                return y

        model = Model(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        told["inside"] = model.inside
        told["outside"] = [
            str(loss.dtype),
            *(str(p.dtype) for p in model.parameters()),
            *(str(p.grad.dtype) for p in model.parameters()),
            *(str(s["momentum_buffer"].dtype) for s in optimizer.state.values()),
        ]
        told["autocast is over"] = not torch.is_autocast_enabled("cpu")
        """,
    )
    assert run.told["inside"] == "torch.bfloat16"
    assert set(run.told["outside"]) == {"torch.float32"}
    assert run.told["autocast is over"]
    assert run.done["precision-bf16"] == {"status": "applied", "detail": "Model"}


def test_outputs_of_every_shape_are_float32_and_keep_their_kind(train):
    run = train(
        BF16,
        """
        from collections import OrderedDict

        Pair = namedtuple("Pair", "first second")

        @dataclass
        class Answer:
            logits: torch.Tensor
            index: torch.Tensor
            loss: object = None

        @dataclass(frozen=True, slots=True)
        class Frozen:
            logits: torch.Tensor

        class Output(OrderedDict):
            pass

        class Model(nn.Linear):
            shape = None

            def forward(self, x):
                return self.shape(super().forward(x))

        index = torch.arange(3)
        shapes = {
            "tensor": lambda y: y,
            "tuple": lambda y: (y, index),
            "list": lambda y: [y, [y, None]],
            "dict": lambda y: {"logits": y, "name": "mine"},
            "named": lambda y: Pair(y, (y, index)),
            "own dict": lambda y: Output(logits=y),
            "dataclass": lambda y: Answer(logits=y, index=index),
            "frozen": lambda y: Frozen(y),
        }

        def kinds(value):
            if isinstance(value, torch.Tensor):
                return [str(value.dtype).removeprefix("torch.")]
            if isinstance(value, dict):
                value = list(value.values())
            if isinstance(value, (list, tuple)):
                return [kind for item in value for kind in kinds(item)]
            names = getattr(value, "__dataclass_fields__", ())
            return [kind for name in names for kind in kinds(getattr(value, name))]

        model = Model(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for name, shape in shapes.items():
            Model.shape = staticmethod(shape)
            answer = model(torch.randn(4, 8))
            told[name] = [type(answer).__name__, *kinds(answer)]
        """,
    )
    assert run.told == {
        "tensor": ["Tensor", "float32"],
        "tuple": ["tuple", "float32", "int64"],
        "list": ["list", "float32", "float32"],
        "dict": ["dict", "float32"],
        "named": ["Pair", "float32", "float32", "int64"],
        "own dict": ["Output", "float32"],
        "dataclass": ["Answer", "float32", "int64"],
        "frozen": ["Frozen", "float32"],
    }


def test_training_goes_where_it_would_have_gone(train):
    script = """
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(1)
        losses = []
        for _ in range(40):
            x = torch.randn(32, 8, generator=generator)
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        told["losses"] = losses
        """
    plain, run = train({}, script).told["losses"], train(BF16, script).told["losses"]
    assert plain != run
    assert max(abs(a - b) for a, b in zip(plain, run, strict=True)) < 0.05 * plain[0]
    assert run[-1] < 0.2 * run[0]
