"""``kill -9`` of ``steelyard serve`` in the middle of rounds: no acknowledged fact is lost and none is there twice.

Facts come on two ways at once: from a log that is followed (its cursor is the acknowledgement) and pushed by a webhook (the answer is). The
server dies at one of the statements of its store, in transactions and between them, and is started again on the same directory. 50 blows;
``STEELYARD_SOAK`` multiplies them.
"""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.store import Store
from steelyard.surfaces.shared.client import read_address
from tests.app.forked_commands import Commands, commands
from tests.sources.audit_log.test_audit_read import event

BLOWS = 50 * int(os.environ.get("STEELYARD_SOAK", "1"))
STATEMENTS = 400
"""Starting takes about a hundred statements, a round some thirty, a posting a few hundred."""

SETTINGS = """
[[audit_log]]
path = "{log}"
interval = "100ms"
[collection]
post_interval = "1s"
"""


def audit_event(number: int, way: str) -> dict[str, Any]:
    return event(auditID=f"{way}-{number}", stageTimestamp=f"2026-03-01T12:{number // 60 % 60:02}:{number % 60:02}Z")


class Pusher(threading.Thread):
    """Pushes events to the server of a directory, one at a time, until it is told that there is none any more."""

    def __init__(self, data: Path, first: int) -> None:
        super().__init__(daemon=True)
        self.data = data
        self.next = first
        self.acknowledged: list[int] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.01):
            address = read_address(self.data)
            if address is None:
                continue
            try:
                transport = httpx.HTTPTransport(uds=str(address.socket))
                with httpx.Client(transport=transport, base_url="http://x", timeout=60) as client:
                    self._push(client)
            except httpx.TransportError:
                continue

    def _push(self, client: httpx.Client) -> None:
        while not self.over.is_set():
            number, self.next = self.next, self.next + 1
            body = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [audit_event(number, "pushed")]}
            if client.post("/api/v1/ingest/audit", json=body).status_code == 200:
                self.acknowledged.append(number)


def stored(data: Path, log: Path) -> tuple[list[str], int]:
    """The audit ids that are stored, and how many lines of the log the cursor says are done."""
    with Store.open(data) as store:
        ids = [audit_id for (audit_id,) in store.rows("SELECT audit_id FROM fact.audit_event")]
        cursor = store.cursor("audit_log/audit")
    offset = 0 if cursor is None else json.loads(cursor)[-1]
    return ids, log.read_bytes()[:offset].count(b"\n")


def blow(run: Commands, data: Path, kill_at: int, first: int) -> Pusher:
    """Serve until the n-th statement, with pushes meanwhile."""
    pusher = Pusher(data, first)
    run.start(["serve", "--data", data, "--listen", "127.0.0.1:0"], kill_at)
    pusher.start()
    status = run.wait()
    pusher.over.set()
    pusher.join(60)
    assert status == -9, run.output.read_text()
    return pusher


@pytest.mark.xdist_group("serving")
def test_a_server_killed_in_the_middle_of_rounds_loses_no_acknowledged_fact_and_doubles_none(tmp_path: Path) -> None:
    data, log = tmp_path / "d", tmp_path / "audit.log"
    data.mkdir()
    (data / "steelyard.toml").write_text(SETTINGS.format(log=log))
    chance = random.Random(20261130)  # noqa: S311 (a choice of statements)
    acknowledged: set[str] = set()
    written = pushed = 0
    with commands(tmp_path) as run:
        for number in range(BLOWS):
            with log.open("ab") as stream:
                for _ in range(chance.randrange(1, 5)):
                    stream.write(json.dumps(audit_event(written, "logged")).encode() + b"\n")
                    written += 1
            pusher = blow(run, data, chance.randrange(1, STATEMENTS), pushed)
            pushed = pusher.next
            acknowledged |= {f"pushed-{each}" for each in pusher.acknowledged}
            ids, done = stored(data, log)
            assert len(ids) == len(set(ids)), f"a fact is there twice after blow {number}"
            assert acknowledged <= set(ids), f"an acknowledged push is lost after blow {number}"
            assert {f"logged-{each}" for each in range(done)} <= set(ids), f"the cursor ran ahead at blow {number}"
        run.start(["collect", "--data", data, "--json"])
        assert run.wait() == 0, run.output.read_text()
    ids, done = stored(data, log)
    assert sorted(each for each in ids if each.startswith("logged")) == sorted(f"logged-{n}" for n in range(written))
    assert done == written
    assert acknowledged, "the pushes came through"
    with Store.open(data, read_only=True) as store:
        assert not store.has_collected(), "all of it is posted"
        assert not store.has_unposted()
