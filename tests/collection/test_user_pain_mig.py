"""telemetry.md section 6, rows 5 to 10: MIG instances and profiling counters, from the exporter's text to Q1 and Q2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.collection.scraped_estate import (
    DRAM,
    FB,
    GR,
    POWER,
    SM,
    TEMPERATURE,
    UTIL,
    ScrapedEstate,
    card,
    cells,
    figure,
    kubelet,
    line,
    listing,
    node,
    pod,
)

SEVEN = range(7, 14)


def instance(name: str, gi: int, value: float, profile: str = "1g.10gb") -> str:
    """A row of a GPU instance of card 0."""
    return line(name, value, GPU_I_ID=str(gi), GPU_I_PROFILE=profile)


def instances(name: str, value: float, gis: Sequence[int] = SEVEN) -> list[str]:
    return [instance(name, gi, value) for gi in gis]


def id_of(gi: int) -> str:
    """The kubelet's id of an instance of card 0 (the form that names card and instance)."""
    return f"MIG-{card(0)}/{gi}/0"


def held_by_two(tmp_path: Path, *lines: str, offered: Sequence[int] = SEVEN) -> ScrapedEstate:
    """Pods a and b hold the first two instances of card 0 from 12:00 to 13:00; the exporter prints ``lines`` meanwhile."""
    estate = ScrapedEstate(tmp_path)
    resource = "nvidia.com/mig-1g.10gb"
    said = kubelet({"a": [id_of(offered[0])], "b": [id_of(offered[1])]}, [id_of(gi) for gi in offered], resource)
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, lines, interval_minutes=30)
        estate.take(at, listing(node(gpus=7), *(pod(name, resource=resource) for name in "ab")), said)
    return estate


def test_row_05_power_that_every_instance_repeats_is_the_boards_once(tmp_path: Path) -> None:
    estate = held_by_two(tmp_path, *instances(POWER, 438.0), *instances(FB, 100))
    power = estate.rows(
        "SELECT gi, power_watts FROM fact.device_sample WHERE power_watts IS NOT NULL AND occurred_at = '2026-03-01 12:00'"
    )
    assert power == [(None, 438.0)]
    given = cells(estate.q1(), "holders", "pod", "unit_kind", "share_ratio", "share_basis")
    assert given == [("a", "mig", 0.142857, "mig_slices"), ("b", "mig", 0.142857, "mig_slices")]


def test_row_06_the_board_of_a_mig_card_is_rebuilt_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    lines = [*instances(POWER, 438.0), *instances(TEMPERATURE, 61), *instances(FB, 1000), *instances(GR, 0.5)]
    estate = held_by_two(tmp_path, *lines)
    board = estate.rows(
        "SELECT DISTINCT power_watts, temperature_celsius, memory_used_mib, util_gpu_ratio FROM fact.device_sample WHERE gi IS NULL"
    )
    assert board == [(438.0, 61.0, 7000, None)]
    used = estate.q2()
    assert figure(used, "memory_used_device_mib_hours") == 7000
    assert cells(used, "pods", "pod", "memory_used_mean_mib") == [("a", 1000), ("b", 1000)]
    assert (
        "203 (GPU_UTIL) and 204 (MEM_COPY_UTIL) are not measurable under MIG"
        in estate.the("gpu_util_not_under_mig").message
    )


def test_row_07_utilisation_under_mig_is_not_measurable_and_never_zero(tmp_path: Path) -> None:
    estate = held_by_two(tmp_path, *instances(GR, 0.9), *instances(UTIL, 0))
    assert estate.rows("SELECT count(util_gpu_ratio), count(gr_active_ratio) FROM fact.device_sample") == [(0, 21)]
    assert estate.rows("SELECT DISTINCT gr_active_ratio FROM fact.device_sample WHERE gi IS NOT NULL") == [(0.9,)]
    used = estate.q2()
    assert cells(used, "pods", "pod", "gpu_hours_used_upper") == [("a", None), ("b", None)]
    assert estate.rows("SELECT count(*) FROM ledger.usage WHERE compute_upper_gpu_us = 0") == [(0,)]
    note = estate.the("gpu_util_not_under_mig")
    assert "are not 0 %; 1001 (GR_ENGINE_ACTIVE) of each instance is used" in note.message


