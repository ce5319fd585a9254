"""DeviceDataset: which samples come when, with which random numbers, and from where on."""

import itertools

import numpy
import pytest
import torch

from hotlap.data.resident import DeviceDataset
from hotlap.data.transforms import (
    ColorJitter,
    Compose,
    Crop,
    Cutout,
    Flip,
    Normalize,
    RandomErasing,
    Resize,
)

CHAINS = {
    "nothing": [],
    "crop and flip": [Crop(6, padding=2), Flip()],
    "reflected": [Crop(8, padding=3, mode="reflect"), Flip()],
    "normalised": [Crop(6, padding=2), Flip(), Normalize([0.5] * 3, [0.2] * 3)],
    "flip first": [Flip(), Crop(6, padding=2)],
    "the lot": [
        Crop(8, padding=2),
        Flip(),
        ColorJitter(0.3, 0.3, 0.3, 0.1),
        Resize(7),
        RandomErasing(),
        Normalize(0.5, 0.2),
        Cutout(3),
    ],
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=50):
    return torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8, generator=seeded(1))


def resident(chain="crop and flip", count=50, **options):
    options = {"batch_size": 8, "seed": 7} | options
    transform = options.pop("transform", CHAINS[chain])
    return DeviceDataset(pictures(count), torch.arange(count), transform=transform, **options)


def same(batches, others):
    batches, others = list(batches), list(others)
    return len(batches) == len(others) and all(
        torch.equal(mine, theirs)
        for batch, other in zip(batches, others, strict=True)
        for mine, theirs in zip(batch, other, strict=True)
    )


def labels(batches):
    return [int(label) for _, batch in batches for label in batch]


def test_every_sample_comes_once_an_epoch_in_an_order_that_changes():
    data = resident()
    first, second = labels(data), labels(data)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first != sorted(first)


def test_without_shuffling_samples_come_in_their_order():
    assert labels(resident(shuffle=False)) == list(range(50))


@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [8] * 6 + [2]), (True, [8] * 6)])
def test_len_counts_the_batches(drop_last, sizes):
    data = resident(drop_last=drop_last)
    assert len(data) == len(sizes)
    assert [len(inputs) for inputs, _ in data] == sizes


def test_a_batch_larger_than_the_data_is_the_data_or_nothing():
    assert [len(inputs) for inputs, _ in resident(batch_size=64)] == [50]
    assert list(resident(batch_size=64, drop_last=True)) == []
    assert list(resident(count=0)) == []


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("chain", CHAINS)
def test_batches_are_those_of_the_transform_itself(chain, layout):
    """Padding once and cutting from the whole set is only a faster way to the same images."""
    data = resident(chain, memory_format=layout)
    order, drawn = data._drawn(0)
    expected = Compose(CHAINS[chain]).apply(pictures()[order], drawn)
    inputs = torch.cat([inputs for inputs, _ in data])
    assert inputs.dtype == expected.dtype
    assert torch.allclose(inputs.float(), expected.float(), atol=1e-5)


def test_images_belong_to_their_labels():
    data = resident("nothing")
    for inputs, targets in data:
        assert torch.equal(inputs, pictures()[targets])


@pytest.mark.parametrize("chain", CHAINS)
def test_the_same_seed_gives_the_same_batches(chain):
    assert same(resident(chain), resident(chain))
    assert same(resident(chain, seed=seeded(3)), resident(chain, seed=seeded(3)))
    assert not same(resident(chain), resident(chain, seed=8))


def test_without_a_seed_manual_seed_decides():
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(list(resident(seed=None)))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_neighbouring_seeds_and_epochs_have_nothing_in_common():
    data, neighbour = resident(seed=1), resident(seed=2)
    data.set_epoch(1)
    assert labels(data) != labels(neighbour)


def test_an_image_looks_different_in_the_next_epoch():
    data = resident(shuffle=False)
    first, second = (torch.cat([inputs for inputs, _ in data]) for _ in range(2))
    assert not torch.equal(first, second)


def test_a_batch_that_was_kept_does_not_change():
    data = resident("nothing")
    kept, copies = [], []
    for inputs, targets in itertools.chain(data, data):
        kept += [inputs, targets]
        copies += [inputs.clone(), targets.clone()]
    assert all(torch.equal(mine, copy) for mine, copy in zip(kept, copies, strict=True))


@pytest.mark.parametrize("chain", CHAINS)
def test_writing_to_a_batch_does_not_change_the_data(chain):
    data = resident(chain)
    expected = list(resident(chain))
    for inputs, targets in data:
        inputs.zero_()
        targets.zero_()
    data.set_epoch(0)
    assert same(data, expected)


def test_a_resumed_epoch_goes_on_with_the_same_order_and_the_same_random_numbers():
    data = resident("the lot")
    list(data)
    batches = iter(data)
    for _ in range(3):
        next(batches)
    state = data.state_dict()
    rest = list(batches)
    following = list(data)
    resumed = resident("the lot", seed=99)
    resumed.load_state_dict(state)
    assert same(resumed, rest)
    assert same(resumed, following)


def test_a_state_that_was_saved_does_not_move_on():
    data = resident()
    batches = iter(data)
    next(batches)
    state = data.state_dict()
    next(batches)
    assert state == {"seed": 7, "epoch": 0, "position": 8, "samples": 50, "shuffle": True}


def test_setting_the_epoch_that_was_loaded_keeps_the_place():
    data = resident()
    batches = iter(data)
    next(batches)
    state, rest = data.state_dict(), list(batches)
    data.load_state_dict(state)
    data.set_epoch(0)
    assert same(data, rest)


