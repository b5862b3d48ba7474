"""Who holds a card through a resource claim: named by the claim where no pod was seen, and counted once whoever names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.q01_holders import HoldersSpec
from steelyard.answers.q01_holders import answer as holders
from steelyard.answers.q02_consumption import ConsumptionSpec
from steelyard.answers.q02_consumption import answer as consumption
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.primitives.instant import parse_instant
from steelyard.store import Store
from tests.app.import_samples import import_files, listing, pod, write

CARD = "GPU-22222222-0000-4000-8000-000000000002"
NOON = parse_instant("2026-03-01T12:10:00Z")


def slice_of_one_card() -> dict[str, Any]:
    card = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": CARD}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s-1"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [card],
        },
    }


def claim(*names: str) -> dict[str, Any]:
    result = {"request": "g", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team-d", "uid": "cu", "creationTimestamp": "2026-03-01T12:00:00Z"},
        "status": {
            "allocation": {"allocationTimestamp": "2026-03-01T12:00:02Z", "devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in names],
        },
    }


def kubelet(name: str) -> dict[str, Any]:
    """The kubelet's word that the pod has the same device by its claim."""
    held = {"driver_name": "gpu.nvidia.com", "pool_name": "n1", "device_name": "gpu-0"}
    container = {
        "name": "main",
        "dynamic_resources": [{"claim_name": "c", "claim_namespace": "team-d", "claim_resources": [held]}],
    }
    return {"node": "n1", "pod_resources": [{"name": name, "namespace": "team-d", "containers": [container]}]}


def take(data: Path, *items: dict[str, Any], beside: dict[str, Any] | None = None) -> None:
    paths = [write(data.parent / "dump.json", listing(*items))]
    if beside is not None:
        paths.append(write(data.parent / "kubelet.json", beside))
    import_files(data, *paths, post=lambda store: post(store, Settings()), as_of=NOON)


def q1(data: Path, **spec: Any) -> Answer:
    with Store.open(data, read_only=True) as store:
        return holders(store, HoldersSpec(**spec))


def q2(data: Path, **spec: Any) -> Answer:
    with Store.open(data, read_only=True) as store:
        return consumption(store, ConsumptionSpec(**spec))


def column(result: Answer, table: str, *names: str) -> list[tuple[Any, ...]]:
    found = next(each for each in result.tables if each.name == table)
    places = [[each.name for each in found.columns].index(name) for name in names]
    return [tuple(row[place] for place in places) for row in found.rows]


def test_a_consumer_whose_pod_was_not_seen_is_named_by_its_claim(tmp_path: Path) -> None:
    take(tmp_path / "d", slice_of_one_card(), claim("svc-a", "svc-b"))
    wanted = [("team-d", "svc-a"), ("team-d", "svc-b")]
    assert column(q1(tmp_path / "d"), "holders", "namespace", "pod") == wanted
    assert column(q1(tmp_path / "d", where={"pod": "team-d/svc-b"}), "holders", "pod", "share_ratio") == [
        ("svc-b", 0.5)
    ]
    assert column(q2(tmp_path / "d"), "pods", "namespace", "pod") == wanted
    assert column(q2(tmp_path / "d"), "consumption", "tenant") == [("team-d",)]


def test_a_pod_that_was_seen_keeps_its_own_word(tmp_path: Path) -> None:
    seen = pod("svc-a", gpus=0)
    seen["metadata"]["namespace"] = "team-e"
    take(tmp_path / "d", slice_of_one_card(), claim("svc-a"), seen)
    assert column(q1(tmp_path / "d"), "holders", "namespace", "pod") == [("team-e", "svc-a")]


def test_a_pod_that_its_claim_and_the_kubelet_name_is_one_holder(tmp_path: Path) -> None:
    take(tmp_path / "d", slice_of_one_card(), claim("svc-a"), beside=kubelet("svc-a"))
    result = q1(tmp_path / "d")
    assert column(result, "holders", "pod", "share_ratio", "evidence_grade") == [("svc-a", 1.0, "corroborated")]
    values = {figure.name: figure.value for figure in result.figures}
    assert (values["holders_count"], values["gpus_overcommitted"]) == (1, 0)


def test_the_consumers_of_the_shared_case_have_their_names(shared: Path, tmp_path: Path) -> None:
    case = shared / "cases" / "queues"
    snapshot = parse_instant("2026-09-01T12:00:00Z")
    listed = case / "dra-claims-slices-list.json"
    import_files(tmp_path / "d", listed, post=lambda store: post(store, Settings()), now=snapshot, as_of=snapshot)
    told = json.loads((case / "dra-claims-slices-list.json").read_text())
    named = {
        (item["metadata"]["namespace"], row["name"])
        for item in told["items"]
        if item["kind"] == "ResourceClaim" and item["metadata"]["name"] != "monitor-admin"
        for row in item["status"]["reservedFor"]
    }
    assert set(column(q1(tmp_path / "d"), "holders", "namespace", "pod")) == named
    assert ("dra", "infer-dra-0") in named


@pytest.mark.parametrize("name", ["svc-a", "x" * 253])
def test_a_claim_that_nobody_uses_is_listed_under_its_own_name(tmp_path: Path, name: str) -> None:
    waiting = claim()
    waiting["metadata"]["name"] = name
    take(tmp_path / "d", slice_of_one_card(), waiting)
    assert column(q1(tmp_path / "d"), "holders", "pod", "occupancy") == [(f"claim:{name}", "in_suspense")]
