"""What a tenant may ask for breaks nobody's books: amounts beyond counting are not known, stamps after the sighting are bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction

from steelyard.answers.contract import Answer
from steelyard.answers.q06_scheduling import SchedulingSpec, answer
from steelyard.facts.base import Fact
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import LEDGERS
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.unknown import Unknown
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


def test_a_sum_that_an_amount_beyond_counting_is_a_part_of_is_not_known_and_says_what_it_is_at_least() -> None:
    hour = 3_600.0
    rounds = [
        fact
        for second in (0, hour, 2 * hour)
        for fact in (queue(seen=second), quota(second, nominal_milli=16_000, used_milli=0))
    ]
    listings = [listing(minute, gap_max_us=7_200_000_000) for minute in (0, 60, 120)]
    small = asked("small", 0, None, gpus=4, seen=2 * hour)
    later = [workload(2 * hour, "evil", hour, gpu_milli=2**63 - 1, demand=json.dumps({"nvidia.com/gpu": 2**63 - 1}))]
    lost = [workload(2 * hour, "lost", hour, gpu_milli=None, demand="{}")]
    for evil, counted in (([], 0), (later, 1), ([*later, *lost], 2)):
        store = posted_wholly([*rounds, *listings, *small, *evil])
        found = answered(store)
        figures = {figure.name: figure for figure in found.figures}
        pending = figures["quota_pending_gpu_hours"]
        if not counted:
            assert (pending.value, pending.coverage) == (
                Fraction(8),
                0.5,
            )  # the last word of the quota stands for two hours more
            continue
        assert isinstance(pending.value, Unknown)
        assert pending.value.reason.startswith(f"{counted} requests ask for no amount of cards")
        assert pending.value.reason.endswith("at least 4.000 GPU-h")
        assert pending.coverage == 0.25
        assert store.rows("SELECT count(*) FROM ledger.finding WHERE code = 'amount_beyond_counting'") == [(counted,)]
        assert any(f"{counted} waits do not say how many GPUs" in spot for spot in found.blind_spots)
        of_all, weighted = (figures[f"queue_wait_p50_seconds{word}"].coverage for word in ("", "_gpu_weighted"))
        assert isinstance(of_all, float)
        assert weighted == of_all / (1 + counted)


def test_a_leak_of_an_amount_beyond_counting_is_no_part_of_a_sum() -> None:
    held = asked("gone", 0, 10, gpus=4, seen=7_200, admitted=json.dumps({"nvidia.com/gpu": 2**63 - 1}))
    store = posted_wholly(
        [
            queue(seen=7_200),
            quota(7_200, nominal_milli=16_000, used_milli=0),
            *held,
            condition(10, "Admitted", uid="gone"),
            condition(60, "Evicted", uid="gone"),
        ]
    )
    assert store.rows("SELECT count(*) FROM dim.quota_leak") == [(1,)]
    assert store.rows("SELECT leaked_milli FROM dim.quota_now WHERE queue = 'gpus'") == [(None,)]
