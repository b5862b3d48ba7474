"""JSON is measured before it is parsed, text is decoded without loss of place, and files are found in a fixed order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.app import json_documents
from steelyard.app.detect import KINDS, detect_json, detect_text, kind_named, looks_like_json
from steelyard.app.json_documents import RawList, extent_of, item_of, parse
from steelyard.app.kubernetes_objects import KubernetesObjects, Later, all_readers
from steelyard.app.reading import FileRefused, find_files, to_text, to_utf8
from steelyard.primitives.errors import SourceMalformed, UsageError
from steelyard.sources.shared.context import ReadContext
from tests.app.import_samples import listing, pod

TRICKY = st.text(st.sampled_from('{}[]"\\,: é\n'), max_size=6)
JSON = st.recursive(
    st.none() | st.integers(-(2**63), 2**64 - 1) | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY, inner, max_size=4),
    max_leaves=30,
)


def depth_and_count(value: Any) -> tuple[int, int]:
    children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    if children is None:
        return 0, 0
    inner = [depth_and_count(child) for child in children]
    return 1 + max((depth for depth, _ in inner), default=0), 1 + sum(count for _, count in inner)


@settings(max_examples=300, deadline=None)
@given(JSON, st.integers(1, 40), st.sampled_from([None, 1]))
def test_the_extent_of_a_text_is_that_of_what_it_says(value: Any, chunk: int, indent: int | None) -> None:
    before = json_documents._CHUNK, json_documents._SMALL
    json_documents._CHUNK, json_documents._SMALL = chunk, 0  # type: ignore[misc]
    try:
        found = extent_of(json.dumps(value, indent=indent).encode())
    finally:
        json_documents._CHUNK, json_documents._SMALL = before  # type: ignore[misc]
    assert (found.depth, found.openings) == depth_and_count(value)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_a_list_that_is_split_gives_the_items_that_one_parse_gives(value: Any) -> None:
    document = {"kind": "PodList", "apiVersion": "v1", "items": [value, {"a": value}], "more": value}
    split, replaced = parse(json.dumps(document).encode(), 200)
    assert isinstance(split, RawList)
    assert not replaced
    assert [item_of(raw)[0] for raw in split.items] == document["items"]


@pytest.mark.parametrize(
    "text", ['{"a":}', "{'a':1}", "[1,]", "01", "nul", '"\t"', '{"a":1,}', "[1 2]", '{"a" 1}', "\x01"]
)
def test_an_item_that_is_no_json_is_refused_alone_or_with_its_list(text: str) -> None:
    document = f'{{"kind":"PodList","items":[{{"a":1}},{text}]}}'.encode()
    try:
        split, _ = parse(document, 200)
    except FileRefused as refused:
        assert refused.code == "malformed_json"
        return
    assert item_of(split.items[0]) == ({"a": 1}, False)
    with pytest.raises(SourceMalformed):
        item_of(split.items[1])


def test_text_that_is_denser_than_memory_allows_is_refused() -> None:
    with pytest.raises(FileRefused) as caught:
        parse(b"[" + b"{}," * 5_000_001 + b"{}]", 200)
    assert caught.value.code == "json_too_many_objects"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_decoded_by_its_byte_order_mark(encoding: str) -> None:
    assert to_text("GPU 显存 é\n".encode(encoding)) == ("GPU 显存 é\n", 0)
    assert orjson.loads(to_utf8('{"显": 1}'.encode(encoding))) == {"显": 1}


def test_what_cannot_be_decoded_is_counted_and_a_replacement_that_was_there_is_not() -> None:
    assert to_text(b"a\xffb\0c" + "\ufffd".encode()) == ("a\ufffdb\ufffdc\ufffd", 2)


def test_files_are_found_by_name_and_called_relative_to_what_was_given(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a", "c/d/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [file.name for file in find_files([tmp_path, tmp_path / "a"], None)] == ["a", "b/1", "b/2", "c/d/e", "a"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("[    1.234567] NVRM: x", False),
        ("[Sun Feb 23 16:24:18 2025] NVRM: x", False),
        ("[...] NVRM: Xid", False),
        ("  {", True),
        ("[1]", True),
        ("[\n  {", True),
        ("[1.5, 2]", True),
        ("text", False),
    ],
)
def test_a_log_that_opens_with_a_bracket_is_not_json(head: str, expected: bool) -> None:
    assert looks_like_json(head) is expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)\n", "nvidia_smi"),
        ("index, uuid, memory.used [MiB]\n0, GPU-1, 5 MiB\n", "nvidia_smi"),
        (
            '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n',
            "nvidia_smi",
        ),
        (
            "Jun  4 09:19:52 host kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n",
            "kernel_log",
        ),
        ("[ 12.345678] usb 1-1: new device\n", "kernel_log"),
        ("name,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time\n", "openb"),
        ("\ufeffsn;gpu;model\n", "openb_nodes"),
        ("Serial Number,Rack,Owner,Price\n", "inventory"),
        ("device_uuid,holder,from,to\n", "holdings"),
        ("index,uuid,serial,rack,owner,price\n0,GPU-1,S1,R1,lab,5\n", "inventory"),
        ("---\napiVersion: v1\n", "kubernetes_yaml"),
        ("# made by hand\nkind: List\n", "kubernetes_yaml"),
        ("- apiVersion: v1\n", "kubernetes_yaml"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\n', "metrics_text"),
        ("up 1\n", "metrics_text"),
    ],
)
def test_a_text_is_told_by_its_marks(text: str, kind: str) -> None:
    found = detect_text(text)
    assert found is not None
    assert found.kind.name == kind


@pytest.mark.parametrize("text", ["", "hello\n", "a,b,c\n1,2,3\n", "kind of blue\n", "gpu\n", "# comment\n", "x: y\n"])
def test_a_text_without_marks_is_no_kind(text: str) -> None:
    assert detect_text(text) is None


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (pod("a"), "kubernetes"),
        ([pod("a")], "kubernetes"),
        ([{"node": "n", "list": {"pod_resources": []}}], "pod_resources"),
        ({"podResources": []}, "pod_resources"),
        ({"pod_resources": []}, "pod_resources"),
        ({"kind": "Event", "apiVersion": "audit.k8s.io/v1"}, "audit_log"),
        ({"load_summary": {}, "successes": {}, "failures": {}}, "benchmark_result"),
        ({"kind": "Pod"}, None),
        ({"kind": 1, "apiVersion": 2}, None),
        ([], None),
        ([[pod("a")]], None),
        (None, None),
        (7, None),
    ],
)
def test_a_document_is_told_by_its_fields(document: object, kind: str | None) -> None:
    found = detect_json(document)
    assert (found.name if found else None) == kind


def test_a_list_is_told_by_its_own_version() -> None:
    for version, kind in (("v1", "kubernetes"), ("audit.k8s.io/v1", "audit_log")):
        document, _ = parse(json.dumps({**listing(pod("a"), kind="EventList"), "apiVersion": version}).encode(), 200)
        found = detect_json(document)
        assert found is not None
        assert found.name == kind


def test_every_kind_with_a_reader_can_be_named_and_the_others_say_why_not() -> None:
    for kind in KINDS.values():
        if kind.advice is None:
            assert kind_named(kind.name) == kind
        else:
            with pytest.raises(UsageError, match=r"cannot be imported"):
                kind_named(kind.name)
    with pytest.raises(UsageError, match="kubernetes"):
        kind_named("kubernetis")


def test_a_pod_that_waits_for_the_registers_does_not_keep_its_whole_object() -> None:
    allocated = pod("a", annotations={"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1024,10:;"})
    objects, later = KubernetesObjects(all_readers, None, "observed"), Later()
    list(objects.read([(0, allocated)], ReadContext(file="pods.json"), later, listing=True))
    (view,) = later.pods
    assert (view.name, dict(view.raw), view.conditions) == ("a", {}, ())
    assert view.annotations and view.containers
