import json

import pytest

# In a process of its own: the functions that are replaced are everyone's.
SCRIPT = """
import builtins, io, json, os, shutil, sys, traceback
from pathlib import Path
from types import SimpleNamespace
from hotlap.probes import diversions

base = Path(sys.argv[1])
work, outside = base / "work", base / "outside"
plain = (builtins.open, os.stat, os.replace, shutil.copyfile)
torch = SimpleNamespace(save=lambda obj, f: Path(f).write_text(obj), load=lambda f: None)
recorder = SimpleNamespace(diverted=[])
protected = [str(work)] if "covered" in sys.argv else []
settings = {"protected": protected, "diverted": str(base / "trial")}
diversions.install(torch, recorder, settings)
os.chdir(work if protected else outside)
assert plain == (builtins.open, os.stat, os.replace, shutil.copyfile)
saved, best = str(outside / "last.pt"), str(outside / "best.pt")
torch.save("tonight", saved)
assert builtins.open is io.open is not plain[0]
"""


@pytest.fixture
def script(in_python, tmp_path):
    for name in ("work", "outside"):
        (tmp_path / name).mkdir()
    for name in ("last.pt", "best.pt"):
        (tmp_path / "outside" / name).write_text("last night")

    def run(code, *words):
        out = in_python(
            SCRIPT + code + "\nprint(json.dumps(recorder.diverted))", str(tmp_path), *words
        )
        for name in ("last.pt", "best.pt"):
            assert (tmp_path / "outside" / name).read_text() == "last night"
        return json.loads(out)

    return run


@pytest.mark.parametrize(
    "read",
    [
        "open(saved).read()",
        "io.open(saved, 'r').read()",
        "open(file=saved).read()",
        "Path(saved).read_text()",
        "open(os.fsencode(saved)).read()",
        "open(os.path.relpath(saved)).read()",
    ],
)
def test_what_was_led_away_is_read_from_there(script, read):
    script(f"assert {read} == 'tonight'", "covered")


@pytest.mark.parametrize(
    "copy",
    [
        "shutil.copyfile(saved, best)",
        "shutil.copy(saved, best)",
        "shutil.copy2(saved, dst=best)",
        "shutil.copy(Path(saved), best)",
        "os.replace(saved, best)",
        "os.rename(saved, best)",
        "Path(saved).rename(best)",
        "shutil.move(saved, best)",
    ],
)
def test_a_copy_of_what_was_led_away_is_led_away_too(script, copy):
    told = script(f"{copy}\nassert open(best).read() == 'tonight'")
    assert [name.rsplit("/", 1)[1] for name in told] == ["last.pt", "best.pt"]


def test_what_was_moved_is_not_where_it_was(script):
    script("os.replace(saved, best)\nassert not os.path.exists(saved) and os.path.isfile(best)")


def test_a_relative_save_and_replace_without_an_overlay_spares_both_files(script):
    script(
        "torch.save('new', 'last.pt')\n"
        "os.replace('last.pt', 'best.pt')\n"
        "assert Path('best.pt').read_text() == 'new'"
    )


@pytest.mark.parametrize("move", ["os.replace", "os.rename", "shutil.move", "shutil.copyfile"])
def test_a_move_into_a_covered_folder_lands_there(script, tmp_path, move):
    script(f"{move}(saved, str(work / 'final.pt'))", "covered")
    assert (tmp_path / "work" / "final.pt").read_text() == "tonight"


@pytest.mark.parametrize("remove", ["os.remove(saved)", "os.unlink(saved)", "Path(saved).unlink()"])
def test_removing_what_was_led_away_spares_the_real_file(script, remove):
    script(f"{remove}\nassert not os.path.exists(saved)")


def test_a_file_that_is_moved_over_one_that_was_led_away_replaces_that(script):
    script(
        "Path('other.pt').write_text('other')\n"
        "os.replace('other.pt', saved)\n"
        "assert open(saved).read() == 'other' and not os.path.exists('other.pt')"
    )


def test_everything_else_is_as_it_was(script, tmp_path):
    script(
        "open('notes.txt', 'w').write('x')\n"
        "assert os.stat('notes.txt').st_size == 1\n"
        "assert os.stat(0) and os.stat in os.supports_fd and os.path.exists(str(work))\n"
        "shutil.copy('notes.txt', 'more.txt')\n"
        "os.remove('notes.txt')\n"
        "shutil.rmtree(work)"
    )
    assert (tmp_path / "outside" / "more.txt").read_text() == "x"
