from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.primitives.instant import AT_OBSERVATION, parse_instant
from steelyard.sources.hami import read_pod_allocations
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, parse_pod

G = "GPU-11111111-0000-4000-8000-000000000001"
H = "GPU-11111111-0000-4000-8000-000000000002"
ALLOCATED = "hami.io/vgpu-devices-allocated"
WORK = "hami.io/vgpu-devices-to-allocate"
DONE = {
    "hami.io/bind-phase": "success",
    "hami.io/bind-time": "1796000403",
    "hami.io/vgpu-time": "1796000402",
    "hami.io/vgpu-node": "n1",
}


def container(name: str, gpu: int | None = 1, **resources: str) -> dict[str, Any]:
    named = {f"nvidia.com/{key}": value for key, value in resources.items()}
    limits = {"cpu": "4", **({"nvidia.com/gpu": str(gpu)} if gpu else {}), **named}
    return {"name": name, "resources": {"limits": limits}}


def pod(
    annotations: dict[str, str],
    *containers: dict[str, Any],
    init: list[dict[str, Any]] | None = None,
    node: str | None = "n1",
    status: dict[str, Any] | None = None,
) -> PodView:
    spec: dict[str, Any] = {"containers": list(containers) or [container("srv")], "initContainers": init or []}
    if node:
        spec["nodeName"] = node
    metadata = {"name": "p", "namespace": "team", "uid": "u1", "annotations": annotations}
    return parse_pod({"metadata": metadata, "spec": spec, "status": status or {"phase": "Running"}})


def read(view: PodView, cards: dict[str, Device] | None = None) -> list[Any]:
    return list(read_pod_allocations(view, ReadContext(), cards))


def grants(facts: list[Any]) -> list[Grant]:
    return [fact for fact in facts if isinstance(fact, Grant)]


def codes(facts: list[Any]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding)]


def test_one_record_is_one_grant_with_what_was_asked_and_given() -> None:
    view = pod({**DONE, ALLOCATED: f"{G},NVIDIA,8192,30:;", WORK: ";"}, container("srv", gpumem="8192", gpucores="30"))
    (grant,) = read(view)
    assert (grant.scheme, grant.container, grant.container_kind, grant.node) == ("hami", "srv", "app", "n1")
    assert (grant.device_uuid, grant.unit_kind, grant.memory_mib, grant.cores_percent) == (G, "vgpu", 8192, 30)
    assert (grant.requested_memory_mib, grant.requested_cores_percent) == (8192, 30)
    assert (grant.claim_state, grant.alignment, grant.natural_key) == ("accepted", "position", f"u1/srv/{G}")
    assert (grant.bound_at, grant.bind_basis) == (parse_instant("2026-11-30T01:00:03Z"), "hami.io/bind-time")
    assert (grant.reserved_at, grant.bind_phase) == (parse_instant("2026-11-30T01:00:02Z"), "success")
    assert grant.occurred_at == AT_OBSERVATION


def test_a_container_with_several_cards_has_a_grant_for_each() -> None:
    view = pod({**DONE, ALLOCATED: f"{G},NVIDIA,20480,50:{H},NVIDIA,20480,50:;"}, container("train", 2))
    assert [(grant.container, grant.device_uuid) for grant in grants(read(view))] == [("train", G), ("train", H)]


@pytest.mark.parametrize(
    ("asked", "memory", "found"),
    [
        ({"gpumem": "5k"}, 5000, []),
        ({"gpumem": "0"}, None, []),
        ({"gpumem-percentage": "50"}, None, []),
        ({"gpumem": "1Gi"}, None, ["memory_request_overflow"]),
        ({"gpumem": "4Gi"}, None, ["memory_request_overflow"]),
        ({"gpumem": "lots"}, None, []),
    ],
)
def test_memory_requests_count_mib_and_a_byte_count_is_named(
    asked: dict[str, str], memory: int | None, found: list[str]
) -> None:
    facts = read(pod({**DONE, ALLOCATED: f"{G},NVIDIA,5000,0:;"}, container("srv", **asked)))
    assert [grant.requested_memory_mib for grant in grants(facts)] == [memory]
    assert codes(facts) == found


