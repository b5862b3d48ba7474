"""Resource slices and claims as devices, units and grants."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.unit import Unit
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.dra import read_dra, read_resource_claim, read_resource_slice, read_resource_slices
from steelyard.sources.kube_api.dra_slices import is_accelerator_driver, select_slices
from tests.sources.kube_api.kube_objects import CTX, at, codes, of, only, stamp

GPU = "gpu.nvidia.com"


def _card(name: str = "gpu-0", uuid: str = "GPU-a", **rest: Any) -> dict[str, Any]:
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": uuid},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
    }
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "81559Mi"}}, **rest}


def _mig(name: str = "gpu-1-mig-2g20gb-14-4", uuid: str | None = "MIG-x", **rest: Any) -> dict[str, Any]:
    attributes = {
        "type": {"string": "mig"},
        "parentUUID": {"string": "GPU-b"},
        "profile": {"string": "2g.20gb"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
    }
    if uuid is not None:
        attributes["uuid"] = {"string": uuid}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "20096Mi"}}, **rest}


def _slice(
    *devices: dict[str, Any], name: str = "s-1", generation: int = 1, count: int = 1, **spec: Any
) -> dict[str, Any]:
    pool = {"name": "n-1", "generation": generation, "resourceSliceCount": count}
    body = {"driver": GPU, "nodeName": "n-1", "pool": pool, "devices": list(devices), **spec}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": body}


def _claim(
    *results: dict[str, Any], pods: tuple[str, ...] = ("u-1",), allocated: str | None = "10:00:05", **status: Any
) -> dict[str, Any]:
    allocation: dict[str, Any] = {"devices": {"results": list(results)}}
    if allocated is not None:
        allocation["allocationTimestamp"] = stamp(allocated)
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "ns", "uid": "cu-1", "creationTimestamp": stamp("10:00:00")},
        "status": {
            "allocation": allocation,
            "reservedFor": [{"resource": "pods", "name": f"pod-{uid}", "uid": uid} for uid in pods],
            **status,
        },
    }


def _result(device: str = "gpu-0", **rest: Any) -> dict[str, Any]:
    return {"request": "g", "driver": GPU, "pool": "n-1", "device": device, **rest}


def _read(claims: list[Any], slices: list[Any]) -> list[Fact]:
    return list(read_dra(claims, slices, CTX))


def test_a_whole_card_is_a_device_of_the_inventory_and_a_unit():
    facts = _read([], [_slice(_card())])
    device, unit = only(facts, Device), only(facts, Unit)
    assert (device.device_uuid, device.node, device.memory_mib, device.basis) == ("GPU-a", "n-1", 81559, "inventory")
    assert (device.model, device.vendor, device.mode) == ("NVIDIA H100 80GB HBM3", "nvidia", None)
    assert (unit.unit_id, unit.unit_kind, unit.device_uuid) == ("gpu.nvidia.com/n-1/gpu-0", "gpu", "GPU-a")


def test_a_partition_names_its_card_once_and_keeps_its_own_uuid_apart():
    facts = _read([], [_slice(_mig(), _mig("gpu-1-mig-2g20gb-14-0", "MIG-y"))])
    device = only(facts, Device)
    assert (device.device_uuid, device.mode, device.memory_mib) == ("GPU-b", "mig", None)
    first, second = of(facts, Unit)
    assert (first.unit_kind, first.device_uuid, first.instance_uuid, first.profile) == (
        "mig",
        "GPU-b",
        "MIG-x",
        "2g.20gb",
    )
    assert (first.memory_mib, first.placement_start, second.placement_start) == (20096, 4, 0)


def test_a_card_listed_beside_its_possible_partitions_is_one_whole_device():
    facts = _read([], [_slice(_mig(uuid=None), _card("gpu-1", "GPU-b"))])
    device = only(facts, Device)
    assert (device.device_uuid, device.memory_mib, device.mode) == ("GPU-b", 81559, None)
    assert [unit.instance_uuid for unit in of(facts, Unit)] == [None, None]


def test_only_the_highest_generation_counts():
    old, new = _slice(_card(uuid="GPU-old"), generation=3, name="s-old"), _slice(_card(), generation=4)
    for order in ([old, new], [new, old]):
        assert only(_read([], order), Device).device_uuid == "GPU-a"


def test_an_incomplete_pool_is_not_used_and_said_so():
    facts = _read([_claim(_result())], [_slice(_card(), count=2)])
    assert of(facts, Device) == []
    assert codes(facts) == ["dra_pool_incomplete"]
    assert "not complete" in (only(facts, Grant).device_unknown_reason or "")


def test_a_pool_is_complete_when_all_slices_of_its_generation_are_there_and_one_twice_counts_once():
    first, second = _slice(_card(), count=2), _slice(_card("gpu-1", "GPU-c"), count=2, name="s-2")
    assert len(of(_read([], [first, second, first]), Device)) == 2
    chosen, left_out = select_slices([first, first])
    assert (chosen, list(left_out)) == ({}, [(GPU, "n-1")])


def test_v1beta1_devices_lie_under_basic():
    body = _card()
    body = {"name": body.pop("name"), "basic": body}
    assert only(_read([], [_slice(body)]), Device).memory_mib == 81559


def test_a_claim_holds_its_partition_from_its_allocation():
    facts = _read([_claim(_result("gpu-1-mig-2g20gb-14-4"))], [_slice(_mig())])
    grant = only(facts, Grant)
    assert (grant.pod_uid, grant.container, grant.scheme, grant.node) == ("u-1", "*", "dra", "n-1")
    assert (grant.valid_from_at, grant.bind_basis) == (at("10:00:05"), "allocationTimestamp")
    assert (grant.unit_kind, grant.unit_id) == ("mig", "gpu.nvidia.com/n-1/gpu-1-mig-2g20gb-14-4")
    assert (grant.device_uuid, grant.profile, grant.memory_mib, grant.placement_start) == ("GPU-b", "2g.20gb", 20096, 4)
    assert (grant.compute_slices, grant.compute_slices_total, grant.memory_slices, grant.memory_slices_total) == (
        2,
        7,
        2,
        8,
    )
    assert (grant.share_ppm, grant.realised, grant.consumers) == (None, True, 1)


def test_a_partition_that_does_not_exist_yet_is_held_but_not_realised():
    facts = _read([_claim(_result("gpu-1-mig-2g20gb-14-4"))], [_slice(_mig(uuid=None))])
    assert (only(facts, Grant).realised, only(facts, Grant).device_uuid) == (False, "GPU-b")


def test_a_shared_claim_is_one_device_for_several_consumers():
    grants = of(_read([_claim(_result(), pods=("u-1", "u-2", "u-2"))], [_slice(_card())]), Grant)
    assert [(grant.pod_uid, grant.consumers, grant.share_ppm) for grant in grants] == [
        ("u-1", 2, 1_000_000),
        ("u-2", 2, 1_000_000),
    ]


def test_a_claim_without_allocation_time_has_no_start_of_its_own():
    grant = only(_read([_claim(_result(), allocated=None)], [_slice(_card())]), Grant)
    assert (grant.valid_from_at, grant.bind_basis) == (None, "unknown: no allocationTimestamp")


def test_an_allocation_before_the_claims_creation_is_left_out_and_said_so():
    facts = _read([_claim(_result(), allocated="09:59:59")], [_slice(_card())])
    assert only(facts, Grant).valid_from_at is None
    assert codes(facts) == ["stamp_before_creation"]


def test_monitoring_access_is_marked_so_that_it_holds_nothing():
    assert only(_read([_claim(_result(adminAccess=True))], [_slice(_card())]), Grant).admin_access is True


COUNTERS = [{"name": "gpu-1-counters", "counters": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}}]


def test_the_share_of_counters_is_the_largest_part_of_any():
    consumes = [{"counterSet": "gpu-1-counters", "counters": {"memory": {"value": "20Gi"}, "slices": {"value": "2"}}}]
    device = _mig(consumesCounters=consumes)
    grant = only(_read([_claim(_result(device["name"]))], [_slice(device, sharedCounters=COUNTERS)]), Grant)
    assert grant.share_ppm == 2_000_000 // 7


def test_counter_sets_may_stand_in_another_slice_of_the_pool():
    consumes = [{"counterSet": "gpu-1-counters", "counters": {"memory": {"value": "20Gi"}}}]
    device = _mig(consumesCounters=consumes)
    slices = [_slice(device, count=2), _slice(name="s-2", count=2, sharedCounters=COUNTERS)]
    assert only(_read([_claim(_result(device["name"]))], slices), Grant).share_ppm == 250_000


def test_consumed_capacity_is_a_share_of_what_the_device_offers():
    device = _card(capacity={"memory": {"value": "80Gi"}, "cores": {"value": "100"}})
    result = _result(shareID="s-77", consumedCapacity={"memory": "8Gi", "cores": "30"})
    facts = _read([_claim(result)], [_slice(device)])
    grant = only(facts, Grant)
    assert (grant.unit_kind, grant.unit_id) == ("dra", "gpu.nvidia.com/n-1/gpu-0/s-77")
    assert (grant.share_ppm, grant.memory_mib, grant.device_uuid) == (300_000, 8192, "GPU-a")
    assert [unit.unit_id for unit in of(facts, Unit)] == ["gpu.nvidia.com/n-1/gpu-0", "gpu.nvidia.com/n-1/gpu-0/s-77"]


def test_a_part_of_a_partition_is_that_part_of_the_partitions_share():
    consumes = [{"counterSet": "gpu-1-counters", "counters": {"memory": {"value": "20Gi"}}}]
    device = _mig(consumesCounters=consumes, capacity={"memory": {"value": "20Gi"}})
    result = _result(device["name"], shareID="s-1", consumedCapacity={"memory": "10Gi"})
    grant = only(_read([_claim(result)], [_slice(device, sharedCounters=COUNTERS)]), Grant)
    assert (grant.share_ppm, grant.memory_mib) == (125_000, 10240)


def test_a_share_without_consumed_capacity_states_no_share():
    grant = only(_read([_claim(_result(shareID="s-1"))], [_slice(_card())]), Grant)
    assert (grant.share_ppm, grant.unit_kind) == (None, "dra")


def test_two_results_for_one_device_are_one_grant():
    assert len(of(_read([_claim(_result(), _result(request="g/b"))], [_slice(_card())]), Grant)) == 1


def test_a_claim_read_by_itself_is_resolved_later_by_its_unit():
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-4"]}]}]}
    claim = _claim(_result())
    claim["status"]["allocation"]["nodeSelector"] = selector
    grant = only(list(read_resource_claim(claim, CTX)), Grant)
    assert (grant.device_uuid, grant.unit_id, grant.node) == (None, "gpu.nvidia.com/n-1/gpu-0", "n-4")
    assert grant.device_unknown_reason == "no resource slice was read with the claim"


def test_an_allocated_claim_that_nobody_uses_is_held_in_suspense():
    facts = _read([_claim(_result(), pods=())], [_slice(_card())])
    grant = only(facts, Grant)
    assert (grant.claim_state, grant.pod_uid) == ("suspect", "claim:cu-1")
    assert codes(facts) == ["dra_claim_without_consumer"]


def test_a_consumer_that_is_no_pod_keeps_its_part_out_of_the_pods_shares():
    claim = _claim(_result())
    claim["status"]["reservedFor"].append({"apiGroup": "x.io", "resource": "things", "name": "t", "uid": "t-1"})
    facts = _read([claim], [_slice(_card())])
    assert (only(facts, Grant).pod_uid, only(facts, Grant).consumers) == ("u-1", 2)
    assert codes(facts) == ["dra_consumer_not_pod"]


def test_a_claim_names_its_consumers_by_namespace_and_pod():
    grants = of(_read([_claim(_result(), pods=("u-1", "u-2"))], [_slice(_card())]), Grant)
    assert [(grant.pod_uid, grant.namespace, grant.pod) for grant in grants] == [
        ("u-1", "ns", "pod-u-1"),
        ("u-2", "ns", "pod-u-2"),
    ]


def test_a_claim_that_nobody_uses_is_named_after_the_pod_it_was_made_for_else_after_itself():
    alone, made = _claim(_result(), pods=()), _claim(_result(), pods=())
    made["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "infer-0", "uid": "u-9"}]
    found = [only(_read([claim], [_slice(_card())]), Grant) for claim in (alone, made)]
    assert [(grant.pod_uid, grant.namespace, grant.pod) for grant in found] == [
        ("claim:cu-1", "ns", "claim:c"),
        ("u-9", "ns", "infer-0"),
    ]


def test_one_pod_listed_twice_is_one_consumer_and_keeps_its_name():
    claim = _claim(_result())
    claim["status"]["reservedFor"].append({"resource": "pods", "uid": "u-1"})
    grant = only(_read([claim], [_slice(_card())]), Grant)
    assert (grant.consumers, grant.pod) == (1, "pod-u-1")


def test_a_claim_without_allocation_holds_nothing():
    assert of(_read([{"metadata": {"name": "c"}, "status": {}}], []), Grant) == []


def test_drivers_of_other_hardware_are_said_and_not_read():
    nic = {**_result("nic-0"), "driver": "dra.net"}
    facts = _read([_claim(nic, _result())], [_slice({"name": "nic-0"}, driver="dra.net", name="s-n"), _slice(_card())])
    assert [grant.unit_id for grant in of(facts, Grant)] == ["gpu.nvidia.com/n-1/gpu-0"]
    assert set(codes(facts)) == {"dra_driver_not_read"}


@pytest.mark.parametrize(
    ("driver", "accelerator"),
    [
        ("gpu.nvidia.com", True),
        ("gpu.amd.com", True),
        ("tpu.google.com", True),
        ("hami-core-gpu.project-hami.io", True),
        ("compute-domain.nvidia.com", False),
        ("dra.cpu", False),
    ],
)
def test_a_drivers_name_tells_whether_it_offers_accelerators(driver, accelerator):
    assert is_accelerator_driver(driver) is accelerator


def test_an_object_that_cannot_be_read_does_not_stop_the_others():
    facts = _read([{"metadata": {}}, _claim(_result())], [{"spec": {}}, _slice(_card())])
    assert only(facts, Grant).device_uuid == "GPU-a"
    assert codes(facts) == ["source_malformed", "source_malformed"]


def test_readers_of_single_objects_refuse_what_has_no_key():
    with pytest.raises(SourceMalformed):
        list(read_resource_slice({"spec": {"driver": GPU}}, CTX))
    with pytest.raises(SourceMalformed):
        list(read_resource_claim({"metadata": {}}, CTX))


def test_slices_alone_yield_devices_and_units():
    kinds = [type(fact) for fact in read_resource_slices([_slice(_card())], CTX)]
    assert kinds == [type(fact) for fact in read_resource_slice(_slice(_card()), CTX)] == [Device, Unit]
