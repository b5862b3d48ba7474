"""An import over HTTP is taken whole or not at all, by the importer's own rules, and leaves nothing on the disk but the facts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.settings import Settings
from steelyard.surfaces.http_api import imports
from steelyard.surfaces.shared.upload_stream import MEDIA_TYPE, FileHead, framed
from tests.app.import_samples import listing, node, pod, shared_pod
from tests.surfaces.http_api.estate import World, problem, world

DUMP = json.dumps(listing(node(), shared_pod("a"), pod("b"))).encode()
OPENB = (
    b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
AS_OF = "as_of=2026-03-01T13:00:00Z"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        yield found
        assert list((tmp_path / "spool").iterdir()) == [], "spooled files are gone, whatever happened"


def stream(*files: tuple[FileHead, bytes]) -> bytes:
    return b"".join(framed((head, [content]) for head, content in files))


def send(served: World, body: bytes, query: str = AS_OF, kind: str = MEDIA_TYPE) -> Any:
    return served.ask("POST", f"/api/v1/import?{query}", local=True, content=body, headers={"Content-Type": kind})


def imported(served: World) -> list[str]:
    return [path for (path,) in served.store.rows("SELECT path FROM fact.import_file ORDER BY path")]


def test_one_file_as_it_is_becomes_facts_and_an_answer(served: World) -> None:
    report = send(served, DUMP, f"name=dump.json&{AS_OF}", "application/json").json()
    assert report["files"] == [
        {
            "path": "dump.json",
            "kind": "kubernetes",
            "status": "imported",
            "facts_count": report["files"][0]["facts_count"],
            "new_count": report["files"][0]["facts_count"],
            "refused_count": 0,
            "message": None,
        }
    ]
    assert (report["as_of"], report["as_of_basis"]) == ("2026-03-01T13:00:00Z", "declared")
    assert report["postings_count"] > 0
    assert served.get("/answers/q1").json()["figures"][0]["value"] == 1
    again = send(served, DUMP, f"name=dump.json&{AS_OF}", "application/json").json()
    assert (again["files"][0]["status"], again["files"][0]["new_count"]) == ("unchanged", 0)


def test_an_import_may_say_that_its_listing_is_of_the_whole_cluster(served: World) -> None:
    send(served, DUMP, f"name=dump.json&{AS_OF}&all_namespaces=true", "application/json")
    assert served.store.rows("SELECT scope, complete FROM fact.source_status WHERE kind = 'pods'") == [
        ("cluster", True)
    ]
    assert not any("--all-namespaces" in action for action in served.get("/answers/q1").json()["next_actions"])


def test_several_files_are_one_import_and_one_bad_file_stops_no_other(served: World) -> None:
    files = (
        (FileHead("in/a.json", "a.json"), DUMP),
        (FileHead("in/b", "b"), b"\x00\x01\x02"),
        (FileHead("in/c.json.gz", "c.json.gz"), gzip.compress(json.dumps(listing(pod("c"))).encode(), mtime=0)),
        (FileHead("in/d", "d", refusal=("unreadable_file", "cannot be read: Permission denied")), b""),
        (FileHead("in/e", "e"), b""),
    )
    report = send(served, stream(*files)).json()
    assert [(f["path"], f["status"]) for f in report["files"]] == [
        ("in/a.json", "imported"),
        ("in/b", "refused"),
        ("in/c.json.gz", "imported"),
        ("in/d", "refused"),
        ("in/e", "refused"),
    ]
    assert report["files"][3]["message"] == "cannot be read: Permission denied"
    assert report["findings_by_code"]["unreadable_file"] == 1
    assert report["findings_by_code"]["empty_file"] == 1


@pytest.mark.parametrize("end", [0, 3, 4, 40, 200, -5, -4, -1])
def test_a_stream_that_was_cut_off_stores_nothing(served: World, end: int) -> None:
    whole = stream((FileHead("a", "a"), DUMP), (FileHead("b", "b"), DUMP))
    found = problem(send(served, whole[:end]), 422, "malformed")
    assert "cut off" in found["detail"]
    assert imported(served) == []


@pytest.mark.parametrize(
    "body", [stream(), b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, stream((FileHead("a", "a"), DUMP)) + b"x"]
)
def test_what_is_no_stream_of_files_stores_nothing(served: World, body: bytes) -> None:
    problem(send(served, body), 422, "malformed")
    assert imported(served) == []


@pytest.mark.parametrize(
    "name",
    [
        "../../outside.json",
        "/etc/passwd",
        "a\0b",
        "con",
        "",
        ".",
        "..",
        "x" * 8_000,
        "\udcff\udc80",
        "a\nb",
        "<script>",
    ],
)
def test_a_name_is_a_label_and_never_a_path(served: World, tmp_path: Path, name: str) -> None:
    before = set(tmp_path.rglob("*"))
    report = send(served, stream((FileHead(name, name), DUMP))).json()
    assert report["files"][0]["path"] == name
    assert report["files"][0]["status"] in ("imported", "refused")
    assert set(tmp_path.rglob("*")) == before


def test_a_file_beyond_its_bound_is_a_finding_in_the_words_of_the_importer(tmp_path: Path) -> None:
    settings = Settings.model_validate({"import_limits": {"decompressed_bytes_max": 4_096}})
    with world(tmp_path, settings=settings) as served:
        long = b"x" * 5_000
        report = send(
            served,
            stream((FileHead("a", "a", size=5_000), long), (FileHead("b", "b"), long), (FileHead("c", "c"), DUMP[:10])),
        ).json()
        assert [f["message"] for f in report["files"][:2]] == [
            "expected at most 4096 bytes, found 5000",
            "expected at most 4096 bytes, found more",
        ]
        assert report["findings_by_code"]["file_too_large"] == 2


def test_a_body_beyond_the_bound_of_all_is_refused_and_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "UPLOAD_BYTES_MAX", 3_000_000)
    with world(tmp_path) as served:
        body = stream((FileHead("a", "a"), b"x" * 3_000_000))

        async def pieces() -> Any:
            for start in range(0, len(body), 65_536):
                yield body[start : start + 65_536]

        for content in (body, pieces()):
            response = served.ask(
                "POST", "/api/v1/import", local=True, content=content, headers={"Content-Type": MEDIA_TYPE}
            )
            problem(response, 413, "too_large")
        assert imported(served) == []
        assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("kind=nonsense", "no such kind: nonsense"),
        ("kind=benchmark_result", "benchmark_result cannot be imported"),
        ("as_of=yesterday", "as_of: expected"),
        ("expected_interval_us=-1", "query.expected_interval_us"),
        ("clusters=x", "query.clusters"),
        ("cluster=" + "x" * 300, "query.cluster"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_one_line(served: World, query: str, detail: str) -> None:
    assert detail in problem(send(served, stream((FileHead("a", "a"), DUMP)), query), 422, "usage")["detail"]
    assert imported(served) == []


def test_a_kind_in_a_head_is_checked_and_companions_have_theirs(served: World) -> None:
    found = problem(send(served, stream((FileHead("a", "a", kind="nonsense"), DUMP))), 422, "usage")
    assert "no such kind" in found["detail"]
    row = b"p-0,1000,1024,1,500,,LS,Succeeded,0,7200,3600\n"
    nodes = b"sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\n"
    files = ((FileHead("p", "p", kind="openb"), OPENB + row), (FileHead("n", "n", kind="openb_nodes"), nodes))
    report = send(served, stream(*files), "epoch=2026-01-01T00:00:00Z&cluster=east").json()
    assert [file["kind"] for file in report["files"]] == ["openb", "openb_nodes"]
    assert served.store.rows("SELECT DISTINCT cluster FROM fact.import_file") == [("east",)]


def test_the_time_of_a_file_is_the_senders(served: World) -> None:
    stampless = listing(pod("a"))
    stampless["items"][0]["metadata"].pop("creationTimestamp")
    stampless["items"][0]["status"] = {"phase": "Running"}
    body = stream((FileHead("a", "a", modified_at=1_700_000_000_000_000), json.dumps(stampless).encode()))
    report = send(served, body, "").json()
    assert (report["as_of"], report["as_of_basis"]) == ("2023-11-14T22:13:20Z", "file_time")


def test_more_uploads_than_may_spool_are_told_to_come_again(served: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(asyncio.Semaphore, "locked", lambda self: True)
    response = send(served, stream((FileHead("a", "a"), DUMP)))
    problem(response, 503, "busy")
    assert response.headers["retry-after"] == "5"


def test_a_roles_import_is_asked_before_a_byte_of_it_is_read(served: World) -> None:
    for token, status in ((served.secret("finance"), 403), (None, 401)):
        response = served.ask("POST", "/api/v1/import", token=token, content=stream((FileHead("a", "a"), DUMP)))
        assert response.status_code == status
    assert imported(served) == []
