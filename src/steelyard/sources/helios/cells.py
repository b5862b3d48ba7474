"""Cells of a Helios file: whole GPUs as thousandths, and naive local stamps, which are laid on UTC as they stand."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, from_datetime
from steelyard.sources.shared.csv_table import CsvRow

SOURCE: Final = "helios"
RESOURCE: Final = "gpu"
MILLI: Final = 1_000
GPUS_MAX: Final = 1_000_000
NAME_MAX: Final = 253
_WHOLE: Final = re.compile(r"(-?\d{1,7})(?:\.0{1,12})?\Z", re.ASCII)
_STAMP: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d))?)?\Z", re.ASCII)


def gpus_milli(row: CsvRow, column: str, *, below_zero: bool = False) -> int:
    """The cell's GPUs in thousandths. Raises SourceMalformed where it is no whole number up to ``GPUS_MAX``, or below 0 where that cannot be."""
    found = _WHOLE.match(row.get(column))
    number = int(found.group(1)) if found is not None else None
    if number is None or abs(number) > GPUS_MAX or (number < 0 and not below_zero):
        least = -GPUS_MAX if below_zero else 0
        raise SourceMalformed(
            f"{column}: expected a whole number of GPUs from {least} to {GPUS_MAX}, found {row.get(column)[:40]!r}",
            row.line,
            row.text,
        )
    return number * MILLI


def tenant_name(row: CsvRow, column: str) -> str:
    """The cell as a tenant's name. Raises SourceMalformed where it is empty or longer than ``NAME_MAX``."""
    name = row.get(column)
    if not name or len(name) > NAME_MAX:
        raise SourceMalformed(f"{column}: expected 1 to {NAME_MAX} characters, found {name[:40]!r}", row.line, row.text)
    return name


def local_stamp(text: str) -> Instant | None:
    """``2020-05-01 00:00:00`` or ``2020-05-01`` as the UTC instant of the same digits; None where it is no time of the calendar."""
    found = _STAMP.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
    try:
        return from_datetime(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
    except ValueError:
        return None
