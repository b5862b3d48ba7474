"""The statistics of waits against the pure definitions, over posted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.answers.queue_waits import SQL_FILE, QueueWaits, WaitScope, queue_waits
from steelyard.answers.reading import Reading
from steelyard.definitions.kaplan_meier import NO_WAITS, Ends, cumulative_incidence, kaplan_meier, kaplan_meier_quantile
from steelyard.definitions.percentile import percentile_linear
from steelyard.ledgers.posting import ensure_ledgers
from steelyard.primitives.instant import HOUR_US, SECOND_US, Window
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store

START = 1_788_000_000_000_000
DAY = Window(START, START + 24 * HOUR_US)
Row = tuple[int, str | None, int | None]
"""Seconds of wait, what ended it, thousandths of a GPU."""

ROW = st.tuples(
    st.integers(0, 20), st.sampled_from(("reserved", "reserved", "abandoned", "evicted", None)),
    st.sampled_from((None, 0, 500, 1000, 2000, 8000, 16000)),
)  # fmt: skip


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        ensure_ledgers(opened)
        yield opened


def fill(store: Store, rows: Sequence[dict[str, Any]]) -> None:
    store.execute("DELETE FROM ledger.wait_entry")
    for number, row in enumerate(rows):
        wait = {
            "cluster": "default", "demand_id": f"d{number}", "demand_kind": "workload", "namespace": "team-a", "queue": "a",
            "stage": "queue", "started_us": START, "seconds": 5, "ended_by": "reserved", "fit": None, "gpu_milli": 1000,
            "unknown_reason": None, **row,
        }  # fmt: skip
        store.execute(
            "INSERT INTO ledger.wait_entry BY NAME SELECT $cluster AS cluster, $demand_id AS demand_id, $demand_kind AS demand_kind, "
            "$namespace AS namespace, $queue AS queue, 0 AS segment, $stage AS stage, make_timestamp($started_us::BIGINT) AS started_at, "
            "make_timestamp($started_us::BIGINT + $seconds * 1000000) AS known_to_at, "
            "CASE WHEN $ended_by IS NOT NULL THEN make_timestamp($started_us::BIGINT + $seconds * 1000000) END AS ended_at, "
            "$ended_by AS ended_by, $fit AS fit, $gpu_milli AS gpu_milli, 'object' AS basis, $unknown_reason AS unknown_reason, "
            f"1 AS run_id, 1 AS sign, {number} AS entry_id, FALSE AS is_open",
            wait,
        )


def asked(store: Store, window: Window = DAY, **narrowed: Any) -> QueueWaits:
    return queue_waits(Reading(store, SQL_FILE), WaitScope(window, **narrowed))


def ends(rows: Sequence[Row], weights: Sequence[int] | None = None) -> list[Ends]:
    return [
        Ends(
            seconds * SECOND_US,
            weight * (end == "reserved"),
            weight * (end not in ("reserved", None)),
            weight * (end is None),
        )
        for (seconds, end, _milli), weight in zip(rows, weights or [1] * len(rows), strict=True)
    ]


@given(st.lists(ROW, min_size=1, max_size=25))
def test_the_engine_estimates_as_the_definition_does(store: Store, rows: list[Row]) -> None:
    fill(store, [{"seconds": seconds, "ended_by": end, "gpu_milli": milli} for seconds, end, milli in rows])
    found = asked(store)
    served = [seconds * SECOND_US for seconds, end, _milli in rows if end == "reserved"]
    everyone = ends(rows)
    for p, told in ((0.5, found.everyone.p50_us), (0.95, found.everyone.p95_us), (0.99, found.everyone.p99_us)):
        assert told == kaplan_meier_quantile(everyone, p)
    assert (found.everyone.waits_count, found.everyone.events_count) == (len(rows), len(served))
    curve = kaplan_meier(everyone)
    assert found.everyone.survival == pytest.approx(curve[-1][1] if curve else 1.0, abs=1e-9)
    for p, naive in ((0.5, found.naive.p50_us), (0.95, found.naive.p95_us), (0.99, found.naive.p99_us)):
        expected = percentile_linear(served, p)
        assert naive == (Unknown(NO_WAITS) if isinstance(expected, Unknown) else pytest.approx(expected))
    on_gpus = [row for row in rows if row[2]]
    weighted = ends(on_gpus, [row[2] or 0 for row in on_gpus])
    assert (found.by_gpus.p50_us, found.by_gpus.p95_us) == tuple(
        kaplan_meier_quantile(weighted, p) for p in (0.5, 0.95)
    )
    incidence = cumulative_incidence(everyone)
    if incidence:
        assert found.incidence[-1].time_us == incidence[-1].time_us
        assert found.incidence[-1].scheduled == pytest.approx(incidence[-1].scheduled, abs=1e-9)
        assert found.incidence[-1].abandoned == pytest.approx(incidence[-1].abandoned, abs=1e-9)
    unweighted = ends(on_gpus)
    assert (found.on_gpus.p50_us, found.on_gpus.p95_us) == tuple(
        kaplan_meier_quantile(unweighted, p) for p in (0.5, 0.95)
    )


def test_sizes_are_told_apart_and_one_that_does_not_say_is_no_size(store: Store) -> None:
    fill(
        store,
        [
            {"seconds": second, "gpu_milli": milli}
            for second, milli in enumerate((None, 0, 500, 1000, 2000, 8000, 9000))
        ],
    )
    found = asked(store).by_size
    assert {size: estimate.waits_count for size, estimate in found.items()} == {
        "unknown": 1, "none": 1, "1": 2, "2-8": 2, "more": 1
    }  # fmt: skip
    assert found["more"].p95_us == 6 * SECOND_US


@pytest.mark.parametrize(
    ("narrowed", "count"),
    [
        ({}, 4),
        ({"queues": ["a"]}, 3),
        ({"namespaces": ["team-b"]}, 1),
        ({"clusters": ["other"]}, 0),
        ({"tenants": ["nobody"]}, 0),
        ({"window": Window(START + HOUR_US, START + 2 * HOUR_US)}, 1),
    ],
)
def test_a_scope_takes_only_its_own(store: Store, narrowed: dict[str, Any], count: int) -> None:
    fill(
        store,
        [
            {"queue": "b", "namespace": "team-b"},
            {"gpu_milli": 0},
            {"ended_by": None, "fit": "never_fits"},
            {"started_us": START + HOUR_US},
        ],
    )
    assert asked(store, **narrowed).everyone.waits_count == count


def test_who_asks_for_no_gpu_or_never_fits_is_left_out_of_estimates_of_their_own(store: Store) -> None:
    fill(store, [{"gpu_milli": 0}, {"gpu_milli": None}, {"ended_by": None, "fit": "never_fits"}, {"fit": "not_now"}])
    found = asked(store)
    assert (found.everyone.waits_count, found.on_gpus.waits_count, found.fitting.waits_count) == (4, 2, 3)


def test_an_amount_beyond_counting_weighs_nothing_and_is_of_unknown_size(store: Store) -> None:
    fill(
        store,
        [{"seconds": 9, "gpu_milli": 2**63 - 1}] + [{"seconds": second, "gpu_milli": 10**9} for second in (1, 2, 3)],
    )
    found = asked(store)
    assert (found.by_gpus.waits_count, found.by_gpus.p50_us) == (3, 2 * SECOND_US)
    assert found.by_size["unknown"].waits_count == 1


def test_other_stages_and_unknown_waits_are_no_part_of_an_estimate(store: Store) -> None:
    fill(
        store,
        [
            {"seconds": 7},
            {"seconds": 900, "stage": "backoff", "ended_by": None},
            {"seconds": 900, "stage": "admission_check", "ended_by": "admitted"},
            {"seconds": 900, "unknown_reason": "evictions_not_seen"},
            {"seconds": 900, "demand_kind": "pod", "stage": "gate", "ended_by": None},
        ],
    )
    found = asked(store)
    assert (found.everyone.waits_count, found.everyone.p99_us, found.not_recoverable_count) == (1, 7 * SECOND_US, 1)


def test_nothing_is_said_of_ages_that_no_wait_was_seen_at(store: Store) -> None:
    fill(store, [{"seconds": 30}, {"seconds": 61, "ended_by": None}])
    found = asked(store)
    assert [each.time_us for each in found.incidence] == [30 * SECOND_US, 60 * SECOND_US]
    assert found.longest_waiting_us == 61 * SECOND_US


@pytest.mark.parametrize("count", [18, 37, 52])
def test_waits_that_were_all_served_are_served_to_one_and_no_more(store: Store, count: int) -> None:
    fill(store, [{"seconds": seconds} for seconds in range(1, count + 1)])
    last = asked(store).incidence[-1]
    assert (last.scheduled, last.abandoned) == (1.0, 0.0)
    last = cumulative_incidence(ends([(seconds, "reserved", None) for seconds in range(1, count + 1)]))[-1]
    assert (last.scheduled, last.abandoned) == (1.0, 0.0)


def test_without_waits_every_figure_is_unknown(store: Store) -> None:
    fill(store, [])
    found = asked(store)
    assert found.everyone.p50_us == Unknown(NO_WAITS)
    assert found.naive.p95_us == Unknown(NO_WAITS)
    assert (found.by_size, list(found.incidence), found.longest_waiting_us) == ({}, [], None)