def test_a_container_that_names_only_memory_asks_for_one_card() -> None:
    view = pod(
        {**DONE, ALLOCATED: f";{G},NVIDIA,5000,0:;"}, container("log", None), container("srv", None, gpumem="5000")
    )
    assert [(grant.container, grant.alignment) for grant in grants(read(view))] == [("srv", "position")]


def test_padding_is_neither_a_grant_nor_work_left() -> None:
    view = pod(
        {**DONE, ALLOCATED: f"{G},NVIDIA,1000,0:;,,0,0:;", WORK: ";,,0,0:;"}, container("srv"), container("side", None)
    )
    assert [type(fact) for fact in read(view)] == [Grant]


def test_work_left_after_a_reported_success_is_a_finding() -> None:
    annotations = {**DONE, ALLOCATED: f"{G},NVIDIA,1000,0:;", WORK: f"{G},NVIDIA,1000,0:;"}
    assert codes(read(pod(annotations))) == ["allocation_work_left"]
    assert codes(read(pod({**annotations, "hami.io/bind-phase": "allocating"}))) == []


def test_init_containers_stand_before_app_containers() -> None:
    annotations = {**DONE, ALLOCATED: f"{G},NVIDIA,8000,50:;{G},NVIDIA,4000,25:;"}
    found = grants(read(pod(annotations, container("serve"), init=[container("warm")])))
    assert [(grant.container, grant.container_kind, grant.memory_mib) for grant in found] == [
        ("warm", "init", 8000),
        ("serve", "app", 4000),
    ]


def test_slots_without_empty_ones_follow_the_containers_that_ask() -> None:
    annotations = {**DONE, ALLOCATED: f"{G},NVIDIA,1,1:;{H},NVIDIA,2,2:;", WORK: ";;;"}
    found = grants(read(pod(annotations, container("a"), container("b"), init=[container("fetch", None)])))
    assert [(grant.container, grant.memory_mib, grant.alignment) for grant in found] == [
        ("a", 1, "gpu_requesting_containers_in_order"),
        ("b", 2, "gpu_requesting_containers_in_order"),
    ]


def test_slots_that_fit_no_container_are_suspect_and_keep_their_card() -> None:
    facts = read(pod({**DONE, ALLOCATED: f"{G},NVIDIA,1,1:{H},NVIDIA,1,1:;;"}, container("a"), container("b")))
    assert codes(facts) == ["allocation_unaligned"]
    assert [(grant.container, grant.device_uuid, grant.claim_state, grant.alignment) for grant in grants(facts)] == [
        ("slot-0", G, "suspect", None),
        ("slot-0", H, "suspect", None),
    ]


def test_an_unreadable_record_is_a_finding_and_a_grant_without_a_card() -> None:
    facts = read(pod({**DONE, ALLOCATED: f"{G},NVIDIA:;"}, container("srv", gpumem="4096")))
    (finding,) = [fact for fact in facts if isinstance(fact, Finding)]
    evidence = json.loads(finding.evidence)
    assert finding.code == "device_record_malformed"
    assert (evidence["fields_count"], evidence["readable_device_uuid"], evidence["container"]) == (2, G, "srv")
    assert evidence["parse_error"] == "device_record_fields_count=2"
    (grant,) = grants(facts)
    assert (grant.device_uuid, grant.claim_state, grant.container) == (None, "unreadable", "srv")
    assert (grant.memory_mib, grant.cores_percent, grant.requested_memory_mib) == (None, None, 4096)
    assert grant.device_unknown_reason == "device record has 2 fields, at least 4 needed"


REJECTED = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
RAN = {
    "phase": "Failed",
    "containerStatuses": [
        {
            "name": "srv",
            "state": {
                "terminated": {"startedAt": "2026-11-30T01:05:00Z", "finishedAt": "2026-11-30T01:06:00Z", "exitCode": 1}
            },
        }
    ],
}


