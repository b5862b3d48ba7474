"""What holds of the ledger of states whatever the world: lost samples make unknown time, runs grow backwards, no more is waited for
than waits."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.node import Node
from steelyard.facts.process_sample import ProcessSample
from steelyard.ledgers import windows as windowing
from steelyard.ledgers.posting import ensure_ledgers
from steelyard.ledgers.registry import GPU_STATE
from steelyard.ledgers.windows import changed_windows
from steelyard.store import Store
from tests.ledgers.reference_supply import Row
from tests.ledgers.state_worlds import (
    HOURS,
    card_facts,
    estate,
    forget,
    posted,
    residuals,
    waits,
    worlds,
)
from tests.ledgers.supply_worlds import BASE, COMMON, HOUR, MINUTE

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
UNKNOWN = ("held_unknown", "held_unattributed")
BUSY = {"suspected_hang": "busy", "busy_not_working": "busy"}
"""A lost sample may shorten a run of a suspected hang below its ten minutes, or let two of them touch: the two states are one here."""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        ensure_ledgers(opened)
        for name in ("holding", "wait"):
            opened.execute(f"DROP VIEW ledger.{name}")
        yield opened


def sample(minute: int, engine: float, sm: float, dram: float, card: str = "GPU-1", **more: Any) -> DeviceSample:
    return DeviceSample(
        **COMMON, natural_key=card, occurred_at=BASE + minute * MINUTE, device_uuid=card, gr_active_ratio=engine,
        sm_active_ratio=sm, dram_active_ratio=dram, **{"interval_us": MINUTE, **more},
    )  # fmt: skip


def held(pod: str = "p1", share: int = 1_000_000, card: str = "GPU-1") -> Row:
    return {
        "cluster": "default", "pod_uid": pod, "place_kind": "device", "place_id": card, "node": "n1", "device_uuid": card,
        "unit_kind": "gpu", "unit_id": None, "gi": None, "occupancy": "held", "share_ppm": share, "share_at_least_ppm": share,
        "started_at": BASE, "running_at": BASE, "ended_at": BASE + HOURS * HOUR, "known_to_at": BASE + HOURS * HOUR,
    }  # fmt: skip


def by_state(rows: dict[Any, int]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for key, amount in rows.items():
        if key[3] is not None:
            found[BUSY.get(key[5], key[5])] += amount
    return found


POWER = {"power_watts": 90.0, "power_limit_watts": 700.0}
TRIPLES = [(0.0, 0.0, 0.0), (1.0, 0.75, 0.25), (1.0, 0.25, 0.75), (0.25, 0.125, 0.0), (1.0, 0.0, 0.0), (1.0, 0.5, 0.5)]
PAIRS = 8


@given(st.randoms(use_true_random=True))
@settings(deadline=None, max_examples=3, suppress_health_check=SLOW)
def test_without_a_tenth_of_the_samples_held_time_moves_to_unknown_and_never_to_idle(
    store: Store, chance: random.Random
) -> None:
    """Two cards do the same, and of one a tenth of the samples is lost; so many pairs in one posting."""
    facts: list[Fact] = estate()
    holders: list[Row] = []
    for pair in range(PAIRS):
        triples = chance.choices(TRIPLES, k=120)
        if pair % 2:
            triples = [triple for triple in chance.choices(TRIPLES, k=12) for _minute in range(10)]  # states that last
        kept = set(chance.sample(range(120), 108))
        for card in (f"full-{pair}", f"fewer-{pair}"):
            facts += card_facts(card)
            holders += [held(pod, 1_000_000 // (1 + pair % 3 % 2), card) for pod in ("p1", "p2")[: 1 + pair % 3 % 2]]
            facts += [
                sample(minute, *triple, card=card, **POWER)
                for minute, triple in enumerate(triples)
                if minute in kept or card.startswith("full")
            ]
    forget(store)
    rows = posted(store, facts, holders, [], HOUR)
    for pair in range(PAIRS):
        full, fewer = (
            by_state({key: amount for key, amount in rows.items() if key[1] == f"{name}-{pair}"})
            for name in ("full", "fewer")
        )
        assert sum(full.values()) == sum(fewer.values()) == HOURS * HOUR
        assert all(fewer[state] <= full[state] for state in fewer if state not in UNKNOWN)
        assert fewer["held_unknown"] == full["held_unknown"] + 12 * MINUTE


@given(worlds(), st.lists(waits(), min_size=1, max_size=5))
@settings(deadline=None, max_examples=4, suppress_health_check=SLOW)
def test_no_more_is_waited_for_than_waits(store: Store, world: Any, asked: list[Row]) -> None:
    facts, holders, _asked, grain = world
    forget(store)
    posted(store, facts, holders, asked, grain)
    waited = store.rows("SELECT coalesce(sum(amount_gpu_us), 0) FROM ledger.gpu_state WHERE state = 'free_waiting'")[0][
        0
    ]
    pending = store.rows(
        "SELECT coalesce(sum((to_us - from_us)::HUGEINT * share_ppm // 1000000), 0) FROM dim.gpu_state_asked"
    )[0][0]
    assert waited <= pending
    assert residuals(store) <= {0}


@given(worlds(), st.randoms(use_true_random=True))
@settings(deadline=None, max_examples=4, suppress_health_check=SLOW)
def test_posted_bit_by_bit_and_twice_it_is_what_it_would_be_at_once(
    store: Store, world: Any, chance: random.Random
) -> None:
    facts, holders, asked, grain = world
    forget(store)
    at_once = posted(store, facts, holders, asked, grain)
    chance.shuffle(facts)
    forget(store)
    posted(store, facts[::2], holders, asked, grain)
    assert posted(store, facts[1::2], holders, asked, grain) == at_once
    entries = store.rows("SELECT count(*) FROM ledger.gpu_state_entry")
    assert posted(store, [], holders, asked, grain) == at_once
    assert store.rows("SELECT count(*) FROM ledger.gpu_state_entry") == entries


HANG = POWER


def hang_minutes(rows: dict[Any, int]) -> int:
    return sum(amount for key, amount in rows.items() if key[5] == "suspected_hang") // MINUTE


def test_a_hang_is_suspected_after_ten_minutes_and_from_its_first_minute_on_across_hours(store: Store) -> None:
    forget(store)
    first = [sample(minute, 1.0, 0.0, 0.0, **HANG) for minute in range(54, 63)]
    rows = posted(store, [*estate(), *first], [held()], [], HOUR)
    assert (hang_minutes(rows), by_state(rows)["busy"]) == (0, 9 * MINUTE)
    rows = posted(store, [sample(63, 1.0, 0.0, 0.0, **HANG)], [held()], [], HOUR)
    assert hang_minutes(rows) == 10
    assert {key[2] for key in rows if key[5] == "suspected_hang"} == {BASE, BASE + HOUR}


@pytest.mark.parametrize(("minutes", "hangs"), [(9, False), (10, True)])
def test_ten_one_minute_means_are_ten_minutes_however_short_their_samples_are(
    store: Store, minutes: int, hangs: bool
) -> None:
    forget(store)
    run = [sample(minute, 1.0, 0.0, 0.0, interval_us=MINUTE // 2, **HANG) for minute in range(20, 20 + minutes)]
    rows = posted(store, [*estate(), *run, sample(20 + minutes, 1.0, 0.75, 0.25)], [held()], [], HOUR)
    assert (hang_minutes(rows) > 0) == hangs


@pytest.mark.parametrize(
    ("between", "hangs"),
    [
        ([], 10),
        ([sample(36, 1.0, 0.75, 0.0, **HANG)], 0),
        ([sample(36, 1.0, 0.0, 0.0, power_watts=600.0, power_limit_watts=700.0)], 0),
        ([sample(36, 1.0, 0.0, 0.0)], 10),  # its power is not known: it neither counts nor ends the run
    ],
)
def test_a_gap_does_not_end_a_run_and_a_sample_that_speaks_against_it_does(
    store: Store, between: list[Fact], hangs: int
) -> None:
    forget(store)
    minutes = [*range(30, 35), *range(40, 45)]
    run: list[Fact] = [sample(minute, 1.0, 0.0, 0.0, **HANG) for minute in minutes]
    assert hang_minutes(posted(store, [*estate(), *run, *between], [held()], [], HOUR)) == hangs


def test_windows_cut_the_same_states(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [*estate(), *(sample(minute, 1.0, 0.0, 0.0, **HANG) for minute in range(120))]
    forget(store)
    whole = posted(store, facts, [held()], [], HOUR)
    monkeypatch.setattr(windowing, "WINDOW_ROWS_MAX", 1)
    forget(store)
    assert posted(store, facts, [held()], [], HOUR) == whole
    assert hang_minutes(whole) == 120


def test_nothing_is_computed_again_for_hours_that_are_as_they_were(store: Store) -> None:
    forget(store)
    facts = [*estate(), *(sample(minute, 1.0, 0.75, 0.25) for minute in range(90))]
    posted(store, facts, [held()], [], HOUR)
    assert changed_windows(store, GPU_STATE, str(HOUR)) == []
    assert changed_windows(store, GPU_STATE, "another") != []


def test_a_holder_on_an_unknown_card_of_a_dead_node_is_down_and_not_unknown(store: Store) -> None:
    forget(store)
    unplaced = {**held(), "place_kind": "node", "place_id": "n1", "device_uuid": None}
    dead = Node(
        **COMMON, natural_key="n1", occurred_at=BASE, node="n1", ready=False, ready_changed_at=BASE - HOUR
    )  # fmt: skip
    rows = posted(store, [*estate(), dead], [unplaced], [], HOUR)
    states = {(key[5], key[6]) for key in rows if key[3] == "p1"}
    assert states == {("held_down", None)}


def test_an_instance_of_which_nobody_tells_the_number_is_unknown_by_that_and_not_by_its_counters(store: Store) -> None:
    forget(store)
    nameless = {**held(), "unit_kind": "mig", "unit_id": "MIG-9"}
    facts = [*estate(), *(sample(minute, 0.9, 0.7, 0.2, gi=1) for minute in range(30))]
    rows = posted(store, facts, [nameless], [], HOUR)
    assert {(key[5], key[6]) for key in rows if key[3] == "p1" and key[5] != "held_starting"} == {
        ("held_unknown", "instance")
    }


def process(pod: str, ratio: float | None, minutes: int) -> ProcessSample:
    return ProcessSample(
        **COMMON, natural_key=pod, occurred_at=BASE, device_uuid="GPU-1", pid=1 if pod == "p1" else 9, pod_uid=pod, sm_ratio=ratio,
        interval_us=minutes * MINUTE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "states"),
    [
        ([], {("held_unattributed", "compute_bound", "card"), ("compute_bound", None, "triple")}),
        ([0.0], {("held_idle", "unknown", "card"), ("compute_bound", None, "triple")}),
        ([0.5], {("compute_bound", None, "card"), ("compute_bound", None, "triple")}),
    ],
)
def test_while_a_pod_without_a_grant_works_on_a_card_its_one_holder_is_not_judged_by_what_the_card_does(
    store: Store, own: list[float], states: set[Any]
) -> None:
    """The intruder is seen for ten minutes of thirty; then the holder is alone again."""
    forget(store)
    facts = [*estate(), *(sample(minute, 1.0, 0.75, 0.25) for minute in range(30)), process("p9", 0.9, 10)]
    facts += [process("p1", ratio, 10) for ratio in own]
    rows = posted(store, facts, [held()], [], HOUR)
    found = {key[5:]: amount for key, amount in rows.items() if key[3] == "p1" and key[5] != "held_unknown"}
    assert found.keys() == states
    assert {key[-1]: amount for key, amount in found.items()} == {"card": 10 * MINUTE, "triple": 20 * MINUTE}


@pytest.mark.parametrize("kind", ["gpu", "mig", "slice", "vgpu"])
@pytest.mark.parametrize("replicas", [None, 1, 4])
def test_a_card_that_is_granted_whole_is_judged_by_its_triple_beside_a_pod_that_cannot_be_on_it(
    store: Store, kind: str, replicas: int | None
) -> None:
    forget(store)
    beside = {**held("p2"), "place_kind": "node", "place_id": "n1", "device_uuid": None, "unit_kind": kind}
    node = Node(**COMMON, natural_key="n1", occurred_at=BASE, node="n1", replicas=replicas)
    facts = [*estate(), node, *card_facts("GPU-3"), *(sample(minute, 1.0, 0.75, 0.25) for minute in range(30))]
    rows = posted(store, facts, [held(), beside], [], HOUR)
    bases = {key[5:] for key in rows if key[3] == "p1" and key[5] != "held_unknown"}
    is_told = kind in ("gpu", "mig") and replicas != 4
    assert bases == {("compute_bound", None, "triple") if is_told else ("held_unattributed", "compute_bound", "card")}


def test_a_part_of_a_card_is_not_judged_by_the_triple_beside_a_pod_whose_card_is_not_known(store: Store) -> None:
    forget(store)
    beside = {**held("p2"), "place_kind": "node", "place_id": "n1", "device_uuid": None}
    facts = [*estate(), *card_facts("GPU-3"), *(sample(minute, 1.0, 0.75, 0.25) for minute in range(30))]
    rows = posted(store, facts, [held(share=500_000), beside], [], HOUR)
    assert {key[5] for key in rows if key[3] == "p1"} == {"held_unattributed", "held_unknown"}
