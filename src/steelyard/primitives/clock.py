"""Where "now" comes from. Nothing else reads the wall clock, so tests never sleep."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from steelyard.primitives.instant import Instant


class Clock(Protocol):
    """Tells the time in UTC microseconds."""

    def now(self) -> Instant:
        """The present instant."""
        ...


class WallClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """The present instant by ``clock_gettime(CLOCK_REALTIME)``."""
        return time.time_ns() // 1_000


@dataclass(slots=True)
class FixedClock:
    """A clock that stands where a test put it."""

    instant: Instant

    def now(self) -> Instant:
        """The instant it was set to."""
        return self.instant