def test_a_state_after_the_last_batch_leaves_nothing_of_its_epoch():
    data = resident()
    for _ in data:
        state = data.state_dict()
    following = list(data)
    data.load_state_dict(state)
    assert list(data) == []
    assert same(data, following)


def test_a_state_can_be_resumed_with_another_batch_size():
    data = resident()
    batches = iter(data)
    next(batches)
    state, rest = data.state_dict(), labels(batches)
    other = resident(batch_size=5)
    other.load_state_dict(state)
    assert labels(other) == rest


def test_an_iteration_older_than_the_loaded_state_says_so_instead_of_going_on():
    data = resident()
    batches = iter(data)
    next(batches)
    data.load_state_dict(data.state_dict())
    with pytest.raises(RuntimeError, match="call iter again"):
        next(batches)


def test_the_state_of_another_data_set_is_refused():
    with pytest.raises(ValueError, match=r"saved with samples=40.*has samples=50"):
        resident().load_state_dict(resident(count=40).state_dict())
    with pytest.raises(ValueError, match="it has no 'samples'"):
        resident().load_state_dict({})


def test_the_state_of_another_order_is_refused():
    with pytest.raises(ValueError, match=r"saved with shuffle=True.*has shuffle=False"):
        resident(shuffle=False).load_state_dict(resident().state_dict())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": 1.0}, r"seed is 1\.0; it is a whole number"),
        ({"batch_size": True}, "batch_size is True; it is a whole number"),
        ({"batch_size": 4.0}, r"batch_size is 4\.0; it is a whole number"),
        ({"labels": None}, "labels is None"),
        ({"transform": 3}, r"3 is not a hotlap\.data\.transforms\.Transform"),
    ],
)
def test_arguments_of_another_kind_are_named(options, told):
    images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    with pytest.raises(TypeError, match=told):
        DeviceDataset(images, **{"labels": torch.arange(4), "batch_size": 2, **options})


def test_numbers_of_numpy_and_no_transform_will_do():
    images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    options = {"batch_size": numpy.int64(2), "seed": numpy.int64(3), "transform": None}
    data = DeviceDataset(images, torch.arange(4), **options)
    assert len(list(data)) == 2
    assert repr(data) == "DeviceDataset(4 images of 3x8x8 on cpu, batch_size=2)"


def test_an_epoch_that_was_left_is_followed_by_the_next():
    data, whole = resident(), resident()
    next(iter(data))
    list(whole)
    assert same(data, whole)


def test_two_iterations_at_once_do_not_disturb_each_other():
    data, expected = resident(), resident()
    first, second = list(expected), list(expected)
    pairs = list(zip(data, data, strict=True))
    assert same([pair[0] for pair in pairs], first)
    assert same([pair[1] for pair in pairs], second)


def test_set_epoch_chooses_the_epoch():
    data = resident()
    third = [list(data) for _ in range(3)][2]
    data.set_epoch(2)
    assert same(data, third)
    next(iter(data))
    data.set_epoch(2)
    assert same(data, third)


def test_images_may_have_their_channels_last():
    last = pictures().permute(0, 2, 3, 1).contiguous()
    data = DeviceDataset(
        last,
        torch.arange(50),
        batch_size=8,
        transform=CHAINS["crop and flip"],
        seed=7,
        layout="NHWC",
    )
    assert same(data, resident())
    assert next(iter(data))[0].is_contiguous()


def test_batches_come_out_channels_last_when_asked():
    for chain in CHAINS:
        inputs, _ = next(iter(resident(chain, memory_format=torch.channels_last)))
        assert inputs.is_contiguous(memory_format=torch.channels_last)


def test_lists_and_arrays_will_do():
    numpy = pytest.importorskip("numpy")
    data = DeviceDataset(numpy.zeros((4, 3, 8, 8), numpy.uint8), [3, 1, 2, 0], batch_size=4, seed=0)
    inputs, targets = next(iter(data))
    assert inputs.dtype == torch.uint8
    assert sorted(targets.tolist()) == [0, 1, 2, 3]


def test_labels_may_have_any_shape():
    targets = torch.rand(50, 4)
    data = DeviceDataset(pictures(), targets, batch_size=50, shuffle=False)
    assert torch.equal(next(iter(data))[1], targets)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"layout": "CHWN"}, "layout is 'CHWN'"),
        ({"transform": [Crop(99)]}, "does not fit"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(options, words):
    with pytest.raises(ValueError, match=words):
        resident(**options)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (torch.zeros(4, 8, 8, 3, dtype=torch.uint8), "say layout='NHWC'"),
        (torch.zeros(4, 8, 8, dtype=torch.uint8), "count x channels"),
        (torch.zeros(5, 3, 8, 8, dtype=torch.uint8), "5 images, but 4 labels"),
    ],
)
def test_images_of_another_shape_are_refused(images, words):
    with pytest.raises(ValueError, match=words):
        DeviceDataset(images, torch.arange(4), batch_size=2)


def test_nothing_but_torch_is_needed(in_python):
    code = """
        import sys
        for name in ("numpy", "PIL", "torchvision"):
            sys.modules[name] = None
        import warnings
        warnings.simplefilter("ignore")
        import torch
        from hotlap.data.resident import DeviceDataset
        from hotlap.data.transforms import Crop, Flip, Normalize
        images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
        chain = [Crop(8, padding=1), Flip(), Normalize(0.5, 0.5)]
        data = DeviceDataset(images, torch.arange(4), batch_size=2, transform=chain)
        print(len(list(data)))
    """
    assert in_python(code) == "2\n"
