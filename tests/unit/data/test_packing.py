"""Samples as bytes and back."""

import contextlib
from collections import namedtuple
from dataclasses import dataclass

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hotlap.data import packing
from hotlap.data.packing import CannotPack, leaves, pack, unpack

plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
nested = st.recursive(
    plain,
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.lists(inside, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(-5, 5), inside, max_size=4)
    ),
    max_leaves=12,
)


@given(nested)
@settings(max_examples=200, deadline=None)
def test_any_nest_of_plain_values_comes_back_as_it_was(sample):
    found = unpack(pack(sample))
    assert found == sample
    assert _types(found) == _types(sample)


def _types(value):
    if isinstance(value, dict):
        return {key: _types(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_types(one) for one in value)
    return type(value)


@pytest.mark.parametrize("values", [[1, 2, -3], (0.5, 1.0), [2**70, 1], [1, True], [1, 1.0], []])
def test_lists_of_numbers_keep_their_types(values):
    found = unpack(pack(values))
    assert found == values
    assert _types(found) == _types(values)


def test_a_list_of_token_ids_takes_eight_bytes_for_each():
    """And the plan of it is the same whatever the length: nothing is kept for each."""
    sizes = [len(pack({"ids": list(range(count))})) for count in (1000, 2000)]
    assert sizes[1] - sizes[0] == 8000
    packing._kept_reader.cache_clear()
    for count in range(1, 50):
        assert unpack(pack(list(range(count)))) == list(range(count))
    assert packing._kept_reader.cache_info().currsize == 1


def test_long_plans_are_read_and_not_kept():
    packing._kept_reader.cache_clear()
    for count in range(500, 510):
        assert unpack(pack([1, "a"] * count)) == [1, "a"] * count
    assert packing._kept_reader.cache_info().currsize == 0


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4),
        torch.randn(3, 5).T,
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.tensor(3.5, dtype=torch.bfloat16),
        torch.empty(0, 3),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.tensor([1 + 2j]).conj(),
        torch.arange(10)[3:7],
        torch.nn.Parameter(torch.ones(2), requires_grad=False),
    ],
)
def test_tensors_keep_their_type_shape_and_values(tensor):
    found = unpack(pack(tensor))
    assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(found, tensor)


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6, dtype="<u2").reshape(2, 3),
        numpy.arange(6.0).reshape(2, 3)[:, ::2],
        numpy.asfortranarray(numpy.eye(3)),
        numpy.array(5),
        numpy.array(["ab", "c"]),
        numpy.array([], dtype="f4"),
        numpy.arange(3, dtype=">i4"),
    ],
)
def test_arrays_keep_their_type_shape_and_values(array):
    found = unpack(pack(array))
    assert isinstance(found, numpy.ndarray)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert (found == array).all()


def test_a_piece_of_a_mapped_file_comes_back_as_an_array(tmp_path):
    mapped = numpy.memmap(tmp_path / "numbers", dtype="i4", mode="w+", shape=(4, 3))
    mapped[:] = 7
    found = unpack(pack(mapped[1:3]))
    assert type(found) is numpy.ndarray
    assert found.tolist() == [[7, 7, 7]] * 2


def test_complex_numbers_are_numbers():
    assert unpack(pack([1 + 2j, 3])) == [1 + 2j, 3]


def test_nested_tensors_are_named():
    nested = torch.nested.as_nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with pytest.raises(CannotPack, match=r"sample is .*[Nn]ested"):
        pack(nested)


def test_numbers_of_numpy_stay_numbers_of_numpy():
    found = unpack(pack(numpy.float32(1.5)))
    assert (type(found), found) == (numpy.float32, 1.5)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "CMYK", "1", "P", "F", "I", "I;16", "LA"])
def test_images_keep_their_mode_size_and_pixels(mode):
    image = Image.effect_noise((13, 7), 60).convert("RGB")
    image = image.quantize(8) if mode == "P" else image.convert("I" if mode == "I;16" else mode)
    image = image.convert(mode)
    found = unpack(pack((image, 3)))[0]
    assert (found.mode, found.size) == (image.mode, image.size)
    assert found.tobytes() == image.tobytes()
    assert found.convert("RGB").tobytes() == image.convert("RGB").tobytes()


def test_what_is_unpacked_is_a_copy():
    packed = bytearray(pack({"x": torch.zeros(4), "a": numpy.zeros(4)}))
    first = unpack(packed)
    first["x"] += 1
    first["a"] += 1
    again = unpack(packed)
    assert again["x"].sum() == again["a"].sum() == 0


@dataclass
class Box:
    x: int


