"""hami.md section 5, rows 1 to 5, 13, 33, 34: what HAMi's exporters say of pods, nodes and quotas that the cluster does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collection.hami_estate import HamiEstate, allocated, container, counted, gauge, granted, host, node, pod
from tests.collection.scraped_estate import card, cells, figure, listing


def seen(folder: Path, *objects: object, lines: list[str]) -> HamiEstate:
    """Objects of noon and a scrape at the same instant, and once more a minute later."""
    estate = HamiEstate(folder)
    for at in ("12:00", "12:01"):
        estate.scrape(at, {"n1:9394": lines})
        estate.take(at, listing(*objects))  # type: ignore[arg-type]  # objects as kubectl prints them
    return estate


def test_row_01_a_gauge_that_stayed_full_after_its_pod_is_stale_with_the_difference(tmp_path: Path) -> None:
    estate = seen(tmp_path, node(), lines=[*gauge(40_960), *host(1)])
    [(subject, evidence)] = estate.told("exporter_stale")
    assert subject == f"device {card(0)}"
    assert (evidence["truth_memory_mib"], evidence["over_reported_memory_mib"], evidence["device_used_memory_mib"]) == (
        0,
        40_960,
        1,
    )
    assert figure(estate.q1(), "gpus_held") == 0
    assert figure(estate.reconcile(), "memory_blocked_mib") == 40_960


def test_row_02_a_series_of_a_pod_that_is_not_there_is_a_ghost_with_what_it_blocks(tmp_path: Path) -> None:
    lines = [*allocated("gone-0", 8_192), *allocated("gone-1", 4_096), *gauge(12_288)]
    estate = seen(tmp_path, node(), pod("a", None, container(gpus=0)), lines=lines)
    told = {
        subject: (each["over_reported_memory_mib"], each["over_reported_cores_percent"])
        for subject, each in estate.told("ghost_pod")
    }
    assert told == {"pod team/gone-0": (8_192, 30), "pod team/gone-1": (4_096, 30)}
    assert estate.told("exporter_stale") == []
    assert figure(estate.reconcile(), "memory_blocked_mib") == 12_288


def test_row_02_a_pod_younger_than_the_listing_is_no_ghost(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node()))
    estate.scrape("12:01", {"n1:9394": [*allocated("young", 8_192), *gauge(8_192)]})
    assert estate.told("ghost_pod") == []


def test_row_03_of_an_old_and_a_new_pod_only_the_one_that_exists_counts(tmp_path: Path) -> None:
    lines = [*allocated("web-old", 8_192), *allocated("web-new", 8_192), *gauge(16_384), *counted("web-new", 4_096)]
    estate = seen(tmp_path, node(), pod("web-new", granted([(0, 8_192, 30)])), lines=lines)
    assert [subject for subject, _ in estate.told("ghost_pod")] == ["pod team/web-old"]
    by_card = cells(estate.reconcile(), "cards", "memory_granted_mib", "memory_scheduler_mib", "memory_counted_mib")
    assert by_card == [(8_192, 16_384, 4_096)]


def test_row_03_two_generations_of_one_name_are_told_by_what_is_too_much(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node(), pod("db-0", granted([(0, 8_192, 30)]))))
    young = pod("db-0", granted([(0, 8_192, 30)]), started="12:30")
    young["metadata"]["uid"] = "uid-db-0-second"
    estate.scrape("12:40", {"n1:9394": [*allocated("db-0", 16_384, 60), *gauge(16_384, 60)]})
    estate.take("12:40", listing(node(), young))
    [(subject, evidence)] = estate.told("series_merges_generations")
    assert subject == "pod team/db-0"
    assert (evidence["exporter_memory_mib"], evidence["truth_memory_mib"], evidence["generations"]) == (
        16_384,
        8_192,
        2,
    )


def test_row_04_cards_of_a_removed_node_are_no_capacity(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node(), node("n2", cards=(1,))))
    estate.take("12:10", listing(node()))
    estate.scrape("12:20", {"s:9395": [*gauge(0), *gauge(8_192, n=1, node="n2")]})
    estate.take("12:20", listing(node()))
    [(subject, evidence)] = estate.told("removed_node_exported")
    assert (subject, evidence["device_uuids"]) == ("node n2", card(1))
    assert figure(estate.q1(), "devices_count") == 1
    assert estate.told("exporter_stale") == []


def test_row_05_a_node_that_left_the_metrics_keeps_its_cards(tmp_path: Path) -> None:
    estate = HamiEstate(tmp_path)
    held = pod("a", granted([(0, 8_192, 30)]))
    for at in ("12:00", "12:30"):
        estate.scrape(at, {"s:9395": gauge(0, n=7, node="other")})
        estate.take(at, listing(node(handshake="Requesting_2026-03-01 11:50:00"), held))
    answer = estate.q1()
    assert (figure(answer, "devices_count"), figure(answer, "holders_count")) == (1, 1)
    assert cells(estate.reconcile(where={"pod": "a"}), "pods", "memory_granted_mib") == [(8_192,)]


QUOTA = 'QuotaUsed{{limit="{limit}",quotaName="nvidia.com/gpumem",quotanamespace="team"}} {used}'


@pytest.mark.parametrize(
    ("used", "code"),
    [(4_096, "quota_used_agrees"), (2_048, "quota_used_not_times_count"), (9_000, "quota_used_overstated")],
)
def test_row_13_a_quota_counts_memory_times_cards(used: int, code: str, tmp_path: Path) -> None:
    both = pod("two", granted([(0, 2_048, 20), (1, 2_048, 20)]), container(mib=2_048, cores=20, gpus=2))
    lines = [QUOTA.format(limit=8_192, used=used), *gauge(2_048, 20), *gauge(2_048, 20, n=1)]
    estate = seen(tmp_path, node(cards=(0, 1)), both, lines=lines)
    [(subject, evidence)] = estate.told(code)
    assert (subject, evidence["exporter_mib"], evidence["truth_mib_in_scope"]) == ("namespace team", used, 4_096)
    assert cells(estate.reconcile(), "tenants", "memory_granted_mib", "cores_granted_percent") == [(4_096, 40)]


def test_row_13_a_quota_of_kubernetes_that_counts_one_card_is_told(tmp_path: Path) -> None:
    both = pod("two", granted([(0, 2_048, 20), (1, 2_048, 20)]), container(mib=2_048, cores=20, gpus=2))
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus", "namespace": "team", "uid": "uid-quota"},
        "spec": {"hard": {"requests.nvidia.com/gpumem": "8192"}},
        "status": {"hard": {"requests.nvidia.com/gpumem": "8192"}, "used": {"requests.nvidia.com/gpumem": "2048"}},
    }  # fmt: skip
    estate = seen(tmp_path, node(cards=(0, 1)), both, quota, lines=gauge(2_048))
    [(_subject, evidence)] = estate.told("quota_used_not_times_count")
    assert (evidence["told_by"], evidence["exporter_mib"], evidence["truth_mib_in_scope"]) == (
        "kubernetes",
        2_048,
        4_096,
    )


def test_row_33_a_series_that_outlives_its_pod_stops_at_the_pods_end(tmp_path: Path) -> None:
    over = pod("job", granted([(0, 8_192, 30)]), ended="11:30")
    estate = seen(tmp_path, node(), over, lines=[*counted("job", 4_096), *host(900)])
    [(subject, evidence)] = estate.told("series_of_finished_pod")
    assert (subject, evidence["stale_memory_mib"]) == ("pod team/job", 4_096)
    assert cells(estate.reconcile(), "cards", "memory_counted_mib", "memory_device_mib") == [(None, 900)]
    assert figure(estate.q2(), "memory_granted_mib_hours") == 4_096


def test_row_34_gauges_of_volcano_are_not_believed_and_what_is_held_is_summed_over_pods(tmp_path: Path) -> None:
    lines = [f'volcano_vgpu_device_allocated_memory{{devID="{card(0)}",NodeName="n1"}} 16384', *host(100)]
    estate = seen(tmp_path, node(), pod("a", granted([(0, 8_192, 30)])), lines=lines)
    assert cells(estate.reconcile(), "cards", "memory_granted_mib", "memory_scheduler_mib") == [(8_192, None)]
