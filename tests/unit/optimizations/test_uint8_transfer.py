"""uint8-transfer: bytes are handed out, and the same floats come of them."""

import pytest
from vision import VISION, flat

BYTES = {"uint8-transfer": {}}
PHOTOS = (
    VISION
    + """
class Photos(CIFAR10):
    pass

crop, flip = RandomCrop(8, padding=2), RandomHorizontalFlip()
def batches(data, **options):
    torch.manual_seed(0)
    random.seed(0)
    return content(DataLoader(data, batch_size=16, **options))
"""
)


@pytest.mark.parametrize("transform", ["crop, flip, ToTensor(), normal", "ToTensor()"])
def test_the_batches_are_those_of_the_script(train, transform):
    script = PHOTOS + f"told['x'] = batches(Photos(Compose([{transform}])))"
    plain, run = train({}, script), train(BYTES, script)
    assert run.done["uint8-transfer"] == {"status": "applied", "detail": "dataset=Photos"}
    assert flat(run.told["x"]) == pytest.approx(flat(plain.told["x"]), abs=1e-5)


def test_workers_hand_over_bytes(train):
    run = train(
        BYTES,
        PHOTOS
        + """
loader = DataLoader(Photos(Compose([ToTensor(), normal])), batch_size=16, num_workers=1)
told["inside"] = str(loader.dataset[0][0].dtype)
x, y = next(iter(loader))
told["outside"] = str(x.dtype)
""",
    )
    assert run.told == {"inside": "torch.uint8", "outside": "torch.float32"}


@pytest.mark.parametrize(
    "around", ["torch.utils.data.Subset(data, range(3, 30))", "Concurrent(data, threads=2)"]
)
def test_the_transform_may_be_that_of_a_set_inside(train, around):
    script = (
        PHOTOS
        + f"""
from hotlap.data import Concurrent
data = Photos(Compose([ToTensor(), normal]))
loader = DataLoader({around}, batch_size=16)
told["inside"] = str(loader.dataset[0][0].dtype)
told["x"], told["own"] = content(loader), str(data[0][0].dtype)
"""
    )
    plain, run = train({}, script), train(BYTES, script)
    assert run.done["uint8-transfer"]["status"] == "applied"
    assert (run.told["inside"], run.told["own"]) == ("torch.uint8", "torch.float32")
    assert flat(run.told["x"]) == pytest.approx(flat(plain.told["x"]), abs=1e-5)


def test_what_belongs_to_an_image_may_be_a_tensor(train):
    script = (
        PHOTOS
        + """
data = Photos(Compose([ToTensor()]))
data.targets = [torch.full((4,), label) for label in data.targets]
told["boxes"] = [y.tolist() for _, y in DataLoader(data, batch_size=8)]
"""
    )
    plain, run = train({}, script), train(BYTES, script)
    assert run.done["uint8-transfer"]["status"] == "applied"
    assert run.told == plain.told


def test_a_data_set_that_may_leave_its_transform_out_is_left_alone(train):
    script = (
        PHOTOS
        + """
class Partly(Photos):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return torch.zeros(3, 8, 8) if index == 7 else image, label

told["x"] = content(DataLoader(Partly(Compose([ToTensor(), normal])), batch_size=8))
"""
    )
    plain, run = train({}, script), train(BYTES, script)
    assert run.told == plain.told
    why = "Partly has a __getitem__ of its own"
    assert run.done["uint8-transfer"] == {"status": "refused", "detail": why}


def test_a_data_set_taken_out_of_its_loader_is_the_scripts_own(train):
    script = (
        PHOTOS
        + """
loader = DataLoader(Photos(Compose([ToTensor(), normal])), batch_size=8)
collate = lambda samples: torch.stack([image for image, _ in samples])
told["x"] = [x.tolist() for x in DataLoader(loader.dataset, batch_size=8, collate_fn=collate)]
told["y"] = content(DataLoader(loader.dataset, batch_size=8))
"""
    )
    plain, run = train({}, script), train(BYTES, script)
    assert run.told["x"] == plain.told["x"]
    assert flat(run.told["y"]) == pytest.approx(flat(plain.told["y"]), abs=1e-5)


