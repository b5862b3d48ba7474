"""What a collector is: something that yields the facts of one round, again and again.

``app.collection`` runs each in a thread of its own and hands what it yields to the one writer. A collector knows nothing of the others, of
the store, or of when it is due; it has timeouts of its own, keeps what it remembers between rounds itself, and never makes a fact of what
it did not see.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from steelyard.facts.base import Fact
from steelyard.primitives.instant import DurationUs, Instant


class Collector(Protocol):
    """One source that is looked at in rounds. ``name``: unique among the collectors, such as ``scrape/dcgm``. ``source``: what its own
    findings and failures carry as their source, such as ``kube_api``. ``interval_us``: from the start of a round to the start of the next. One
    that reconnects by itself may have ``backoff_us_max``, the longest pause between its rounds after failures; one that looks after the
    store and sees nothing of the world has ``is_upkeep = True``, and is run on request only when it is named."""

    @property
    def name(self) -> str:
        """Unique among the collectors; labels its metrics and names it on the command line."""
        ...

    @property
    def source(self) -> str:
        """The source of the findings and statuses about the collector as a whole."""
        ...

    @property
    def interval_us(self) -> DurationUs:
        """From the start of a round to the start of the next, more than 0."""
        ...

    def collect(self, at: Instant) -> Iterable[Fact]:
        """The facts of the round that begins at ``at``; AT_OBSERVATION in them stands for ``at``.

        A part that fails (one target of several) yields a ``source_status`` with ``status = failed`` and a finding, and the rest goes on.
        Raises SourceUnavailable where nothing was seen at all: then what was yielded before it is kept and nothing else is made up.
        """
        ...

    def close(self) -> None:
        """Let go of connections and files, and cut short whatever ``collect`` may be waiting for in another thread. Twice is harmless."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A collector that goes on where it was when the process ended. Its cursor is stored in the transaction of the round it belongs to, so
    that after a kill nothing that was acknowledged is lost and what is read again is found to be known."""

    def resume(self, cursor: str | None) -> None:
        """Called once before the first round, with the cursor of the last round that was stored; None = there was none."""
        ...

    def cursor(self) -> str | None:
        """Where it stands after the round that was just collected; None = nowhere worth keeping."""
        ...
