"""Whatever a file holds, the import ends in facts or in a finding, within its bounds, and the other files are read."""

from __future__ import annotations

import gzip
import json
import os
import socket
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.app import kubernetes_objects
from steelyard.app.kubernetes_objects import Readers
from steelyard.app.settings import ImportLimits, Settings
from steelyard.facts.base import Fact
from steelyard.facts.node import Node
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX
from steelyard.surfaces.shared.ports import ImportReport
from tests.app.import_samples import codes, import_files, listing, pod, rows, write

SMALL = Settings(import_limits=ImportLimits(decompressed_bytes_max=1 << 20, line_bytes_max=64 << 10))
POD = json.dumps(pod("a"))


def among_others(
    tmp_path: Path, content: object, settings: Settings | None = None, name: str = "m.json"
) -> ImportReport:
    """Import a bad file between two good ones, and see that both are read."""
    write(tmp_path / "in/a.json", pod("a"))
    write(tmp_path / "in" / name, content)
    write(tmp_path / "in/z.json", pod("z"))
    report = import_files(tmp_path / "d", tmp_path / "in", settings=settings)
    assert {("a",), ("z",)} <= set(rows(tmp_path / "d", "SELECT pod FROM fact.request"))
    return report


def bomb(size: int) -> bytes:
    return gzip.compress(b"\0" * size, mtime=0)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty_file"),
        (gzip.compress(b"", mtime=0), "unrecognised_file"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0", "binary_file"),
        (bytes(range(256)) * 50, "binary_file"),
        (POD[: len(POD) // 2], "malformed_json"),
        (json.dumps(listing(pod("b")))[:-20], "malformed_json"),
        (POD + "}", "malformed_json"),
        ('{"kind": "Pod", "apiVersion": "v1", "x": NaN}', "malformed_json"),
        ('{"kind": "Pod", "apiVersion": "v1", "x": Infinity}', "malformed_json"),
        ("[" * 100_000 + "]" * 100_000, "json_too_deep"),
        ("[" * 100_000, "json_too_deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "json_too_deep"),
        ('{"apiVersion":"v1","kind":"List","items":[' + '{"a":' * 300 + "1" + "}" * 300 + "]}", "json_too_deep"),
        (bomb(10 << 20), "decompression_limit"),
        (gzip.compress(POD.encode(), mtime=0)[:-9], "malformed_gzip"),
        (gzip.compress(POD.encode(), mtime=0)[:20], "malformed_gzip"),
        (b"\x1f\x8b\x08\x00garbage-that-is-no-deflate", "malformed_gzip"),
        (gzip.compress(POD.encode(), mtime=0) + b"more", "malformed_gzip"),
        (b"x" * (2 << 20), "file_too_large"),
        ("[]", "unrecognised_file"),
        ("{}", "unrecognised_file"),
        ('{"kind": ["Pod"], "apiVersion": {}}', "unrecognised_file"),
        ("[1, 2, 3]", "unrecognised_file"),
        ("\n" * 5000, "unrecognised_file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_finding_and_stops_nothing(
    tmp_path: Path, content: object, code: str
) -> None:
    report = among_others(tmp_path, content, SMALL)
    bad = next(file for file in report.files if file.path.endswith("m.json"))
    assert bad.status == "refused"
    assert codes(tmp_path / "d") == [code]


def test_the_bound_on_decompression_holds_over_several_members(tmp_path: Path) -> None:
    among_others(tmp_path, bomb(700 << 10) + bomb(700 << 10), SMALL)
    assert codes(tmp_path / "d") == ["decompression_limit"]


def test_members_of_one_gzip_are_one_text(tmp_path: Path) -> None:
    half = len(POD) // 2
    content = gzip.compress(POD[:half].encode()) + gzip.compress(POD[half:].encode()) + b"\0" * 64
    import_files(tmp_path / "d", write(tmp_path / "x.gz", content))
    assert rows(tmp_path / "d", "SELECT pod FROM fact.request") == [("a",)]


def test_a_gzip_in_a_gzip_is_not_opened_twice(tmp_path: Path) -> None:
    among_others(tmp_path, gzip.compress(gzip.compress(POD.encode(), mtime=0)))
    assert codes(tmp_path / "d") == ["binary_file"]


def test_a_deflate_bomb_in_small_pieces_ends_at_the_bound(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, wbits=31)
    content = b"".join(packer.compress(b"a" * 4096) for _ in range(1000)) + packer.flush()
    among_others(tmp_path, content, SMALL)
    assert codes(tmp_path / "d") == ["decompression_limit"]


@pytest.mark.parametrize(
    "lines",
    [
        [POD, "x" * (10 << 20), json.dumps(pod("b"))],
        [POD, '{"kind": "Pod", "apiVersion": "v1", "pad": "' + "y" * (10 << 20) + '"}', json.dumps(pod("b"))],
        [POD, '{"kind": "Pod", ', json.dumps(pod("b"))],
        [POD, "[" * 5000, json.dumps(pod("b"))],
        [POD, '{"x": NaN}', json.dumps(pod("b"))],
        [POD, "null", json.dumps(pod("b"))],
        [POD, '"text"', json.dumps(pod("b"))],
        [POD, '{"kind": "Pod", "apiVersion": "v1"}', json.dumps(pod("b"))],
    ],
    ids=["10 MB", "10 MB of JSON", "cut off", "deep", "NaN", "null", "text", "no name"],
)
def test_a_bad_line_costs_itself_and_says_where_it_stands(tmp_path: Path, lines: list[str]) -> None:
    import_files(tmp_path / "d", write(tmp_path / "x", "\n".join(lines)))
    assert rows(tmp_path / "d", "SELECT pod FROM fact.request ORDER BY ALL") == [("a",), ("b",)]
    ((code, line, excerpt),) = rows(tmp_path / "d", "SELECT code, line, excerpt FROM fact.finding")
    assert (code, line) == ("source_malformed", 2)
    assert len(excerpt) <= 200


def test_a_long_line_of_text_is_left_out_and_the_numbers_of_the_others_stay(tmp_path: Path) -> None:
    header = "name,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time"
    text = "\n".join((header, "p0,1,1000,Running,0,9,1", "é" * (10 << 20), "p1,1,1000,Running,0,9,1", "bad,row"))
    import_files(tmp_path / "d", write(tmp_path / "x", text))
    assert rows(tmp_path / "d", "SELECT pod FROM fact.request ORDER BY ALL") == [("p0",), ("p1",)]
    assert rows(tmp_path / "d", "SELECT line FROM fact.finding WHERE code = 'source_malformed' ORDER BY ALL") == [
        (3,),
        (5,),
    ]


def test_a_pod_with_a_hundred_thousand_annotations_is_read(tmp_path: Path) -> None:
    heavy = pod("heavy", annotations={f"example.com/{number}": "x" for number in range(100_000)})
    report = import_files(tmp_path / "d", write(tmp_path / "x", listing(heavy, pod("b"))))
    assert rows(tmp_path / "d", "SELECT pod FROM fact.request ORDER BY ALL") == [("b",), ("heavy",)]
    assert report.findings_by_code, "an object beyond the bound of annotations is said"


@pytest.mark.parametrize("place", ["key", "value"])
def test_strings_full_of_brackets_are_not_nesting(tmp_path: Path, place: str) -> None:
    text = '[{\\"' * 500
    annotations = f'{{"{text}": "x"}}' if place == "key" else f'{{"x": "{text}"}}'
    content = POD.replace('"annotations": {}', f'"annotations": {annotations}')
    assert content != POD
    report = import_files(tmp_path / "d", write(tmp_path / "x", content))
    assert [file.status for file in report.files] == ["imported"]


def test_bytes_that_are_no_text_are_replaced_and_said(tmp_path: Path) -> None:
    content = json.dumps(listing(pod("a"), pod("b"))).encode().replace(b"uid-b", b"uid-\xff\xfe")
    import_files(tmp_path / "d", write(tmp_path / "x", content))
    assert rows(tmp_path / "d", "SELECT pod FROM fact.request ORDER BY ALL") == [("a",), ("b",)]
    assert codes(tmp_path / "d") == ["invalid_utf8"]


def test_a_log_with_nul_bytes_is_read(tmp_path: Path) -> None:
    text = b"[  1.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n" + b"\0" * 5000 + b"\n"
    import_files(tmp_path / "d", write(tmp_path / "x", b"x\n" * 4000 + text), kind="kernel_log")
    assert "invalid_utf8" in codes(tmp_path / "d")
    assert rows(tmp_path / "d", "SELECT count(*) > 0 FROM fact.source_status") == [(True,)]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "x", "uid": "u", "creationTimestamp": "9999-12-31T23:59:59-14:00"}},
        {"metadata": {"name": "x", "uid": "u", "labels": {"a": 10**30}, "annotations": [1]}},
        {"metadata": {"name": "x", "uid": 7, "creationTimestamp": 10**25}},
        {
            "spec": {
                "priority": 2**63,
                "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1e30"}}}],
            }
        },
        {"spec": {"containers": {"name": "c"}, "nodeName": {"a": 1}}, "status": []},
        {"status": {"containerStatuses": [{"name": [], "restartCount": 2**64, "state": 1}], "conditions": [None, 3]}},
        {"metadata": {"name": "x", "uid": "u\0v", "ownerReferences": [{"kind": None, "uid": []}]}},
    ],
)
def test_values_of_the_wrong_kind_or_size_never_stop_an_import(tmp_path: Path, change: dict[str, Any]) -> None:
    among_others(tmp_path, {**pod("m"), **change})


