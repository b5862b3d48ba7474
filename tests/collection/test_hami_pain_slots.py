"""hami.md section 5, rows 6 to 12, 27 and 32: what the scheduler wrote on a pod, read to the container and card that hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.primitives.unknown import Unknown
from tests.collection.hami_estate import HamiEstate, allocated, container, counted, gauge, granted, node, pod
from tests.collection.scraped_estate import card, cells, figure, kubelet, listing


def held(folder: Path, *objects: Any, cards: tuple[int, ...] = (0, 1)) -> HamiEstate:
    """Listed at noon and an hour later."""
    estate = HamiEstate(folder)
    for at in ("12:00", "13:00"):
        estate.take(at, listing(node(cards=cards), *objects))
    return estate


def slices(estate: HamiEstate) -> list[tuple[Any, ...]]:
    """Pod, containers, card of each holder."""
    rows = estate.rows(
        "SELECT pod, containers, device_uuid, memory_mib FROM ledger.holding WHERE occupancy = 'held' AND ended_at IS NULL ORDER BY ALL"
    )
    return [tuple(row) for row in rows]


def test_row_06_mixed_padding_is_one_slice(tmp_path: Path) -> None:
    text = f"{card(0)},NVIDIA,1000,0:;;,,0,0:;,,0,0:;"
    own = [container("srv", 1_000, None), *(container(name, gpus=0) for name in "abc")]
    estate = held(tmp_path, pod("padded", text, *own))
    assert slices(estate) == [("padded", "srv", card(0), 1_000)]


def test_row_07_a_cut_record_is_a_finding_and_no_zero(tmp_path: Path) -> None:
    estate = held(tmp_path, pod("cut", f"{card(0)},NVIDIA:;"))
    assert slices(estate) == []
    assert estate.the("grant_unreadable").subject == "pod team/cut"
    assert estate.evidence("device_record_malformed")["readable_device_uuid"] == card(0)
    assert cells(estate.reconcile(where={"pod": "cut"}), "pods", "memory_granted_mib") == []


def test_row_08_work_that_was_never_cleared_and_another_card_in_the_container_are_told(tmp_path: Path) -> None:
    moved = pod("moved", granted([(0, 8_192, 30)]), **{"hami.io__vgpu_devices_to_allocate": granted([(0, 8_192, 30)])})
    estate = HamiEstate(tmp_path)
    estate.take("12:00", listing(node(cards=(0, 1)), moved), kubelet({"moved": [card(1)]}, [card(0), card(1)]))
    assert [note.subject for note in estate.found("grant_sources_disagree")] == ["pod team/moved"]
    assert estate.rows("SELECT DISTINCT code FROM fact.finding WHERE subject = 'pod team/moved'") == [
        ("allocation_work_left",)
    ]


def test_row_09_a_leading_empty_slot_is_the_init_containers(tmp_path: Path) -> None:
    estate = held(
        tmp_path,
        pod("web", ";" + granted([(0, 6_144, 30)]), container("app", 6_144), init=[container("fetch", gpus=0)]),
    )
    assert slices(estate) == [("web", "app", card(0), 6_144)]


def test_row_10_slots_without_the_empty_ones_are_realigned_and_both_slices_are_held(tmp_path: Path) -> None:
    both = pod(
        "two",
        granted([(0, 2_500, 25)], [(1, 2_500, 25)]),
        container("a", 2_500, 25),
        container("b", 2_500, 25),
        init=[container("fetch", gpus=0)],
    )
    estate = held(tmp_path, both)
    assert slices(estate) == [("two", "a", card(0), 2_500), ("two", "b", card(1), 2_500)]
    lines = [
        *allocated("two", 2_500, 25, n=1),
        *gauge(0),
        *gauge(2_500, 25, n=1),
        *counted("two", 1_536, 2_500, n=1, container="a"),
    ]
    estate.scrape("13:00", {"n1:9394": lines})
    [(subject, evidence)] = estate.told("missing_slice_after_init")
    assert (subject, evidence["device_uuid"], evidence["truth_memory_mib"]) == ("pod team/two", card(0), 2_500)
    [(_subject, wrong)] = estate.told("wrong_container")
    assert (wrong["reported_container"], wrong["true_container"]) == ("a", "b")


def test_row_11_two_containers_of_forty_percent_are_above_a_quota_that_saw_one(tmp_path: Path) -> None:
    own = [container("a", 16_000, 40), container("b", 16_000, 40)]
    estate = held(
        tmp_path, pod("pair", granted([(0, 16_000, 40)], [(0, 16_000, 40)]), *own, init=[container("fetch", gpus=0)])
    )
    quota = 'QuotaUsed{limit="24000",quotaName="nvidia.com/gpumem",quotanamespace="team"} 16000'
    estate.scrape("13:00", {"s:9395": [quota, *gauge(16_000, 40)]})
    [(subject, evidence)] = estate.told("quota_used_understated")
    assert (subject, evidence["truth_mib_in_scope"], evidence["exceeds_limit_mib"]) == ("namespace team", 32_000, 8_000)


def test_row_12_init_and_app_hold_the_larger_of_both_and_then_the_app_alone(tmp_path: Path) -> None:
    peak = pod(
        "peak",
        granted([(0, 8_000, 50)], [(0, 4_000, 25)]),
        container("app", 4_000, 25),
        init=[container("warm", 8_000, 50)],
    )
    peak["status"]["initContainerStatuses"] = [
        {
            "name": "warm",
            "state": {
                "terminated": {"exitCode": 0, "startedAt": "2026-03-01T11:10:00Z", "finishedAt": "2026-03-01T11:20:00Z"}
            },
        }
    ]
    estate = held(tmp_path, peak)
    rows = estate.rows(
        "SELECT containers, memory_mib, CAST(started_at AS VARCHAR) FROM ledger.holding WHERE occupancy = 'held' ORDER BY started_at"
    )
    assert rows == [("app,warm", 8_000, "2026-03-01 11:00:00"), ("app", 4_000, "2026-03-01 11:20:00")]


def test_row_12_a_sidecar_counts_beside_the_app(tmp_path: Path) -> None:
    proxy = {**container("proxy", 1_000, 10), "restartPolicy": "Always"}
    estate = held(
        tmp_path, pod("side", granted([(0, 1_000, 10)], [(0, 4_000, 25)]), container("app", 4_000, 25), init=[proxy])
    )
    assert [row[3] for row in slices(estate)] == [5_000]


@pytest.mark.parametrize("index", ["0", "1", "7"])
def test_row_27_the_index_of_a_series_names_no_container(index: str, tmp_path: Path) -> None:
    estate = held(tmp_path, pod("second", ";" + granted([(0, 8_192, 30)]), container("log", gpus=0), container("srv")))
    estate.scrape("13:00", {"s:9395": [*allocated("second", 8_192, index=index), *gauge(8_192, 30)]})
    assert slices(estate) == [("second", "srv", card(0), 8_192)]
    assert cells(estate.reconcile(), "pods", "pod", "memory_scheduler_mib") == [("second", 8_192)]


def test_row_32_an_annotation_above_its_request_is_held_in_suspense_and_in_no_total(tmp_path: Path) -> None:
    estate = held(tmp_path, pod("greedy", granted([(0, 30_000, 100)]), container("main", 2_000, 10)))
    [(subject, evidence)] = estate.told("grant_larger_than_request")
    assert (subject, evidence["granted_memory_mib"], evidence["requested_memory_mib"]) == (
        "pod team/greedy",
        30_000,
        2_000,
    )
    answer = estate.reconcile()
    assert cells(answer, "pods", "verdict", "memory_requested_mib", "memory_granted_mib") == [
        ("grant_larger_than_request", 2_000, 30_000)
    ]
    assert cells(answer, "tenants", "tenant") == []
    granted_hours = figure(estate.q2(), "gpu_hours_granted")
    assert isinstance(granted_hours, Unknown) or granted_hours == 0
