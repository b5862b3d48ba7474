"""The deviation ledger against a count of minutes: which sample stood for this minute, add up. And what a sample that goes missing does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import DEVIATION, HOLDING, USAGE, Ledger
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import MINUTE_US
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, listing, node, pod, seen, vgpu

LEDGERS: tuple[Ledger, ...] = (HOLDING, USAGE, DEVIATION)
END = 150
MINUTES = st.dictionaries(st.integers(10, END - 1), st.none() | st.integers(0, 30_000), max_size=40)


def monitor(minute: int, mib: int | None, name: str = "u1", **more: Any) -> PartitionSample:
    fields: dict[str, Any] = {"origin": "monitor", "memory_limit_mib": 8_192, **more}
    return PartitionSample(
        source="hami", natural_key=f"team-a/{name}/main/{CARD}", device_uuid=CARD, namespace="team-a", pod=name, container="main",
        memory_counted_mib=mib, **fields, **seen(minute),
    )  # fmt: skip


def board(minute: int, mib: int | None) -> DeviceSample:
    return DeviceSample(source="hami", natural_key=CARD, device_uuid=CARD, memory_used_mib=mib, **seen(minute))


def estate(counted: Mapping[int, int | None], used: Mapping[int, int | None], *more: Fact) -> list[Fact]:
    """One pod with 8 GiB of a card from minute 0 to the end, samples of each at these minutes; rounds may lie two minutes apart."""
    gap = listing(5, source="hami", kind="hami", scope="cluster", complete=False, gap_max_us=2 * MINUTE_US)
    facts: list[Fact] = [gap, listing(END), node(5), card(5, memory_mib=40_960)]
    for minute in (5, END):
        facts += [pod(minute, scheduled_at=0), vgpu(minute, memory=8_192, cores=30, bound_at=0)]
    facts += [monitor(minute, mib) for minute, mib in counted.items()]
    facts += [board(minute, mib) for minute, mib in used.items()]
    return [*facts, *more]


def rows(facts: Sequence[Fact]) -> dict[tuple[str | None, int], dict[str, Any]]:
    """(pod, hour) -> row."""
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)), ledgers=LEDGERS)
        again = post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)), ledgers=LEDGERS)
        assert again.run_id is None, again.changes
        found = store.records("SELECT *, hour(grain_at) AS hour FROM ledger.deviation")
    return {(row["pod_uid"], row["hour"]): row for row in found}


def by_minute(samples: Mapping[int, int | None]) -> dict[int, int]:
    """What is known of each minute: the latest sample where the next one lies two minutes away at most."""
    known: dict[int, int] = {}
    order = sorted(samples)
    for first, following in pairwise(order):
        mib = samples[first]
        if following - first <= 2 and mib is not None:
            known |= dict.fromkeys(range(first, following), mib)
    return known


@settings(max_examples=20)
@given(MINUTES, MINUTES)
def test_amounts_are_what_a_count_of_minutes_says(counted: dict[int, int | None], used: dict[int, int | None]) -> None:
    found = rows(estate(counted, used))
    of_pod, of_card = by_minute(counted), by_minute(used)
    for hour in range(3):
        minutes = range(hour * 60, (hour + 1) * 60)
        row = found.get((None, hour))
        if row is None:
            assert not any(minute in counted for minute in minutes)
            continue
        mine = [of_pod[minute] for minute in minutes if minute in of_pod]
        boards = [of_card[minute] for minute in minutes if minute in of_card]
        both = [of_pod[minute] - of_card[minute] for minute in minutes if minute in of_pod and minute in of_card]
        for side in (row, found.get(("u1", hour), {})):
            assert side.get("counted_observed_us", 0) == len(mine) * MINUTE_US
            assert (side.get("counted_mib_us") or 0) == sum(mine) * MINUTE_US
        assert (row["device_observed_us"], row["device_mib_us"] or 0) == (
            len(boards) * MINUTE_US,
            sum(boards) * MINUTE_US,
        )
        assert (row["both_observed_us"], row["counted_less_device_mib_us"] or 0) == (
            len(both) * MINUTE_US,
            sum(both) * MINUTE_US,
        )


@settings(max_examples=8)
@given(MINUTES.filter(lambda samples: len(samples) > 2), st.integers(0, 10**6))
def test_a_sample_that_is_missing_only_takes_observed_time_away(counted: dict[int, int | None], choice: int) -> None:
    gone = sorted(counted)[choice % len(counted)]
    whole, less = (
        rows(estate(samples, {})) for samples in (counted, {key: mib for key, mib in counted.items() if key != gone})
    )
    for key, row in less.items():
        assert row["counted_observed_us"] <= whole[key]["counted_observed_us"] + 2 * MINUTE_US
        assert (row["counted_mib_us"] is None) == (row["counted_observed_us"] == 0)


def test_two_scrapers_of_one_instant_count_once() -> None:
    samples = {10: 4_096, 11: 4_096, 12: 4_096}
    again = [monitor(minute, mib, confidence="backfilled") for minute, mib in samples.items()]
    once, twice = (rows(estate(samples, {}, *more))[("u1", 0)] for more in ((), again))
    assert (once["counted_mib_us"], once["enforced_mib_us"]) == (twice["counted_mib_us"], twice["enforced_mib_us"])
    assert once["counted_mib_us"] == 4_096 * 2 * MINUTE_US


def test_more_than_the_card_has_is_refused_and_counted() -> None:
    row = rows(estate({10: 50_000, 11: 50_000, 12: 100}, {}))[("u1", 0)]
    assert (row["counted_mib_us"], row["refused_count"], row["enforced_observed_us"]) == (None, 2, 2 * MINUTE_US)


def test_what_is_said_of_a_pod_that_does_not_hold_the_card_counts_for_nobody() -> None:
    strangers = [monitor(minute, 9_000, name="gone") for minute in (10, 11, 12)]
    found = rows(estate({10: 4_096, 11: 4_096, 12: 4_096}, {}, *strangers))
    assert found[(None, 0)]["counted_mib_us"] == 4_096 * 2 * MINUTE_US
    assert ("gone", 0) not in found


def test_a_late_sample_restates_its_hour_by_reversal() -> None:
    with Store.open_memory() as store:
        store.append(estate({10: 4_096, 11: 4_096, 130: 1, 131: 1}, {}))
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)), ledgers=LEDGERS)
        store.append([monitor(12, 4_096)])
        change = post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)), ledgers=LEDGERS).changes[
            "deviation"
        ]
        assert (change.posted, change.reversed) == (2, 2)
        [(total,)] = store.rows(
            "SELECT sum(counted_mib_us) FROM ledger.deviation WHERE pod_uid = 'u1' AND hour(grain_at) = 0"
        )
    assert total == 4_096 * 2 * MINUTE_US
