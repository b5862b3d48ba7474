"""What monitoring is told of queues: every wait in its bucket, decisions once, quota as it is known, labels in bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.answers import queue_series
from steelyard.answers.queue_series import BOUNDS_US, QUEUES_MAX, QueueSeries
from steelyard.facts.base import Fact
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import SECOND_US
from steelyard.store import Store
from tests.ledgers.wait_facts import at, condition, decision, workload


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def series_of(store: Store, *facts: Fact) -> QueueSeries:
    store.append(facts)
    post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**7)))
    return queue_series.queue_series(store)


def served(uid: str, after: int, queue: str = "gpus") -> list[Fact]:
    return [workload(after + 10, uid, cluster_queue=queue), condition(after, "QuotaReserved", uid=uid)]


def test_each_wait_is_in_the_bucket_of_the_first_bound_that_it_is_not_beyond(store: Store) -> None:
    seconds = [each // SECOND_US for each in BOUNDS_US]
    lengths = [seconds[0], seconds[1], seconds[1] + 1, seconds[2], seconds[-1] + 1]
    facts = [fact for number, length in enumerate(lengths) for fact in served(f"w{number}", length)]
    waiting = workload(5_000, "w9")
    found = series_of(store, *facts, waiting).waits["default", "gpus"]
    assert found.buckets == [1, 1, 2, *[0] * (len(BOUNDS_US) - 3), 1]
    assert found.total_us == sum(lengths) * SECOND_US


def test_a_decision_that_two_sources_tell_of_counts_once_and_its_repeats_count(store: Store) -> None:
    told: dict[str, Any] = {"queue": "gpus", "cause": "quota"}
    facts = [
        decision(5, "not_now", count=3, **told),
        decision(7, "not_now", evidence="condition", **told),
        decision(6, "not_now", uid="w2", name="w2", **told),
        decision(9, "reserved", queue="gpus"),
    ]
    assert series_of(store, *facts).decisions == {
        ("default", "gpus", "not_now", "quota"): 4,
        ("default", "gpus", "reserved", ""): 1,
    }


def test_queues_beyond_the_busiest_are_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_series, "QUEUES_MAX", 2)
    facts = [fact for number, queue in enumerate("abbcdd") for fact in served(f"w{number}", 5, queue)]
    found = series_of(store, *facts)
    assert {queue: sum(waits.buckets) for (_, queue), waits in found.waits.items()} == {"b": 2, "d": 2, "other": 2}
    assert QUEUES_MAX == 100


def test_quota_is_in_thousandths_and_a_sum_of_what_is_not_known_is_not_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_series, "QUEUES_MAX", 1)
    post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**7)))
    rows = [("a", 9_000, 8_000), ("b", 4_000, 1_000), ("c", 2_000, None)]
    for queue, nominal, used in rows:
        store.execute(
            "INSERT INTO dim.quota_now (cluster, queue_kind, queue, flavor, resource, nominal_milli, used_milli) "
            "VALUES ('default', 'cluster_queue', ?, 'h100', 'nvidia.com/gpu', ?, ?), ('default', 'pool', ?, 'h100', 'x', 1, 1)",
            [queue, nominal, used, queue],
        )
    found = queue_series.queue_series(store).quotas
    assert found == {
        ("default", "cluster_queue", "a", "h100", "nvidia.com/gpu"): [9_000, None, 8_000, None, None],
        ("default", "cluster_queue", "other", "other", "nvidia.com/gpu"): [6_000, None, None, None, None],
    }


def test_where_nothing_was_posted_nothing_is_told() -> None:
    assert QueueSeries() == QueueSeries({}, {}, {})
