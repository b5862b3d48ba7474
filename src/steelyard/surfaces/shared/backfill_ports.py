"""What a surface may ask about the past: take in what a Prometheus remembers, chunk by chunk, and say how far that is.

``app.backfilling`` implements ``Backfiller``; the plain values here have one JSON form, which the server sends and ``--json`` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from steelyard.primitives.instant import DurationUs, Instant, Window, format_instant

RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
PLANNED: Final = "planned"


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """What to take in. ``prometheus``: its name in the settings; None = the only one there is. ``start`` None = as far back as it reaches, up to the
    horizon of the settings. ``end`` None = until now. ``chunk_us`` None = as the settings say. ``dry_run``: only say what is missing."""

    prometheus: str | None = None
    start: Instant | None = None
    end: Instant | None = None
    chunk_us: DurationUs | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class FilledChunk:
    """A stretch that is taken in now, and how many of its facts were new."""

    window: Window
    new_count: int


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """How a back-fill stands. ``window`` and ``chunks_count`` (how many were missing when it began) are None until that is known. ``missing``: the
    chunks that are, in a dry run alone. ``filled``: the chunks done, in order, ``filled_before`` of which are left out."""

    prometheus: str
    state: str
    window: Window | None = None
    chunks_count: int | None = None
    missing: Sequence[Window] = ()
    filled: Sequence[FilledChunk] = ()
    filled_before: int = 0
    new_count: int = 0
    postings_count: int = 0
    message: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "prometheus": self.prometheus,
            "state": self.state,
            "from": None if self.window is None else format_instant(self.window.start),
            "to": None if self.window is None else format_instant(self.window.end),
            "chunks_count": self.chunks_count,
            "filled_count": self.filled_before + len(self.filled),
            "new_count": self.new_count,
            "postings_count": self.postings_count,
            "message": self.message,
            "missing": [_span(part) for part in self.missing],
            "filled": [{**_span(part.window), "new_count": part.new_count} for part in self.filled],
        }


BackfillProgress = Callable[[FilledChunk, int, int], None]
"""Told each chunk that is done, how many are, and of how many."""


class Backfiller(Protocol):
    """Takes in the past of one data directory."""

    def run(self, request: BackfillRequest, progress: BackfillProgress, *, follow: bool = True) -> BackfillReport:
        """Take it in. ``follow`` False: where a server does it, do not wait for its end.

        Raises UsageError where no such Prometheus is in the settings or the server is busy with another stretch of it, SourceUnavailable where it
        stops to answer: the chunks done so far stay, and the next run goes on behind them.
        """
        ...


def _span(window: Window) -> dict[str, Any]:
    return {"from": format_instant(window.start), "to": format_instant(window.end)}
