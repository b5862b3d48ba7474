"""The parts of an hour that a window cuts add up to the hour as it is booked, also of holders whose card no source names."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.answers.q02_consumption import ConsumptionSpec, answer
from steelyard.facts.base import Fact
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import Window
from steelyard.store import Store
from tests.ledgers.facts_of import at, card, grant, listing, node, pod

CARDS = ("GPU-a", "GPU-b")
SUMS = ("gpu_hours_granted", "memory_granted_mib_hours", "gpu_hours_overcommitted")


def world(asking: dict[str, int], named: bool) -> list[Fact]:
    """A node of two cards, seen for two hours; ``named``: one pod holds a named card. Others hold so many cards that no source names, one
    from 80 on."""
    facts: list[Fact] = [listing(minute) for minute in (0, 60, 120)]
    for minute in (0, 60, 120):
        facts += [node(minute), *(card(minute, uuid) for uuid in CARDS)]
        if named:
            facts += [
                pod(minute, "u0", gpu_count=1, scheduled_at=1), grant(minute, "u0", scheme="pod_resources", device_uuid=CARDS[0]),
            ]  # fmt: skip
        for number, (uid, cards) in enumerate(asking.items()):
            since = 1 if number == 0 else 80
            if minute >= since:
                facts += [pod(minute, uid, gpu_count=cards, scheduled_at=since), grant(minute, uid, quantity=cards)]
    return facts


def sums(store: Store, start: int, end: int) -> dict[str, Any]:
    result = answer(store, ConsumptionSpec(window=Window(at(start), at(end))))
    return {figure.name: figure.value for figure in result.figures if figure.name in SUMS}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("asking", [{"u1": 1}, {"u1": 2}, {"u1": 1, "u2": 2}, {"u1": 3, "u2": 3}])
def test_two_halves_of_an_hour_are_the_hour_whatever_is_asked_of_cards_that_no_source_names(
    asking: dict[str, int], named: bool
) -> None:
    with Store.open_memory() as store:
        store.append(world(asking, named))
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)))
        for cut in (75, 90):
            whole, first, last = (sums(store, *span) for span in ((60, 120), (60, cut), (cut, 120)))
            for name in SUMS:
                assert float(first[name]) + float(last[name]) == pytest.approx(float(whole[name]), abs=1e-6), name
        assert float(sums(store, 90, 120)["gpu_hours_granted"]) <= 1.0, "two cards for half an hour"
