"""Numbers of a trace's cells, and its clock: seconds from t = 0, which the settings lay on ``trace_epoch``."""

from __future__ import annotations

import re
from typing import Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, SECOND_US, Instant
from steelyard.sources.shared.csv_table import CsvRow

SOURCE: Final = "openb"
CPU_MILLI_MAX: Final = 1_000_000_000
_SECONDS: Final = re.compile(r"(\d{1,12})(?:\.(\d{1,6})0{0,12})?\Z", re.ASCII)
_WHOLE: Final = re.compile(r"(\d{1,12})(?:\.0{1,12})?\Z", re.ASCII)


def whole(row: CsvRow, column: str, limit: int) -> int:
    """The cell as a whole number from 0 to ``limit`` (``2`` or ``2.0``). Raises SourceMalformed otherwise, also where it is empty."""
    match = _WHOLE.match(row.get(column))
    if match is None or int(match.group(1)) > limit:
        raise SourceMalformed(
            f"{column}: expected a whole number from 0 to {limit}, found {row.get(column)[:40]!r}", row.line, row.text
        )
    return int(match.group(1))


def stamp(row: CsvRow, column: str, epoch: Instant) -> Instant | None:
    """The cell as an instant; None where it is empty. Raises SourceMalformed where it is no time that a calendar can hold."""
    text = row.get(column)
    if not text:
        return None
    match = _SECONDS.match(text)
    if match is not None:
        instant = epoch + int(match.group(1)) * SECOND_US + int((match.group(2) or "0").ljust(6, "0"))
        if INSTANT_MIN <= instant <= INSTANT_MAX:
            return instant
    raise SourceMalformed(f"{column}: expected seconds from the trace's start, found {text[:40]!r}", row.line, row.text)


def cpu_milli(row: CsvRow) -> int | None:
    """The cell ``cpu_milli``; None where the file has none, or where it is no amount of CPU: a life is not refused for that."""
    if not row.get("cpu_milli"):
        return None
    try:
        return whole(row, "cpu_milli", CPU_MILLI_MAX)
    except SourceMalformed:
        return None
