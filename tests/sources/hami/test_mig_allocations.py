from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.sources.hami import read_pod_allocations
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import parse_pod

G = "GPU-11111111-0000-4000-8000-000000000001"
H = "GPU-11111111-0000-4000-8000-000000000002"
RUNTIME = {"migUUID": "MIG-1", "gpuInstanceID": 4, "computeInstanceID": 0}


def entry(profile: str = "2g.10gb", start: int = 2, size: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": G,
        "profile": profile,
        "placement": {"start": start, "size": size},
        **more,
    }


def read(allocated: str, entries: Any, init: bool = False) -> tuple[list[Grant], list[str]]:
    annotations = {
        "hami.io/vgpu-devices-allocated": allocated,
        "hami.io/vgpu-mig-allocations": entries if isinstance(entries, str) else json.dumps(entries),
    }
    asks = {"resources": {"limits": {"nvidia.com/gpu": str(allocated.count("NVIDIA"))}}}
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "srv", **asks}],
        "initContainers": [{"name": "fetch"}] if init else [],
    }
    view = parse_pod(
        {
            "metadata": {"name": "p", "uid": "u1", "annotations": annotations},
            "spec": spec,
            "status": {"phase": "Running"},
        }
    )
    facts = list(read_pod_allocations(view, ReadContext()))
    return [fact for fact in facts if isinstance(fact, Grant)], [
        fact.code for fact in facts if isinstance(fact, Finding)
    ]


def test_a_realised_instance_carries_its_ids() -> None:
    (grant,), found = read(f"{G},NVIDIA,9984,29:;", [entry(**RUNTIME)])
    assert (grant.unit_kind, grant.unit_id, grant.gi, grant.ci, grant.realised) == ("mig", "MIG-1", 4, 0, True)
    assert (grant.profile, grant.placement_start, grant.placement_size) == ("2g.10gb", 2, 2)
    assert (grant.compute_slices, grant.compute_slices_total, grant.memory_slices) == (2, 7, 2)
    assert found == []


def test_an_instance_that_is_not_made_yet_has_a_place_but_no_ids() -> None:
    (grant,), found = read(f"{G},NVIDIA,4864,15:;", [entry("1g.5gb", 0, 1)])
    assert (grant.unit_kind, grant.unit_id, grant.gi, grant.ci, grant.realised) == ("mig", None, None, None, False)
    assert (grant.placement_start, grant.placement_size, grant.compute_slices) == (0, 1, 1)
    assert found == []


def test_runtime_fields_come_together_or_the_state_is_unknown() -> None:
    (grant,), found = read(f"{G},NVIDIA,9984,29:;", [entry(gpuInstanceID=4)])
    assert (grant.realised, grant.gi) == (None, 4)
    assert found == ["mig_allocation_partial"]


def test_container_indexes_count_init_containers_first() -> None:
    (grant,), found = read(f";{G},NVIDIA,9984,29:;", [entry(containerIndex=1)], init=True)
    assert (grant.container, grant.unit_kind) == ("srv", "mig")
    assert found == []


def test_device_indexes_tell_the_cards_of_one_container_apart() -> None:
    entries = [entry(**RUNTIME), entry("1g.5gb", 0, 1, deviceIndex=1, gpuUUID=H)]
    found, _ = read(f"{G},NVIDIA,9984,29:{H},NVIDIA,4864,15:;", entries)
    assert [(grant.device_uuid, grant.profile, grant.realised) for grant in found] == [
        (G, "2g.10gb", True),
        (H, "1g.5gb", False),
    ]


def test_an_entry_for_another_card_is_a_mismatch() -> None:
    (grant,), found = read(f"{G},NVIDIA,9984,29:;", [entry(gpuUUID=H)])
    assert (grant.unit_kind, grant.device_uuid) == ("vgpu", G)
    assert found == ["mig_allocation_mismatch"]


def test_an_entry_without_a_record_is_a_mismatch() -> None:
    _, found = read(f"{G},NVIDIA,9984,29:;", [entry(), entry(deviceIndex=3)])
    assert found == ["mig_allocation_mismatch"]


@pytest.mark.parametrize(
    "entries",
    [
        "{",
        "{}",
        "7",
        "[" * 3_000,
        [7],
        [{"containerIndex": 9}],
        [{"containerIndex": -1}],
        [{"containerIndex": "0"}],
        [entry()] * 1_025,
    ],
)
def test_an_annotation_that_cannot_be_read_is_a_finding_and_the_grant_stays(entries: Any) -> None:
    (grant,), found = read(f"{G},NVIDIA,9984,29:;", entries)
    assert (grant.device_uuid, grant.memory_mib) == (G, 9984)
    assert found == ["mig_allocation_malformed"]


@pytest.mark.parametrize(
    "odd",
    [
        {"profile": None},
        {"profile": "x" * 300},
        {"placement": 7},
        {"placement": {"start": "0"}},
        {"gpuInstanceID": True},
        {"migUUID": 9},
    ],
)
def test_odd_types_in_an_entry_are_unknown(odd: dict[str, Any]) -> None:
    (grant,), _ = read(f"{G},NVIDIA,9984,29:;", [entry() | odd])
    assert grant.unit_kind == "mig"
