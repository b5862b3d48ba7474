"""What earlier rounds of a source already said, so that what does not change is said once an hour and not every 30 seconds.

One per collector, kept by ``app`` over its rounds; an import needs none. A restart forgets it: then everything is said once more.
"""

from __future__ import annotations

from typing import Final

from steelyard.primitives.instant import HOUR_US, Instant

ENTRIES_MAX: Final = 1_000_000


class RoundMemory:
    """Last value and instant said, by key."""

    def __init__(self, entries_max: int = ENTRIES_MAX, repeat_us: int = HOUR_US) -> None:
        self._said: dict[str, tuple[object, Instant]] = {}
        self._entries_max = entries_max
        self._repeat_us = repeat_us
        self.kept: dict[str, object] = {}
        """What a reader keeps from one round to the next, under its own name, in bounds of its own."""

    def is_news(self, key: str, value: object, at: Instant, *, once: bool = False) -> bool:
        """Whether to say it (and note that it was said): the value is another one, or an hour has passed (not with ``once``)."""
        known = self._said.get(key)
        if known is not None and known[0] == value and (once or abs(at - known[1]) < self._repeat_us):
            return False
        if known is not None or len(self._said) < self._entries_max:
            self._said[key] = (value, at)
        return True
