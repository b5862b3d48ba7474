"""What the label text of a series means, remembered from one scrape of a target to the next.

One cache per target, handed to each ``read_exposition`` of it. The trick to know: two generations are kept, what the present scrape
named and what the one before named, so a target whose labels change with every scrape costs two scrapes of memory and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Series = tuple[str, Mapping[str, str], str | None]
"""Name, labels and declared type of a series. The labels are shared by all its points and are never changed."""

ENTRIES_MAX: Final = 1_000_000
TYPES_MAX: Final = 100_000


class SeriesCache:
    """``fresh`` and ``stale`` map label text (``name{...``, without the closing brace, or a bare name) to its series."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self.fresh: dict[str, Series] = {}
        self.stale: dict[str, Series] = {}
        self._entries_max = entries_max
        self._types: dict[str, str] = {}

    def __len__(self) -> int:
        """How many label texts are remembered."""
        return len(self.fresh.keys() | self.stale.keys())

    def turn(self) -> None:
        """A new scrape begins: what the one before the last one named, and the last did not, is forgotten."""
        self.stale, self.fresh = self.fresh, {}

    def type_of(self, name: str) -> str | None:
        """The type that the text, or an earlier one of the target, declared of a metric."""
        return self._types.get(name)

    def declare(self, name: str, declared: str) -> None:
        """A text declares a type; where it was another one before, what is remembered of the series no longer holds."""
        known = self._types.get(name)
        if known == declared or (known is None and len(self._types) >= TYPES_MAX):
            return
        self._types[name] = declared
        if known is not None:
            self.fresh.clear()
            self.stale.clear()

    def keep(self, text: str, series: Series) -> None:
        """Remember a series for this scrape and the next, while there is room."""
        if len(self.fresh) < self._entries_max:
            self.fresh[text] = series
