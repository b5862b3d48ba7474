"""What makes the free share of a card exist on paper alone: its bandwidth is spent, or its memory is in use and nobody was granted it.

Q3's ``cards``, ``fits`` and ``fragmentation`` ask it, so they cannot disagree about a card. The trick to know: the card is looked at and not the
shares: a small holder spends the bandwidth of all, and so does a process that holds nothing.

Sceptic's commands: ``dcgmi dmon -i <gpu> -e 1002,1005``; ``nvidia-smi --query-gpu=uuid,memory.used --format=csv`` beside what was granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.answers.reading import Reading
from steelyard.definitions.share import WHOLE_PPM
from steelyard.primitives.instant import HOUR_US, Instant, Window

SQL: Final = Path(__file__).with_suffix(".sql")
SPENT: Final = ("memory_bound", "saturated")
_LOOKED_BACK_US: Final = HOUR_US


@dataclass(frozen=True, slots=True)
class CardSpent:
    """Of a card in a grain: ``spent``, one of ``SPENT`` or None; ``is_measured``: whether its own counters were seen, ``is_at_work``: whether they
    say that anything works on it."""

    spent: str | None
    is_measured: bool
    is_at_work: bool = False


@dataclass(frozen=True, slots=True)
class UnheldMemory:
    """Memory of a card that is in use and that none of its holders was granted, a GiB at least, at ``at``. ``whole_mib`` None: the size of the
    card is not known."""

    at: Instant
    unheld_mib: int
    whole_mib: int | None

    @property
    def unheld_ppm(self) -> int | None:
        """Its part of the card, rounded up."""
        return None if not self.whole_mib else min(WHOLE_PPM, -(-self.unheld_mib * WHOLE_PPM // self.whole_mib))


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


def unheld_memory(reading: Reading, window: Window) -> Mapping[tuple[str, str], UnheldMemory]:
    """By cluster and card, as of its last sample in the window, both ends included; a card that is not there is not known to have any."""
    rows = reading.run("unheld_memory", from_us=window.start, to_us=window.end)
    return {
        (row["cluster"], row["device_uuid"]): UnheldMemory(
            int(row["sampled_us"]), int(row["used_mib"]) - int(row["granted_mib"]), row["whole_mib"]
        )
        for row in rows
    }


def unheld_at(reading: Reading, at: Instant) -> Mapping[tuple[str, str], UnheldMemory]:
    """The same at an instant: by the last sample of the hour before it."""
    return unheld_memory(reading, Window(at - _LOOKED_BACK_US, at))
