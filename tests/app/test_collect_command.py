"""``steelyard collect`` on a directory of its own and on one that is served, and audit events on all their ways: stored once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.store import Store
from steelyard.surfaces.shared.client import ServerClient, find_server
from tests.app.served_directory import serving, steelyard
from tests.sources.audit_log.test_audit_read import event

SETTINGS = """
[[audit_log]]
path = "{log}"
interval = "1h"
[[scrape]]
name = "down"
url = "http://127.0.0.1:1/metrics"
interval = "1h"
"""


def site(folder: Path, *numbers: int) -> Path:
    """A directory whose settings name a log with these events, and an exporter that is down."""
    log = folder / "audit.log"
    log.write_text("".join(json.dumps(event(auditID=f"id-{number}")) + "\n" for number in numbers))
    data = folder / "d"
    data.mkdir()
    (data / "steelyard.toml").write_text(SETTINGS.format(log=log))
    return data


def collected(data: Path, *more: str) -> tuple[int, dict[str, Any]]:
    done = steelyard("collect", "--data", data, "--json", *more, cwd=data)
    return done.returncode, {each["name"]: each for each in json.loads(done.stdout)["rounds"]} if done.stdout else {}


def audit_ids(data: Path) -> list[str]:
    with Store.open(data, read_only=True) as store:
        return [found for (found,) in store.rows("SELECT audit_id FROM fact.audit_event ORDER BY ALL")]


@pytest.mark.xdist_group("serving")
def test_a_round_says_what_came_of_each_source_and_ends_accordingly(tmp_path: Path) -> None:
    data = site(tmp_path, 1, 2)
    code, rounds = collected(data)
    assert (code, rounds["audit_log/audit"]["status"], rounds["scrape/down"]["status"]) == (3, "ok", "failed")
    assert "cannot be connected to" in rounds["scrape/down"]["message"]
    assert rounds["scrape/down"]["findings_by_code"] == {"source_unavailable": 2}
    assert collected(data, "--only", "audit_log/audit")[0] == 0
    assert collected(data, "--only", "scrape/down")[0] == 2
    assert audit_ids(data) == ["id-1", "id-2"]
    told = steelyard("collect", "--data", data, "--only", "moon", cwd=tmp_path)
    assert (told.returncode, told.stdout) == (2, b"")
    assert b"no such collector: moon; there is scrape/down, audit_log/audit" in told.stderr


@pytest.mark.xdist_group("serving")
def test_nothing_configured_is_said_and_no_directory_made(tmp_path: Path) -> None:
    told = steelyard("collect", "--data", tmp_path / "d", cwd=tmp_path)
    assert told.returncode == 2
    assert b"nothing is configured to be collected" in told.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.xdist_group("serving")
def test_what_to_ask_next_names_the_directory(tmp_path: Path) -> None:
    data = site(tmp_path, 1)
    told = steelyard("collect", "--data", data, "--only", "audit_log/audit", cwd=tmp_path)
    assert f"ask: steelyard q1 --data {data}\n" in told.stdout.decode()


@pytest.mark.xdist_group("serving")
def test_on_a_served_directory_the_server_collects_and_an_event_is_stored_once_on_whatever_way_it_comes(
    tmp_path: Path,
) -> None:
    data = site(tmp_path, 1, 2)
    cut = event(auditID="id-2", requestObject=None, annotations={"audit.k8s.io/truncated": "true"})
    pushed = {
        "kind": "EventList",
        "apiVersion": "audit.k8s.io/v1",
        "items": [event(auditID="id-3"), cut, {"no": "event"}],
    }
    with serving(data) as server:
        code, rounds = collected(data, "--only", "audit_log/audit")
        assert (code, rounds["audit_log/audit"]["status"]) == (0, "ok")
        address = find_server(data)
        assert address is not None
        client = ServerClient(address)
        taken = client.post("/ingest/audit", content=json.dumps(pushed).encode())
        assert taken == {"events_count": 2, "new_count": taken["new_count"], "refused_count": 1}
        assert client.post("/ingest/audit", content=json.dumps(pushed).encode())["events_count"] == 2
        done = steelyard("import", "--data", data, tmp_path / "audit.log", "--json", cwd=tmp_path)
        assert done.returncode == 0
        assert json.loads(done.stdout)["files"][0]["kind"] == "audit_log"
        states = {each["name"]: each for each in client.get("/collectors")["collectors"]}
        assert states["audit_log/audit"]["state"] == "ok"
        assert states["scrape/down"]["state"] in ("failing", "starting")
        assert server.end() == (0, b"")
    assert audit_ids(data) == ["id-1", "id-2", "id-3"]
