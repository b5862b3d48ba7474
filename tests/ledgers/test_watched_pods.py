"""What a watch says of a pod: that it was there throughout a stretch, that it was deleted, or that it was missed."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from tests.ledgers.facts_of import at, card, grant, holdings, listing, node, pod, seen


def stretch(start: float, end: float) -> SourceStatus:
    return listing(end, observed_from_at=at(start), observed_to_at=at(end))


def sighting(kind: str, minute: float, uid: str = "u1") -> Sighting:
    return Sighting(source="kube_api", natural_key=uid, object_kind=kind, object_uid=uid, **seen(minute))


WORLD: list[Fact] = [
    node(10), card(10), card(90), pod(10, scheduled_at=1), grant(10, quantity=1), listing(10),
    pod(10, "u2", scheduled_at=1), grant(10, "u2"),
]  # fmt: skip


def held(facts: list[Fact], uid: str = "u1") -> dict[str, Any]:
    (row,) = [row for row in holdings([*WORLD, *facts]) if row["pod_uid"] == uid]
    return {name: row[name] for name in ("ended_at", "ended_before_at", "known_to_at", "end_basis")}


@pytest.mark.parametrize(
    ("facts", "ended_at", "ended_before_at", "known_to_at", "basis"),
    [
        ([stretch(10, 40), stretch(40, 70)], None, None, 70, None),
        (
            [stretch(10, 40), sighting("pod", 50), sighting("pod_gone", 50), stretch(40, 70)],
            50,
            None,
            50,
            "watch_deleted",
        ),
        ([stretch(10, 40), sighting("pod", 40), sighting("pod_gone", 60), stretch(60, 90)], 40, 60, 40, "vanished"),
        ([stretch(10, 40), listing(60), pod(60, "u2"), stretch(60, 90)], 40, 60, 40, "vanished"),
        ([stretch(10, 40), stretch(60, 90)], None, None, 90, None),
    ],
    ids=["there throughout", "deleted live", "missed by a relist", "missed after a restart", "there after a gap"],
)
def test_a_watched_pod_is_held_as_long_as_it_was_seen(
    facts: list[Fact], ended_at: float, ended_before_at: float, known_to_at: float, basis: str
) -> None:
    found = held(facts)
    assert found == {
        "ended_at": ended_at,
        "ended_before_at": ended_before_at,
        "known_to_at": known_to_at,
        "end_basis": basis,
    }


def test_a_pod_that_nobody_reported_gone_is_untouched_by_the_end_of_another() -> None:
    facts: list[Fact] = [stretch(10, 40), sighting("pod", 50), sighting("pod_gone", 50), stretch(40, 70)]
    assert held(facts, "u2") == {"ended_at": None, "ended_before_at": None, "known_to_at": 70, "end_basis": None}


def test_a_pod_that_was_seen_to_end_by_itself_ends_when_its_containers_did() -> None:
    facts: list[Fact] = [
        pod(50, phase="Succeeded", scheduled_at=1, last_container_end_at=45),
        sighting("pod", 55),
        sighting("pod_gone", 55),
        stretch(10, 70),
    ]
    assert held(facts)["ended_at"] == 45
    assert held(facts)["end_basis"] == "container_finished"
