"""telemetry.md section 6, rows 1 to 4 and 31: several pods on one card, from the exporter's text to Q1 and Q2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collection.scraped_estate import (
    FB,
    GR,
    POWER,
    UTIL,
    ScrapedEstate,
    card,
    cells,
    figure,
    kubelet,
    line,
    listing,
    node,
    of,
    pod,
)

FOUR = "abcd"
REPLICAS = [f"{card(0)}::{n}" for n in range(4)]
GKE_SLOTS = [f"nvidia0/vgpu{n}" for n in range(4)]


def shared_by(estate: ScrapedEstate, names: str, *lines: str) -> ScrapedEstate:
    """``names`` hold one replica of card 0 each from noon on; the exporter prints ``lines`` each half hour until one."""
    held = {name: [REPLICAS[n]] for n, name in enumerate(names)}
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, lines, interval_minutes=30)
        estate.take(at, listing(node(gpus=4), *(pod(name) for name in names)), kubelet(held, REPLICAS))
    return estate


def of_each(names: str, name: str, value: float) -> list[str]:
    """A line per pod, each with the same value, as exporters up to 4.5.2-4.8.1 print virtual GPUs."""
    return [line(name, value, **of(each, vgpu=str(n))) for n, each in enumerate(names)]


def test_row_01_a_card_whose_metrics_name_one_of_four_pods_is_shared_by_four_and_split_unknown(tmp_path: Path) -> None:
    estate = shared_by(ScrapedEstate(tmp_path), FOUR, line(UTIL, 80, **of("d")), line(FB, 4096, **of("d")))
    told = cells(estate.q1(), "holders", "pod", "device_uuid", "share_ratio", "neighbours")
    assert told == [
        (name, card(0), 0.25, ", ".join(f"team/{other}" for other in FOUR if other != name)) for name in FOUR
    ]
    used = estate.q2()
    assert figure(used, "memory_used_device_mib_hours") == 4096
    assert figure(used, "memory_use_unattributed_mib_hours") == 4096
    assert cells(used, "pods", "pod", "memory_used_mean_mib", "gpu_hours_used_upper") == [
        (name, None, None) for name in FOUR
    ]


def test_row_01_virtual_gpus_that_the_kubelet_names_by_index_are_found_on_the_exporters_card(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    held = {name: [GKE_SLOTS[n]] for n, name in enumerate(FOUR)}
    objects = listing(node(gpus=4), *(pod(name) for name in FOUR))
    estate.take("13:00", line(UTIL, 80, **of("d")) + "\n", kubelet(held, GKE_SLOTS), objects)
    told = cells(estate.q1(), "holders", "pod", "device_uuid", "share_ratio")
    assert told == [(name, card(0), 0.25) for name in FOUR]


def test_row_02_a_value_that_three_pods_repeat_is_the_cards_once_and_no_pods(tmp_path: Path) -> None:
    lines = [*of_each("abc", GR, 0.714), *of_each("abc", UTIL, 71.4), *of_each("abc", FB, 6000)]
    estate = shared_by(ScrapedEstate(tmp_path), "abc", *lines)
    samples = estate.rows("SELECT DISTINCT gr_active_ratio, util_gpu_ratio, memory_used_mib FROM fact.device_sample")
    assert samples == [(0.714, 0.714, 6000)]
    of_card = estate.rows(
        "SELECT path, pod_uid, sum(compute_upper_gpu_us) FROM ledger.usage WHERE path = 'device' GROUP BY ALL"
    )
    assert of_card == [("device", None, 714_000 * 3600)]
    used = estate.q2()
    assert figure(used, "memory_used_device_mib_hours") == 6000
    assert cells(used, "pods", "pod", "memory_used_mean_mib", "gpu_hours_used_upper") == [
        (name, None, None) for name in "abc"
    ]


def test_row_03_power_that_all_sharing_pods_repeat_is_the_boards_once_and_what_is_given_is_allocated(
    tmp_path: Path,
) -> None:
    estate = shared_by(ScrapedEstate(tmp_path), FOUR, *of_each(FOUR, POWER, 412.5))
    assert estate.rows("SELECT sum(power_watts) FROM fact.device_sample GROUP BY occurred_at") == [(412.5,)] * 3
    assert cells(estate.q1(), "holders", "pod", "share_ratio", "share_basis") == [
        (name, 0.25, "replica") for name in FOUR
    ]
    granted = cells(estate.q2(), "pods", "pod", "gpu_hours_granted", "gpu_hours_used")
    assert granted == [(name, 0.25, None) for name in FOUR]


@pytest.mark.parametrize("board", [None, 11_000], ids=["pod rows alone", "beside the board's row"])
def test_row_04_a_value_repeated_per_logical_slot_counts_once(tmp_path: Path, board: int | None) -> None:
    lines = [line(FB, 10_056, **of("a", vgpu=slot, pod_uid="uid-a")) for slot in ("5", "19")]
    estate = ScrapedEstate(tmp_path)
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, [*lines, *([line(FB, board)] if board else [])], interval_minutes=30)
        estate.take(at, listing(node(gpus=4), pod("a", gpus=2)), kubelet({"a": REPLICAS[:2]}, REPLICAS))
    assert figure(estate.q2(), "memory_used_device_mib_hours") == (board or 10_056)
    counted = estate.rows(
        "SELECT DISTINCT pod_uid, memory_counted_mib FROM fact.partition_sample WHERE origin = 'dcgm_per_process'"
    )
    assert counted == ([("uid-a", 10_056)] if board else [])


def test_row_31_rows_that_pods_duplicate_are_one_row_per_card_before_any_join(tmp_path: Path) -> None:
    estate = shared_by(ScrapedEstate(tmp_path), FOUR, *of_each(FOUR, UTIL, 60), *of_each(FOUR, POWER, 300))
    ratio = estate.rows(
        "SELECT u.util_gpu_ratio / p.power_watts FROM fact.device_sample AS u JOIN fact.device_sample AS p "
        "USING (device_uuid, occurred_at)"
    )
    assert ratio == [(0.6 / 300,)] * 3
    taken = estate.rows("SELECT sum(samples_count) FROM ledger.usage WHERE path = 'device'")
    assert taken == [(3,)]
