from __future__ import annotations

import io
import os
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from hotlap.data import budgets, decoding, images
from hotlap.data.decoding import ImageError, decoded
from hotlap.data.images import Folder, middle


def picture(height: int = 12, width: int = 16, *, mode: str = "RGB", shift: int = 0) -> Any:
    made = Image.linear_gradient("L").resize((width, height))
    bands = [made.point(lambda v, k=k: (v + 40 * k + shift) % 256) for k in range(3)]
    return Image.merge("RGB", bands).convert(mode)


def encoded(image: Any, kind: str = "JPEG") -> bytes:
    held = io.BytesIO()
    image.save(held, kind)
    return held.getvalue()


def pixels(image: Any) -> Any:
    held = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return held.view(image.height, image.width, 3)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    decoding.fast_decoder.cache_clear()
    yield
    decoding.fast_decoder.cache_clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, shift in (
        ("dog/b.jpg", 0),
        ("cat/2.png", 20),
        ("cat/10.JPG", 40),
        ("cat/in/1.jpg", 60),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(shift=shift), "PNG" if name.endswith("png") else "JPEG"))
    (tmp_path / "cat" / ".hidden.jpg").write_bytes(b"")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / ".cache").mkdir()
    return tmp_path


def test_classes_are_the_subfolders_and_all_is_sorted(root: Path) -> None:
    folder = Folder(root)
    assert folder.classes == ("cat", "dog")
    found = [str(folder.path(index).relative_to(root)) for index in range(len(folder))]
    assert found == ["cat/10.JPG", "cat/2.png", "cat/in/1.jpg", "dog/b.jpg"]
    assert folder.labels.tolist() == [0, 0, 0, 1]
    assert folder.path(-1) == root / "dog" / "b.jpg"


def test_an_item_is_a_uint8_image_and_its_label(root: Path) -> None:
    image, label = Folder(root)[3]
    assert (image.shape, image.dtype, label) == ((3, 12, 16), torch.uint8, 1)
    assert image.is_contiguous()


def test_pixels_without_loss_are_those_of_the_file(root: Path) -> None:
    assert torch.equal(Folder(root)[1][0], pixels(picture(shift=20)).permute(2, 0, 1))


def test_the_transform_is_applied_to_the_image(root: Path) -> None:
    image, label = Folder(root, transform=lambda image: image.float().mean())[0]
    assert image.dim() == 0
    assert label == 0


def test_a_for_loop_over_it_ends(root: Path) -> None:
    assert len(list(Folder(root))) == 4


