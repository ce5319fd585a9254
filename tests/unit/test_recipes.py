"""Recipes: what people read, edit and commit, checked before anything runs with it."""

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap import optimizations
from hotlap.errors import UsageError
from hotlap.optimizations import OPTIMIZATIONS
from hotlap.recipes import Recipe, check_names

RECIPE = Recipe.of(
    {
        "precision-bf16": {},
        "loader-workers": {"workers": 8},
        "compile": {"mode": "reduce-overhead"},
    }
)


@st.composite
def recipes(draw):
    recipe = Recipe()
    for one in draw(st.lists(st.sampled_from(OPTIMIZATIONS), max_size=8)):
        settings = {
            key: draw(st.integers(1, 64) if allowed is int else st.sampled_from(allowed))
            for key, allowed in one.SETTINGS.items()
            if key in getattr(one, "REQUIRED", ()) or draw(st.booleans())
        }
        recipe = recipe.having(one.NAME, settings)
    return recipe


@given(recipes(), st.lists(st.text(), max_size=3))
def test_a_recipe_is_read_back_as_it_was_written(tmp_path_factory, recipe, comments):
    file = tmp_path_factory.mktemp("recipe") / "hotlap.toml"
    recipe.save(file, *comments)
    again = Recipe.load(file)
    assert again == recipe
    assert again.key == recipe.key
    assert list(again.changes) == list(recipe.changes)


@given(recipes())
def test_what_is_added_fits_what_is_there(recipe):
    assert Recipe.of(recipe.changes) == recipe


@given(recipes(), st.sampled_from(OPTIMIZATIONS))
def test_what_is_taken_away_leaves_a_recipe_that_stands(recipe, one):
    left = recipe.without(one.NAME)
    assert one.NAME not in left.changes
    assert Recipe.of(left.changes) == left
    assert left.changes.items() <= recipe.changes.items()


def test_the_file_is_short_and_readable():
    assert RECIPE.to_toml("1.84x (1.79-1.90) on train.py", "two\nlines") == (
        "# 1.84x (1.79-1.90) on train.py\n"
        "# two\n"
        "# lines\n"
        "schema = 1\n"
        "\n"
        "[loader-workers]\n"
        "workers = 8\n"
        "\n"
        "[compile]\n"
        'mode = "reduce-overhead"\n'
        "\n"
        "[precision-bf16]\n"
    )


def test_the_order_is_that_of_applying_however_it_was_given():
    order = [one.NAME for one in OPTIMIZATIONS]
    assert list(RECIPE.changes) == sorted(RECIPE.changes, key=order.index)
    backwards = Recipe(dict(reversed(RECIPE.changes.items())))
    assert backwards == RECIPE
    assert backwards.key == RECIPE.key


def test_a_recipe_does_not_share_its_settings():
    settings = {"workers": 2}
    recipe = Recipe.of({"loader-workers": settings})
    settings["workers"] = 99
    assert recipe.changes["loader-workers"] == {"workers": 2}


def test_an_empty_recipe_is_the_command_as_it_is():
    assert not Recipe()
    assert Recipe().label() == "baseline"
    assert Recipe().compiled == ""
    assert Recipe.of({"schema": 1}) == Recipe()
    assert RECIPE


def test_a_label_is_a_few_words():
    assert RECIPE.label() == "loader-workers 8 + compile reduce-overhead + precision-bf16"


def test_the_compilers_cache_is_known_by_what_the_compiler_sees():
    assert Recipe.of({"precision-bf16": {}}).compiled == ""
    more = RECIPE.having("fused-optimizer", {}).having("loader-workers", {"workers": 2})
    assert more.compiled == RECIPE.compiled != ""
    assert RECIPE.having("channels-last", {}).compiled != RECIPE.compiled
    assert RECIPE.having("compile", {"mode": "default"}).compiled != RECIPE.compiled
    assert RECIPE.without("precision-bf16").compiled != RECIPE.compiled
    budgets = [Recipe.of({"memory-budget": {"percent": percent}}) for percent in (50, 25)]
    assert "" != budgets[0].compiled != budgets[1].compiled, "where the script compiles"