def test_a_reader_that_fails_on_one_object_is_said_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = kubernetes_objects.all_readers()

    def clumsy(view: Any, ctx: Any) -> Iterator[Fact]:
        if view.name == "m":
            raise KeyError("surprise")
        yield from real.pods[0](view, ctx)

    fake = Readers((clumsy,), real.allocations, real.nodes, real.events)
    monkeypatch.setattr("steelyard.app.importer.all_readers", lambda: fake)
    report = among_others(tmp_path, pod("m"))
    assert report.findings_by_code == {"reader_failed": 1}
    assert rows(tmp_path / "d", "SELECT subject FROM fact.finding") == [("pod team-a/m",)]


def test_facts_that_no_column_holds_become_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = kubernetes_objects.all_readers()

    def boundless(payload: Any, ctx: Any) -> Iterable[Fact]:
        common = {"source": "t", "occurred_at": AT_OBSERVATION, "observed_at": AT_OBSERVATION, "node": "n"}
        yield Node(natural_key="big", gpu_count=2**70, **common)
        yield Node(natural_key="text", labels="\ud800", **common)
        yield Node(natural_key="late", created_at=INSTANT_MAX + 1, **common)
        yield Node(natural_key="good", **common)

    fake = Readers(real.pods, real.allocations, (boundless,), real.events)
    monkeypatch.setattr("steelyard.app.importer.all_readers", lambda: fake)
    import_files(tmp_path / "d", write(tmp_path / "x", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))
    assert rows(tmp_path / "d", "SELECT natural_key FROM fact.node") == [("good",)]
    assert rows(tmp_path / "d", "SELECT subject FROM fact.finding ORDER BY ALL") == [
        ("node big",),
        ("node late",),
        ("node text",),
    ]


