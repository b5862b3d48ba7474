"""What the supply ledger says in named situations, each worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.node import Node
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.registry import model_text
from steelyard.store import Store
from tests.ledgers.reference_supply import Row
from tests.ledgers.supply_worlds import BASE, COMMON, HOUR, MINUTE, by_sql

SECOND = 1_000_000


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def card(at: int, uuid: str = "GPU-1", **values: Any) -> Device:
    return Device(
        **{
            "natural_key": uuid,
            "occurred_at": at,
            "device_uuid": uuid,
            "node": "n1",
            "memory_mib": 1000,
            **COMMON,
            **values,
        }
    )


def seen(start: int, end: int) -> SourceStatus:
    """All pods were seen throughout."""
    return SourceStatus(
        natural_key="pods/cluster", occurred_at=end, kind="pods", complete=True, observed_from_at=start, observed_to_at=end, **COMMON
    )  # fmt: skip


def held(pod: str, start: int, end: int, **values: Any) -> Row:
    row = {
        "cluster": "default", "pod_uid": pod, "place_kind": "device", "place_id": "GPU-1", "node": "n1", "device_uuid": "GPU-1",
        "unit_kind": "gpu", "unit_id": None, "occupancy": "held", "share_ppm": 1_000_000, "share_at_least_ppm": 1_000_000,
        "memory_mib": None, "cores_percent": None, "started_at": start, "ended_at": end, "known_to_at": end,
        "ended_before_at": None,
    }  # fmt: skip
    return {**row, **values}


def gpu_time(store: Store, facts: list[Fact], holdings: list[Row], place: str = "GPU-1") -> dict[tuple[Any, ...], int]:
    """(account, service, pod) -> GPU-time in seconds at a place, all grains together."""
    totals: dict[tuple[Any, ...], int] = {}
    for key, amounts in by_sql(store, facts, holdings, HOUR).items():
        if key[1] == place:
            name = (key[4], key[5], key[6])
            totals[name] = totals.get(name, 0) + amounts[0]
    return {name: amount // SECOND for name, amount in totals.items()}


def test_a_card_between_two_sightings_is_free_only_while_all_pods_were_seen(store: Store) -> None:
    facts = [card(BASE), card(BASE + 2 * HOUR), seen(BASE + HOUR // 2, BASE + HOUR)]
    assert gpu_time(store, facts, []) == {
        ("supply", None, None): 7200,
        ("free", "unknown", None): 1800,
        ("unobserved", "unknown", None): 5400,
    }


def test_a_lost_card_without_a_holder_is_out_of_service_also_between_sightings(store: Store) -> None:
    facts = [card(BASE), card(BASE + HOUR, state="lost"), card(BASE + 2 * HOUR), card(BASE + 3 * HOUR)]
    assert gpu_time(store, facts, []) == {
        ("supply", None, None): 10800,
        ("free", "down", None): 3600,
        ("unobserved", "unknown", None): 7200,
    }


def test_a_holder_of_a_lost_card_keeps_it_and_is_down(store: Store) -> None:
    facts = [card(BASE), card(BASE + HOUR, state="lost"), card(BASE + 2 * HOUR, healthy=True)]
    rows = gpu_time(store, facts, [held("p1", BASE, BASE + 2 * HOUR)])
    assert rows == {("supply", None, None): 7200, ("held", "unknown", "p1"): 3600, ("held", "down", "p1"): 3600}


@pytest.mark.parametrize(
    ("toleration_us", "down_seconds"), [(300 * SECOND, 3300), (0, 3600), (30 * 60 * SECOND, 1800), (None, 0)]
)
def test_a_holder_on_a_dead_node_is_down_after_its_own_toleration(
    store: Store, toleration_us: int | None, down_seconds: int
) -> None:
    facts: list[Fact] = [
        card(BASE), card(BASE + 2 * HOUR), seen(BASE, BASE + 2 * HOUR),
        Node(natural_key="n1", occurred_at=BASE, node="n1", ready=True, **COMMON),
        Node(natural_key="n1", occurred_at=BASE + 90 * MINUTE, node="n1", ready=False, ready_changed_at=BASE + HOUR, **COMMON),
        Request(
            natural_key="p1", occurred_at=BASE, pod_uid="p1", namespace="t", pod="p1", phase="Running",
            unreachable_toleration_us=toleration_us, **COMMON,
        ),
    ]  # fmt: skip
    rows = gpu_time(store, facts, [held("p1", BASE, BASE + 2 * HOUR, share_ppm=500_000)])
    assert rows.get(("held", "down", "p1"), 0) == down_seconds // 2
    assert rows[("held", "unknown", "p1")] == (7200 - down_seconds) // 2
    assert rows[("free", "down", None)] == 3300 // 2, (
        "the free half is down after 300 s, whatever its neighbour tolerates"
    )


def test_a_removed_sample_moves_a_card_from_up_to_unknown_and_never_to_free(store: Store) -> None:
    facts: list[Fact] = [card(BASE), card(BASE + HOUR)]
    samples: list[Fact] = [
        DeviceSample(
            natural_key="GPU-1", occurred_at=BASE + n * MINUTE, device_uuid="GPU-1", interval_us=MINUTE, util_gpu_ratio=0.0, **COMMON
        )
        for n in range(60)
    ]  # fmt: skip
    pods = [held("p1", BASE, BASE + HOUR)]
    assert gpu_time(store, [*facts, *samples], pods) == {("supply", None, None): 3600, ("held", "up", "p1"): 3600}
    assert gpu_time(store, [*facts, *samples[1:]], pods) == {
        ("supply", None, None): 3600,
        ("held", "up", "p1"): 3540,
        ("held", "unknown", "p1"): 60,
    }


def test_a_sample_without_any_value_is_no_measurement(store: Store) -> None:
    blank = DeviceSample(
        natural_key="GPU-1", occurred_at=BASE + MINUTE, device_uuid="GPU-1", unknown='{"a":"lost"}', **COMMON
    )
    rows = gpu_time(store, [card(BASE), card(BASE + HOUR), blank], [])
    assert rows == {("supply", None, None): 3600, ("unobserved", "unknown", None): 3600}


def test_shares_beyond_the_card_are_scaled_and_the_excess_is_a_memo(store: Store) -> None:
    pods = [held("p1", BASE, BASE + HOUR), held("p2", BASE + HOUR // 2, BASE + HOUR, share_ppm=500_000)]
    rows = by_sql(store, [card(BASE), card(BASE + HOUR)], pods, HOUR)
    amounts = {(key[4], key[6]): value[0] for key, value in rows.items()}
    assert amounts[("held", "p1")] == (1800 * 1_000_000 + 1800 * 666_666) * SECOND // 1_000_000
    assert amounts[("held", "p2")] == 1800 * 333_333 * SECOND // 1_000_000
    assert amounts[("overcommitted", "p1")] + amounts[("overcommitted", "p2")] == 1800 * (333_334 + 166_667)
    assert amounts[("unobserved", None)] == 1800, "one part in a million of half an hour: the rounding remainder"


def test_a_holder_that_fills_a_grain_in_which_another_turns_counts_once(store: Store) -> None:
    pods = [
        held("p1", BASE, BASE + HOUR, share_ppm=400_000),
        held("p2", BASE + 10 * MINUTE + 7, BASE + 20 * MINUTE, share_ppm=300_000),
    ]
    rows = by_sql(store, [card(BASE), card(BASE + HOUR), seen(BASE, BASE + HOUR)], pods, HOUR)
    p2 = (10 * MINUTE - 7) * 300_000 // 1_000_000
    assert {(key[4], key[6]): value[0] for key, value in rows.items()} == {
        ("supply", None): HOUR,
        ("held", "p1"): HOUR * 4 // 10,
        ("held", "p2"): p2,
        ("free", None): HOUR - HOUR * 4 // 10 - p2,
    }


@pytest.mark.parametrize(
    ("unit_kind", "memory_mib", "cores_percent", "expected"),
    [
        ("gpu", None, None, (1000, 100)),
        ("slice", None, None, (500, 50)),
        ("vgpu", 300, 0, (300, 0)),
        ("vgpu", 300, None, (300, 0)),
        ("vgpu", None, None, (500, 50)),
        ("mig", 200, None, (200, 50)),
    ],
)
def test_memory_and_compute_of_a_grant_that_states_none_follow_its_share(
    store: Store, unit_kind: str, memory_mib: int | None, cores_percent: int | None, expected: tuple[int, int]
) -> None:
    share = 1_000_000 if unit_kind == "gpu" else 500_000
    pod = held(
        "p1",
        BASE,
        BASE + HOUR,
        unit_kind=unit_kind,
        share_ppm=share,
        memory_mib=memory_mib,
        cores_percent=cores_percent,
    )
    rows = by_sql(store, [card(BASE), card(BASE + HOUR)], [pod], HOUR)
    taken = next(value for key, value in rows.items() if key[4] == "held")
    assert taken[1:] == (expected[0] * HOUR, expected[1] * HOUR)


def test_the_time_between_two_cards_of_one_slot_belongs_to_the_slot_unobserved(store: Store) -> None:
    slot = "0000:01:00.0"
    facts = [
        card(BASE, pci_address=slot), card(BASE + HOUR // 2, pci_address=slot),
        card(BASE + HOUR, uuid="GPU-2", pci_address=slot), card(BASE + 2 * HOUR, uuid="GPU-2", pci_address=slot),
    ]  # fmt: skip
    gap = gpu_time(store, facts, [], place=f"n1/{slot}")
    assert gap == {("supply", None, None): 1800, ("unobserved", "unknown", None): 1800}


def test_a_holder_on_an_unknown_card_is_a_transfer_where_the_cards_are_known_one_by_one(store: Store) -> None:
    pod = held("p1", BASE, BASE + HOUR, place_kind="node", place_id="n1", device_uuid=None)
    rows = gpu_time(store, [card(BASE), card(BASE + HOUR), seen(BASE, BASE + HOUR)], [pod], place="n1")
    assert rows == {("held_unplaced", "unknown", "p1"): 3600, ("free", "unknown", None): -3600}


def sums(store: Store, facts: list[Fact], holdings: list[Row]) -> dict[tuple[Any, ...], int]:
    """(account, service) -> GPU-time in seconds, of all places together."""
    totals: dict[tuple[Any, ...], int] = {}
    for key, amounts in by_sql(store, facts, holdings, HOUR).items():
        totals[key[4:6]] = totals.get(key[4:6], 0) + amounts[0] // SECOND
    return {name: amount for name, amount in totals.items() if amount}


UNPLACED: dict[str, Any] = {"place_kind": "node", "place_id": "n1", "device_uuid": None}


def test_a_transfer_takes_what_is_free_first_then_what_is_unobserved_and_never_more_than_there_is(store: Store) -> None:
    pod = held("p1", BASE, BASE + HOUR, share_ppm=2_000_000, **UNPLACED)
    two = [card(BASE), card(BASE + HOUR), card(BASE, uuid="GPU-2"), card(BASE + HOUR, uuid="GPU-2")]
    half_seen = sums(store, [*two, seen(BASE, BASE + HOUR // 2)], [pod])
    assert half_seen == {("supply", None): 7200, ("held_unplaced", "unknown"): 7200}
    beside = [pod, held("p2", BASE, BASE + HOUR)]
    assert sums(store, [*two, seen(BASE, BASE + HOUR)], beside) == {
        ("supply", None): 7200,
        ("held", "unknown"): 3600,
        ("held_unplaced", "unknown"): 3600,
        ("overcommitted", "unknown"): 3600,
    }


def test_a_transfer_takes_of_a_card_out_of_service_last(store: Store) -> None:
    lost = [
        card(BASE, state="lost"),
        card(BASE + HOUR, state="lost"),
        card(BASE, uuid="GPU-2"),
        card(BASE + HOUR, uuid="GPU-2"),
    ]
    one = held("p1", BASE, BASE + HOUR, **UNPLACED)
    assert sums(store, lost, [one]) == {
        ("supply", None): 7200,
        ("held_unplaced", "unknown"): 3600,
        ("free", "down"): 3600,
    }
    assert sums(store, lost, [{**one, "share_ppm": 1_500_000}])[("free", "down")] == 1800


def test_a_transfer_takes_of_the_gap_of_a_slot_and_where_no_card_is_there_supply_is_what_is_held(store: Store) -> None:
    slot = "0000:01:00.0"
    facts = [
        card(BASE, pci_address=slot), card(BASE + HOUR, pci_address=slot), card(BASE + 2 * HOUR, uuid="GPU-2", pci_address=slot),
        card(BASE + 3 * HOUR, uuid="GPU-2", pci_address=slot),
    ]  # fmt: skip
    across = held("p1", BASE + HOUR, BASE + 2 * HOUR, **UNPLACED)
    gap = sums(store, facts, [across])
    assert gap == {("supply", None): 10800, ("held_unplaced", "unknown"): 3600, ("unobserved", "unknown"): 7200}
    away = [card(BASE), card(BASE + HOUR), card(BASE + 2 * HOUR, node="n2")]
    later = held("p1", BASE + 3 * HOUR, BASE + 4 * HOUR, **UNPLACED)
    assert gpu_time(store, away, [later], place="n1") == {
        ("supply", None, None): 3600,
        ("held_unplaced", "unknown", "p1"): 3600,
    }
    found = store.rows(f"SELECT code, subject FROM ({model_text('supply_findings.sql')}) AS found")
    assert found == [("supply_unknown", "node n1")]


def test_a_cluster_takes_of_what_its_nodes_leave(store: Store) -> None:
    two = [
        card(BASE),
        card(BASE + HOUR),
        card(BASE, uuid="GPU-2", node="n2"),
        card(BASE + HOUR, uuid="GPU-2", node="n2"),
    ]
    anywhere = {"place_kind": "cluster", "place_id": "default", "device_uuid": None, "node": None}
    pods = [held("p1", BASE, BASE + HOUR, **UNPLACED), held("p2", BASE, BASE + HOUR, **anywhere)]
    watched = SourceStatus(
        natural_key="pods/node/n1", occurred_at=BASE + HOUR, kind="pods", scope="node/n1", complete=True, observed_from_at=BASE,
        observed_to_at=BASE + HOUR, **COMMON,
    )  # fmt: skip
    assert sums(store, [*two, watched], pods) == {("supply", None): 7200, ("held_unplaced", "unknown"): 7200}
    assert sums(store, [*two, watched], pods[1:]) == {
        ("supply", None): 7200,
        ("held_unplaced", "unknown"): 3600,
        ("unobserved", "unknown"): 3600,
    }


def test_a_node_of_counted_cards_has_the_supply_that_is_declared(store: Store) -> None:
    basis = InventoryBasis(
        natural_key="node/n2",
        occurred_at=BASE,
        basis="declared",
        node="n2",
        cards_count=4,
        valid_from_at=BASE,
        **COMMON,
    )
    pod = held("p1", BASE, BASE + HOUR, place_kind="node", place_id="n2", device_uuid=None, share_ppm=2_000_000)
    rows = gpu_time(store, [basis, seen(BASE, BASE + HOUR)], [pod], place="n2")
    assert rows == {
        ("supply", None, None): 4 * 3600,
        ("held_unplaced", "unknown", "p1"): 2 * 3600,
        ("free", "unknown", None): 2 * 3600,
    }


def test_where_nothing_tells_the_cards_supply_is_what_is_held_and_a_finding_says_so(store: Store) -> None:
    pod = held("p1", BASE, BASE + HOUR, place_kind="node", place_id="n9", device_uuid=None)
    rows = gpu_time(store, [], [pod], place="n9")
    assert rows == {("supply", None, None): 3600, ("held_unplaced", "unknown", "p1"): 3600}
    found = store.rows(f"SELECT code, subject FROM ({model_text('supply_findings.sql')}) AS found")
    assert found == [("supply_unknown", "node n9")]


def test_while_a_holder_of_an_unknown_share_is_there_the_rest_is_not_free(store: Store) -> None:
    pod = held("p1", BASE, BASE + HOUR // 2, share_ppm=None, share_at_least_ppm=200_000)
    rows = gpu_time(store, [card(BASE), card(BASE + HOUR), seen(BASE, BASE + HOUR)], [pod])
    assert rows == {
        ("supply", None, None): 3600,
        ("held", "unknown", "p1"): 360,
        ("unobserved", "unknown", None): 1440,
        ("free", "unknown", None): 1800,
    }


def test_what_a_vanished_pod_may_still_hold_is_unobserved_until_a_listing_misses_it(store: Store) -> None:
    facts = [card(BASE), card(BASE + 2 * HOUR), seen(BASE, BASE + 2 * HOUR)]
    gone = held("gone", BASE, BASE + HOUR, ended_before_at=BASE + HOUR + HOUR // 2)
    assert gpu_time(store, facts, [gone]) == {
        ("supply", None, None): 7200,
        ("held", "unknown", "gone"): 3600,
        ("unobserved", "unknown", None): 1800,
        ("free", "unknown", None): 1800,
    }


def test_the_tail_of_a_pod_whose_card_is_not_known_leaves_every_card_of_its_node_unobserved(store: Store) -> None:
    facts = [card(BASE), card(BASE + 2 * HOUR), seen(BASE, BASE + 2 * HOUR)]
    gone = held(
        "gone", BASE, BASE + HOUR, place_kind="node", place_id="n1", device_uuid=None, ended_before_at=BASE + 2 * HOUR
    )  # fmt: skip
    assert gpu_time(store, facts, [gone]) == {
        ("supply", None, None): 7200,
        ("free", "unknown", None): 3600,
        ("unobserved", "unknown", None): 3600,
    }


def test_a_card_that_came_back_is_on_its_first_node_again(store: Store) -> None:
    facts = [card(BASE), card(BASE + HOUR, node="n2"), card(BASE + 2 * HOUR), card(BASE + 3 * HOUR)]
    rows = by_sql(store, facts, [held("p1", BASE, BASE + 3 * HOUR)], HOUR)
    assert {key[3]: key[2] for key in rows if key[4] == "held"} == {
        BASE: "n1",
        BASE + HOUR: "n2",
        BASE + 2 * HOUR: "n1",
    }


def test_a_card_that_left_and_came_back_within_one_grain_has_one_row_per_node(store: Store) -> None:
    facts = [card(BASE), card(BASE + 20 * MINUTE, node="n2"), card(BASE + 30 * MINUTE), card(BASE + HOUR)]
    rows = by_sql(store, facts, [held("p1", BASE, BASE + HOUR)], HOUR)
    supply = {key[2]: amounts[0] // SECOND for key, amounts in rows.items() if key[4] == "supply"}
    assert supply == {"n1": 3000, "n2": 600}
    assert {key[2]: amounts[0] // SECOND for key, amounts in rows.items() if key[4] == "held"} == supply


def test_a_holding_beyond_the_declared_validity_of_its_node_is_supply_as_held_and_nothing_is_negative(
    store: Store,
) -> None:
    declared = InventoryBasis(
        natural_key="n9", occurred_at=BASE, basis="declared", node="n9", cards_count=2, memory_mib=1000, valid_from_at=BASE,
        valid_to_at=BASE + HOUR, **COMMON,
    )  # fmt: skip
    holding = held("p1", BASE, BASE + 2 * HOUR, place_kind="node", place_id="n9", node="n9", device_uuid=None)
    rows = by_sql(store, [declared], [holding], HOUR)
    assert {(key[3], key[4]): amounts[0] // SECOND for key, amounts in rows.items()} == {
        (BASE, "supply"): 7200, (BASE, "held_unplaced"): 3600, (BASE, "unobserved"): 3600,
        (BASE + HOUR, "supply"): 3600, (BASE + HOUR, "held_unplaced"): 3600,
    }  # fmt: skip
    found = store.rows(
        f"SELECT code, subject, epoch_us(occurred_at) FROM ({model_text('supply_findings.sql')}) AS found"
    )
    assert found == [("supply_unknown", "node n9", BASE + 2 * HOUR)]


def test_the_memory_of_a_grant_is_booked_also_on_a_card_whose_memory_is_not_known(store: Store) -> None:
    facts = [card(BASE, memory_mib=None), card(BASE + HOUR, memory_mib=None), seen(BASE, BASE + HOUR)]
    instance = held("p1", BASE, BASE + HOUR, unit_kind="mig", share_ppm=125_000, memory_mib=9856)
    unstated = held("p2", BASE, BASE + HOUR, unit_kind="mig", share_ppm=125_000)
    rows = by_sql(store, facts, [instance, unstated], HOUR)
    memory = {(key[4], key[6]): amounts[1] for key, amounts in rows.items()}
    assert memory == {("held", "p1"): 9856 * HOUR, ("held", "p2"): None, ("supply", None): None, ("free", None): None}


def test_a_holder_with_one_stated_and_one_unknown_memory_has_no_known_sum(store: Store) -> None:
    stated = held("p1", BASE, BASE + HOUR // 2, share_ppm=100_000, memory_mib=100)
    other = held("p1", BASE + HOUR // 2, BASE + HOUR, share_ppm=100_000)
    rows = by_sql(store, [card(BASE, memory_mib=None)], [stated, other], HOUR)
    assert [amounts[1] for key, amounts in rows.items() if key[4] == "held"] == [None]