def test_names_are_kept_in_tensors_whatever_bytes_they_have(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/k\xc3\xa4se/\xff\xfe.jpg"
    os.mkdir(os.path.dirname(odd))
    Path(os.fsdecode(odd)).write_bytes(encoded(picture()))
    folder = Folder(tmp_path)
    assert os.fsencode(folder.path(0)) == odd
    assert not [value for value in vars(folder).values() if isinstance(value, list)]
    assert torch.equal(pickle.loads(pickle.dumps(folder))[0][0], folder[0][0])


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_grey_of_16_bits_keeps_its_shades(kind: str) -> None:
    shades = [0, 255, 256, 30_000, 65_535, 77]
    image = Image.frombytes("I;16", (3, 2), b"".join(one.to_bytes(2, "little") for one in shades))
    found = decoded(encoded(image, kind), "it")
    assert found.shape == (3, 2, 3)
    assert found[1].flatten().tolist() == [one >> 8 for one in shades]


@pytest.mark.parametrize(("mode", "told"), [("F", "floats"), ("I", "32-bit numbers")])
def test_values_of_no_known_range_are_refused(mode: str, told: str) -> None:
    with pytest.raises(ImageError, match=f"it holds {told}, of no known range"):
        decoded(encoded(Image.new(mode, (2, 2), 1), "TIFF"), "it")


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1", "CMYK"])
def test_every_mode_comes_out_as_rgb(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    assert decoded(encoded(picture(mode=mode), kind), "it").shape == (3, 12, 16)


def test_a_palette_with_transparency_does_not_warn() -> None:
    held = io.BytesIO()
    picture(mode="P").save(held, "PNG", transparency=bytes(range(256)))
    assert decoded(held.getvalue(), "it").shape == (3, 12, 16)


def test_all_images_in_one_tensor(root: Path) -> None:
    folder = Folder(root, transform=lambda image: None)
    together, labels = folder.load_all()
    assert together.shape == (4, 3, 12, 16)
    assert labels.tolist() == [0, 0, 0, 1]
    assert all(torch.equal(together[at], folder.image(at)) for at in range(4))


def test_sizes_that_differ_name_two_files(root: Path) -> None:
    (root / "dog" / "z.png").write_bytes(encoded(picture(20, 20), "PNG"))
    with pytest.raises(ImageError, match=r"z\.png is \(3, 20, 20\) and .*10\.JPG is \(3, 12, 16\)"):
        Folder(root).load_all()


def test_a_size_makes_them_agree(root: Path) -> None:
    (root / "dog" / "z.png").write_bytes(encoded(picture(20, 33), "PNG"))
    assert Folder(root).load_all(size=8)[0].shape == (5, 3, 8, 8)


def test_the_middle_is_cut_without_scaling_if_it_fits() -> None:
    image = torch.arange(3 * 4 * 8, dtype=torch.uint8).view(3, 4, 8)
    assert torch.equal(middle(image, 4), image[:, :, 2:6])


def test_more_than_fits_into_memory_is_refused(root: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(budgets, "ram", lambda: 1000)
    with pytest.raises(ImageError, match=r"4 images .* of memory"):
        Folder(root).load_all()


# What is wrong with a file or a folder


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"this is no image at all", "it is no image"),
        (encoded(picture(90, 120))[:900], "truncated"),
        (encoded(picture(90, 120), "PNG")[:80], "cannot be decoded"),
        (b"\xff\xd8\xff", "cannot be decoded"),
    ],
)
def test_a_broken_file_is_named_with_the_reason(root: Path, content: bytes, reason: str) -> None:
    (root / "cat" / "0.jpg").write_bytes(content)
    with pytest.raises(ImageError, match=rf"cat/0\.jpg .*{reason}"):
        Folder(root)[0]
    with pytest.raises(ImageError, match=r"cat/0\.jpg"):
        Folder(root).load_all()


def test_a_file_that_went_away_is_named(root: Path) -> None:
    folder = Folder(root)
    (root / "dog" / "b.jpg").unlink()
    with pytest.raises(ImageError, match=r"b\.jpg cannot be read: No such file"):
        folder[3]


def test_a_file_that_is_a_folder_is_named(root: Path) -> None:
    folder = Folder(root)
    (root / "dog" / "b.jpg").unlink()
    (root / "dog" / "b.jpg").mkdir()
    with pytest.raises(ImageError, match=r"b\.jpg cannot be read: Is a directory"):
        folder[3]


def test_an_error_survives_the_way_from_a_worker(root: Path) -> None:
    (root / "cat" / "0.jpg").write_bytes(b"")
    loader = torch.utils.data.DataLoader(Folder(root), batch_size=None, num_workers=1)
    with pytest.raises(ImageError, match=r"0\.jpg is empty"):
        next(iter(loader))


