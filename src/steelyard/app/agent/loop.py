"""The agent's life: a round each interval, kept on disk before anything else, until somebody says that it is enough.

The main thread looks and keeps, ``delivery`` sends, ``metrics_port`` answers scrapes. The trick to know: a disk that takes nothing must not lose
events, so what could not be kept goes along with the next round, samples only as far as there is room in memory.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from steelyard.app.agent.batch import SAMPLES
from steelyard.app.agent.delivery import Delivery
from steelyard.app.agent.rounds import AgentRounds, Seen
from steelyard.app.agent.spool import Spool
from steelyard.facts.base import Fact
from steelyard.primitives.i18n import _, ngettext
from steelyard.sources.shared.context import ReadContext

CARRIED_MAX: Final = 20_000
"""Facts that are held in memory while the disk takes nothing. Beyond them samples go first."""

GRACE_SECONDS: Final = 5.0


class Shown(Protocol):
    """Whoever shows the last round to scrapes."""

    def show(self, seen: Seen) -> None:
        """Answer with this round from now on."""
        ...


@dataclass(slots=True)
class AgentLoop:
    """Runs until ``stop`` is set. ``delivery`` None: nothing is delivered (only scraped). ``restart_reason``: asked after each round."""

    rounds: AgentRounds
    interval_seconds: float
    spool: Spool | None
    delivery: Delivery | None
    shown: Shown | None
    say: Callable[[str], None]
    restart_reason: Callable[[], str | None] = lambda: None
    stop: threading.Event = field(default_factory=threading.Event)
    _carried: list[Fact] = field(default_factory=list)
    _dropped: int = 0
    _trouble: str | None = None

    def run(self) -> str | None:
        """Rounds until the end; None, or why only a new process can go on. What waits is delivered for a few seconds more."""
        if self.delivery is not None:
            self.delivery.start()
        reason = None
        due = time.monotonic()
        try:
            while not self.stop.is_set() and reason is None:
                self._keep(self.rounds.round())
                reason = self.restart_reason()
                due = max(due + self.interval_seconds, time.monotonic())
                if reason is None:
                    self.stop.wait(due - time.monotonic())
        finally:
            if self.delivery is not None:
                self.delivery.stop(GRACE_SECONDS)
        return reason

    def end_on_signals(self) -> None:
        """Let SIGTERM and SIGINT end the loop after the round that is under way."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.stop.set())

    def _keep(self, seen: Seen) -> None:
        if self.shown is not None:
            self.shown.show(seen)
        if self.spool is None:
            return
        facts = [*self._carried, *seen.facts]
        told = [self._loss(seen)] if self._dropped else []
        try:
            self.spool.put([*facts, *told], seen.cursors)
        except OSError as error:
            self._carried = _bounded(facts)
            self._dropped += len(facts) - len(self._carried)
            reason = error.strerror or str(error)
            if reason != self._trouble:
                self.say(_("the spool takes nothing: {reason}; held in memory").format(reason=reason))
            self._trouble = reason
            return
        if self._trouble is not None:
            self.say(_("the spool takes batches again"))
        self._carried, self._trouble, self._dropped = [], None, 0

    def _loss(self, seen: Seen) -> Fact:
        """What was given up while the disk took nothing."""
        ctx = ReadContext(cluster=self.rounds.cluster, file="spool", node=self.rounds.node, observed_at=seen.at)
        return ctx.finding(
            "agent",
            "agent_facts_dropped",
            f"node {self.rounds.node}",
            "the spool took nothing, and there was no room in memory: "
            + ngettext("{count} fact was given up", "{count} facts were given up", self._dropped).format(
                count=self._dropped
            )
            + ", oldest samples first",
            evidence={"dropped": self._dropped, "node": self.rounds.node},
        )


def _bounded(facts: list[Fact]) -> list[Fact]:
    """The facts within the bound: the oldest samples go first, then the oldest of the rest."""
    surplus = len(facts) - CARRIED_MAX
    if surplus <= 0:
        return facts
    stay: list[Fact] = []
    for fact in facts:
        if surplus > 0 and isinstance(fact, SAMPLES):
            surplus -= 1
        else:
            stay.append(fact)
    return stay[-CARRIED_MAX:]