def test_having_one_brings_what_it_needs_and_drives_out_what_it_cannot_stand():
    recipe = Recipe().having("non-blocking-copy", {})
    assert set(recipe.changes) == {"non-blocking-copy", "pinned-memory"}
    other = recipe.having("device-prefetch", {})
    assert set(other.changes) == {"device-prefetch", "pinned-memory"}
    accumulating = Recipe().having("precision-fp16", {})
    accumulating = accumulating.having("gradient-accumulation", {"parts": 2})
    assert set(accumulating.changes) == {"gradient-accumulation"}  # only one of them says so
    scaled = accumulating.having("precision-fp16", {})
    assert set(scaled.changes) == {"precision-fp16"}


def test_having_one_again_changes_its_settings():
    recipe = RECIPE.having("loader-workers", {"workers": 2})
    assert recipe.changes["loader-workers"] == {"workers": 2}
    assert RECIPE.changes["loader-workers"] == {"workers": 8}


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("precision_bf16", {}, "names precision_bf16, which is no optimization. Did you mean prec"),
        ("threads", {"threads": 0}, "threads is 0; it must be a whole number from 1"),
        ("batch-size", {}, "batch-size needs factor"),
    ],
)
def test_having_what_there_is_not_is_told_before_anything_is_changed(name, settings, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        Recipe().having(name, settings)


def test_a_recipe_of_an_unknown_name_says_so_whatever_it_is_asked_for():
    with pytest.raises(UsageError, match=r"nope is no optimization\. There are: allocator"):
        Recipe({"nope": {}}).having("tf32", {})


def test_without_one_goes_what_needs_it():
    recipe = Recipe().having("device-prefetch", {}).having("tf32", {})
    assert set(recipe.without("pinned-memory").changes) == {"tf32"}
    assert set(recipe.without("device-prefetch").changes) == {"pinned-memory", "tf32"}
    assert recipe.without("compile") == recipe


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[compil]\n", "mine.toml names compil, which is no optimization. Did you mean compile?"),
        ("[warp-drive]\n", "names warp-drive, which is no optimization. There are: allocator,"),
        ("compile = true\n", "compile must be a table, like [compile]."),
        ("[compile]\nlevel = 3\n", "compile has no setting level. It has mode."),
        ("[tf32]\non = true\n", "tf32 has no setting on. It has none."),
        ('[compile]\nmode = "fast"\n', "mode of compile is 'fast'; it is one of default, re"),
        ("[compile]\nmode = 1\n", "mode of compile is 1; it is one of default"),
        ("[compile]\nmode = []\n", "mode of compile is []; it is one of default"),
        ('[threads]\nthreads = "2"\n', "threads is '2'; it must be a whole number from 1 to"),
        ("[threads]\nthreads = 1.5\n", "threads is 1.5; it must be a whole number from 1 to"),
        ("[threads]\nthreads = true\n", "threads is True; it must be a whole number from 1 to"),
        (
            "[threads]\nthreads = 0\n",
            "mine.toml: threads is 0; it must be a whole number from 1 to",
        ),
        (
            "[gradient-accumulation]\nparts = 0\n",
            "it must be a whole number from 1 to 1000000.",
        ),
        (
            "[batch-size]\nfactor = -2\n",
            "factor of batch-size is -2; it must be a whole number from 1 to",
        ),
        (
            "[loader-workers]\nworkers = -1\n",
            "-1; it must be a whole number from 0 to 1024.",
        ),
        (
            "[threads]\nthreads = 100000\n",
            "100000; it must be a whole number from 1 to 1024.",
        ),
        (f"[batch-size]\nfactor = {10**23}\n", "must be a whole number from 1 to 1000000."),
        (f"[threads]\nthreads = {'9' * 4000}\n", f"threads is {'9' * 40}...; it must be a whole"),
        ("[sample-cache]\npercent = 101\n", "must be a whole number from 1 to 100."),
        ("[fused-optimizer]\n[foreach-optimizer]\n", "has both fused-optimizer and foreach-"),
        (
            "[precision-fp16]\n[gradient-accumulation]\nparts = 2\n",
            "has both gradient-accumulation and",
        ),
        ("[loader-workers]\n", "loader-workers needs workers. Add a line like workers = 2."),
        ("[threads]\nthreds = 1\n", "has no setting threds. It has threads, worker-threads."),
        ("[batch-size]\n", "batch-size needs factor. Add a line like factor = 2."),
        ("[gradient-accumulation]\n", "gradient-accumulation needs parts."),
        ("[device-prefetch]\n", "device-prefetch needs pinned-memory. Add [pinned-memory]."),
        ("schema = 2\n", "mine.toml has schema 2, this hotlap reads 1. Upgrade hotlap."),
        (
            'schema = "1"\n',
            "has schema '1', this hotlap reads 1. Write schema = 1, or leave it",
        ),
        ("schema = true\n", "has schema True, this hotlap reads 1. Write schema = 1, or leave it"),
        ("schema = 1.0\n", "has schema 1.0, this hotlap reads 1. Write schema = 1, or leave it"),
        ("schema = 0\n", "has schema 0, this hotlap reads 1. Write schema = 1, or leave it out."),
        ("[compile\n", "mine.toml is not TOML: "),
        ("[compile\n", "Correct it there: each line is a comment, a [name] or a setting like"),
        (f"[threads]\nthreads = {'9' * 9000}\n", "mine.toml is not TOML: "),
        ("[compile]\n[compile]\n", "mine.toml is not TOML: "),
    ],
)
def test_a_mistake_in_a_recipe_is_a_sentence_with_the_next_move(
    tmp_path, monkeypatch, text, sentence
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        Recipe.load("mine.toml")
    assert sentence in str(caught.value)


def test_no_workers_at_all_is_a_number_of_workers():
    assert Recipe.of({"loader-workers": {"workers": 0}}).label() == "loader-workers 0"


def test_a_recipe_that_cannot_be_read_is_a_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"missing\.toml cannot be read: No such file"):
        Recipe.load(tmp_path / "missing.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        Recipe.load(tmp_path)
    with pytest.raises(UsageError, match=r"path is empty\. Give a file, such as hotlap\.toml\."):
        Recipe.load("")
    (tmp_path / "bytes.toml").write_bytes(b"[tf32]\n# caf\xe9")
    with pytest.raises(UsageError, match=r"not UTF-8 text: byte 0xe9 in line 2\. Save it as UTF"):
        Recipe.load(tmp_path / "bytes.toml")


def test_saving_replaces_the_file_whole_and_leaves_nothing_beside_it(tmp_path):
    file = tmp_path / "hotlap.toml"
    file.write_text("old")
    before = file.stat().st_ino
    RECIPE.save(str(file), "new")
    assert Recipe.load(file) == RECIPE
    assert file.stat().st_ino != before  # another file took its name
    assert os.listdir(tmp_path) == ["hotlap.toml"]


def test_what_cannot_be_saved_leaves_the_old_file(tmp_path):
    folder = tmp_path / "hotlap.toml"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"hotlap\.toml cannot be written: Is a directory"):
        RECIPE.save(folder)
    assert os.listdir(tmp_path) == ["hotlap.toml"]
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        RECIPE.save(tmp_path / "missing" / "hotlap.toml")