def test_pipes_devices_and_sockets_are_refused_without_waiting(tmp_path: Path) -> None:
    write(tmp_path / "in/a.json", pod("a"))
    os.mkfifo(tmp_path / "in/pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "in/s"))
        report = import_files(tmp_path / "d", tmp_path / "in", Path("/dev/zero"))
    assert {Path(file.path).name: file.status for file in report.files} == {
        "a.json": "imported",
        "pipe": "refused",
        "s": "refused",
        "zero": "refused",
    }


def test_links_that_loop_or_leave_the_directory_are_refused_and_others_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "outside/secret.json", pod("secret"))
    write(tmp_path / "in/real/a.json", pod("a"))
    (tmp_path / "in/real/loop").symlink_to(tmp_path / "in")
    (tmp_path / "in/leaves").symlink_to(secret)
    (tmp_path / "in/dead").symlink_to(tmp_path / "in/nowhere")
    (tmp_path / "in/again.json").symlink_to(tmp_path / "in/real/a.json")
    import_files(tmp_path / "d", tmp_path / "in")
    assert rows(tmp_path / "d", "SELECT DISTINCT pod FROM fact.request") == [("a",)]
    assert codes(tmp_path / "d") == ["symlink_loop", "symlink_outside", "unreadable_file"]


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def guarded(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith("m.json"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)

    monkeypatch.setattr("steelyard.app.reading.os.open", guarded)
    among_others(tmp_path, pod("m"))
    assert codes(tmp_path / "d") == ["unreadable_file"]


def test_a_name_that_is_no_text_is_carried_with_replacements(tmp_path: Path) -> None:
    write(tmp_path / "in/a.json", pod("a"))
    (tmp_path / "in" / os.fsdecode(b"\xff.json")).write_text("prose")
    import_files(tmp_path / "d", tmp_path / "in")
    assert rows(tmp_path / "d", "SELECT file FROM fact.finding") == [("?.json",)]


@pytest.mark.parametrize("form", ["list", "lines", "one object"])
def test_half_a_character_in_one_name_costs_no_other_pod_and_is_said(tmp_path: Path, form: str) -> None:
    odd, whole = pod("a"), pod("b \U0001f600")
    odd["metadata"]["labels"] = {"app": "x\ud800y", "path": "c:\\ud800", "both": "\ud83d\ude00"}
    content = {
        "list": json.dumps(listing(odd, whole)),
        "lines": "\n".join(json.dumps(each) for each in (odd, whole)),
        "one object": json.dumps(odd),
    }[form]
    report = import_files(tmp_path / "d", write(tmp_path / "x.json", content))
    assert report.files[0].status == "imported"
    assert report.files[0].refused_count == 0
    kept = rows(tmp_path / "d", "SELECT labels FROM fact.owner WHERE labels LIKE '%both%'")
    assert json.loads(kept[0][0]) == {"app": "x\ufffdy", "path": "c:\\ud800", "both": "\U0001f600"}
    assert ("b \U0001f600",) in rows(tmp_path / "d", "SELECT pod FROM fact.request") or form == "one object"
    assert form == "lines" or "invalid_utf8" in codes(tmp_path / "d")