def test_folders_that_hold_nothing_to_learn_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="is empty; each class needs a folder"):
        Folder(tmp_path)
    with pytest.raises(ImageError, match="cannot be listed: No such file"):
        Folder(tmp_path / "nowhere")
    (tmp_path / "1.jpg").write_bytes(encoded(picture()))
    with pytest.raises(ImageError, match="has no subfolders"):
        Folder(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(ImageError, match="cat has no images"):
        Folder(tmp_path)


def test_a_folder_that_cannot_be_listed_is_named(root: Path, monkeypatch: Any) -> None:
    def refusing(top: bytes, onerror: Any) -> Any:
        onerror(PermissionError(13, "Permission denied", top))

    monkeypatch.setattr(images.os, "walk", refusing)
    with pytest.raises(ImageError, match="cat cannot be listed: Permission denied"):
        Folder(root)


# Decoders


def simplejpeg(calls: list[str]) -> Any:
    """What the package does, by Pillow."""
    module: Any = types.ModuleType("simplejpeg")

    def decode_jpeg(data: bytes, colorspace: str) -> Any:
        calls.append(colorspace)
        return pixels(Image.open(io.BytesIO(data)).convert("RGB")).numpy()

    module.decode_jpeg = decode_jpeg
    return module


def turbojpeg(calls: list[str]) -> Any:
    module: Any = types.ModuleType("turbojpeg")
    fast = simplejpeg(calls).decode_jpeg

    class TurboJPEG:
        def decode(self, data: bytes, *, pixel_format: int) -> Any:
            return fast(data, f"format {pixel_format}")

    module.TurboJPEG, module.TJPF_RGB = TurboJPEG, 0
    return module


def without(monkeypatch: Any, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_simplejpeg_decodes_if_it_is_there(monkeypatch: Any) -> None:
    without(monkeypatch, "simplejpeg", "turbojpeg")
    data = encoded(picture())
    by_pillow = decoded(data, "it")
    decoding.fast_decoder.cache_clear()
    calls: list[str] = []
    monkeypatch.setitem(sys.modules, "simplejpeg", simplejpeg(calls))
    assert torch.equal(decoded(data, "it"), by_pillow)
    assert calls == ["RGB"]


def test_turbojpeg_decodes_if_only_that_is_there(monkeypatch: Any) -> None:
    calls: list[str] = []
    without(monkeypatch, "simplejpeg")
    monkeypatch.setitem(sys.modules, "turbojpeg", turbojpeg(calls))
    assert decoded(encoded(picture()), "it").shape == (3, 12, 16)
    assert calls == ["format 0"]
    with pytest.raises(ImageError, match="truncated"):  # it would only have warned
        decoded(encoded(picture(90, 120))[:900], "it")
    assert len(calls) == 1


def test_turbojpeg_without_its_library_is_passed_over(monkeypatch: Any) -> None:
    module = turbojpeg([])

    def missing() -> None:
        raise RuntimeError("unable to locate turbojpeg library")

    module.TurboJPEG = missing
    without(monkeypatch, "simplejpeg")
    monkeypatch.setitem(sys.modules, "turbojpeg", module)
    assert decoded(encoded(picture()), "it").shape == (3, 12, 16)


def test_what_the_fast_decoder_refuses_pillow_decodes(monkeypatch: Any) -> None:
    module: Any = types.ModuleType("simplejpeg")
    calls: list[str] = []

    def strict(data: bytes, colorspace: str) -> Any:
        calls.append(colorspace)
        raise ValueError("extraneous bytes before marker")

    module.decode_jpeg = strict
    monkeypatch.setitem(sys.modules, "simplejpeg", module)
    assert decoded(encoded(picture()), "it").shape == (3, 12, 16)
    assert calls == ["RGB"]


def test_only_jpegs_for_screens_go_to_the_fast_decoder(monkeypatch: Any) -> None:
    calls: list[str] = []
    monkeypatch.setitem(sys.modules, "simplejpeg", simplejpeg(calls))
    decoded(encoded(picture(), "PNG"), "it")
    decoded(encoded(picture(mode="CMYK")), "it")
    assert calls == []
    decoded(encoded(picture(mode="L")), "it")
    assert calls == ["RGB"]


def test_without_any_decoder_the_package_to_install_is_named(monkeypatch: Any) -> None:
    data = encoded(picture())
    without(monkeypatch, "simplejpeg", "turbojpeg", "PIL", "PIL.Image")
    with pytest.raises(ImageError, match="pip install pillow"):
        decoded(data, "it")


def test_importing_needs_no_decoder_and_no_numpy(in_python: Any) -> None:
    told = in_python(
        """
        import sys
        for name in ("PIL", "numpy", "simplejpeg", "turbojpeg"):
            sys.modules[name] = None
        import warnings
        warnings.simplefilter("ignore")  # torch is not happy without numpy
        from hotlap.data import cifar, images, superres, synthetic
        print(synthetic.SyntheticImages(count=2).images.shape)
        """
    )
    assert "[2, 3, 32, 32]" in told
