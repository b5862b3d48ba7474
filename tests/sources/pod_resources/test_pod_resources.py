"""PodResources: every spelling of a device id, what is merged, what contradicts, and the handed case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.sources.pod_resources import read_pod_resources, sniff
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import directory_of

CARD = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
OTHER = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
MIG = "MIG-cccccccc-1111-2222-3333-444444444444"

Kind = TypeVar("Kind", bound=Fact)


def device(*ids: str, resource: str = "nvidia.com/gpu", numa: int | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"resource_name": resource, "device_ids": list(ids)}
    return entry if numa is None else {**entry, "topology": {"nodes": [{"ID": numa}]}}


def pod(*devices: dict[str, Any], name: str = "p", **container: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "team", "containers": [{"name": "main", "devices": list(devices), **container}]}


def node(*pods: dict[str, Any], allocatable: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = {"node": "n1", "list": {"pod_resources": list(pods)}}
    return answer if allocatable is None else {**answer, "allocatable": {"devices": allocatable}}


def read(payload: object, **context: Any) -> list[Fact]:
    return list(read_pod_resources(payload, ReadContext(**context)))


def of(kind: type[Kind], facts: list[Fact]) -> list[Kind]:
    return [fact for fact in facts if isinstance(fact, kind)]


def codes(facts: list[Fact]) -> list[str]:
    return [finding.code for finding in of(Finding, facts)]


@pytest.mark.parametrize(
    ("text", "resource", "unit_kind", "card", "unit_id", "gi", "profile"),
    [
        (CARD, "nvidia.com/gpu", "gpu", CARD, None, None, None),
        (CARD.replace("a", "A").replace("GPU", "GPU"), "nvidia.com/gpu", "gpu", CARD, None, None, None),
        (MIG, "nvidia.com/mig-1g.10gb", "mig", None, MIG, None, "1g.10gb"),
        (f"MIG-{CARD}/1/0", "nvidia.com/mig-3g.40gb", "mig", CARD, f"{CARD}/gi1/ci0", 1, "3g.40gb"),
        (f"{CARD}::3", "nvidia.com/gpu.shared", "slice", CARD, f"{CARD}::3", None, None),
        (f"{MIG}::1", "nvidia.com/mig-1g.10gb.shared", "slice", None, f"{MIG}::1", None, "1g.10gb"),
        (f"{CARD}-7", "nvidia.com/gpu", "vgpu", None, None, None, None),
        ("nvidia0", "nvidia.com/gpu", "gpu", None, None, None, None),
        ("nvidia0/gi5", "nvidia.com/gpu", "mig", None, "nvidia0/gi5", 5, None),
        ("nvidia0/vgpu1", "nvidia.com/gpu", "slice", None, "nvidia0/vgpu1", None, None),
        ("nvidia0/gi5/vgpu1", "nvidia.com/gpu", "slice", None, "nvidia0/gi5/vgpu1", 5, None),
        ("0000:0a:00.0", "amd.com/gpu", "gpu", None, None, None, None),
    ],
)
def test_every_spelling_of_a_device_id(
    text: str, resource: str, unit_kind: str, card: str | None, unit_id: str | None, gi: int | None, profile: str | None
) -> None:
    (grant,) = of(Grant, read(node(pod(device(text, resource=resource)))))
    assert (grant.unit_kind, grant.device_uuid, grant.unit_id, grant.gi, grant.profile) == (
        unit_kind,
        card,
        unit_id,
        gi,
        profile,
    )
    assert (grant.device_unknown_reason is None) == (card is not None)
    assert (grant.pod_uid, grant.container, grant.scheme, grant.node) == ("name:team/p", "main", "pod_resources", "n1")


def test_an_index_is_resolved_by_the_directory() -> None:
    known = Device(
        source="x", natural_key=CARD, occurred_at=0, observed_at=0, device_uuid=CARD, node="n1", device_index=0
    )
    payload = node(pod(device("nvidia0/vgpu1")))
    (grant,) = of(Grant, list(read_pod_resources(payload, ReadContext(), directory_of([known]))))
    assert (grant.device_uuid, grant.device_unknown_reason) == (CARD, None)


def test_entries_per_numa_node_are_one_allocation_without_repeats() -> None:
    payload = node(
        pod(device(CARD, numa=0), device(OTHER, CARD, numa=1)),
        allocatable=[device(CARD, numa=0), device(OTHER, numa=1)],
    )
    facts = read(payload)
    assert [g.device_uuid for g in of(Grant, facts)] == [CARD, OTHER]
    assert {d.device_uuid: (d.numa, d.healthy, d.basis) for d in of(Device, facts)} == {
        CARD: (0, True, "inventory"),
        OTHER: (1, True, "inventory"),
    }
    assert codes(facts) == []


def test_what_is_listed_but_not_allocatable_is_unhealthy() -> None:
    facts = read(node(pod(device(CARD, OTHER)), allocatable=[device(CARD)]))
    assert {d.device_uuid: d.healthy for d in of(Device, facts)} == {CARD: True, OTHER: False}
    assert codes(facts) == ["device_not_allocatable"]


def test_without_allocatable_health_is_not_said() -> None:
    facts = read(node(pod(device(CARD))))
    assert [d.healthy for d in of(Device, facts)] == [None]
    assert of(SourceStatus, facts)[0].status == "partial"


def test_replicas_are_counted_from_allocatable() -> None:
    ids = [f"{CARD}::{n}" for n in range(4)]
    facts = read(
        node(
            pod(device(ids[3], resource="nvidia.com/gpu.shared")),
            allocatable=[device(*ids, resource="nvidia.com/gpu.shared")],
        )
    )
    assert [g.replicas for g in of(Grant, facts)] == [4]
    assert [(u.unit_id, u.device_uuid, u.replicas) for u in of(Unit, facts)] == [
        (each, CARD, 4) for each in [ids[3], *ids[:3]]
    ]
    assert [d.slots_count for d in of(Device, facts)] == [4]


def test_a_replica_that_is_missing_still_counts() -> None:
    offered = [device(f"{CARD}::{n}") for n in (0, 1, 3)]
    assert [g.replicas for g in of(Grant, read(node(pod(device(f"{CARD}::2")), allocatable=offered)))] == [4]
    assert [g.replicas for g in of(Grant, read(node(pod(device(f"{CARD}::0")), allocatable=offered)))] == [4]


def test_replicas_without_allocatable_are_unknown() -> None:
    facts = read(node(pod(device(f"{CARD}::2")), allocatable=[]))
    assert [g.replicas for g in of(Grant, facts)] == [None]
    assert codes(facts) == ["replicas_unknown", "device_not_allocatable"]


def test_replicas_that_nobody_lists_are_one_finding_per_node_and_resource_with_their_count() -> None:
    held = [device(f"{CARD}::{n}") for n in range(3)]
    facts = read(node(pod(*held), allocatable=[]))
    (finding,) = (fact for fact in of(Finding, facts) if fact.code == "replicas_unknown")
    assert finding.subject.startswith("node ")
    assert json.loads(finding.evidence)["count"] == 3
    fewer = read(node(pod(held[0]), allocatable=[]))
    assert [fact.message for fact in of(Finding, fewer) if fact.code == "replicas_unknown"] == [finding.message]


def test_slices_of_a_profile_follow_from_the_nodes_other_profiles() -> None:
    offered = [
        device(MIG, resource="nvidia.com/mig-1g.10gb"),
        device(f"MIG-{CARD}/1/0", resource="nvidia.com/mig-3g.40gb"),
    ]
    (grant,) = of(Grant, read(node(pod(offered[0]), allocatable=offered)))
    assert (grant.compute_slices, grant.compute_slices_total, grant.memory_slices, grant.memory_slices_total) == (
        1,
        7,
        1,
        8,
    )


def test_a_card_of_two_pods_is_said() -> None:
    facts = read(node(pod(device(CARD)), pod(device(CARD), name="done")))
    assert codes(facts) == ["device_listed_for_several_pods"]
    assert len(of(Grant, facts)) == 2


def test_dynamic_resources_are_grants_of_dra_units() -> None:
    claim = {
        "claim_name": "c",
        "claim_namespace": "team",
        "claim_resources": [
            {"driver_name": "gpu.nvidia.com", "pool_name": "n1", "device_name": "gpu-0", "share_id": "s1"}
        ],
    }
    (grant,) = of(Grant, read(node(pod(dynamic_resources=[claim]))))
    assert (grant.unit_kind, grant.unit_id, grant.device_uuid) == ("dra", "gpu.nvidia.com/n1/gpu-0/s1", None)


def test_camel_case_and_bare_answers_are_read() -> None:
    camel = {
        "podResources": [
            {
                "name": "p",
                "namespace": "team",
                "containers": [{"name": "c", "devices": [{"resourceName": "nvidia.com/gpu", "deviceIds": [CARD]}]}],
            }
        ]
    }
    facts = read(json.dumps(camel).encode(), node="n9")
    assert [(g.device_uuid, g.node) for g in of(Grant, facts)] == [(CARD, "n9")]
    offered = read({"devices": [device(CARD)]}, node="n9")
    assert [(d.device_uuid, d.node, d.healthy) for d in of(Device, offered)] == [(CARD, "n9", True)]


def test_other_resources_are_named_and_not_read() -> None:
    facts = read(node(pod(device("dev-1", resource="rdma/hca"), device(CARD))))
    assert len(of(Grant, facts)) == 1
    assert codes(facts) == ["resource_not_read"]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"nonsense",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'[1, null, "x"]',
        b"{}",
        b"NaN",
        b"\xff\xfe",
        b'{"list": 5, "allocatable": []}',
    ],
)
def test_what_is_no_answer_is_refused(payload: bytes) -> None:
    facts = read(payload)
    assert set(codes(facts)) == {"source_malformed"}
    assert of(Grant, facts) == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from([CARD, MIG, f"{CARD}::1", "nvidia0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "list",
                    "allocatable",
                    "pod_resources",
                    "devices",
                    "containers",
                    "name",
                    "namespace",
                    "device_ids",
                    "resource_name",
                    "topology",
                    "nodes",
                    "ID",
                    "node",
                    "dynamic_resources",
                    "claim_resources",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_any_json_ends_in_facts_or_findings(payload: object) -> None:
    assert all(isinstance(fact, Fact) for fact in read(payload))


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ('[{"node": "n", "list": {"pod_resources": []}}]', "pod_resources"),
        ('{"podResources":[]}', "pod_resources"),
        ('{"kind":"List","items":[]}', None),
        ("x", None),
    ],
)
def test_sniff_knows_pod_resources(head: str, kind: str | None) -> None:
    assert sniff(head.encode()) == kind


def share_ppm(grant: Grant) -> int | None:
    """The dominant share as the definitions take it: floored parts per million."""
    if grant.unit_kind == "slice":
        return 1_000_000 // grant.replicas if grant.replicas else None
    assert grant.compute_slices and grant.compute_slices_total and grant.memory_slices and grant.memory_slices_total
    return max(
        grant.compute_slices * 10**6 // grant.compute_slices_total,
        grant.memory_slices * 10**6 // grant.memory_slices_total,
    )


def test_the_handed_case_is_read_as_expected(shared: Path) -> None:
    queues = shared / "cases" / "queues"
    expected = json.loads((queues / "expected.json").read_bytes())["podresources"]
    facts = read((queues / "podresources.json").read_bytes())
    grants: dict[tuple[str | None, str], list[Grant]] = {}
    for grant in of(Grant, facts):
        grants.setdefault((grant.node, grant.pod_uid.removeprefix("name:")), []).append(grant)
    for name, right in expected.items():
        cards = [d for d in of(Device, facts) if d.node == name]
        for holder, figures in right.get("holders", {}).items():
            held = grants[name, holder]
            if "physical_gpus_count" in figures:
                assert len({g.device_uuid for g in held}) == figures["physical_gpus_count"]
            if "replica_index" in figures and "mig_uuid" not in figures:
                assert held[0].unit_id == f"{held[0].device_uuid}::{figures['replica_index']}"
            if "mig_uuid" in figures:
                suffix = f"::{figures['replica_index']}" if "replica_index" in figures else ""
                assert held[0].unit_id == figures["mig_uuid"] + suffix
            if "profile" in figures:
                assert held[0].profile == figures["profile"]
            if "parent_uuid" in figures:
                assert held[0].device_uuid == figures["parent_uuid"]
            if "gpu_instance_id" in figures:
                assert (held[0].gi, held[0].ci) == (figures["gpu_instance_id"], figures["compute_instance_id"])
            if "replicas_count" in figures:
                assert held[0].replicas == figures["replicas_count"]
            if "share_ppm" in figures:
                assert share_ppm(held[0]) == figures["share_ppm"]
        if "unhealthy_gpus_count" in right:
            assert sum(d.healthy is False for d in cards) == right["unhealthy_gpus_count"]
            assert sum(d.healthy is True for d in cards) == right["allocatable_gpus_count"]
            assert [d.device_uuid for d in cards if d.healthy is False] == right.get("unhealthy_gpu_uuids", [])
        if "replicas_count" in right:
            assert {d.slots_count for d in cards} == {right["replicas_count"]}
        for device_id in right.get("not_allocatable_device_ids", []):
            assert any(
                f.code == "device_not_allocatable" and f.subject == f"device {device_id}" for f in of(Finding, facts)
            )
        if "dra_device" in right:
            assert [g.unit_id for g in grants[name, right["pod"]]] == [right["dra_device"]]
            assert cards == []
