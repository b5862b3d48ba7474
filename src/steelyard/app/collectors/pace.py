"""When a collector is due, and when the ledgers are: plain arithmetic over monotonic microseconds, without a clock of its own.

The trick to know: rounds lie on slots ``start + phase + n x interval``, each moved by a little that hangs on the name and the slot alone. So
collectors of one interval do not ask all at once, a restart asks at other moments than its neighbours, and no test needs luck.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from steelyard.primitives.instant import SECOND_US, DurationUs

Moment = int
"""Microseconds of a clock that only goes forward; its zero means nothing."""

START_SPREAD_US: Final[DurationUs] = 5 * SECOND_US
"""First rounds are spread over so much, or over a tenth of the interval where that is less."""

BACKOFF_MAX_US: Final[DurationUs] = 600 * SECOND_US
"""A source that stays down is asked at least this often (or once an interval, where that is longer)."""

_JITTER_PARTS: Final = 20
_DOUBLINGS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Due:
    """When the next round is due, and how many slots before it were passed over because the last round was not done yet."""

    at: Moment
    skipped_count: int


@dataclass(slots=True)
class Schedule:
    """The slots of one collector. ``begin`` once, then ``after`` each round."""

    name: str
    interval_us: DurationUs
    backoff_max_us: DurationUs = BACKOFF_MAX_US
    _base: Moment = field(default=0, init=False)
    _slot: int = field(default=0, init=False)

    def begin(self, now: Moment) -> Moment:
        """The first round: soon, and not at the same moment as the others."""
        spread = max(1, min(START_SPREAD_US, self.interval_us // 10))
        self._base, self._slot = now + _draw(self.name, spread), 0
        return self._base

    def after(self, now: Moment, failures_count: int, retry_after_us: DurationUs = 0) -> Due:
        """The round after one that ended at ``now``. ``failures_count``: rounds that failed in a row, the last one included; 0 = it was well."""
        if failures_count:
            wait = min(self.interval_us << min(failures_count - 1, _DOUBLINGS_MAX), self.backoff_max_us)
            wait = max(wait, self.interval_us, min(retry_after_us, self.backoff_max_us))
            moved = _draw(f"{self.name}/{failures_count}", max(1, wait // _JITTER_PARTS))
            self._base, self._slot = now + wait + moved, 0
            return Due(self._base, 0)
        passed = max(0, (now - self._base) // self.interval_us)
        skipped = max(0, passed - self._slot)
        self._slot = self._slot + skipped + 1
        moved = _draw(f"{self.name}#{self._slot}", max(1, self.interval_us // _JITTER_PARTS))
        return Due(max(now, self._base + self._slot * self.interval_us + moved), skipped)


@dataclass(slots=True)
class PostingPace:
    """When facts that came in are posted: not more often than every ``interval_us``, and never for more than about a fifth of the time."""

    interval_us: DurationUs
    rest_factor: int = 4
    _next: Moment | None = field(default=None, init=False)

    def due(self, now: Moment) -> Moment:
        """The moment from which a posting may begin."""
        return now if self._next is None else self._next

    def posted(self, began: Moment, ended: Moment) -> None:
        """A posting took from ``began`` to ``ended``, with success or without."""
        self._next = max(began + self.interval_us, ended + self.rest_factor * (ended - began))


def _draw(text: str, below: int) -> int:
    """A number from 0 up to ``below`` that hangs on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8]) % below