def test_row_08_instances_without_any_row_are_told_as_expected_and_seen(tmp_path: Path) -> None:
    estate = held_by_two(tmp_path, *instances(FB, 100, SEVEN[:5]), *instances(GR, 0.5, SEVEN[:5]))
    note = estate.the("mig_instances_not_measured")
    assert note.subject == f"device {card(0)}"
    assert note.message.startswith("instances expected 7, seen 5 on node n1:")
    told = estate.evidence("mig_instances_not_measured")
    assert (told["expected"], told["found"], told["found_gi"]) == (7, 5, "7,8,9,10,11")


def test_row_08_instances_that_lack_one_field_are_told_with_the_field(tmp_path: Path) -> None:
    estate = held_by_two(tmp_path, *instances(FB, 100, SEVEN[:5]), *instances(GR, 0.5))
    assert estate.the("mig_rows_missing").message == "memory_used_mib: instances expected 7, seen 5"
    assert estate.found("mig_instances_not_measured") == []
    assert estate.rows("SELECT count(*) FROM fact.device_sample WHERE gi IS NULL AND memory_used_mib IS NOT NULL") == [
        (0,)
    ]


def test_row_08_all_instances_seen_is_no_finding(tmp_path: Path) -> None:
    estate = held_by_two(tmp_path, *instances(FB, 100), *instances(GR, 0.5))
    assert estate.found("mig_instances_not_measured") == estate.found("mig_rows_missing") == []


def test_row_09_profiling_of_larger_instances_on_a_mixed_layout_is_flagged_and_not_used(tmp_path: Path) -> None:
    layout: Mapping[int, str] = {1: "3g.40gb", 5: "2g.20gb", 9: "1g.10gb"}
    read = {1: 0.333, 5: 0.5, 9: 1.0}
    estate = held_by_two(tmp_path, *(instance(GR, gi, read[gi], layout[gi]) for gi in layout), offered=list(layout))
    samples = estate.rows(
        "SELECT DISTINCT gi, gr_active_ratio FROM fact.device_sample WHERE gi IS NOT NULL ORDER BY gi"
    )
    assert samples == [(1, None), (5, None), (9, 1.0)]
    assert "instances of different sizes" in estate.the("prof_unreliable_mixed_mig").message
    assert estate.evidence("prof_unreliable_mixed_mig")["read"] == {
        "gi1": {"gr_active_ratio": 0.333},
        "gi5": {"gr_active_ratio": 0.5},
    }


def test_row_10_a_ratio_far_above_one_is_not_known_and_its_figure_is_told(tmp_path: Path) -> None:
    estate = held_by_two(
        tmp_path, *(instance(SM, gi, 1.294 if gi == 7 else 1.03) for gi in SEVEN), *instances(DRAM, 0.4)
    )
    samples = estate.rows("SELECT DISTINCT gi, sm_active_ratio FROM fact.device_sample WHERE gi IN (7, 8) ORDER BY gi")
    assert samples == [(7, None), (8, 1.0)]
    note = estate.the("sample_above_physical_limit")
    assert note.subject == f"device {card(0)}/gi7"
    assert "1.294 is above 1.05" in note.message
    assert {each.subject for each in estate.found("ratio_above_one")} == {
        f"device {card(0)}/gi{gi}" for gi in SEVEN[1:]
    }
    used = cells(estate.q2(), "pods", "pod", "gpu_hours_used", "gpu_hours_dram_active")
    assert used == [
        ("a", None, pytest.approx(0.4 / 7, abs=1e-6)),
        ("b", pytest.approx(1 / 7, abs=1e-6), pytest.approx(0.4 / 7, abs=1e-6)),
    ]