@pytest.mark.parametrize(
    ("sample", "named"),
    [
        (Box(1), "Box"),
        ((1, {"deep": [object()]}), "sample[1]['deep'][0] is of type builtins.object"),
        ({1, 2}, "builtins.set"),
        (namedtuple("Point", "x")(1), "Point"),
        (torch.eye(2).to_mkldnn(), "a tensor of the layout _mkldnn"),
        (torch.eye(2).to_sparse(), "a tensor of the layout sparse_coo"),
        (torch.ones(2, device="meta"), "without memory (meta)"),
        (numpy.array([object()]), "array of object"),
        ({(1, 2): 3}, "a key of sample is of type builtins.tuple"),
        (lambda: 1, "function"),
    ],
)
def test_what_cannot_be_kept_is_named(sample, named):
    with pytest.raises(CannotPack) as problem:
        pack(sample)
    assert named in str(problem.value)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_bytes_give_another_value_or_a_value_error(data):
    packed = bytearray(pack((torch.arange(6.0), "text", 7, {"k": b"bytes"})))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at] ^= data.draw(st.integers(1, 255))
    packed = packed[: data.draw(st.integers(0, len(packed)))]
    with contextlib.suppress(ValueError):
        unpack(packed)


def test_the_leaves_of_a_nest_are_found():
    assert list(leaves((1, [2, {"a": 3, "b": (4,)}], "x"))) == [1, 2, 3, 4, "x"]


@pytest.mark.parametrize("number", [10**5000, -(10**5000), 2**64, -(2**63) - 1], ids=int.bit_length)
def test_numbers_of_any_length_are_kept(number):
    assert unpack(pack(number)) == number
    assert unpack(pack([number, 1])) == [number, 1]


def test_large_numbers_of_older_caches_are_still_read():
    plan, digits = b'"digits"', str(2**70).encode()
    packed = packing.LENGTH.pack(len(plan)) + plan + packing.SIZE.pack(len(digits)) + digits
    assert unpack(packed) == 2**70


def test_what_is_nested_too_deep_or_in_itself_is_named():
    deep = 1
    for _ in range(2000):
        deep = [deep]
    ring = []
    ring.append(ring)
    for sample in (deep, ring):
        with pytest.raises(CannotPack, match="sample is a list that is nested too deep"):
            pack(sample)


@pytest.mark.parametrize(
    "value",
    [numpy.str_(""), numpy.bytes_(b""), numpy.array(["", ""]), numpy.zeros((0, 3), "i2")],
)
def test_empty_texts_and_arrays_come_back(value):
    found = unpack(pack(value))
    assert type(found) is type(value)
    assert found.shape == value.shape
    assert numpy.array_equal(found, value)


HWC = torch.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "tensor",
    [
        HWC.permute(2, 0, 1),
        HWC.mT,
        HWC[..., :1].clone().permute(2, 0, 1),  # one channel: its stride says nothing, and is kept
        torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.rand(2, 3, 4, dtype=torch.complex64).permute(1, 2, 0).conj(),
        torch.arange(7)[3:],
        torch.zeros(0, 3).t(),
    ],
)
def test_a_tensor_without_gaps_keeps_its_strides(tensor):
    found = unpack(pack(tensor))
    assert torch.equal(found, tensor)
    if tensor.numel():
        assert found.stride() == tensor.stride()
    assert pack(found) == pack(tensor)


@pytest.mark.parametrize("tensor", [HWC.permute(2, 0, 1)[:, 1:, 1:], HWC[:, ::2].mT])
def test_a_tensor_with_gaps_keeps_its_order(tensor):
    found = unpack(pack(tensor))
    assert torch.equal(found, tensor)
    assert found.stride() == torch.empty_like(tensor).stride()


def test_a_repeated_tensor_and_a_reversed_array_come_back_in_the_usual_order():
    assert torch.equal(unpack(pack(torch.ones(3).expand(2, 3))), torch.ones(2, 3))
    array = numpy.arange(6).reshape(2, 3)[::-1]
    assert numpy.array_equal(unpack(pack(array)), array)


@pytest.mark.parametrize("kind", ["f4", "i2", "U3", ">i4", "M8[s]"])
@pytest.mark.parametrize("axes", [(2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_arrays_keep_their_strides(kind, axes):
    array = numpy.arange(24).reshape(2, 3, 4).astype(kind).transpose(axes)
    found = unpack(pack(array))
    assert found.dtype == array.dtype
    assert found.strides == array.strides
    assert numpy.array_equal(found, array)
    found[0] = found[1]  # a copy that can be written to


def test_a_field_of_records_comes_back():
    records = numpy.zeros(4, [("a", "i1"), ("b", "f4")])
    records["b"] = range(4)
    assert unpack(pack(records["b"])).tolist() == [0, 1, 2, 3]


def test_plain_samples_are_packed_as_they_were_before_strides_were_kept():
    plan = b'["tensor","uint8",[3,2]]'
    packed = pack(torch.arange(6, dtype=torch.uint8).reshape(3, 2))
    assert packed == packing.LENGTH.pack(len(plan)) + plan + bytes(range(6))


@pytest.mark.parametrize("laid", ["[1,9]", "[0,1]", "[-1,3]", "[1]", '["1","3"]', "[1.0,3.0]"])
@pytest.mark.parametrize("kind", ['"tensor","uint8"', '"array","|u1"'])
def test_strides_that_no_sample_has_are_damage(laid, kind):
    plan = f'["laid",{kind},[3,2],{laid}]'.encode()
    with pytest.raises(ValueError, match="no packed sample"):
        unpack(packing.LENGTH.pack(len(plan)) + plan + bytes(6))
