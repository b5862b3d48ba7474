"""Stamps of the soft-partition layers: Unix seconds on pods, and the handshake of a node's device plugin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from steelyard.primitives.instant import INSTANT_MAX, SECOND_US, Instant, from_datetime, parse_instant

_SECONDS: Final = re.compile(r"[0-9]{1,12}\Z")
_PLAIN: Final = re.compile(r"([0-9]{4})[.-]([0-9]{2})[.-]([0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,9})?")
_ZONED: Final = re.compile(r"([0-9-]{10}) ([0-9:]{8})((?:\.[0-9]{1,9})?) ([+-][0-9]{4})(?: |\Z)")
HANDSHAKES: Final = ("Reported", "Requesting", "Deleted")


@dataclass(frozen=True, slots=True)
class Handshake:
    """``word`` is Reported, Requesting or Deleted; ``at`` its stamp, None where it could not be read."""

    word: str
    at: Instant | None


def parse_unix_seconds(text: str) -> Instant:
    """Whole seconds since the epoch as an instant. Raises ValueError for anything else."""
    if not _SECONDS.match(text.strip()) or int(text) * SECOND_US > INSTANT_MAX:
        raise ValueError(f"expected whole seconds since 1970, such as 1796000403; found {text[:40]!r}")
    return int(text) * SECOND_US


def parse_handshake(text: str, zone: str = "UTC") -> Handshake:
    """A handshake such as ``Requesting_2026-11-30 02:00:30`` or ``Reported 2026-11-30 02:00:04.4 +0000 UTC m=+1.7``.

    Dates with dots (releases up to 2.4 and Volcano vGPU) read the same. A stamp without an offset is the scheduler's local time
    and is read in ``zone``. Raises ValueError where the first word is not one of the three.
    """
    word = next((word for word in HANDSHAKES if text.startswith(word)), None)
    if word is None:
        raise ValueError(f"expected a handshake that starts with {', '.join(HANDSHAKES)}; found {text[:60]!r}")
    return Handshake(word, _stamp(text[len(word) :].lstrip("_ ")[:80], zone))


def _stamp(text: str, zone: str) -> Instant | None:
    try:
        zoned = _ZONED.match(text)
        if zoned:
            return parse_instant(f"{zoned.group(1)}T{zoned.group(2)}{zoned.group(3)}{zoned.group(4)}")
        plain = _PLAIN.match(text)
        if plain:
            moment = datetime.fromisoformat("-".join(plain.group(1, 2, 3)) + "T" + plain.group(4))
            return from_datetime(moment.replace(tzinfo=ZoneInfo(zone)))
    except (ValueError, OSError, OverflowError, KeyError):
        return None
    return None
