"""What goes first when the spool is full: samples to one a minute, then samples, then what is merely said again; events last.

``spool`` applies the levels one after another, oldest batch first. Whatever is given up is counted in a finding that stands in the batch in
its place, so that the gap is explained where it is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.app.agent.batch import SAMPLES, Batch
from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.transition import Transition
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import MINUTE_US
from steelyard.sources.shared.context import ReadContext

MINUTES: Final = 1
NO_SAMPLES: Final = 2
EVENTS_ALONE: Final = 3
SERIES_MAX: Final = 10_000
LEVELS: Final = (MINUTES, NO_SAMPLES, EVENTS_ALONE)
_EVENTS: Final = (Event, Transition, Finding)
_DROPPED: Final = "agent_batches_dropped"
_EVENTS_DROPPED: Final = "agent_events_dropped"
_WORDS: Final = {
    MINUTES: "samples thinned to one a minute",
    NO_SAMPLES: "samples given up",
    EVENTS_ALONE: "all but events and findings given up",
}


@dataclass(slots=True)
class Thinning:
    """Over the batches of a spool, oldest first. ``kept``: the last minute of which a sample was kept, by table and object."""

    kept: dict[tuple[str, str], int] = field(default_factory=dict)

    def thinned(self, batch: Batch, level: int) -> list[Fact]:
        """The facts that stay at this level, and the finding that counts the others."""
        stay = [fact for fact in batch.facts if self._stays(fact, level)]
        dropped = len(batch.facts) - len(stay)
        if dropped:
            stay.append(_finding(batch, level, dropped))
        return stay

    def _stays(self, fact: Fact, level: int) -> bool:
        if level >= EVENTS_ALONE:
            return isinstance(fact, _EVENTS)
        if not isinstance(fact, SAMPLES):
            return True
        if level >= NO_SAMPLES:
            return False
        key, minute = (fact.TABLE, fact.natural_key), fact.occurred_at // MINUTE_US
        if self.kept.get(key) == minute:
            return False
        if key not in self.kept and len(self.kept) >= SERIES_MAX:
            self.kept.clear()
        self.kept[key] = minute
        return True


class Loss(msgspec.Struct, frozen=True):
    """What was given up as a whole: batches, facts in them, events among those."""

    batches: int = 0
    facts: int = 0
    events: int = 0

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.batches + other.batches, self.facts + other.facts, self.events + other.events)


def loss_of(batch: Batch) -> Loss:
    """What is lost with a batch; one that only tells of an earlier loss is that loss."""
    told = [fact for fact in batch.facts if isinstance(fact, Finding) and fact.code in (_DROPPED, _EVENTS_DROPPED)]
    others = len(batch.facts) - len(told)
    own = Loss(1, others, events_in(batch)) if others else Loss()
    return sum((msgspec.json.decode(fact.evidence, type=Loss) for fact in told), own)


def given_up(loss: Loss, ctx: ReadContext) -> Finding:
    """The finding of batches that are given up with all that was in them."""
    batches = ngettext("{count} batch", "{count} batches", loss.batches).format(count=loss.batches)
    events = ngettext("{count} event", "{count} events", loss.events).format(count=loss.events)
    what = f"{batches} with {events}" if loss.events else f"{batches}, no events"
    return ctx.finding(
        "agent",
        _EVENTS_DROPPED if loss.events else _DROPPED,
        f"node {ctx.node}",
        f"the server was away and the spool full: {what} were given up; let it be larger (--spool-max)",
        severity="error" if loss.events else "warning",
        evidence=msgspec.structs.asdict(loss),
    )


def events_in(batch: Batch) -> int:
    """How many events and transitions a batch holds."""
    return sum(isinstance(fact, Event | Transition) for fact in batch.facts)


def _finding(batch: Batch, level: int, dropped: int) -> Finding:
    """Dated as the batch is, so that it stands where the samples are missing."""
    head = batch.head
    ctx = ReadContext(cluster=head.cluster or "default", file="spool", node=head.agent, observed_at=head.made_at)
    return ctx.finding(
        "agent",
        "samples_thinned",
        f"node {head.agent}",
        f"the server was away and the spool full: {_WORDS[level]} in this batch",
        severity="info" if level == MINUTES else "warning",
        evidence={"dropped": dropped, "level": level, "boot": head.boot, "sequence": head.sequence},
    )
