import pytest

from hotlap.trials import links
from hotlap.trials.links import leading_out, to_cover, warning


@pytest.fixture
def places(tmp_path):
    for name in ("project/runs/deep", "home/deep", "outside/inner", "further"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def found(places, **more):
    folders = [str(places / "project"), str(places / "home")]
    return leading_out(folders, working=str(places / "project"), **more)


@pytest.mark.parametrize("link", ["project/ckpts", "project/runs/ckpts", "home/ckpts"])
def test_a_link_to_a_folder_outside_is_found(places, link):
    (places / link).symlink_to(places / "outside")
    assert found(places) == {str(places / "outside"): str(places / link)}


@pytest.mark.parametrize("name", ["model.pt", "not-there-yet.pt"])
def test_a_link_to_a_file_leads_to_its_folder(places, name):
    (places / "outside" / "model.pt").touch()
    (places / "project" / "best.pt").symlink_to(places / "outside" / name)
    assert list(found(places)) == [str(places / "outside")]


def test_a_link_that_stays_inside_or_leads_nowhere_is_none(places):
    (places / "project" / "latest").symlink_to("runs")
    (places / "project" / "data").symlink_to(places / "home" / "deep")
    (places / "project" / "gone").symlink_to(places / "no" / "such" / "folder")
    assert found(places) == {}


def test_links_of_links_are_followed_and_a_circle_ends(places):
    (places / "project" / "ckpts").symlink_to(places / "outside")
    (places / "outside" / "latest").symlink_to(places / "further")
    (places / "further" / "back").symlink_to(places / "project")
    (places / "further" / "again").symlink_to(places / "outside")
    assert set(found(places)) == {str(places / "outside"), str(places / "further")}


@pytest.mark.parametrize(
    "link", ["project/runs/deep/ckpts", "home/deep/ckpts", "project/.git/ckpts"]
)
def test_the_look_is_not_deeper_than_it_says(places, link):
    (places / link).parent.mkdir(exist_ok=True)
    (places / link).symlink_to(places / "outside")
    assert found(places) == {}


def test_the_look_ends_in_time(places, monkeypatch):
    (places / "project" / "ckpts").symlink_to(places / "outside")
    times = iter([0.0, links.MOST_SECONDS + 1])
    assert found(places, clock=lambda: next(times)) == {}
    monkeypatch.setattr(links, "MOST_ENTRIES", 0)
    assert found(places) == {}


def test_the_root_of_the_file_system_is_not_looked_at(places):
    assert leading_out(["/"], working=str(places / "project")) == {}


def test_programs_of_the_system_are_no_matter(places):
    (places / "project" / "python").symlink_to("/usr/bin/env")
    assert found(places) == {}


def test_a_link_to_a_folder_of_everyone_is_told_and_not_covered(places):
    (places / "project" / "linked").symlink_to("/tmp")
    (places / "home" / "ckpts").symlink_to(places / "outside")
    leading = found(places)
    assert to_cover(leading) == [str(places / "outside")]
    assert warning(leading, [str(places / "outside")]) == (
        "What the command writes through these links lands where they lead: "
        f"{places}/project/linked leads to /tmp."
    )
    assert warning(leading, ["/tmp", str(places)]) is None


def test_only_so_many_are_covered_and_told():
    leading = {f"/data/{number}": f"/project/{number}" for number in range(links.MOST_COVERED + 9)}
    assert len(to_cover(leading)) == links.MOST_COVERED
    text = warning(leading, to_cover(leading))
    assert text is not None
    assert text.endswith("; and 6 more.")
