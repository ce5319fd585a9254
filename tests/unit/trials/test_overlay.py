import json
from pathlib import Path

import pytest

from hotlap.trials import overlay


def test_folders_are_covered_once_from_the_outermost(tmp_path):
    (tmp_path / "home" / "user" / "work").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    folders = [tmp_path / "home" / "user" / "work", tmp_path / "data", tmp_path / "home"]
    assert overlay.roots([str(folder) for folder in folders]) == [
        str(tmp_path / "data"),
        str(tmp_path / "home"),
    ]


def test_a_folder_whose_name_begins_like_another_is_another(tmp_path):
    for name in ("work", "workshop"):
        (tmp_path / name).mkdir()
    both = [str(tmp_path / "work"), str(tmp_path / "workshop")]
    assert overlay.roots(both) == both


def test_links_are_covered_where_they_lead(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert overlay.roots([str(tmp_path / "link"), str(tmp_path / "real")]) == [
        str(tmp_path / "real")
    ]


def test_the_root_of_the_file_system_and_what_is_not_there_are_never_covered(tmp_path):
    (tmp_path / "file").write_text("")
    assert overlay.roots(["/", str(tmp_path / "nowhere"), str(tmp_path / "file")]) == []


MOUNTINFO = r"""
22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /home/my\040data\011x rw - nfs4 server:/data rw
41 22 0:36 / /back\134slash rw - tmpfs tmpfs rw
23 22 0:22 / /proc rw,nosuid shared:2 master:1 - proc proc rw
42 40 0:37 / /home/my\040data\011x/inner rw - ext4 /dev/sdb rw
43 22 0:38 / /twice rw - tmpfs tmpfs rw
44 43 0:39 / /twice rw - ext4 /dev/sdc rw
""".strip()


def test_mounts_are_read_with_their_odd_names_outer_before_inner(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: MOUNTINFO)
    assert overlay._mounts() == [
        ("/", "ext4"),
        ("/back\\slash", "tmpfs"),
        ("/home/my data\tx", "nfs4"),
        ("/home/my data\tx/inner", "ext4"),
        ("/proc", "proc"),
        ("/twice", "ext4"),
    ]


COVER = """
import ctypes, json, os, sys
from pathlib import Path
from hotlap.trials import overlay

base, submount = Path(sys.argv[1]), "submount" in sys.argv[2]
folder = base / "work"
trial = folder / ".hotlap" / "trial" if "inside" in sys.argv[2] else base / "trial"
trial.mkdir(parents=True)
(folder / "data").mkdir(parents=True)
(folder / "data" / "read.txt").write_text("as it is")
(folder / "model.pt").write_text("precious")
(folder / "gone.txt").write_text("still here")
where = {"uppers": [str(trial)], "trial": str(trial)}
reason = overlay.probe([str(folder)], **where)
if reason is not None:
    print(json.dumps({"refused": reason}))
    sys.exit()

if submount:
    libc = ctypes.CDLL(None, use_errno=True)
    overlay._enter_namespace(libc)
    (folder / "mounted").mkdir()
    overlay._mount(libc, "tmpfs", str(folder / "mounted"), "tmpfs", 0, None)
    (folder / "mounted" / "inside.txt").write_text("seen")

os.chdir(folder)
child = os.fork()
if child == 0:
    status = 1
    try:
        upper, covered = overlay.cover([str(folder)], **where)
        assert upper == str(trial), upper
        assert covered == [str(folder)], covered
        assert Path("data/read.txt").read_text() == "as it is"
        assert Path("model.pt").read_text() == "precious"
        Path("model.pt").write_text("overwritten")
        Path("new.txt").write_text("new")
        Path("gone.txt").unlink()
        (folder / "data" / "deep").mkdir()
        assert Path("model.pt").read_text() == "overwritten"
        assert (folder / "model.pt").read_text() == "overwritten"
        assert not Path("gone.txt").exists()
        (trial / "record.json").write_text("measured")
        if submount:
            assert Path("mounted/inside.txt").read_text() == "seen"
            Path("mounted/inside.txt").write_text("changed")
        status = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(status)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(json.dumps({
    "model": (folder / "model.pt").read_text(),
    "files": sorted(path.name for path in folder.iterdir() if path.name != "mounted"),
    "data": [path.name for path in (folder / "data").iterdir()],
    "record": (trial / "record.json").read_text(),
    "inside": (folder / "mounted" / "inside.txt").read_text() if submount else None,
    "moved": (trial / "writes-1" / "inside.txt").read_text() if submount else None,
    "written": (trial / "writes-0" / "model.pt").read_text(),
    "told": (trial / "writes-0.path").read_text(),
}))
"""


@pytest.mark.parametrize(
    "kind",
    ["trial inside", "trial outside", "submount, trial inside", "submount, trial outside"],
)
def test_writes_do_not_reach_a_covered_folder_and_reads_see_it(in_python, tmp_path, kind):
    found = json.loads(in_python(COVER, str(tmp_path), kind))
    if "refused" in found:  # this system lets nobody mount: then it must say why
        assert len(found["refused"]) > 10
        return
    assert found["model"] == "precious"
    assert set(found["files"]) - {".hotlap"} == {"data", "gone.txt", "model.pt"}
    assert found["data"] == ["read.txt"]
    assert found["record"] == "measured"  # the trial's folder stays real
    assert found["inside"] == ("seen" if "submount" in kind else None)
    assert found["moved"] == ("changed" if "submount" in kind else None)
    assert found["written"] == "overwritten"
    assert found["told"] == str(tmp_path / "work")


def test_a_place_for_writes_that_does_not_work_is_refused_with_its_reason(in_python, tmp_path):
    out = in_python(
        """
        import sys
        from hotlap.trials import overlay
        folder = sys.argv[1]
        print(overlay.probe([folder], uppers=["/proc/1/nowhere"], trial=folder))
        """,
        str(tmp_path),
    )
    assert "/proc/1/nowhere" in out or "refused" in out


def test_the_second_place_for_writes_is_taken_where_the_first_does_not_work(in_python, tmp_path):
    (tmp_path / "spare").mkdir()
    (tmp_path / "work").mkdir()
    out = in_python(
        """
        import sys
        from hotlap.trials import overlay
        base = sys.argv[1]
        where = {"uppers": ["/proc/1/nowhere", base + "/spare"], "trial": base}
        try:
            print(overlay.cover([base + "/work"], **where)[0])
        except overlay.Refused as problem:
            print("refused:", problem)
        """,
        str(tmp_path),
    ).strip()
    assert out == str(tmp_path / "spare") or out.startswith("refused:")


def test_several_folders_are_covered_where_the_trial_lies_in_the_first_of_them(in_python, tmp_path):
    for name in ("a/.hotlap/trial", "b", "spare"):
        (tmp_path / name).mkdir(parents=True)
    out = in_python(
        """
        import json, os, sys
        from hotlap.trials import overlay
        a, b, spare = (os.path.join(sys.argv[1], name) for name in ("a", "b", "spare"))
        trial = a + "/.hotlap/trial"
        print(json.dumps([
            overlay.probe([a], uppers=[trial], trial=trial),
            overlay.probe([a, b], uppers=[trial, spare], trial=trial),
            sorted(os.listdir(trial)),
            os.listdir(spare),
        ]))
        """,
        str(tmp_path),
    )
    refused, of_both, written, spare = json.loads(out)
    if refused:
        return
    assert of_both is None
    assert {"writes-0", "writes-1"} <= set(written)
    assert spare == []


def test_where_links_lead_is_covered_and_what_cannot_be_is_left_out(in_python, tmp_path):
    for name in ("trial", "around/project", "b"):
        (tmp_path / name).mkdir(parents=True)
    out = in_python(
        """
        import json, sys
        from hotlap.trials import overlay
        base = sys.argv[1]
        where = {"uppers": [base + "/trial"], "trial": base + "/trial"}
        links = [base + "/around", base + "/b", base + "/nowhere"]
        try:
            print(json.dumps(overlay.cover([base + "/around/project"], links=links, **where)[1]))
            for name in ("/around/x", "/around/project/x", "/b/x"):
                open(base + name, "w").close()
        except overlay.Refused:
            print("[]")
        """,
        str(tmp_path),
    )
    covered = json.loads(out)
    if not covered:
        return
    assert covered == [str(tmp_path / "around"), str(tmp_path / "b")]
    assert all("trial" in path.parts for path in tmp_path.glob("**/x"))


def test_a_folder_stays_covered_where_one_around_it_cannot_be(in_python, tmp_path):
    for name in ("trial", "around/project"):
        (tmp_path / name).mkdir(parents=True)
    out = in_python(
        """
        import errno, json, sys
        from hotlap.trials import overlay
        base = sys.argv[1]
        where = {"uppers": [base + "/trial"], "trial": base + "/trial"}
        plain = overlay._mount
        def mount(libc, source, path, *rest):
            if path == base + "/around":
                raise OSError(errno.EINVAL, "refused")
            plain(libc, source, path, *rest)
        overlay._mount = mount
        try:
            folders, links = [base + "/around/project"], [base + "/around"]
            print(json.dumps(overlay.cover(folders, links=links, **where)[1]))
        except overlay.Refused:
            print("[]")
        """,
        str(tmp_path),
    )
    assert json.loads(out) in ([str(tmp_path / "around" / "project")], [])
