"""device-input: known image sets are served in batches, with the same content as their samples."""

import pytest
from vision import VISION, flat

INPUT = {"device-input": {}}


def test_what_is_not_random_comes_out_the_same_in_the_same_order(train):
    script = (
        VISION
        + """
data = CIFAR10(Compose([ToTensor(), normal]))
torch.manual_seed(3)
loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True)
told["epochs"] = [content(loader), content(loader)]
told["kind"] = type(next(iter(loader))).__name__
told["length"] = len(loader)
"""
    )
    plain, served = train({}, script), train(INPUT, script)
    assert served.done["device-input"] == {"status": "applied", "detail": "CIFAR10 on cpu"}
    assert served.told["length"] == plain.told["length"] == 2
    assert served.told["kind"] == plain.told["kind"] == "list"
    for ours, theirs in zip(served.told["epochs"], plain.told["epochs"], strict=True):
        for (x, y), (x_plain, y_plain) in zip(ours, theirs, strict=True):
            assert y == y_plain
            assert flat(x) == pytest.approx(flat(x_plain), abs=1e-5)


def test_random_crops_and_flips_are_of_the_right_images_and_differ_within_a_batch(train):
    run = train(
        INPUT,
        VISION
        + """
data = CIFAR10(Compose([RandomCrop(8, padding=2), RandomHorizontalFlip(), ToTensor()]))
loader = DataLoader(data, batch_size=40)
(x, y), = list(loader)
padded = torch.nn.functional.pad(torch.from_numpy(data.data).permute(0, 3, 1, 2), (2, 2, 2, 2))
places = []
for at in range(40):
    windows = {}
    for top in range(5):
        for left in range(5):
            window = padded[at, :, top : top + 8, left : left + 8].float() / 255
            windows[top, left, 0], windows[top, left, 1] = window, window.flip(-1)
    found = [place for place, window in windows.items() if torch.allclose(window, x[at])]
    places.append(found[0] if found else None)
told["known"] = None not in places
told["different"] = len(set(places))
told["labels"] = y.tolist() == data.targets
told["dtype"] = str(x.dtype)
""",
    )
    assert run.told["known"]
    assert run.told["different"] > 20
    assert run.told["labels"]
    assert run.told["dtype"] == "torch.float32"


def test_grey_images_are_known_as_well(train):
    script = VISION + "told['x'] = content(DataLoader(MNIST(Compose([ToTensor()])), batch_size=8))"
    plain, served = train({}, script), train(INPUT, script)
    assert flat(served.told["x"]) == pytest.approx(flat(plain.told["x"]), abs=1e-6)
    assert served.done["device-input"]["status"] == "applied"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "data = CIFAR10(Compose([RandomRotation([]), ToTensor()]))",
            "RandomRotation is not known",
        ),
        ("data = CIFAR10(Compose([ToTensor()]), lambda label: label)", "labels are transformed"),
        ("data = CIFAR10(Compose([ToTensor(), lambda x: x]))", "transform function is not known"),
        (
            "data = CIFAR10(Compose([RandomCrop(8, padding=2, padding_mode='edge'), ToTensor()]))",
            "pads by 'edge'",
        ),
        (
            "data = CIFAR10(Compose([ToTensor()])); data.targets = data.targets[::-1]\\n"
            "class Other(CIFAR10):\\n    pass\\ndata.__class__ = Other",
            "Other is none of the image sets in memory that hotlap knows",
        ),
        (
            "data = CIFAR10(Compose([ToTensor()]))\\n"
            "CIFAR10.__getitem__ = lambda self, at: (torch.zeros(3, 8, 8), self.targets[at])",
            "is not what its images and transforms make",
        ),
        (
            "data = TensorDataset(torch.zeros(8, 1), torch.zeros(8))",
            "TensorDataset is none of the image sets",
        ),
    ],
)
def test_what_is_not_known_is_left_alone(train, script, reason):
    script = script.replace("\\n", "\n")
    run = train(INPUT, VISION + script + "\ntold['n'] = len(list(DataLoader(data, batch_size=8)))")
    assert run.told["n"] > 0
    assert run.done["device-input"]["status"] == "refused"
    assert reason in run.done["device-input"]["detail"]


def test_a_loader_that_collates_by_itself_is_left_alone(train):
    run = train(
        INPUT,
        VISION
        + """
data = CIFAR10(Compose([ToTensor()]))
told["n"] = len(list(DataLoader(data, batch_size=8, collate_fn=lambda rows: rows)))
""",
    )
    assert "collates in its own way" in run.done["device-input"]["detail"]


def test_evaluation_is_left_alone(train):
    run = train(
        INPUT,
        VISION
        + """
data = CIFAR10(Compose([ToTensor()]))
DataLoader(data, batch_size=8, shuffle=True)
test = CIFAR10(Compose([ToTensor()]))
loader = DataLoader(test, batch_size=8)
told["kind"] = type(iter(loader)).__name__
with torch.no_grad():
    told["without gradients"] = type(iter(DataLoader(data, batch_size=8))).__name__
""",
    )
    assert run.told["kind"] == run.told["without gradients"] == "_SingleProcessDataLoaderIter"


