"""Where the random part of a data set begins."""

import random

import numpy
import pytest
import torch
from PIL import Image

from hotlap.data import layers
from hotlap.data.layers import NotCacheable
from hotlap.data.packing import CannotPack, pack
from hotlap.data.randomness import steady

INDICES = [0, 3, 7]


class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, value):
        for one in self.transforms:
            value = one(value)
        return value


class Photos:
    """As torchvision's: an image and a label, a transform for the image."""

    def __init__(self, transform=None):
        self.transform = transform
        self.reads = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.reads += 1
        pixels = numpy.full((8, 8, 3), 10 * index, dtype=numpy.uint8)
        image = Image.fromarray(pixels)
        if self.transform is not None:
            image = self.transform(image)
        return image, index


class Smaller:
    def __call__(self, image):
        return image.resize((4, 4))


class Flip:
    def __call__(self, image):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if torch.rand(1) < 0.5 else image


class Noise:
    def __call__(self, tensor):
        return tensor + torch.randn_like(tensor)


class ToTensor:
    def __call__(self, image):
        array = numpy.array(image)
        return torch.from_numpy(array).permute(2, 0, 1).float() / 255


def test_a_fixed_set_without_transform_is_cached_whole():
    found = layers.below(torch.utils.data.TensorDataset(torch.arange(8)), INDICES)
    assert found.rest == ()
    assert found.told == "whole samples"


def test_the_cache_goes_below_a_random_transform():
    photos = Photos(Compose(Flip(), ToTensor()))
    found = layers.below(photos, INDICES)
    assert [type(one).__name__ for one in found.rest] == ["Flip", "ToTensor"]
    assert isinstance(found.dataset[3][0], Image.Image)
    assert found.told == "samples as they are before Flip"
    image, label = found.finish(found.dataset[3])
    assert (image.shape, label) == ((3, 8, 8), 3)


def test_fixed_transforms_before_the_random_one_are_done_once():
    found = layers.below(Photos(Compose(Smaller(), Flip(), ToTensor())), INDICES)
    assert [type(one).__name__ for one in found.rest] == ["Flip", "ToTensor"]
    assert found.dataset[3][0].size == (4, 4)


def test_samples_are_kept_where_they_are_small():
    """A tensor of floats is four times the image it is made of, and quickly made."""
    found = layers.below(Photos(Compose(Smaller(), ToTensor())), INDICES)
    assert [type(one).__name__ for one in found.rest] == ["ToTensor"]


def test_random_at_the_very_end_leaves_the_most_to_the_cache():
    found = layers.below(Photos(Compose(Smaller(), ToTensor(), Noise())), INDICES)
    assert [type(one).__name__ for one in found.rest] == ["ToTensor", "Noise"]


def test_a_single_transform_that_is_random_is_left_out_as_a_whole():
    found = layers.below(Photos(Flip()), INDICES)
    assert len(found.rest) == 1


def test_the_users_data_set_is_not_changed():
    transform = Compose(Flip(), ToTensor())
    photos = Photos(transform)
    layers.below(photos, INDICES)
    assert photos.transform is transform
    assert isinstance(photos[0][0], torch.Tensor)


def test_the_users_random_numbers_go_on_as_if_nothing_had_happened():
    torch.manual_seed(5)
    random.seed(5)
    numpy.random.seed(5)
    expected = torch.rand(1), random.random(), numpy.random.rand()
    torch.manual_seed(5)
    random.seed(5)
    numpy.random.seed(5)
    layers.below(Photos(Compose(Flip(), ToTensor())), INDICES)
    assert (torch.rand(1), random.random(), numpy.random.rand()) == expected


def test_the_source_is_asked_only_a_few_times_for_each_sample():
    photos = Photos(Compose(Smaller(), Flip(), ToTensor()))
    layers.below(photos, INDICES)
    assert photos.reads <= 4 * len(INDICES)


class Inside(Photos):
    """Augments by itself, not in its transform."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return (image.rotate(90) if random.random() < 0.5 else image), label


def test_random_that_is_not_in_the_transform_is_refused_with_the_reason():
    with pytest.raises(NotCacheable, match="not by its transform alone"):
        layers.below(Inside(Compose(ToTensor())), INDICES)


class Needy(Photos):
    """Cannot do without the tensors its transform makes."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image.mean(), label


class Later(Photos):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return (-image if isinstance(image, torch.Tensor) else image), label


@pytest.mark.parametrize(
    ("kind", "told"),
    [(Needy, "cannot be had by itself .AttributeError"), (Later, "is not the last thing")],
)
def test_a_cache_that_could_not_be_put_below_says_what_was_in_the_way(kind, told):
    with pytest.raises(NotCacheable, match=told):
        layers.below(kind(Compose(ToTensor(), Noise())), INDICES)


def brighter(image):
    return image.point(lambda value: value + torch.randint(9, ()).item())


def test_a_function_is_called_by_its_name():
    assert layers.below(Photos(brighter), INDICES).told == "samples as they are before brighter"


class Own:
    def __init__(self):
        self.generator = numpy.random.default_rng(0)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor(self.generator.random())


def test_a_generator_of_its_own_is_found_by_its_answers():
    with pytest.raises(NotCacheable, match="no `transform` to look into"):
        layers.below(Own(), INDICES)


