"""What an agent with a wrong clock says moves no instant of the ledgers, and a server whose own clock is behind loses nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import DAY_US, HOUR_US, Instant, parse_instant
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, listing

NOW = at(120)
FAR = [parse_instant("2038-01-19T00:00:00Z"), parse_instant("3000-01-01T00:00:00Z")]
ESTATE = [listing(60), card(60), listing(90), card(90)]


def said_at(instant: Instant, source: str = "agent") -> list[Any]:
    """A round of an agent at ``instant``."""
    return [
        DeviceSample(
            source=source, natural_key=CARD, device_uuid=CARD, power_watts=90.0, occurred_at=instant, observed_at=instant
        ),
        SourceStatus(source=source, natural_key="nvml/n1", kind="nvml", occurred_at=instant, observed_at=instant),
    ]  # fmt: skip


def posted(store: Store, now: Instant) -> tuple[Any, list[Any], dict[str, str]]:
    """The instant, the cards and the findings after a posting at ``now``."""
    as_of = post_ledgers(store, PostingParameters(), clock=FixedClock(now)).as_of
    cards = store.rows("SELECT device_uuid FROM dim.device")
    return as_of, cards, dict(store.rows("SELECT code, severity FROM ledger.finding"))


@pytest.mark.parametrize("far", FAR)
def test_what_an_agent_dates_far_ahead_moves_no_instant_and_is_named(far: Instant) -> None:
    with Store.open_memory() as store:
        store.append([*ESTATE, *said_at(far)])
        as_of, cards, found = posted(store, NOW)
        assert (as_of, cards) == (at(90), [(CARD,)])
        assert found["agent_clock_ahead"] == "error"
        assert "server_clock_behind" not in found


@pytest.mark.parametrize("far", FAR)
def test_a_directory_whose_ledgers_went_dark_by_such_a_row_is_whole_again_after_the_next_posting(far: Instant) -> None:
    supply = "SELECT place_id, sum(amount_gpu_us) FROM ledger.supply WHERE account = 'supply' GROUP BY place_id"
    with Store.open_memory() as whole:
        whole.append(ESTATE)
        posted(whole, NOW)
        expected = whole.rows(supply)
    with Store.open_memory() as store:
        store.append([*ESTATE, *said_at(far)])
        assert posted(store, far)[:2] == (far, [])
        assert posted(store, NOW)[:2] == (at(90), [(CARD,)])
        assert store.rows(supply) == expected


def test_an_agent_may_be_a_day_ahead() -> None:
    with Store.open_memory() as store:
        store.append([*ESTATE, *said_at(NOW + DAY_US)])
        as_of, _cards, found = posted(store, NOW)
        assert as_of == NOW + DAY_US
        assert "agent_clock_ahead" not in found


def test_a_server_whose_clock_is_far_behind_goes_on_by_what_it_saw_itself_and_says_so() -> None:
    behind = at(90) - 400 * DAY_US
    with Store.open_memory() as store:
        store.append([*ESTATE, *said_at(FAR[0])])
        as_of, cards, found = posted(store, behind)
        assert (as_of, cards) == (at(90), [(CARD,)])
        assert (found["server_clock_behind"], found["agent_clock_ahead"]) == ("error", "error")


def test_an_estate_that_agents_alone_tell_of_is_not_empty_under_a_clock_that_is_behind() -> None:
    seen = msgspec.structs.replace(card(90), source="agent")
    with Store.open_memory() as store:
        store.append([seen, *said_at(at(90))])
        as_of, cards, _found = posted(store, at(90) - 400 * DAY_US)
        assert (as_of, cards) == (at(90), [(CARD,)])


def test_agents_that_keep_time_leave_no_finding_of_clocks() -> None:
    with Store.open_memory() as store:
        store.append([*ESTATE, *said_at(at(90) + HOUR_US)])
        as_of, _cards, found = posted(store, NOW)
        assert as_of == at(150)
        assert not {"agent_clock_ahead", "server_clock_behind"} & set(found)