def test_saving_goes_through_a_link_and_not_over_it(tmp_path):
    (tmp_path / "shared").mkdir()
    link = tmp_path / "hotlap.toml"
    link.symlink_to("shared/real.toml")
    RECIPE.save(link)
    assert link.is_symlink()
    assert Recipe.load(tmp_path / "shared" / "real.toml") == RECIPE


def test_a_comment_may_hold_what_toml_does_not_take(tmp_path):
    """The command is in it, whatever that is called."""
    file = tmp_path / "hotlap.toml"
    RECIPE.save(file, "train\x1b[1m\x00.py \udcff ä \u2028next")
    assert Recipe.load(file) == RECIPE
    assert "ä" in file.read_text(encoding="utf-8")


def test_files_are_utf8_whatever_the_locale_is(tmp_path):
    code = (
        "import sys\n"
        "from hotlap.recipes import Recipe\n"
        "Recipe.of({'tf32': {}}).save(sys.argv[1], 'gr\\u00f6\\u00dfer')\n"
        "print(Recipe.load(sys.argv[1]).label())"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "hotlap.toml")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=200,
    )
    assert done.stdout == "tf32\n", done.stderr
    assert "größer" in (tmp_path / "hotlap.toml").read_text(encoding="utf-8")


def test_names_in_options_are_checked_like_those_in_recipes():
    check_names(["compile", "tf32"], option="--only")
    with pytest.raises(UsageError, match=r"--skip compiles: .* Did you mean compile\?"):
        check_names(["tf32", "compiles"], option="--skip")
    with pytest.raises(UsageError, match="There are: allocator, threads"):
        check_names(["zzz"], option="--allow")


def test_known_names_are_those_of_the_list():
    assert [one.NAME for one in optimizations.known()][:2] == ["allocator", "threads"]
