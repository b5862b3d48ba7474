"""The ledger of states by SQL equals the slow reference on random worlds, and its states add up to supply in every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from steelyard.ledgers.posting import ensure_ledgers
from steelyard.store import Store
from tests.ledgers.reference_gpu_state import post_states
from tests.ledgers.state_worlds import forget, posted, residuals, world_of, worlds

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        ensure_ledgers(opened)
        for name in ("holding", "wait"):
            opened.execute(f"DROP VIEW ledger.{name}")
        yield opened


@given(worlds())
@settings(deadline=None, max_examples=25, suppress_health_check=SLOW)
def test_states_equal_their_reference_and_add_up_to_supply(store: Store, world: Any) -> None:
    facts, held, asked, grain = world
    forget(store)
    rows = posted(store, facts, held, asked, grain)
    assert rows == post_states(world_of(store, held, asked, grain))
    assert residuals(store) <= {0}
    assert not any(state == "held_unknown" and cause is None for *_, state, cause, _basis in rows)
