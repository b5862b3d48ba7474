"""What is stamped absurdly early or reaches absurdly far is named by a finding and does not become a posting per hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US, parse_instant
from steelyard.store import Store
from tests.ledgers.facts_of import at, card, grant, listing, pod, seen

TWO_DAYS = 2 * 24 * 60
LONG_AGO = parse_instant("1970-01-05T00:00:00Z")
FAR = parse_instant("2099-01-01T00:00:00Z")
FOUND = "SELECT code, subject FROM ledger.finding ORDER BY code, subject"
SUPPLY = "SELECT place_id, sum(amount_gpu_us) FROM ledger.supply WHERE account = 'supply' GROUP BY place_id ORDER BY place_id"


def answers(facts: Sequence[Fact], *queries: str, days: int = 3660) -> list[list[Any]]:
    """The rows of each query after one posting of everything."""
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(history_days_max=days), clock=FixedClock(at(600)))
        return [store.rows(query) for query in queries]


def test_a_card_stamped_in_1970_is_there_from_its_next_sighting_and_the_stamp_is_named() -> None:
    early = Device(
        source="nvidia_smi", natural_key="GPU-a", device_uuid="GPU-a", node="n1", occurred_at=LONG_AGO, observed_at=at(30)
    )  # fmt: skip
    found, supply = answers([listing(90), early, card(30), card(90)], FOUND, SUPPLY)
    assert ("stamp_implausible", "device GPU-a") in found
    assert supply == [("GPU-a", HOUR_US)]


def test_a_sample_stamped_in_1970_is_left_out_of_supply_and_use_and_named() -> None:
    early = DeviceSample(
        source="dcgm", natural_key="GPU-a", device_uuid="GPU-a", memory_used_mib=5, interval_us=HOUR_US, occurred_at=LONG_AGO,
        observed_at=at(30),
    )  # fmt: skip
    found, supply, use = answers(
        [listing(90), early, card(30), card(90)], FOUND, SUPPLY, "SELECT count(*) FROM ledger.usage"
    )
    assert ("stamp_implausible", "samples of device GPU-a") in found
    assert supply == [("GPU-a", HOUR_US)]
    assert use == [(0,)]


def test_a_holding_longer_than_the_history_is_kept_whole_and_posted_within_it_with_a_finding() -> None:
    lent = grant(
        TWO_DAYS, scheme="declared", source="site_csv", device_uuid="GPU-a", unit_kind="gpu", valid_from_at=0,
        claim_state="accepted",
    )  # fmt: skip
    facts = [pod(TWO_DAYS, source="site_csv"), lent, card(TWO_DAYS), listing(TWO_DAYS)]
    held = "SELECT epoch_us(min(started_at)), epoch_us(max(known_to_at)) FROM ledger.holding"
    found, supply, whole = answers(facts, FOUND, SUPPLY, held, days=1)
    assert whole == [(at(0), at(TWO_DAYS))]
    assert supply == [("GPU-a", 24 * HOUR_US)]
    assert ("span_not_posted", "pod team-a/u1") in found
    found, supply = answers(facts, FOUND, SUPPLY, days=2)
    assert supply == [("GPU-a", 48 * HOUR_US)]
    assert "span_not_posted" not in dict(found)


def test_cards_declared_far_into_the_future_have_supply_up_to_now_and_from_the_history_on() -> None:
    declared = InventoryBasis(
        source="inventory", natural_key="n9", basis="declared", node="n9", cards_count=1, valid_from_at=LONG_AGO, valid_to_at=FAR,
        **seen(60),
    )  # fmt: skip
    found, supply = answers([listing(60), declared], FOUND, SUPPLY, days=1)
    assert supply == [("n9", 24 * HOUR_US)]
    assert ("span_not_posted", "node n9") in found


def test_a_history_of_no_day_is_refused() -> None:
    with pytest.raises(UsageError, match="0 days"):
        PostingParameters(history_days_max=0)


def test_a_status_stamped_in_2099_does_not_move_now() -> None:
    late = SourceStatus(source="dcgm", natural_key="dcgm/a", kind="dcgm", occurred_at=FAR, observed_at=at(30))
    (span,) = answers([late, card(30)], "SELECT count(*) FROM dim.known_span")
    assert span == [(0,)]
    (span,) = answers([late, listing(90), card(30)], "SELECT watched, epoch_us(last_at) FROM dim.known_span")
    assert span == [(True, at(90))]


def device_sample(minute: int) -> Fact:
    return DeviceSample(
        source="dcgm",
        natural_key="a",
        device_uuid="GPU-a",
        occurred_at=at(minute),
        observed_at=at(30),
        util_gpu_ratio=0.5,
    )


def process_sample(minute: int) -> Fact:
    return ProcessSample(
        source="nvidia_smi", natural_key="a/1", device_uuid="GPU-a", pid=1, occurred_at=at(minute), observed_at=at(30)
    )


@pytest.mark.parametrize("sample", [device_sample, process_sample])
@pytest.mark.parametrize("minutes", [[20], [20, 40], [20, 40, TWO_DAYS], [TWO_DAYS, 20]])
def test_now_is_the_latest_sample_that_is_not_stamped_beyond_all_observation(
    sample: Callable[[int], Fact], minutes: list[int]
) -> None:
    facts = [card(10), *(sample(minute) for minute in minutes)]
    (now,) = answers(facts, "SELECT epoch_us(as_of_at) FROM dim.parameter")
    assert now == [(at(max(minute for minute in minutes if minute < TWO_DAYS)),)]
