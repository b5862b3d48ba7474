"""A command finds a live server and nothing else: no leftover, no stranger's socket, no file that says anything."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import Window, parse_instant
from steelyard.surfaces.shared.client import (
    SERVER_FILE,
    RemoteQuery,
    ServerClient,
    ServerGone,
    find_server,
    question_parameters,
    request_parameters,
)
from steelyard.surfaces.shared.ports import ImportRequest, Question
from steelyard.surfaces.shared.service_ports import ServerAddress

STARTED = "2026-11-30T02:00:00Z"


def announce(directory: Path, **values: Any) -> None:
    content = {"socket": str(directory / "s"), "pid": 7, "address": "http://127.0.0.1:1", "started_at": STARTED}
    (directory / SERVER_FILE).write_text(json.dumps({**content, **values}), encoding="utf-8")


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(str(tmp_path / "s"))
        found.listen(4)
        yield found


def test_a_server_that_takes_connections_is_found(tmp_path: Path, listening: socket.socket) -> None:
    announce(tmp_path)
    assert find_server(tmp_path) == ServerAddress(tmp_path / "s", 7, "http://127.0.0.1:1", parse_instant(STARTED))


def test_what_a_dead_server_left_behind_is_nobody(tmp_path: Path, listening: socket.socket) -> None:
    announce(tmp_path)
    listening.close()
    assert find_server(tmp_path) is None
    (tmp_path / "s").unlink()
    assert find_server(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"socket": 1}',
        b"[" * 60_000,
        b'{"socket": "s", "pid": "x"}',
        b"{}" * 60_000,
    ],
)
def test_a_file_that_is_none_is_nobody(tmp_path: Path, listening: socket.socket, content: bytes) -> None:
    (tmp_path / SERVER_FILE).write_bytes(content)
    assert find_server(tmp_path) is None


def test_a_path_that_is_no_socket_or_not_the_owners_is_not_talked_to(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "s")
    for name in ("file", "link", "none", "nul\0byte", "x" * 300):
        announce(tmp_path, socket=str(tmp_path / name))
        assert find_server(tmp_path) is None
    announce(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000)
    real = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda path: _owned_by(real(path), 4_000_001))
    assert find_server(tmp_path) is None


def _owned_by(status: Any, user: int) -> Any:
    class Status:
        st_mode = status.st_mode
        st_uid = user

    return Status()


def test_a_server_that_is_gone_and_one_that_goes_are_told_apart(tmp_path: Path, listening: socket.socket) -> None:
    address = ServerAddress(tmp_path / "s", 7, "http://x", 0)
    query = RemoteQuery(ServerClient(address))
    import threading

    def hang_up() -> None:
        connection, _peer = listening.accept()
        connection.recv(10)
        connection.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with pytest.raises(SourceUnavailable, match="went away before it had answered") as trouble:
        query.answer(1, Question())
    assert not isinstance(trouble.value, ServerGone)
    thread.join(60)
    listening.close()
    with pytest.raises(ServerGone):
        query.answer(1, Question())


def test_a_question_and_a_request_travel_whole() -> None:
    question = Question(at=1, window=Window(0, 3_600_000_000), by=("a", "b"), where={"k": "v=w"}, explain=True)
    assert question_parameters(question) == [
        ("by", "a"),
        ("by", "b"),
        ("where", "k=v=w"),
        ("at", "1970-01-01T00:00:00.000001Z"),
        ("from", "1970-01-01T00:00:00Z"),
        ("to", "1970-01-01T01:00:00Z"),
        ("explain", "true"),
    ]
    request = ImportRequest((), "openb", 0, "east", "n1", 1, 30_000_000, all_namespaces=True)
    assert dict(request_parameters(request)) == {
        "kind": "openb",
        "as_of": "1970-01-01T00:00:00Z",
        "cluster": "east",
        "node": "n1",
        "epoch": "1970-01-01T00:00:00.000001Z",
        "expected_interval_us": "30000000",
        "all_namespaces": "true",
    }
    assert request_parameters(ImportRequest(())) == [("cluster", "default")]
    assert question_parameters(Question()) == []