def test_the_scripts_own_data_set_is_not_changed(train):
    run = train(
        BYTES,
        PHOTOS
        + """
data = Photos(Compose([ToTensor()]))
DataLoader(data, batch_size=16)
told["dtype"] = str(data[0][0].dtype)
""",
    )
    assert run.told == {"dtype": "torch.float32"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            "Photos(Compose([ToTensor(), RandomRotation([])]))",
            "after ToTensor comes RandomRotation",
        ),
        (
            "Photos(Compose([ToTensor(), normal, RandomRotation([])]))",
            "after Normalize comes RandomRotation",
        ),
        ("Photos(Compose([lambda image: torch.ones(1)]))", "no ToTensor"),
        ("TensorDataset(torch.ones(8))", "no `transform` to look into"),
        (
            "type('Odd', (Photos,), {'__getitem__': lambda self, at: torch.rand(3)})"
            "(Compose([ToTensor()]))",
            "Odd has a __getitem__ of its own",
        ),
        ("Photos(Compose([ToTensor()])), batch_size=None, sampler=[1, 2]", "samples, not batches"),
    ],
)
def test_what_is_not_known_is_left_alone(train, data, reason):
    given = data if "batch_size" in data else f"{data}, batch_size=8"
    run = train(BYTES, PHOTOS + f"told['n'] = len(list(DataLoader({given})))")
    assert run.done["uint8-transfer"]["status"] == "refused"
    assert reason in run.done["uint8-transfer"]["detail"]


def test_images_in_memory_with_transforms_of_ours_travel_as_bytes(train):
    script = """
from hotlap.data import Labelled
from hotlap.data.transforms import Crop, Flip, Normalize
torch.manual_seed(1)
images = torch.randint(0, 256, (40, 3, 8, 8), dtype=torch.uint8)
data = Labelled(images, torch.arange(40), [Crop(8, padding=2), Flip(), Normalize(0.5, 0.2)])
loader = DataLoader(data, batch_size=16)
told["inside"] = str(loader.dataset[0][0].dtype)
torch.manual_seed(0)
told["x"] = [[x.tolist(), y.tolist()] for x, y in loader]
"""
    plain, run = train({}, script), train(BYTES, script)
    assert run.done["uint8-transfer"] == {"status": "applied", "detail": "dataset=Labelled"}
    assert (plain.told["inside"], run.told["inside"]) == ("torch.float32", "torch.uint8")
    assert flat(run.told["x"]) == pytest.approx(flat(plain.told["x"]), abs=1e-5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("Labelled(images, labels, Flip())", "its transform ends with Flip, not Normalize"),
        (
            "Subset(Labelled(images, labels, Normalize(0.5, 0.2)), range(20))",
            "its Labelled lies within a Subset",
        ),
    ],
)
def test_why_images_in_memory_are_left_alone_is_said(train, data, reason):
    run = train(
        BYTES,
        f"""
from hotlap.data import Labelled
from hotlap.data.transforms import Flip, Normalize
from torch.utils.data import Subset
images, labels = torch.randint(0, 256, (40, 3, 8, 8), dtype=torch.uint8), torch.arange(40)
told["x"] = len(DataLoader({data}, batch_size=16))
""",
    )
    assert run.done["uint8-transfer"]["status"] == "refused"
    assert reason in run.done["uint8-transfer"]["detail"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("targets", "data.targets = [9 - label for label in data.targets]"),
        ("transform", "data.transform = Compose([ToTensor()])"),
        ("transform", "loader.dataset.transform = Compose([ToTensor()])"),
        ("targets", "data.targets[7] = 0"),
        ("data", "data.data, data.targets = data.data[:7], data.targets[:7]"),
    ],
)
def test_what_the_script_changes_on_its_data_set_changes_the_batches(train, name, change):
    script = (
        PHOTOS
        + f"""
data = Photos(Compose([ToTensor(), normal]))
loader = DataLoader(data, batch_size=16, shuffle=True)
torch.manual_seed(0)
told["first"] = content(loader)
{change}
told["then"] = [content(loader), content(loader)]
told["own"] = loader.dataset is data
"""
    )
    plain, run = train({}, script), train(BYTES, script)
    assert flat(run.told.pop("first")) == pytest.approx(flat(plain.told.pop("first")), abs=1e-5)
    assert run.told == plain.told
    told = f"the script changes `{name}` of its data set while it trains"
    assert run.done["uint8-transfer"]["until"] == told
