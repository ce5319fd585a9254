from __future__ import annotations

import hashlib
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from hotlap.data import budgets
from hotlap.data.download import DownloadError, fetch

CONTENT = bytes(range(256)) * 5000  # five chunks


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def get(server: Any, tmp_path: Path, waits: list[float]) -> Any:
    server.content = CONTENT

    def getting(**options: Any) -> Path:
        asked = {"sha256": sha256(CONTENT), "size": len(CONTENT), "progress": lambda *_: None}
        return fetch(server.url, tmp_path / "file", wait=waits.append, **(asked | options))

    return getting


def begun(tmp_path: Path, content: bytes) -> Path:
    part = tmp_path / "file.part"
    part.write_bytes(content)
    return part


def test_the_file_is_fetched_and_nothing_else_stays(get: Any, tmp_path: Path) -> None:
    assert get().read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_progress_is_told_from_nothing_to_all(get: Any) -> None:
    told: list[tuple[int, int]] = []
    get(progress=lambda *both: told.append(both))
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_progress_goes_to_stderr_in_words_unless_told_otherwise(get: Any, capsys: Any) -> None:
    get(progress=None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "file: 1 of 1 MB (100 %)" in captured.err
    assert 2 <= len(captured.err.splitlines()) <= 11


def test_a_file_that_is_there_is_not_fetched_again(get: Any, server: Any) -> None:
    get()
    get()
    assert server.requests == [None]


def test_a_file_that_is_there_but_another_one_is_left_alone(get: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"somebody's own")
    with pytest.raises(DownloadError, match="Move it away"):
        get()
    assert (tmp_path / "file").read_bytes() == b"somebody's own"


def test_it_goes_on_where_it_stopped(get: Any, server: Any, tmp_path: Path) -> None:
    begun(tmp_path, CONTENT[:1000])
    assert get().read_bytes() == CONTENT
    assert server.requests == ["bytes=1000-"]


def test_a_server_without_ranges_sends_it_all_again(get: Any, server: Any, tmp_path: Path) -> None:
    begun(tmp_path, CONTENT[:1000])
    server.ranges = False
    assert get().read_bytes() == CONTENT
    assert server.requests == ["bytes=1000-"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_cut_midway_is_taken_up_again(
    get: Any, server: Any, waits: list[float], ranges: bool
) -> None:
    server.cuts, server.ranges = [600_000, 100_000], ranges
    assert get().read_bytes() == CONTENT
    assert len(server.requests) == 3
    assert len(waits) == 2


def test_a_cut_is_noticed_if_the_server_does_not_say_how_much_comes(get: Any, server: Any) -> None:
    server.cuts, server.tells_length = [600_000], False
    assert get().read_bytes() == CONTENT


def test_a_connection_that_is_always_cut_keeps_what_came(
    get: Any, server: Any, tmp_path: Path
) -> None:
    server.cuts = [500_000, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"was cut.*0 of 1 MB are there") as raised:
        get()
    assert "goes on from them" in str(raised.value)
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:500_000]
    assert get().read_bytes() == CONTENT


def test_an_error_of_the_server_is_tried_again(get: Any, server: Any, waits: list[float]) -> None:
    server.answers = [503, 500]
    assert get().read_bytes() == CONTENT
    assert waits == [2.0, 4.0]


def test_a_server_that_stays_broken_is_given_up(get: Any, server: Any) -> None:
    server.answers = [503] * 9
    with pytest.raises(DownloadError, match="the server says 503 Service Unavailable"):
        get()
    assert len(server.requests) == 3


def test_a_file_that_is_not_there_is_not_tried_again(get: Any, server: Any) -> None:
    server.answers = [404]
    with pytest.raises(DownloadError, match="the server says 404 Not Found"):
        get()
    assert len(server.requests) == 1


def test_a_wrong_checksum_keeps_nothing(get: Any, server: Any, tmp_path: Path) -> None:
    server.content = b"x" + CONTENT[1:]
    with pytest.raises(DownloadError, match=f"SHA-256 {sha256(server.content)}, not"):
        get()
    assert list(tmp_path.iterdir()) == []
    assert len(server.requests) == 1


def test_a_part_of_another_file_is_thrown_away(get: Any, server: Any, tmp_path: Path) -> None:
    begun(tmp_path, b"y" * 1000)
    assert get().read_bytes() == CONTENT
    assert server.requests == ["bytes=1000-", None]


def test_a_part_that_is_too_long_is_thrown_away(get: Any, server: Any, tmp_path: Path) -> None:
    begun(tmp_path, CONTENT + b"more")
    assert get().read_bytes() == CONTENT
    assert server.requests == [None]


def test_a_whole_part_only_gets_its_name(get: Any, server: Any, tmp_path: Path) -> None:
    begun(tmp_path, CONTENT)
    assert get().read_bytes() == CONTENT
    assert server.requests == []


def test_a_part_the_server_has_less_of_is_thrown_away(
    get: Any, server: Any, tmp_path: Path
) -> None:
    begun(tmp_path, CONTENT[:1000])
    server.answers = [416]
    assert get().read_bytes() == CONTENT
    assert server.requests == ["bytes=1000-", None]


def test_another_length_than_expected_is_another_file(get: Any, server: Any) -> None:
    server.content = b"<html>please log in</html>"
    with pytest.raises(DownloadError, match="has 26 bytes, not 1280000"):
        get()


def test_a_server_that_sends_the_wrong_piece_is_refused(
    get: Any, server: Any, tmp_path: Path
) -> None:
    begun(tmp_path, CONTENT[:1000])
    server.starts_at = 500
    with pytest.raises(DownloadError, match="another part of the file"):
        get()


def test_without_a_network_it_says_so(tmp_path: Path, waits: list[float]) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
        with pytest.raises(DownloadError, match=r"Connection refused.*Is there a network"):
            fetch(url, tmp_path / "file", sha256="", size=5, wait=waits.append)
    assert waits == [2.0, 4.0]


def test_a_server_that_says_nothing_runs_into_the_time_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        with pytest.raises(DownloadError, match="timed out"):
            fetch(url, tmp_path / "file", sha256="", size=5, timeout=0.05, attempts=1)


def test_a_disk_without_room_is_told_before(get: Any, server: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(budgets, "disk", lambda folder: 1000)
    with pytest.raises(DownloadError, match=r"is full: 1 MB are to come\. Make room"):
        get()
    assert server.requests == []


def test_a_disk_that_fills_up_is_told(get: Any, tmp_path: Path) -> None:
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(DownloadError, match="is full"):
        get()


def test_an_address_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="'nonsense' is not an address of the web"):
        fetch("nonsense", tmp_path / "file", sha256="", size=1)


def test_a_folder_that_cannot_be_made_is_named(get: Any, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(DownloadError, match="taken cannot be made: File exists"):
        fetch("http://127.0.0.1:1", tmp_path / "taken" / "file", sha256="", size=1)


def test_of_several_at_once_one_fetches(get: Any, server: Any) -> None:
    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.requests == [None]