@pytest.mark.parametrize(
    ("phase", "status", "state"),
    [
        ("failed", REJECTED, "rejected"),
        ("success", REJECTED, "rejected"),
        ("failed", {"phase": "Pending"}, "rejected"),
        ("failed", {"phase": "Running"}, "accepted"),
        ("failed", RAN, "accepted"),
        ("success", {**RAN, "reason": "Evicted"}, "accepted"),
        ("success", {"phase": "Succeeded"}, "accepted"),
        ("allocating", {"phase": "Pending"}, "accepted"),
    ],
)
def test_a_pod_that_was_refused_before_it_started_holds_nothing(phase: str, status: dict[str, Any], state: str) -> None:
    view = pod({**DONE, "hami.io/bind-phase": phase, ALLOCATED: f"{G},NVIDIA,1,1:;"}, status=status)
    assert [grant.claim_state for grant in grants(read(view))] == [state]


def test_a_reservation_is_not_a_bind() -> None:
    annotations = {
        ALLOCATED: f"{G},NVIDIA,1,1:;",
        "hami.io/vgpu-time": "1796000402",
        "hami.io/bind-time": "1796000403",
        "hami.io/vgpu-node": "n7",
    }
    (grant,) = grants(read(pod(annotations, node=None, status={"phase": "Pending"})))
    assert (grant.node, grant.bound_at, grant.bind_basis) == ("n7", None, None)
    assert grant.reserved_at == parse_instant("2026-11-30T01:00:02Z")


def test_an_allocation_on_another_node_is_suspect() -> None:
    facts = read(pod({**DONE, "hami.io/vgpu-node": "n2", ALLOCATED: f"{G},NVIDIA,1,1:;"}))
    assert codes(facts) == ["grant_node_mismatch"]
    assert [(grant.claim_state, grant.node) for grant in grants(facts)] == [("suspect", "n1")]


def test_an_allocation_that_nobody_asked_for_is_suspect() -> None:
    facts = read(pod({**DONE, ALLOCATED: f"{G},NVIDIA,1,1:;"}, container("srv", None)))
    assert codes(facts) == ["grant_without_request"]
    assert [grant.claim_state for grant in grants(facts)] == ["suspect"]


def test_a_renamed_resource_is_a_request_all_the_same() -> None:
    asks = {"name": "srv", "resources": {"limits": {"site.example/vgpu": "1"}}}
    facts = read(pod({**DONE, ALLOCATED: f"{G},NVIDIA,1,1:;"}, asks))
    assert [(fact.claim_state, fact.alignment) for fact in facts] == [("accepted", "position")]


def test_an_unreadable_stamp_is_a_finding_and_no_instant() -> None:
    facts = read(pod({**DONE, "hami.io/bind-time": "soon", ALLOCATED: f"{G},NVIDIA,1,1:;"}))
    assert codes(facts) == ["stamp_unreadable"]
    assert [(grant.bound_at, grant.bind_basis) for grant in grants(facts)] == [(None, None)]


def test_a_legacy_mig_suffix_names_profile_and_slices_but_no_instance() -> None:
    view = pod({**DONE, ALLOCATED: f"{G}[1-2],NVIDIA,10240,0:;"}, container("srv", gpumem="8000"))
    (grant,) = grants(read(view))
    assert (grant.device_uuid, grant.unit_kind, grant.unit_id, grant.profile, grant.gi) == (
        G,
        "mig",
        f"{G}[1-2]",
        "2g.10gb",
        None,
    )
    assert (grant.compute_slices, grant.compute_slices_total, grant.memory_slices, grant.memory_slices_total) == (
        2,
        7,
        2,
        8,
    )
    assert (grant.memory_mib, grant.cores_percent, grant.requested_memory_mib) == (10240, 0, 8000)
    assert "geometry_index=1 slot_index=2 position_ambiguous=false" in (grant.claim_reason or "")


def test_an_ambiguous_slot_is_marked() -> None:
    (grant,) = grants(read(pod({**DONE, ALLOCATED: f"{G}[1-1],NVIDIA,10240,28:;"})))
    assert "position_ambiguous=true" in (grant.claim_reason or "")


def test_a_known_card_settles_a_suffix_that_fits_two_sizes() -> None:
    view = pod({**DONE, ALLOCATED: f"{G}[1-0],NVIDIA,10240,0:;"})
    card = Device(source="hami", natural_key=G, occurred_at=0, observed_at=0, device_uuid=G, memory_mib=40960)
    assert [grant.profile for grant in grants(read(view))] == [None]
    assert [grant.profile for grant in grants(read(view, {G: card}))] == ["2g.10gb"]


