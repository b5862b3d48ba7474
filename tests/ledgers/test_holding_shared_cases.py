"""The holding ledger over the handed cases, read by the real readers, against their expected values entry by entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.importer import FileImporter
from steelyard.app.settings import Settings
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import HOLDING
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import SECOND_US, parse_instant
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportRequest


def imported(files: Sequence[Path], as_of: str | None, directory: Path, **more: Any) -> Store:
    clock = FixedClock(parse_instant("2027-01-01T00:00:00Z"))

    def post(store: Store) -> int:
        return len(post_ledgers(store, PostingParameters(), clock=clock, ledgers=(HOLDING,)).changes)

    request = ImportRequest(paths=files, as_of=parse_instant(as_of) if as_of else None, **more)
    FileImporter(directory, Settings(), post, clock).import_paths(request, lambda *_args: None)
    return Store.open(directory)


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((shared / "cases/hami/expected.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def hami(shared: Path, expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    files = [shared / "cases/hami" / name for name in ("nodes_hami.json", "pods_hami_mixed.json", "volcano_list.json")]
    with imported(files, expected["snapshot_utc"], tmp_path_factory.mktemp("hami")) as store:
        yield store


def rows_of(store: Store, pod: str) -> list[dict[str, Any]]:
    return store.records(
        "SELECT *, epoch_us(started_at) AS start_us, epoch_us(ended_at) AS end_us FROM ledger.holding "
        "WHERE namespace || '/' || pod = ? ORDER BY device_uuid, segment, started_at",
        [pod],
    )


def us(text: str | None) -> int | None:
    return None if text is None else parse_instant(text)


def test_a_pod_that_counts_is_held_from_its_bind_with_its_slices(hami: Store, expected: dict[str, Any]) -> None:
    counting = {pod: entry for pod, entry in expected["pods"].items() if entry["state"] in ("counts", "past")}
    assert len(counting) == 14
    for pod, entry in counting.items():
        held = [row for row in rows_of(hami, pod) if row["occupancy"] == "held"]
        if entry.get("grant_interval_unknown_reason"):
            assert held == [], pod
            continue
        start, end = entry.get("grant_interval_utc") or (entry["grant_start_utc"], entry.get("grant_end_utc"))
        last = {row["device_uuid"]: row for row in held}
        first = {row["device_uuid"]: row for row in reversed(held)}
        assert {row["start_us"] for row in first.values()} == {us(start)}, pod
        assert {row["end_us"] for row in last.values()} == {us(end)}, pod
        assert all(entry["grant_start_basis"].startswith(row["start_basis"]) for row in first.values()), pod
        slices: dict[str, list[dict[str, Any]]] = {}
        for part in entry["slices"]:
            slices.setdefault(part["device_uuid"], []).append(part)
        assert last.keys() == slices.keys(), pod
        for device, parts in slices.items():
            row = last[device]
            assert row["memory_mib"] == sum(part["memory_mib"] for part in parts), pod
            assert row["cores_percent"] == sum(part["cores_percent"] for part in parts), pod
            assert row["containers"] == ",".join(sorted(part["container"] for part in parts)), pod
            if len(parts) == 1:
                assert row["share_ppm"] == parts[0]["share_ppm"], pod
            assert row["evidence_grade"] == "declared"


def test_a_finished_pod_holds_its_closed_interval_and_nothing_after(hami: Store, expected: dict[str, Any]) -> None:
    entry = expected["pods"]["team-a/batch-done"]
    (held,) = (row for row in rows_of(hami, "team-a/batch-done") if row["occupancy"] == "held")
    assert held["end_us"] - held["start_us"] == entry["held_seconds"] * SECOND_US
    share = (held["end_us"] - held["start_us"]) * held["share_ppm"] // 1_000_000
    assert {held["device_uuid"]: share} == entry["held_gpu_share_microseconds_by_device"]


def test_an_init_container_raises_the_grant_until_it_is_done(hami: Store, expected: dict[str, Any]) -> None:
    held = [row for row in rows_of(hami, "team-e/init-peak") if row["occupancy"] == "held"]
    segments = expected["pods"]["team-e/init-peak"]["grant_segments"]
    assert len(held) == len(segments) == 2
    for row, segment in zip(held, segments, strict=True):
        assert (row["start_us"], row["end_us"]) == (us(segment["start_utc"]), us(segment["end_utc"]))
        for name in ("device_uuid", "memory_mib", "cores_percent", "share_ppm"):
            assert row[name] == segment[name]


def test_what_is_reserved_rejected_or_unattributed_is_held_by_nobody(hami: Store, expected: dict[str, Any]) -> None:
    for pod, entry in expected["pods"].items():
        occupancies = {row["occupancy"] for row in rows_of(hami, pod)}
        if entry["state"] == "reserve":
            assert occupancies == {"reserved"}, pod
        elif entry["state"] == "none":
            assert occupancies == set(), pod
        elif entry["state"] == "unattributed":
            assert occupancies == ({"in_suspense"} if "annotated_slices" in entry else set()), pod


def test_the_totals_of_every_card_are_the_expected_ones(hami: Store, expected: dict[str, Any]) -> None:
    now = {
        (device, occupancy): (int(share), int(memory), int(cores))
        for device, occupancy, share, memory, cores in hami.rows(
            "SELECT device_uuid, occupancy, sum(share_ppm), sum(memory_mib), sum(cores_percent) FROM ledger.holding "
            "WHERE ended_at IS NULL GROUP BY ALL"
        )
    }
    for device, totals in expected["gpu_totals_allocated"].items():
        held, reserved, suspense = (
            now.get((device, occupancy), (0, 0, 0)) for occupancy in ("held", "reserved", "in_suspense")
        )
        assert held == (totals["held_share_ppm"], totals["held_memory_mib"], totals["held_cores_percent"]), device
        assert reserved[1:] == (totals["reserved_memory_mib"], totals["reserved_cores_percent"]), device
        claimed = (totals["unattributed_claim_memory_mib"], totals["unattributed_claim_cores_percent"])
        assert suspense[1:] == claimed, device
    assert {device for device, _ in now} <= expected["gpu_totals_allocated"].keys()


def test_every_registered_card_has_its_memory_and_placeability(hami: Store, expected: dict[str, Any]) -> None:
    devices = {(row["node"], row["device_uuid"]): row for row in hami.records("SELECT * FROM dim.device")}
    listed = {
        (node, uuid): entry for node, cards in expected["device_register"].items() for uuid, entry in cards.items()
    }
    assert devices.keys() == listed.keys()
    for key, entry in listed.items():
        assert devices[key]["memory_mib"] == entry["physical_memory_mib"], key
        assert devices[key]["schedulable_memory_mib"] == entry["schedulable_memory_mib"], key
        assert devices[key]["healthy"] == entry["healthy"], key
        assert devices[key]["placeable"] == entry.get("schedulable"), key  # gpu-v: its node says nothing of Ready


def test_the_ledger_says_what_it_could_not_book(hami: Store) -> None:
    found = set(hami.rows("SELECT code, subject FROM ledger.finding"))
    assert found == {
        ("grant_larger_than_request", "pod team-g/tampered"),
        ("gpu_request_without_grant", "pod team-f/bypass-nodename"),
        ("grant_unreadable", "pod team-e/malformed"),
        ("interval_unknown", "pod team-v/vjob-done"),
    }


@pytest.mark.parametrize(
    ("file", "gpu_hours"),
    [("default", 51470.674), ("gpushare40", 42418.002), ("gpushare100", 15149.957)],
)
def test_the_trace_holds_the_gpu_hours_of_its_reference(
    shared: Path, tmp_path: Path, file: str, gpu_hours: float
) -> None:
    path = shared / f"cases/traces/alibaba-gpu-v2023/openb_pod_list_{file}.csv"
    with imported([path], None, tmp_path, kind="openb") as store:
        held = store.rows(
            "SELECT sum(gpu_time_us(epoch_us(coalesce(ended_at, known_to_at)) - epoch_us(started_at), share_ppm)) "
            "FROM ledger.holding WHERE occupancy = 'held'"
        )[0][0]
        assert round(int(held) / 3_600_000_000, 3) == gpu_hours
        assert {row[0] for row in store.rows("SELECT DISTINCT place_kind FROM ledger.holding")} == {"cluster"}


@pytest.fixture(scope="module")
def queues(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, dict[str, Any]]]:
    folder = shared / "cases/queues"
    truth: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    files = [folder / name for name in ("pods.json", "dra-claims-slices-list.json", "podresources.json")]
    with imported(files, truth["snapshot_utc"], tmp_path_factory.mktemp("queues")) as store:
        yield store, truth


def test_pods_of_the_queue_case_are_held_as_long_as_expected(queues: tuple[Store, dict[str, Any]]) -> None:
    store, truth = queues
    for pod, entry in truth["pods"].items():
        held = [row for row in rows_of(store, pod) if row["occupancy"] == "held"]
        if not entry["held_seconds_to_snapshot"]:
            assert held == [], pod
            continue
        assert {row["start_us"] for row in held} == {us(entry["alloc_start_utc"])}, pod
        assert {row["end_us"] for row in held} == {us(entry["alloc_end_utc"])}, pod
        seconds = {(row["known_to_at"] - row["started_at"]).total_seconds() for row in held}
        assert seconds == {entry["held_seconds_to_snapshot"]}, pod
        known = all(row["share_ppm"] is not None for row in held)
        assert known == (entry["held_gpu_seconds_to_snapshot"] is not None), pod
        amount = "held_gpu_seconds_to_snapshot" if known else "held_gpu_seconds_at_least"
        total = sum(row["share_at_least_ppm"] for row in held) * entry["held_seconds_to_snapshot"]
        assert total / 1_000_000 == pytest.approx(entry[amount], abs=0.001), pod


def test_the_kubelet_names_the_cards_of_plain_pods_and_corroborates_them(queues: tuple[Store, dict[str, Any]]) -> None:
    store, _truth = queues
    for pod in ("team-a/dist-finetune-0-x0k", "team-a/sweep-workers-0-0"):
        rows = rows_of(store, pod)
        assert len({row["device_uuid"] for row in rows}) == len(rows) == 8
        assert {row["evidence_grade"] for row in rows} == {"corroborated"}
    assert {row["place_kind"] for row in rows_of(store, "team-a/dist-finetune-1-x1k")} == {"node"}


def test_instances_and_replicas_of_the_kubelet_weigh_what_is_expected(queues: tuple[Store, dict[str, Any]]) -> None:
    store, truth = queues
    holders = {
        **truth["podresources"]["ts-node-01"]["holders"],
        **truth["podresources"]["mig-node-01"]["holders"],
    }
    for pod, entry in holders.items():
        (row,) = rows_of(store, pod)
        assert row["share_ppm"] == entry["share_ppm"], pod
        assert row["start_basis"] == "first_seen", pod


def test_a_claim_is_split_among_its_consumers_and_an_admin_holds_nothing(queues: tuple[Store, dict[str, Any]]) -> None:
    store, truth = queues
    key = truth["dra"]["shared-gpu"]["device_key"]
    rows = store.rows("SELECT share_ppm, occupancy FROM ledger.holding WHERE unit_id = ?", [key])
    assert rows == [(500_000, "held")] * truth["dra"]["shared-gpu"]["consumers_count"]