def test_leaving_an_epoch_in_its_middle_begins_the_next_one_whole(train):
    run = train(
        INPUT,
        VISION
        + """
loader = DataLoader(CIFAR10(Compose([ToTensor()])), batch_size=8, num_workers=1,
                    persistent_workers=True)
next(iter(loader))
told["labels"] = [label for _, labels in loader for label in labels.tolist()]
""",
    )
    assert run.told["labels"] == [index % 10 for index in range(40)]


LABELLED = """
from hotlap.data import Labelled
from hotlap.data.transforms import Crop, Flip, Normalize
torch.manual_seed(1)
images = torch.randint(0, 256, (40, 3, 8, 8), dtype=torch.uint8)
labels = torch.arange(40)
def content(loader):
    return [[x.tolist(), y.tolist()] for x, y in loader]
"""


def test_images_in_memory_with_transforms_of_ours_are_known(train):
    script = (
        LABELLED
        + """
torch.manual_seed(3)
told["x"] = content(DataLoader(Labelled(images, labels, Normalize(0.5, 0.2)), 16, shuffle=True))
loader = DataLoader(Labelled(images, labels, [Crop(8, padding=2), Flip()]), batch_size=40)
(x, y), = list(loader)
told["labels"], told["kind"] = y.tolist(), str(x.dtype)
told["changed"] = int((x != images).flatten(1).any(1).sum())
"""
    )
    plain, served = train({}, script), train(INPUT, script)
    assert served.done["device-input"] == {"status": "applied", "detail": "Labelled on cpu"}
    assert served.told["x"] == plain.told["x"]
    assert served.told["labels"] == list(range(40))
    assert served.told["kind"] == "torch.uint8"
    assert served.told["changed"] > 30


def test_a_class_made_of_it_is_not_taken_for_it(train):
    run = train(
        INPUT,
        LABELLED
        + """
class Mixed(Labelled):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * torch.rand(()), label

told["x"] = len(content(DataLoader(Mixed(images, labels, Normalize(0.5, 0.2)), batch_size=40)))
""",
    )
    assert run.done["device-input"]["status"] != "applied"
    assert (
        "Mixed is none of the image sets in memory that hotlap knows"
        in run.done["device-input"]["detail"]
    )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("targets", "data.targets = [9 - label for label in data.targets]"),
        ("transform", "data.transform = Compose([ToTensor()])"),
        ("data", "data.data = 255 - data.data"),
        ("data", "data.data //= 2"),
        ("targets", "data.targets[7] = 0"),
    ],
)
def test_what_the_script_changes_on_its_data_set_changes_the_batches(train, name, change):
    script = (
        VISION
        + f"""
data = CIFAR10(Compose([ToTensor(), normal]))
loader = DataLoader(data, batch_size=16)
told["first"] = content(loader)
{change}
told["then"] = [content(loader), content(loader)]
"""
    )
    plain, served = train({}, script), train(INPUT, script)
    assert flat(served.told["first"]) == pytest.approx(flat(plain.told["first"]), abs=1e-5)
    assert served.told["then"] == plain.told["then"]
    told = f"the script changes `{name}` of its data set while it trains"
    assert served.done["device-input"]["until"] == told


COLLATES, SAMPLES = (
    "the loader collates in its own way",
    "the loader hands out samples, not batches",
)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("DataLoader(data, batch_size=8, shuffle=True, collate_fn=sevens)", COLLATES),
        ("changed(DataLoader(data, batch_size=8, shuffle=True))", COLLATES),
        ("DataLoader(data, batch_size=None, shuffle=True)", SAMPLES),
        ("DataLoader(data, batch_size=None)", None),  # it evaluates
        ("DataLoader(data, batch_size=8)", None),
    ],
)
def test_another_loader_of_the_same_data_set_is_left_alone(train, other, told):
    script = (
        LABELLED
        + f"""
data = Labelled(images, labels, Normalize(0.5, 0.2))

def sevens(batch):
    x, y = torch.utils.data.default_collate(batch)
    return x * 0 + 7, y

def changed(loader):
    loader.collate_fn = sevens
    return loader

served = DataLoader(data, batch_size=8, shuffle=True)
other = {other}
torch.manual_seed(3)
told["served"] = content(served)
told["other"] = [[x.tolist(), int(torch.as_tensor(y).sum())] for x, y in other]
told["kind"] = type(iter(other)).__name__
"""
    )
    plain, run = train({}, script), train(INPUT, script)
    assert run.told == plain.told
    done = run.done["device-input"]
    assert (done["status"], done.get("except")) == ("applied", told)