def test_two_slices_of_one_card_are_two_grants() -> None:
    found = grants(
        read(pod({**DONE, ALLOCATED: f"{G}[0-1],NVIDIA,5120,0:{G}[0-1],NVIDIA,5120,0:;"}, container("srv", 2)))
    )
    assert len({grant.natural_key for grant in found}) == 2


@pytest.mark.parametrize(
    ("word", "vendor_cores", "cores"),
    [
        ("dcu", 60, 60),
        ("amd", 60, None),
        ("cambricon-mlu", 30, 30),
        ("mthreads-vgpu", 4, None),
        ("metax-sgpu", 10, 10),
        ("Ascend910B3", 5, None),
        ("novelty", 9, None),
    ],
)
def test_other_vendors_allocations_are_grants_of_their_own_scheme(
    word: str, vendor_cores: int, cores: int | None
) -> None:
    view = pod({**DONE, f"hami.io/{word}-devices-allocated": f"card-7,X,16384,{vendor_cores}:;"}, {"name": "srv"})
    (grant,) = grants(read(view))
    assert (grant.scheme, grant.device_uuid, grant.memory_mib, grant.cores_percent) == (
        "hami_vendor",
        "card-7",
        16384,
        cores,
    )


def test_the_vendor_whose_key_is_irregular_is_read_too() -> None:
    view = pod({**DONE, "hami.io/kunlun-allocated": "xpu-3,XPU,0,0:;"}, {"name": "srv"})
    assert [(grant.scheme, grant.device_uuid) for grant in grants(read(view))] == [("hami_vendor", "xpu-3")]


@pytest.mark.parametrize(
    ("word", "limits", "memory", "cores"),
    [
        ("dcu", {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000", "hygon.com/dcucores": "60"}, 2000, 60),
        ("amd", {"amd.com/gpu": "1", "amd.com/gpumem": "3000", "amd.com/gpucores": "40"}, 3000, None),
        ("Ascend310P", {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "4000"}, 4000, None),
    ],
)
def test_vendor_requests_are_read_where_their_names_are_known(
    word: str, limits: dict[str, str], memory: int, cores: int | None
) -> None:
    key = f"hami.io/{word}-devices-allocated"
    view = pod({**DONE, key: "card-1,X,2000,60:;"}, {"name": "srv", "resources": {"limits": limits}})
    assert [(grant.requested_memory_mib, grant.requested_cores_percent) for grant in grants(read(view))] == [
        (memory, cores)
    ]


def test_a_pod_without_allocation_yields_nothing() -> None:
    assert read(pod({})) == []
    assert read(pod({ALLOCATED: ""})) == []
    assert read(pod({ALLOCATED: ";;"})) == []


def test_a_hundred_thousand_segments_are_one_finding() -> None:
    facts = read(pod({**DONE, ALLOCATED: f"{G},NVIDIA,1,1:;" * 100_000}))
    assert codes(facts) == ["allocation_too_large"]
    assert len(facts) == 1


def test_many_vendor_keys_are_bounded() -> None:
    facts = read(pod({f"hami.io/v{number}-devices-allocated": "c,X,1,1:;" for number in range(1_000)}))
    assert codes(facts)[-1] == "allocation_key_unread"
    assert len(grants(facts)) == 64


hostile = st.text(alphabet=f'{G[:5]}0,:;[]-{{}}"\x00\ud800é', max_size=80)


@given(hostile, hostile, hostile, hostile)
def test_hostile_annotations_end_in_findings(allocated: str, mig: str, work: str, stamp: str) -> None:
    annotations = {
        ALLOCATED: allocated,
        WORK: work,
        "hami.io/vgpu-mig-allocations": mig,
        "hami.io/bind-time": stamp,
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-node": stamp,
        f"hami.io/{mig}-devices-allocated": allocated,
    }
    for fact in read(pod(annotations, container("srv"), init=[container("warm")])):
        assert isinstance(fact, Grant | Finding)
        for name in fact.__struct_fields__:
            value = getattr(fact, name)
            if isinstance(value, str):
                value.encode()  # no lone surrogate gets through
