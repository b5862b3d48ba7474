"""``kill -9`` of the server in the middle of an import: all of it is there or nothing, and what was acknowledged stays.

The server marks every statement of its store; the test kills it at a mark, within transactions as well as between them, or in the middle of
the upload. ``STEELYARD_SOAK`` multiplies the number of blows.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
from pathlib import Path

import pytest

from steelyard.app.wiring import DirectoryImporter
from steelyard.facts.registry import FACTS
from steelyard.primitives.errors import SourceUnavailable
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportReport, ImportRequest
from steelyard.surfaces.shared.upload_stream import MEDIA_TYPE, FileHead, framed
from tests.app.served_directory import MARK, MARKED, Running, serving
from tests.app.test_import_crash import FILES, files_in, whole_files

BLOWS = 5 * int(os.environ.get("STEELYARD_SOAK", "1"))


def send(data: Path, source: Path) -> ImportReport | Exception:
    """The import as the command does it; a server that goes away is what came of it."""
    try:
        return DirectoryImporter(data).import_paths(ImportRequest(paths=[source]), lambda what, done, total: None)
    except SourceUnavailable as gone:
        return gone


def blow(server: Running, data: Path, source: Path, at_mark: int) -> bool:
    """Import through the server and kill it at its n-th statement. Whether the import was acknowledged all the same."""
    ended: list[ImportReport | Exception] = []
    sender = threading.Thread(target=lambda: ended.append(send(data, source)))
    sender.start()
    assert server.process.stdout is not None
    for number, line in enumerate(server.process.stdout):
        assert line == MARK
        if number == at_mark:
            break
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)
    sender.join(60)
    return isinstance(ended[0], ImportReport)


def facts_of(data: Path) -> list[list[tuple[object, ...]]]:
    with Store.open(data) as store:
        return [store.rows(f"SELECT fact_id, import_id FROM fact.{fact.TABLE} ORDER BY ALL") for fact in FACTS]


@pytest.mark.xdist_group("serving")
def test_a_killed_server_has_the_whole_import_or_nothing_and_doing_it_again_ends_alike(tmp_path: Path) -> None:
    source = files_in(tmp_path / "in")
    with serving(tmp_path / "calm", program=MARKED) as server:
        assert isinstance(send(tmp_path / "calm", source), ImportReport)
        server.process.send_signal(signal.SIGTERM)
        marks = server.process.communicate(timeout=60)[0].count(MARK)
    chance = random.Random(20260301)  # noqa: S311 (a choice of marks)
    for number in range(BLOWS):
        data = tmp_path / f"d{number}"
        with serving(data, program=MARKED) as server:
            acknowledged = blow(server, data, source, chance.randrange(1, marks - 1))
        there = whole_files(data)
        assert there == FILES if acknowledged else there in (0, FILES)
        with serving(data) as again:
            assert list((data / "uploads").iterdir()) == []
            report = send(data, source)
            assert isinstance(report, ImportReport)
            assert sum(file.status == "unchanged" for file in report.files) == there
            assert again.end() == (0, b"")
        assert facts_of(data) == facts_of(tmp_path / "calm")


@pytest.mark.xdist_group("serving")
@pytest.mark.parametrize("part", [0.0, 0.3, 0.999])
def test_a_server_killed_while_files_come_in_has_stored_none_of_them(tmp_path: Path, part: float) -> None:
    source = files_in(tmp_path / "in")
    heads = [(FileHead(path.name, path.name), [path.read_bytes()]) for path in sorted(source.iterdir())]
    body = b"".join(framed(heads))
    with serving(tmp_path / "d") as server, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(server.said["socket"])
        head = (
            f"POST /api/v1/import HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        )
        connection.sendall(head.encode() + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(body[: int(len(body) * part)])
        server.end(signal.SIGKILL)
    assert whole_files(tmp_path / "d") == 0
