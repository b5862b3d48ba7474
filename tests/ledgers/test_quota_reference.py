"""The quota ledger by SQL equals the slow reference on random words; its identities hold; order and repetition change nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.facts.quota import Quota
from steelyard.ledgers.posting import PostingParameters, ensure_ledgers, post_ledgers, prepare_ledger
from steelyard.ledgers.registry import QUOTA, model_text
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import MINUTE_US, parse_instant
from steelyard.store import Store
from tests.ledgers.reference_quota import AMOUNTS, post_quota

START = parse_instant("2026-11-30T00:00:00Z")
GRAIN = 15 * MINUTE_US
MILLI = st.sampled_from((None, 0, 0, 1000, 2000, 3000, 4000, 8000))
QUEUES = (
    ("tenant", "a", None),
    ("tenant", "b", None),
    ("cluster_queue", "c", "pool"),
    ("cluster_queue", "d", "pool"),
    ("cluster_queue", "e", None),
)
TIMES = ("observed_us", "pending_us", "pending_fits_own_us", "pending_fits_pool_us")


@st.composite
def words(draw: st.DrawFn) -> Quota:
    kind, queue, parent = draw(st.sampled_from(QUEUES))
    minute = draw(st.integers(0, 60))
    return Quota(
        source="test",
        natural_key=f"{kind}/{queue}",
        occurred_at=START + minute * MINUTE_US,
        observed_at=START + (minute + draw(st.integers(0, 3))) * MINUTE_US,
        queue_kind=kind,
        queue=queue,
        parent=parent,
        resource="nvidia.com/gpu",
        nominal_milli=draw(MILLI),
        reserved_milli=draw(MILLI),
        used_milli=draw(MILLI),
        pending_milli=draw(MILLI),
        idle_milli=draw(MILLI | st.just(-1000)),
        interval_us=draw(st.sampled_from((None, 5, 20, 40)).map(lambda minutes: minutes and minutes * MINUTE_US)),
    )


def unambiguous(facts: list[Quota]) -> list[Quota]:
    """Of rows that nothing but a hash tells apart (one key, instant, time of sight and rank) the first."""
    kept: dict[Any, Quota] = {}
    for fact in facts:
        rank = fact.used_milli is None and fact.reserved_milli is None
        kept.setdefault((fact.queue_kind, fact.queue, fact.occurred_at, fact.observed_at, rank), fact)
    return list(kept.values())


WORLDS = st.lists(words(), min_size=1, max_size=14).map(unambiguous)
STEADY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        ensure_ledgers(opened)
        opened.execute(
            "CREATE OR REPLACE TABLE dim.parameter AS SELECT 900000000::BIGINT AS grain_us, 600000000::BIGINT AS leak_grace_us, "
            "TIMESTAMP '2000-01-01' AS history_from_at, TIMESTAMP '2100-01-01' AS horizon_at, TIMESTAMP '2026-12-01' AS as_of_at"
        )
        yield opened


def by_sql(store: Store, facts: list[Quota]) -> dict[Any, dict[str, Any]]:
    store.execute("DELETE FROM fact.quota")
    store.append(facts)
    prepare_ledger(store, QUOTA)
    rows = store.records(model_text("quota.sql").replace("make_timestamp", "") + " -- grains as integers")
    names = ("observed_us", *(f"{name}_milli_us" for name in AMOUNTS), *TIMES[1:])
    return {(row["queue_kind"], row["queue"], row["grain_at"]): {name: row[name] for name in names} for row in rows}


@given(WORLDS)
@STEADY
def test_quota_equals_its_reference(store: Store, facts: list[Quota]) -> None:
    assert by_sql(store, facts) == post_quota(facts, GRAIN)


@given(WORLDS)
@STEADY
def test_what_is_used_and_reserved_adds_up_in_every_grain(store: Store, facts: list[Quota]) -> None:
    for row in by_sql(store, facts).values():
        used, above = row["used_milli_us"], row["borrowed_milli_us"]
        if above is not None and row["over_nominal_milli_us"] is not None:
            within = used - above - row["over_nominal_milli_us"]
            assert 0 <= within <= row["nominal_milli_us"]
        if None not in (row["reserved_milli_us"], row["reserved_not_used_milli_us"]):
            assert row["reserved_milli_us"] <= used + row["reserved_not_used_milli_us"]
        if row["pending_fits_own_us"] is not None:
            assert row["pending_fits_own_us"] <= row["pending_us"] <= row["observed_us"] <= GRAIN


@given(WORLDS, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_order_and_repetition_change_nothing(store: Store, facts: list[Quota], shuffle: random.Random) -> None:
    first = by_sql(store, facts)
    again = [*facts, *facts]
    shuffle.shuffle(again)
    assert by_sql(store, again) == first


def told(minute: int, used: int) -> Quota:
    at = START + minute * MINUTE_US
    return Quota(
        source="test", natural_key="tenant/a", occurred_at=at, observed_at=at, queue_kind="tenant", queue="a", resource="gpu",
        nominal_milli=8000, used_milli=used, pending_milli=0, idle_milli=8000 - used, interval_us=10 * MINUTE_US,
    )  # fmt: skip


def test_a_late_word_restates_by_reversal_and_a_new_row() -> None:
    with Store.open_memory() as store:
        store.append([told(0, 8000), told(600, 0)])
        post_ledgers(store, PostingParameters(), clock=FixedClock(START))
        store.append([told(5, 2000)])
        post_ledgers(store, PostingParameters(), clock=FixedClock(START))
        used = "SELECT used_milli_us FROM ledger.quota WHERE queue_kind = 'tenant' ORDER BY grain_at"
        assert store.rows(used) == [((5 * 8000 + 10 * 2000) * MINUTE_US,), (0,)]
        signs = "SELECT sign, count(*) FROM ledger.quota_entry WHERE queue_kind = 'tenant' GROUP BY sign ORDER BY sign"
        assert store.rows(signs) == [(-1, 1), (1, 3)]


def test_a_dump_alone_speaks_for_its_instant_and_posts_no_time() -> None:
    with Store.open_memory() as store:
        store.append([Quota(
            source="kueue", natural_key="q", occurred_at=START, observed_at=START, queue_kind="cluster_queue", queue="q",
            resource="nvidia.com/gpu", nominal_milli=8000, used_milli=9000,
        )])  # fmt: skip
        post_ledgers(store, PostingParameters(), clock=FixedClock(START))
        assert store.rows("SELECT count(*) FROM ledger.quota") == [(0,)]
        found = store.rows("SELECT used_milli, used_basis, over_nominal_milli, borrowed_milli FROM dim.quota_now")
        assert found == [(9000, "claimed", 1000, 0)]
