"""Readers never wait for an import and never see half of one; imports that come together follow each other."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from steelyard.app import served
from steelyard.app.wiring import DirectoryImporter, DirectoryQuery
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportReport, ImportRequest, Question
from tests.app.import_samples import listing, node, pod, shared_pod, write
from tests.app.served_directory import serving
from tests.surfaces.http_api.estate import world


def test_a_question_is_answered_while_an_import_is_within_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go = threading.Event(), threading.Event()
    real = served.post

    def halting(store: Store, *rest: Any) -> int:
        with store.transaction():
            posted = real(store, *rest)
            inside.set()
            assert go.wait(60)
            return posted

    dump = json.dumps(listing(node(), shared_pod("a"), pod("b"))).encode()
    with world(tmp_path, listing(node(), shared_pod("a"))) as found:
        query = "/answers/q1?where=tenant=team-a"
        before = found.get(query).json()
        monkeypatch.setattr(served, "post", halting)
        ended: list[Any] = []
        body = {"content": dump, "headers": {"Content-Type": "application/json"}}
        path = "/api/v1/import?as_of=2026-03-01T14:00:00Z"
        sender = threading.Thread(target=lambda: ended.append(found.ask("POST", path, local=True, **body)))
        sender.start()
        assert inside.wait(60)
        during = found.get(query).json()
        standing = found.get("/readyz")
        stranger = found.ask("GET", "/api/v1/readyz", token="x")
        go.set()
        sender.join(60)
        after = found.get(query).json()
    assert (standing.status_code, stranger.status_code) == (200, 401)
    assert during == before
    assert after != before
    assert ended[0].status_code == 200


@pytest.mark.xdist_group("serving")
def test_many_readers_beside_imports_see_each_posting_whole(tmp_path: Path) -> None:
    data = tmp_path / "d"
    files = [
        write(tmp_path / f"{n}.json", listing(node(), *(shared_pod(f"p{m}") for m in range(n + 1)))) for n in range(6)
    ]
    counts: list[list[int]] = [[] for _ in range(3)]
    trouble: list[BaseException] = []
    done = threading.Event()

    def send(path: Path) -> ImportReport:
        request = ImportRequest([path], as_of=1_772_370_000_000_000 + 60_000_000 * int(path.stem))
        return DirectoryImporter(data).import_paths(request, lambda what, now, total: None)

    def read(seen: list[int]) -> None:
        try:
            while not done.is_set():
                answer = DirectoryQuery(data).answer(1, Question())
                figures = {figure.name: figure.value for figure in answer.figures}
                holders = next(table for table in answer.tables if table.name == "holders")
                assert figures["ledger_residual_gpu_us"] == 0
                assert figures["holders_count"] == len(holders.rows)
                seen.append(len(holders.rows))
        except BaseException as error:
            trouble.append(error)

    with serving(data) as server:
        send(files[0])
        readers = [threading.Thread(target=read, args=[seen]) for seen in counts]
        for reader in readers:
            reader.start()
        for path in files[1:]:
            send(path)
        done.set()
        for reader in readers:
            reader.join(60)
        last = {figure.name: figure.value for figure in DirectoryQuery(data).answer(1, Question()).figures}
        assert last["holders_count"] == len(files)
        assert server.end() == (0, b"")
    assert trouble == []
    assert all(seen == sorted(seen) and seen for seen in counts), "no reader saw a later state before an earlier one"


@pytest.mark.xdist_group("serving")
def test_imports_that_come_together_are_all_taken(tmp_path: Path) -> None:
    data = tmp_path / "d"
    files = [write(tmp_path / f"{n}.json", listing(node(), shared_pod(f"p{n}"))) for n in range(4)]
    reports: list[ImportReport] = []

    def send(path: Path) -> None:
        request = ImportRequest([path])
        reports.append(DirectoryImporter(data).import_paths(request, lambda what, now, total: None))

    with serving(data) as server:
        senders = [threading.Thread(target=send, args=[path]) for path in files]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(60)
        assert server.end() == (0, b"")
    assert sorted(report.files[0].status for report in reports) == ["imported"] * 4
    with Store.open(data, read_only=True) as store:
        assert store.rows("SELECT count(*) FROM fact.import_file") == [(4,)]