def test_random_numbers_drawn_in_vain_count_as_random():
    def ask():
        torch.rand(1)
        return 1

    assert steady(ask) is None
    assert steady(lambda: 1) == pack(1)


class Joint(Photos):
    """Its transform sees image and label together."""

    def __getitem__(self, index):
        image, label = Image.new("L", (2, 2), index), index
        return self.transform(image, label)


def test_a_transform_of_another_kind_is_not_taken_apart():
    found = layers.below(Joint(lambda image, label: (image, label + 1)), INDICES)
    assert found.rest == ()


class Sample(dict):
    pass


def test_samples_that_cannot_be_kept_are_named():
    class Exotic(Photos):
        def __getitem__(self, index):
            return Sample(x=1)

    with pytest.raises(CannotPack, match="Sample"):
        layers.below(Exotic(), INDICES)


class Vision(Photos):
    """As torchvision's VOC: it calls `transforms`, which holds the transform once more."""

    class Both:
        def __init__(self, transform):
            self.transform = transform

        def __call__(self, image, label):
            return self.transform(image), label

    def __init__(self, transform):
        super().__init__(transform)
        self.transforms = self.Both(transform)

    def __getitem__(self, index):
        return self.transforms(Image.new("RGB", (4, 4), (index, 0, 0)), index)


def test_the_transform_that_torchvision_keeps_twice_is_taken_out_of_both():
    found = layers.below(Vision(Compose(Flip(), ToTensor())), INDICES)
    assert isinstance(found.dataset[2][0], Image.Image)
    assert len(found.rest) == 2


class Image8(torch.Tensor):
    """As torchvision's tv_tensors: no cache keeps them."""


class ToImage:
    def __call__(self, image):
        return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float().as_subclass(Image8)


class Halve:
    def __call__(self, image):
        return image / 2


def test_what_comes_out_above_the_cache_may_be_of_any_kind():
    photos = Photos(Compose(ToImage(), Noise(), Halve()))
    found = layers.below(photos, INDICES)
    assert [type(one).__name__ for one in found.rest] == ["ToImage", "Noise", "Halve"]
    assert isinstance(found.finish(found.dataset[3])[0], Image8)


class Target(Photos):
    """As torchvision's VisionDataset with `transforms`: for an image and its target."""

    def __init__(self, transforms):
        super().__init__()
        self.transforms = transforms

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return self.transforms(image, {"label": label})


class Mirror:
    def __call__(self, image, target):
        if torch.rand(()) < 0.5:
            return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), {**target, "mirrored": True}
        return image, {**target, "mirrored": False}


class Shrink:
    def __call__(self, image, target):
        return image.resize((4, 4)), {**target, "scale": 2}


class Both(Compose):
    def __call__(self, image, target):
        for one in self.transforms:
            image, target = one(image, target)
        return image, target


Both.__name__ = "Compose"


def test_the_cache_goes_below_a_transform_of_image_and_target():
    found = layers.below(Target(Both(Shrink(), Mirror())), INDICES)
    assert [type(one).__name__ for one in found.rest] == ["Mirror"]
    assert found.dataset[3][0].size == (4, 4)
    assert found.dataset[3][1] == {"label": 3, "scale": 2}
    seen = {found.finish(found.dataset[3])[1]["mirrored"] for _ in range(40)}
    assert seen == {True, False}


class Boxes:
    """Does something to the target only where there is something to do."""

    def __call__(self, image, target=None):
        image = image.rotate(90) if torch.rand(()) < 0.5 else image
        if target is None:
            return image
        return image, target if target["label"] < 5 else {"label": -1}


def test_a_transform_that_is_given_the_target_gets_it_also_where_that_did_not_matter():
    found = layers.below(Target(Boxes()), [0, 1, 2])
    assert found.finish(found.dataset[7])[1] == {"label": -1}


HIDDEN = numpy.random.default_rng(0)


class Shaken:
    """Draws from a generator that it neither holds nor names."""

    def __call__(self, image):
        drawn = globals()["HIDDEN"].integers(0, 256, (8, 8, 3), dtype=numpy.uint8)
        return Image.fromarray(drawn ^ numpy.asarray(image.resize((8, 8))))


@pytest.mark.parametrize("transform", [Shaken(), Compose(Smaller(), Shaken(), ToTensor())])
def test_a_transform_whose_generator_is_not_found_stays_above_the_cache(transform):
    found = layers.below(Photos(transform), INDICES)
    assert found.rest == (transform,)
    assert isinstance(found.dataset[3][0], Image.Image)


def test_of_torchvisions_compose_the_fixed_part_is_done_once_before_such_a_one(monkeypatch):
    monkeypatch.setattr(Compose, "__module__", "torchvision.transforms.transforms")
    found = layers.below(Photos(Compose(Smaller(), Shaken(), ToTensor())), INDICES)
    assert [type(one).__name__ for one in found.rest] == ["Shaken", "ToTensor"]


def test_what_is_done_after_such_a_one_is_seen():
    with pytest.raises(NotCacheable, match="is not the last thing"):
        layers.below(Later(Compose(Shaken(), ToTensor())), INDICES)
