"""Whether the bandwidth of a card is spent, so that its free share exists on paper alone: by any of its holders, and by its own counters.

Q3's ``cards``, ``fits`` and ``fragmentation`` ask it, so they cannot disagree about a card. The trick to know: the card is looked at and not the
shares: a small holder spends the bandwidth of all, and so does a process that holds nothing.

Sceptic's command: ``dcgmi dmon -i <gpu> -e 1002,1005``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.answers.reading import Reading
from steelyard.primitives.instant import Instant, Window

SQL: Final = Path(__file__).with_suffix(".sql")
SPENT: Final = ("memory_bound", "saturated")


@dataclass(frozen=True, slots=True)
class CardSpent:
    """Of a card in a grain: ``spent``, one of ``SPENT`` or None; ``is_measured``: whether its own counters were seen, ``is_at_work``: whether they
    say that anything works on it."""

    spent: str | None
    is_measured: bool
    is_at_work: bool = False


NOT_TOLD: Final = CardSpent(None, False)


def spent_cards(reading: Reading, window: Window) -> Mapping[tuple[str, str, Instant], CardSpent]:
    """By cluster, card and grain, of the grains that begin in the window. ``reading`` has the statements of ``SQL``."""
    rows = reading.run("spent_cards", from_us=window.start, to_us=window.end)
    return {
        (row["cluster"], row["device_uuid"], int(row["grain_us"])): CardSpent(
            row["spent"], bool(row["is_measured"]), bool(row["is_at_work"])
        )
        for row in rows
    }
