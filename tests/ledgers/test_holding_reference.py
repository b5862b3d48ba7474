"""The SQL of the holding ledger against the plain-Python reference, on random scenarios."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.ledgers.posting import PostingParameters, PostingResult, post_ledgers
from steelyard.ledgers.registry import HOLDING
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.reference_holding import Held, reference_holdings
from tests.ledgers.scenarios import Scenario, at, scenarios

CASES = int(os.environ.get("STEELYARD_CASES", "25"))
FEW = settings(
    deadline=None, max_examples=CASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def post(store: Store) -> PostingResult:
    return post_ledgers(store, PostingParameters(), clock=FixedClock(at(60)), ledgers=(HOLDING,))


def held(store: Store) -> list[Held]:
    rows = store.rows(
        "SELECT pod_uid, containers, scheme, place_kind, place_id, unit_kind, unit_id, quantity, segment, occupancy, share_ppm, memory_mib, "
        "cores_percent, epoch_us(started_at), epoch_us(ended_at), epoch_us(known_to_at), epoch_us(ended_before_at), start_basis, end_basis, "
        "evidence_grade FROM ledger.holding"
    )
    return [Held(*row[:3], (row[3], row[4]), *row[5:]) for row in rows]


def posted(facts: Sequence[Fact]) -> list[Held]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        return held(store)


@FEW
@given(scenarios())
def test_the_ledger_is_what_the_reference_says(scenario: Scenario) -> None:
    facts = scenario.facts()
    rows = posted(facts)
    assert len(set(rows)) == len(rows)
    assert set(rows) == reference_holdings(facts)


FEWER = settings(FEW, max_examples=max(1, CASES // 3))


@FEWER
@given(scenarios(), st.randoms(use_true_random=False))
def test_order_and_repetition_of_facts_change_nothing(scenario: Scenario, chance: random.Random) -> None:
    facts = scenario.facts()
    shuffled = [
        msgspec.structs.replace(fact, observed_at=fact.observed_at + chance.randrange(10)) for fact in facts * 2
    ]
    chance.shuffle(shuffled)
    assert sorted(posted(shuffled), key=repr) == sorted(posted(facts), key=repr)


@FEWER
@given(scenarios(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_late_facts_restate_by_reversal_until_the_net_is_the_full_recompute(
    scenario: Scenario, chance: random.Random, rounds: int
) -> None:
    facts = scenario.facts()
    chance.shuffle(facts)
    with Store.open_memory() as store:
        entries = 0
        for number in range(rounds):
            store.append(facts[number::rounds])
            change = post(store).changes["holding"]
            total, signs = store.rows("SELECT count(*), coalesce(sum(sign), 0)::BIGINT FROM ledger.holding_entry")[0]
            assert total == entries + change.posted + change.reversed - change.replaced
            assert signs == len(held(store))
            entries = total
        rows = held(store)
        assert sorted(rows, key=repr) == sorted(posted(facts), key=repr)
        net = store.rows(
            "SELECT count(*) FROM (SELECT * EXCLUDE (run_id, sign, entry_id, is_open) FROM ledger.holding_entry GROUP BY ALL HAVING sum(sign) = 1)"
        )[0][0]
        assert net == len(rows)
        again = post(store)
        assert again.run_id is None
        assert (again.changes["holding"].posted, again.changes["holding"].reversed) == (0, 0)
