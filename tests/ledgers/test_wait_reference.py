"""The wait ledger against the slow reference, over random histories of one workload: told in any order, doubled, late, and with parts lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.ledgers.registry import model_text
from steelyard.store import Store
from tests.ledgers.reference_wait import Segment, waits
from tests.ledgers.wait_facts import condition, decision, evicted, post, rows_of, workload

CONDITION = {
    "reserved": ("QuotaReserved", "True", "QuotaReserved"),
    "unreserved": ("QuotaReserved", "False", "PendingEvaluation"),
    "admitted": ("Admitted", "True", "Admitted"),
    "evicted": ("Evicted", "True", "Preempted"),
    "deactivated": ("Evicted", "True", "DeactivatedDueToAdmissionCheck"),
    "ready": ("PodsReady", "True", "Started"),
    "finished": ("Finished", "True", "Succeeded"),
}
VERDICT = {"reserved": "reserved", "admitted": "admitted", "evicted": "evicted", "deactivated": "deactivated"}
STAGES = ("queue", "release_lag", "backoff", "admission_check")


@dataclass
class Life:
    """What really happened, in seconds; seen at ``seen_at``."""

    changes: list[tuple[int, str]] = field(default_factory=list)
    backoffs: list[int] = field(default_factory=list)
    seen_at: int = 0
    evictions: int = 0
    phase: str = "pending"


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Up to four rounds of wait, reservation, admission and eviction, the last of which may stop anywhere."""
    life, now, short = Life(), 0, st.integers(0, 30)
    rounds = draw(st.integers(1, 4))
    for number in range(rounds):
        last = number == rounds - 1
        if last and draw(st.booleans()):
            break
        now += draw(short) + (1 if number == 0 else 0)
        life.changes.append((now, "reserved"))
        life.phase = "reserved"
        if draw(st.sampled_from((True, True, False))):
            now += draw(short)
            life.changes.append((now, "admitted"))
            life.phase = "admitted"
        elif last:
            break
        if last:
            if draw(st.booleans()):
                now += 1 + draw(short)
                life.changes.append((now, "finished"))
            break
        now += 3 + draw(short)  # an event within a second of a stamp is that change
        life.changes.append((now, "evicted"))
        life.evictions += 1
        now += draw(short)
        life.changes.append((now, "unreserved"))
        life.phase = "pending"
        if draw(st.booleans()):
            pause = 1 + draw(short)
            life.backoffs.append(now + pause)
            now += pause + draw(short)
    life.seen_at = now + draw(short)
    return life


def facts_of(life: Life, change: tuple[int, str], ways: set[str]) -> list[Fact]:
    """One change as the object, the audit log or an event tell it; the event comes a part of a second later."""
    at, what = change
    item, value, reason = CONDITION[what]
    found: list[Fact] = []
    if "object" in ways or (what not in VERDICT and "audit" not in ways):
        found.append(condition(at, item, value, reason=reason))
        found.append(condition(at, item, value, reason=reason, message="in other words"))
    if "audit" in ways:
        found.append(condition(at, item, value, uid="name:team-a/w1", source="audit_log", reason=reason))
    if "event" in ways and what in VERDICT:
        found.append(decision(at + 0.4, VERDICT[what], reason=f"Of{reason}"))
    return found


def _evictions(life: Life, by: int) -> int:
    return sum(what == "evicted" and at <= by for at, what in life.changes)


WAYS = st.sets(st.sampled_from(("object", "audit", "event")), min_size=1)


def tell(draw: st.DrawFn, life: Life, changes: list[tuple[int, str]]) -> list[Fact]:
    facts: list[Fact] = [workload(life.seen_at, phase=life.phase, evictions=evicted(life.evictions))]
    facts += [
        workload(
            until - 1,
            phase="pending",
            requeue_at=until,
            requeue_count=number + 1,
            evictions=evicted(_evictions(life, until - 1)),
        )
        for number, until in enumerate(life.backoffs)
    ]
    for change in changes:
        facts += facts_of(life, change, draw(WAYS))
    return draw(st.permutations(facts))


@st.composite
def tellings(draw: st.DrawFn) -> tuple[Life, list[Fact], int]:
    life = draw(lives())
    facts = tell(draw, life, life.changes)
    return life, facts, draw(st.integers(0, len(facts)))


@st.composite
def lossy_tellings(draw: st.DrawFn) -> tuple[Life, list[Fact]]:
    life = draw(lives())
    kept = [change for change in life.changes if draw(st.booleans())]
    return life, tell(draw, life, kept)


def posted(*batches: list[Fact]) -> list[dict[str, Any]]:
    """The ledger after each batch was appended and posted in turn."""
    with Store.open_memory() as store:
        for batch in batches:
            store.append(batch)
            post(store)
        return rows_of(store)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        post(opened)
        yield opened


def modelled(store: Store, facts: list[Fact]) -> list[dict[str, Any]]:
    """What the models yield from these facts alone; nothing is posted, which takes a tenth of the time."""
    for table in ("gang", "transition", "decision"):
        store.execute(f"DELETE FROM fact.{table}")
    store.append(facts)
    for stem in ("gang", "demand", "demand_step"):
        store.execute(f"CREATE OR REPLACE TABLE dim.{stem} AS {model_text(f'dimensions/{stem}.sql')}")
    store.execute(f"CREATE OR REPLACE TABLE dim.modelled_wait AS {model_text('wait.sql')}")
    return rows_of(store, "dim.modelled_wait")


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(
        (row["stage"], row["started_at"], row["ended_at"] is None, row["ended_at"] or 0, row["ended_by"] or "", row["unknown_reason"] or "")
        for row in rows
        if row["stage"] in STAGES
    )  # fmt: skip


def referred(life: Life) -> list[tuple[Any, ...]]:
    expected = [*waits(0, life.changes, life.backoffs, life.seen_at, life.evictions), *_unchecked(life)]
    return sorted(
        (each.stage, each.start, each.end is None, each.end or 0, each.by or "", each.unknown or "")
        for each in expected
    )


@given(tellings())
@settings(max_examples=100)
def test_any_telling_of_a_history_gives_its_segments(store: Store, telling: tuple[Life, list[Fact], int]) -> None:
    life, facts, _late = telling
    assert plain(modelled(store, facts)) == referred(life)


@given(tellings())
@settings(max_examples=15)
def test_facts_that_come_late_restate_what_was_posted(telling: tuple[Life, list[Fact], int]) -> None:
    life, facts, late = telling
    assert plain(posted(facts[:late], facts[late:])) == referred(life)


def _unchecked(life: Life) -> list[Segment]:
    """Reserved, and still waiting for a check when last seen."""
    waits_for_check = life.changes and life.changes[-1][1] == "reserved"
    return [Segment("admission_check", life.changes[-1][0], None)] if waits_for_check else []


@given(lossy_tellings())
@settings(max_examples=60)
def test_what_was_lost_is_never_told_as_a_wait(store: Store, telling: tuple[Life, list[Fact]]) -> None:
    life, facts = telling
    true = {
        (each.start, each.end)
        for each in waits(0, life.changes, life.backoffs, life.seen_at, life.evictions)
        if each.stage == "queue" and each.end is not None
    }
    told = {
        (row["started_at"], row["ended_at"])
        for row in modelled(store, facts)
        if row["stage"] == "queue" and row["ended_by"] == "reserved" and row["unknown_reason"] is None
    }
    assert told <= true
