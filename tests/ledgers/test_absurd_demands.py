"""What a tenant may ask for breaks nobody's books: amounts beyond counting are not known, stamps after the sighting are bounds."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.answers.contract import Answer
from steelyard.answers.q06_scheduling import SchedulingSpec, answer
from steelyard.facts.base import Fact
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import LEDGERS
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.facts_of import listing, pod
from tests.ledgers.queue_facts import asked, preemption, queue, quota
from tests.ledgers.wait_facts import at, condition, workload

DAY_SECONDS = 86_400


def answered(store: Store) -> Answer:
    return answer(store, SchedulingSpec())


def posted_wholly(facts: Sequence[Fact]) -> Store:
    store = Store.open_memory()
    store.append([*facts, pod(), listing(30)])
    post_ledgers(store, PostingParameters(), clock=FixedClock(at(10**9)), ledgers=LEDGERS)
    return store


def test_a_demand_of_more_gpu_time_than_can_be_counted_stops_no_answer() -> None:
    seen = 123.0 * DAY_SECONDS
    facts: list[Fact] = [queue(seen=seen), quota(seen, nominal_milli=16_000, used_milli=8_000)]
    facts += asked("long", 0, None, gpus=1_024, seen=seen) + asked("huge", 0, None, gpus=1_000_000, seen=seen)
    facts += [fact for number in range(4) for fact in asked(f"more{number}", 0, None, gpus=999_999, seen=seen)]
    facts += [*asked("served", seen - 60, seen - 30, gpus=900000, seen=seen), preemption(5, victim="huge", by="served")]
    store = posted_wholly(facts)
    figures = {figure.name: figure.value for figure in answered(store).figures}
    assert figures["requests_waiting"] == 6
    open_rows = store.rows("SELECT count(*) FROM ledger.wait WHERE ended_at IS NULL AND fit = 'never_fits'")
    assert open_rows == [(6,)]


def test_a_reservation_that_is_stamped_after_it_was_seen_ends_a_wait_of_unknown_length() -> None:
    store = posted_wholly([workload(3_600, "w", 0), condition(9_000, "QuotaReserved", uid="w", observed_at=3_600)])
    rows = store.rows(
        "SELECT epoch_us(started_at), epoch_us(ended_at), ended_by, unknown_reason FROM ledger.wait WHERE stage = 'queue'"
    )
    assert rows == [(at(0), at(3_600), "reserved", "end_not_stamped")]
