"""What the search for what is trained passes by: it must cost next to nothing there."""

from watched import WATCHED

COUNTED = """
changes = []

plain_exchange = training._search._exchange
def counted(there, instead):
    changes.append(instead)
    plain_exchange(there, instead)
training._search._exchange = counted
"""


def test_modules_that_train_nothing_pass_without_a_change_of_the_class(train):
    run = train(
        {},
        WATCHED
        + COUNTED
        + """
optimizer = sgd(nn.Linear(4, 4))  # never called, so the search does not end
before = len(changes)
flip, teacher = nn.Sequential(nn.Identity(), nn.ReLU()), nn.Sequential(nn.Linear(4, 4))
for _ in range(10):
    flip(x)
    teacher(x)
told["changes"], told["watched"] = len(changes) - before, watched()
""",
    )
    assert run.told == {"changes": 0, "watched": True}


def test_a_module_that_comes_to_be_trained_later_is_found(train):
    run = train(
        {},
        WATCHED
        + """
model, late = nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = sgd(model)
late(x)
told["first"] = len(found)
optimizer.add_param_group({"params": list(late.parameters())})
late(x)
told["then"] = [one is late for one in found]
""",
    )
    assert run.told == {"first": 0, "then": [True]}


def test_a_process_that_loads_data_does_not_search(train):
    run = train(
        {},
        WATCHED
        + """
class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.flip = nn.Sequential(nn.Linear(4, 4))

    def __len__(self):
        return 4

    def __getitem__(self, index):
        self.flip(x)
        return watched()

optimizer = sgd(nn.Linear(4, 4))
told["here"] = watched()
loader = DataLoader(Data(), batch_size=4, num_workers=1)
told["there"] = next(iter(loader)).tolist()
told["still"] = watched()
""",
    )
    assert run.told == {"here": True, "there": [False] * 4, "still": True}
