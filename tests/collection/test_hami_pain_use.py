"""hami.md section 5, rows 14 to 26, 36 and 37: what is enforced, counted and reported by the device, and what of it is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.primitives.instant import Window
from tests.collection.hami_estate import HamiEstate, allocated, container, counted, gauge, granted, host, node, pod
from tests.collection.scraped_estate import card, cells, figure, listing, moment

A = pod("a", granted([(0, 8_192, 30)]))
B = pod("b", granted([(0, 8_192, 30)]))


def scraped(
    folder: Path, lines: list[str], *pods: Any, times: tuple[str, ...] = ("12:00", "12:01", "12:02"), **of_node: Any
) -> HamiEstate:
    """Each minute the same lines of the monitor, and the same pods."""
    estate = HamiEstate(folder)
    for at in times:
        estate.scrape(at, {"n1:9394": lines})
        estate.take(at, listing(node(**of_node), *pods))
    return estate


def row(estate: HamiEstate, name: str, *columns: str) -> tuple[Any, ...]:
    """Cells of one pod, now."""
    found = {cell[0]: cell[1:] for cell in cells(estate.reconcile(), "pods", "pod", *columns)}
    return found[name]


def test_row_14_a_sum_over_processes_above_one_card_is_not_known_and_told(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 4_096, percent=137, kernel=0), *host(5_000, 91)], A)
    assert row(estate, "a", "cores_counted_percent", "memory_counted_mib") == (None, 4_096)
    evidence = estate.evidence("utilisation_over_100")
    assert (evidence["raw_percent"], evidence["clamped_percent"], evidence["device_utilisation_percent"]) == (
        137,
        100,
        91,
    )


def test_row_14_utilisation_that_stayed_after_the_last_kernel_is_idle(tmp_path: Path) -> None:
    busy = scraped(tmp_path, [*counted("a", 4_096, percent=30, kernel=2), *host(5_000, 0)], A)
    assert row(busy, "a", "cores_counted_percent") == (30,)
    idle = scraped(tmp_path, [*counted("a", 4_096, percent=30, kernel=940), *host(5_000, 0)], A)
    assert row(idle, "a", "cores_counted_percent") == (0,)


def test_row_15_a_constant_0_on_a_card_at_work_is_not_known_and_the_card_is_told(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 4_096, percent=0), *host(5_000, 80)], A)
    assert row(estate, "a", "cores_counted_percent") == (None,)
    assert [subject for subject, _ in estate.told("utilisation_not_counted")] == [f"device {card(0)}"]
    assert cells(estate.reconcile(), "cards", "cores_device_percent") == [(80,)]


def test_row_15_a_0_on_a_card_that_rests_is_0(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 4_096, percent=0), *host(5_000, 0)], A)
    assert row(estate, "a", "cores_counted_percent") == (0,)
    assert estate.told("utilisation_not_counted") == []


def test_row_16_use_that_lands_on_one_of_two_pods_is_doubtful_and_bounded_by_the_card(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 12_000), *counted("b", 0), *host(12_500)], A, B)
    [(subject, evidence)] = estate.told("use_on_the_wrong_pod")
    assert (subject, evidence["counted_memory_mib"], evidence["device_used_memory_mib"]) == (
        "pod team/a",
        12_000,
        12_500,
    )


def test_row_17_a_count_that_stays_after_its_process_is_above_the_card(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 8_000), *host(450)], A)
    [(subject, evidence)] = estate.told("counted_above_device")
    assert (subject, evidence["device_used_memory_mib"], evidence["counted_memory_mib"]) == (
        f"device {card(0)}",
        450,
        8_000,
    )
    assert cells(estate.reconcile(), "cards", "verdict", "memory_counted_less_device_mib") == [
        ("counted_above_device", 7_550)
    ]


@pytest.mark.parametrize("mib", [17_592_186_044_134, 50_000])
def test_row_18_more_than_the_card_has_is_no_sample(mib: int, tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", mib), *host(900)], A)
    assert row(estate, "a", "memory_counted_mib", "memory_enforced_mib") == (None, 8_192)
    refused = figure(estate.reconcile(), "samples_refused_count")
    assert refused > 0 or estate.told("value_above_physical")


def test_row_19_less_is_counted_than_the_device_has_and_the_grant_stays(tmp_path: Path) -> None:
    small = pod("a", granted([(0, 800, 30)]), container(mib=800))
    estate = scraped(tmp_path, [*counted("a", 96, 800), *host(1_096)], small)
    [(subject, evidence)] = estate.told("residual_memory")
    assert (subject, evidence["residual_memory_mib"], evidence["enforced_memory_mib"]) == (
        f"device {card(0)}",
        1_000,
        800,
    )
    assert row(estate, "a", "memory_granted_mib") == (800,)


def test_row_20_a_limit_that_is_a_neighbours_is_not_the_one_that_was_granted(tmp_path: Path) -> None:
    small = pod("a", granted([(0, 1_024, 30)]), container(mib=1_024))
    estate = scraped(tmp_path, [*counted("a", 500, 30_480), *host(900)], small)
    [(subject, evidence)] = estate.told("limit_not_in_force")
    assert (subject, evidence["enforced_memory_mib"], evidence["granted_memory_mib"]) == ("pod team/a", 30_480, 1_024)
    assert row(estate, "a", "verdict") == ("limit_not_in_force",)


def test_row_20_a_limit_of_0_is_none_in_force(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 500, 0), *host(900)], A)
    [(_subject, evidence)] = estate.told("limit_not_in_force")
    assert (evidence["enforced_memory_mib"], evidence["granted_memory_mib"]) == (None, 8_192)


def test_row_21_a_pod_alone_above_its_cores_is_shown_apart_from_what_it_was_granted(tmp_path: Path) -> None:
    small = pod("a", granted([(0, 8_192, 20)]), container(cores=20))
    estate = scraped(tmp_path, [*counted("a", 4_096, percent=90), *host(4_300, 90)], small)
    assert row(estate, "a", "cores_granted_percent", "cores_counted_percent", "verdict") == (20, 90, "agrees")


def test_row_22_a_series_that_is_absent_is_unknown_and_the_grant_is_held(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*host(900)], A)
    assert row(estate, "a", "memory_granted_mib", "memory_counted_mib", "verdict") == (8_192, None, "use_unknown")
    assert [subject for subject, _ in estate.told("series_absent")] == ["pod team/a"]
    assert figure(estate.q2(), "memory_granted_mib_hours") > 8_192


def test_row_23_a_pod_of_several_containers_without_metrics_is_a_gap_per_card(tmp_path: Path) -> None:
    own = [container(name, 2_048, 10) for name in "xyz"]
    many = pod("many", granted(*([(0, 2_048, 10)] for _ in own)), *own)
    estate = scraped(tmp_path, [*host(3_000)], many)
    [(subject, evidence)] = estate.told("series_absent")
    assert (subject, evidence["container"], evidence["granted_memory_mib"]) == ("pod team/many", "x,y,z", 6_144)


def test_row_24_a_monitor_that_says_nothing_leaves_use_unknown(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 4_096), *host(4_300)], A)
    estate.scrape("13:30", {"n1:9394": []})
    estate.take("13:30", listing(node(), A))
    window = Window(moment("13:00"), moment("13:30"))
    answer = estate.reconcile(window=window)
    assert cells(answer, "pods", "memory_granted_mib", "memory_counted_mib", "verdict") == [
        (8_192, None, "use_unknown")
    ]


def test_row_25_rows_of_the_host_without_a_node_are_the_registers_cards(tmp_path: Path) -> None:
    estate = scraped(tmp_path, [*counted("a", 4_096), *host(4_300, 40)], A)
    assert cells(estate.reconcile(), "cards", "node", "memory_device_mib") == [("n1", 4_300)]


def test_row_26_two_names_of_one_model_are_one_card(tmp_path: Path) -> None:
    lines = [*counted("a", 4_096), *host(4_300, devicetype="NVIDIA-NVIDIA A100-SXM4-40GB")]
    estate = scraped(tmp_path, lines, A, model="NVIDIA A100-SXM4-40GB")
    [(subject, evidence)] = estate.told("type_mismatch")
    assert (subject, evidence["monitor_type"]) == (f"device {card(0)}", "NVIDIA-NVIDIA A100-SXM4-40GB")
    assert cells(estate.reconcile(), "cards", "memory_device_mib", "memory_counted_mib") == [(4_300, 4_096)]
    same = scraped(tmp_path, lines, A)
    assert same.told("type_mismatch") == []


def test_row_36_what_the_card_does_is_not_what_its_pod_does(tmp_path: Path) -> None:
    small = pod("a", granted([(0, 8_192, 20)]), container(cores=20))
    estate = scraped(tmp_path, [*counted("a", 4_096), *host(4_300, 100)], small)
    assert row(estate, "a", "cores_granted_percent", "cores_counted_percent", "cores_device_percent") == (
        20,
        None,
        None,
    )
    assert cells(estate.reconcile(), "cards", "cores_granted_percent", "cores_device_percent") == [(20, 100)]


def test_row_37_memory_that_is_scaled_shows_what_there_is_and_what_is_handed_out(tmp_path: Path) -> None:
    large = pod("a", granted([(0, 50_000, 30)]), container(mib=50_000))
    estate = scraped(
        tmp_path, [*counted("a", 4_096, 50_000), *host(4_300)], large, memory_mib=69_102, model="NVIDIA-NVIDIA L40S"
    )
    [(subject, evidence)] = estate.told("memory_scaled")
    assert (subject, evidence["physical_memory_mib"], evidence["schedulable_memory_mib"], evidence["ratio"]) == (
        f"device {card(0)}",
        46_068,
        69_102,
        1.5,
    )
    assert cells(estate.reconcile(), "cards", "memory_physical_mib", "memory_schedulable_mib") == [(46_068, 69_102)]
    assert estate.told("limit_not_in_force") == []


def test_means_are_over_observed_time_and_a_gap_is_no_zero(tmp_path: Path) -> None:
    """4096 MiB for one minute, 8192 for one, then a gap: the mean over what was seen, against the card at the same time."""
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node(), A))
    for at, mib in (("12:00", 4_096), ("12:01", 8_192), ("12:02", 8_192), ("12:40", 1)):
        estate.scrape(at, {"n1:9394": [*counted("a", mib), *host(mib + 300), *allocated("a", 8_192), *gauge(8_192)]})
    estate.take("13:00", listing(node(), A))
    answer = estate.reconcile(window=Window(moment("12:00"), moment("13:00")))
    assert cells(
        answer, "cards", "memory_counted_mib", "memory_device_mib", "memory_counted_less_device_mib", "basis"
    ) == [(6_144, 6_444, -300, "mean over observed time")]
    assert cells(answer, "pods", "memory_counted_mib", "memory_enforced_mib", "memory_scheduler_mib") == [
        (6_144, 8_192, 8_192)
    ]
    assert [
        [float(value) for _at, value in each.points]
        for each in answer.series
        if each.name == "memory_counted_less_device_mib"
    ] == [[-300.0]]
