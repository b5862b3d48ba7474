from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.primitives.instant import parse_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, parse_pod
from steelyard.sources.volcano_vgpu import read_pod_allocations

G = "GPU-11111111-0000-4000-8000-000000000001"
H = "GPU-11111111-0000-4000-8000-000000000002"
IDS = "volcano.sh/vgpu-ids-new"


def container(name: str, number: int, memory: str | None = None) -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": str(number), **({"volcano.sh/vgpu-memory": memory} if memory else {})}
    return {"name": name, "resources": {"limits": limits if number else {}}}


def pod(annotations: dict[str, str], *containers: dict[str, Any]) -> PodView:
    spec = {"nodeName": "v1", "containers": list(containers)}
    return parse_pod(
        {
            "metadata": {"name": "p", "uid": "u1", "annotations": annotations},
            "spec": spec,
            "status": {"phase": "Running"},
        }
    )


def read(view: PodView) -> list[Any]:
    return list(read_pod_allocations(view, ReadContext()))


def test_joined_slots_give_each_container_its_cards() -> None:
    annotations = {
        IDS: f"{G},NVIDIA,3000,25:{H},NVIDIA,3000,25:;{G},NVIDIA,2000,10:",
        "volcano.sh/bind-time": "1796000001",
        "volcano.sh/vgpu-time": "1796000000",
    }
    found = read(pod(annotations, container("a", 2, "3000"), container("b", 1, "2000")))
    assert [
        (grant.container, grant.device_uuid, grant.memory_mib, grant.cores_percent, grant.alignment) for grant in found
    ] == [
        ("a", G, 3000, 25, "position"),
        ("a", H, 3000, 25, "position"),
        ("b", G, 2000, 10, "position"),
    ]
    assert {(grant.scheme, grant.bind_basis, grant.requested_cores_percent) for grant in found} == {
        ("volcano_vgpu", "volcano.sh/bind-time", None)
    }
    assert [grant.requested_memory_mib for grant in found] == [3000, 3000, 2000]
    assert (found[0].bound_at, found[0].reserved_at) == (
        parse_instant("2026-11-30T00:53:21Z"),
        parse_instant("2026-11-30T00:53:20Z"),
    )


def test_an_empty_last_slot_belongs_to_the_container_without_a_card() -> None:
    (grant,) = read(pod({IDS: f"{G},NVIDIA,3000,25:;"}, container("a", 1), container("log", 0)))
    assert (grant.container, grant.alignment) == ("a", "position")


def test_a_pod_without_bind_stamp_has_no_start() -> None:
    (grant,) = read(pod({IDS: f"{G},NVIDIA,3000,25:"}, container("a", 1)))
    assert (grant.bound_at, grant.bind_basis, grant.reserved_at) == (None, None, None)


def test_a_mig_suffix_is_read_here_too() -> None:
    (grant,) = read(pod({IDS: f"{G}[1-2],NVIDIA,10240,0:"}, container("a", 1)))
    assert (grant.device_uuid, grant.unit_kind, grant.profile) == (G, "mig", "2g.10gb")


def test_a_finished_work_list_is_only_separators() -> None:
    done = {IDS: f"{G},NVIDIA,1,1:", "volcano.sh/bind-phase": "success", "volcano.sh/devices-to-allocate": ";"}
    assert [type(fact) for fact in read(pod(done, container("a", 1)))] == [Grant]
    left = {**done, "volcano.sh/devices-to-allocate": f"{G},NVIDIA,1,1:"}
    assert [fact.code for fact in read(pod(left, container("a", 1))) if isinstance(fact, Finding)] == [
        "allocation_work_left"
    ]


@given(st.text(alphabet="GPU-1,:;[]0\ud800", max_size=80))
def test_any_annotation_ends_in_grants_and_findings(text: str) -> None:
    assert all(isinstance(fact, Grant | Finding) for fact in read(pod({IDS: text}, container("a", 1))))


def test_the_handed_pods_are_read_as_expected(shared: Path) -> None:
    folder = shared / "cases" / "hami"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["pods"]
    items = json.loads((folder / "volcano_list.json").read_text(encoding="utf-8"))["items"]
    columns = ("container", "device_uuid", "memory_mib", "cores_percent")
    views = [parse_pod(item) for item in items if item["kind"] == "Pod"]
    assert len(views) == 2
    for view in views:
        wanted = expected[f"{view.namespace}/{view.name}"]
        found = read(view)
        assert [tuple(getattr(grant, column) for column in columns) for grant in found] == [
            tuple(each[column] for column in columns) for each in wanted["slices"]
        ]
        start = wanted.get("grant_start_utc")
        assert {grant.bound_at for grant in found} == {parse_instant(start) if start else None}
        assert {grant.bind_basis for grant in found} == {wanted.get("grant_start_basis")}
