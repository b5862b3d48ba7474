"""hami.md section 5, rows 28 to 31 and 35: MIG under HAMi, and cards whose pods an exporter does not name."""

from __future__ import annotations

import json
from pathlib import Path

from tests.collection.hami_estate import CARD_MIB, HamiEstate, container, granted, host, node, pod
from tests.collection.scraped_estate import FB, UTIL, card, cells, figure, kubelet, line, listing

REALISED = json.dumps(
    [
        {
            "containerIndex": 0, "deviceIndex": 0, "gpuUUID": card(0), "profile": "2g.10gb", "placement": {"start": 2, "size": 2},
            "migUUID": "MIG-d-1", "gpuInstanceID": 4, "computeInstanceID": 0,
        }
    ]
)  # fmt: skip


def legacy(suffix: str = "[1-1]", mib: int = 10_240) -> str:
    return f"{card(0)}{suffix},NVIDIA,{mib},0:;"


def test_row_28_a_geometry_suffix_tells_no_instance_and_what_the_instance_uses_is_nobodys(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, [line(FB, 5_000, GPU_I_ID="9", GPU_I_PROFILE="2g.10gb")], interval_minutes=30)
        estate.take(at, listing(node(mode="mig"), pod("m", legacy(), container(mib=8_000, cores=None))))
    assert estate.rows("SELECT DISTINCT gi, device_uuid FROM ledger.holding WHERE occupancy = 'held'") == [
        (None, card(0))
    ]
    assert cells(estate.q2(), "pods", "pod", "memory_used_mean_mib") == [("m", None)]
    assert cells(estate.reconcile(), "pods", "memory_device_mib") == [(None,)]


def test_row_28_an_instance_that_the_scheduler_names_is_joined_by_card_and_instance(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    realised = pod(
        "m", granted([(0, 9_984, 29)]), container(mib=8_000, cores=None), **{"hami.io__vgpu_mig_allocations": REALISED}
    )
    realised["metadata"]["annotations"]["hami.io/vgpu-mig-allocations"] = REALISED
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, [line(FB, 5_000, GPU_I_ID="4", GPU_I_PROFILE="2g.10gb"), *host(5_200)], interval_minutes=30)
        estate.take(at, listing(node(mode="mig"), realised))
    [(subject, evidence)] = estate.told("mig_without_container_usage")
    assert (subject, evidence["gpu_instance_id"]) == ("pod team/m", 4)
    assert cells(estate.reconcile(), "pods", "memory_counted_mib", "memory_device_mib") == [(None, 5_000)]


def test_row_29_a_request_is_shown_beside_the_profile_it_was_rounded_to(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    estate.take(
        "12:00", listing(node(mode="mig", memory_mib=CARD_MIB), pod("m", legacy(), container(mib=8_000, cores=None)))
    )
    answer = estate.reconcile()
    assert cells(answer, "pods", "memory_requested_mib", "memory_granted_mib", "verdict") == [
        (8_000, 10_240, "use_unknown")
    ]
    assert cells(estate.q1(), "holders", "profile", "share_ratio") == [("2g.10gb", 0.285714)]
    assert estate.told("grant_larger_than_request") == []


def test_row_30_a_slot_that_two_readings_fit_is_marked(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node(mode="mig"), pod("m", legacy("[1-1]"), container(mib=8_000, cores=None))))
    [(reason,)] = estate.rows("SELECT claim_reason FROM fact.\"grant\" WHERE unit_kind = 'mig'")
    assert "position_ambiguous=true" in reason
    assert cells(estate.q1(), "holders", "pod", "share_ratio") == [("m", 0.285714)]


def test_row_31_an_instance_on_a_card_that_says_it_has_none_is_a_conflict(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node(mode="hami-core"), pod("m", legacy(), container(mib=8_000, cores=None))))
    assert estate.found("device_mode_conflict")


def test_row_35_rows_without_a_pod_on_a_shared_card_are_split_by_nobody_and_the_slices_stay(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    pods = [pod(name, granted([(0, 8_192, 30)])) for name in "ab"]
    slots = kubelet({"a": [f"{card(0)}-3"], "b": [f"{card(0)}-7"]}, [f"{card(0)}-{n}" for n in range(10)])
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, [line(UTIL, 80), line(FB, 9_000)], interval_minutes=30)
        estate.take(at, listing(node(), *pods), slots)
    assert cells(estate.q1(), "holders", "pod", "device_uuid", "share_ratio") == [
        ("a", card(0), 0.3),
        ("b", card(0), 0.3),
    ]
    assert figure(estate.q2(), "memory_use_unattributed_mib_hours") == 9_000
    assert cells(estate.reconcile(), "cards", "memory_granted_mib", "memory_device_mib") == [(16_384, 9_000)]
