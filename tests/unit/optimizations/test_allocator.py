"""allocator: the variables a command starts with."""

import pytest

from hotlap import optimizations
from hotlap.optimizations import allocator


@pytest.fixture
def installed(tmp_path, monkeypatch):
    library = tmp_path / "libjemalloc.so.2"
    library.touch()
    monkeypatch.setattr(allocator, "_PLACES", (str(tmp_path),))
    return str(library)


def test_segments_grow_beside_what_the_user_set():
    name = "PYTORCH_CUDA_ALLOC_CONF"
    grow = {"kind": "expandable-segments"}
    assert allocator.environment(grow, {}) == {name: "expandable_segments:True"}
    given = {name: "max_split_size_mb:128"}
    both = "max_split_size_mb:128,expandable_segments:True"
    assert allocator.environment(grow, given) == {name: both}


def test_what_the_user_set_by_the_newer_name_is_kept():
    grow, name = {"kind": "expandable-segments"}, "PYTORCH_ALLOC_CONF"
    both = "max_split_size_mb:128,expandable_segments:True"
    assert allocator.environment(grow, {name: "max_split_size_mb:128"}) == {name: both}
    older = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", name: "max_split_size_mb:128"}
    assert list(allocator.environment(grow, older)) == ["PYTORCH_CUDA_ALLOC_CONF"]


def test_an_installed_library_is_loaded_before_those_the_user_loads(installed):
    kind = {"kind": "jemalloc"}
    assert allocator.find("jemalloc") == installed
    assert allocator.environment(kind, {}) == {"LD_PRELOAD": installed}
    given = {"LD_PRELOAD": "/lib/mine.so"}
    assert allocator.environment(kind, given) == {"LD_PRELOAD": f"{installed}:/lib/mine.so"}
    assert allocator.by_hand(kind) == f"export LD_PRELOAD={installed}"


def test_a_library_that_is_not_installed_sets_nothing_but_is_still_explained(installed):
    kind = {"kind": "tcmalloc"}
    assert allocator.find("tcmalloc") is None
    assert allocator.environment(kind, {}) == {}
    assert "libtcmalloc" in allocator.by_hand(kind)


def test_a_recipes_variables_are_collected():
    changes = {"threads": {"threads": 1}, "allocator": {"kind": "expandable-segments"}}
    made = optimizations.environment(changes, {"HOME": "/home/user"})
    assert made == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert optimizations.environment({"threads": {"threads": 1}}, {}) == {}


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_the_process_says_whether_it_was_started_with_them(train, name):
    recipe = {"allocator": {"kind": "expandable-segments"}}
    run = train(recipe, "")
    assert run.done["allocator"]["status"] == "refused"
    script = f"""
        os.environ["{name}"] = "max_split_size_mb:9,expandable_segments:True"
        from hotlap.optimizations import allocator

        allocator.install(training, {{"kind": "expandable-segments"}})
        """
    run = train({}, script)
    assert run.done["allocator"] == {"status": "applied", "detail": "expandable-segments"}
