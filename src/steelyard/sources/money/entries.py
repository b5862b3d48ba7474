"""What stands in a declared file, entry by entry, and what is wrong with it: a file is taken whole or not at all.

``price_book``, ``tenancy`` and ``exchange_rates`` read their cells through an ``Entry``. The tricks to know: a column that nobody knows is
refused, since a mistyped ``valid_untill`` would silently mean for ever; and every refusal is kept, so that a person mends a file once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.money import amounts
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvTable

T = TypeVar("T")

SOURCE: Final = "declared"
ENTRIES_MAX: Final = 50_000
REFUSALS_MAX: Final = 100
TEXT_MAX: Final = 253
_EXCEL_MARK: Final = re.compile(r"\A\ufeff?(?=sep=.\s*(?:\r?\n|\Z))", re.IGNORECASE)


@dataclass(slots=True)
class Refusals:
    """What is wrong with a file, in order; ``count`` goes on where no more are kept."""

    kept: list[SourceMalformed] = field(default_factory=list)
    count: int = 0

    def add(self, error: SourceMalformed) -> None:
        """Keep one, within the bound."""
        self.count += 1
        if len(self.kept) < REFUSALS_MAX:
            self.kept.append(error)

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. ``cells``: column -> its text, stripped, "" where it says nothing. ``line``: where it begins, 0 = not known."""

    line: int
    text: str
    cells: Mapping[str, str]

    def get(self, column: str) -> str | None:
        """The cell; None where it says nothing. Raises SourceMalformed for more than ``TEXT_MAX`` characters, or any that is no text."""
        value = self.cells.get(column, "")
        if len(value) > TEXT_MAX or not value.isprintable():
            raise self.refused(f"{column}: expected text of at most {TEXT_MAX} characters, without control characters")
        return value or None

    def need(self, column: str) -> str:
        """The cell. Raises SourceMalformed where it says nothing."""
        value = self.get(column)
        if value is None:
            raise self.refused(f"{column}: expected a value, found none")
        return value

    def one_of(self, column: str, allowed: Collection[str], default: str | None = None) -> str | None:
        """The cell as one of the allowed words, in small letters, ``-`` and blanks read as ``_``; ``default`` where it says nothing."""
        value = self.get(column)
        if value is None:
            return default
        word = re.sub(r"[-\s]", "_", value.lower())
        if word not in allowed:
            raise self.refused(f"{column}: expected one of {', '.join(allowed)}; found {value[:40]!r}")
        return word

    def read(self, column: str, reader: Callable[[str], T]) -> T | None:
        """What a reader makes of the cell; None where it says nothing. Its ValueError becomes SourceMalformed."""
        value = self.get(column)
        if value is None:
            return None
        try:
            return reader(value)
        except ValueError as error:
            raise self.refused(f"{column}: {error}") from None

    def validity(self) -> tuple[Instant | None, Instant | None]:
        """``valid_from`` and ``valid_to``, half-open; days are midnights in ``zone``. Raises SourceMalformed where the end is not after the start."""
        zone = self.get("zone")
        self.read("zone", amounts.time_zone)
        start = self.read("valid_from", lambda text: amounts.instant(text, zone))
        end = self.read("valid_to", lambda text: amounts.instant(text, zone))
        if start is not None and end is not None and end <= start:
            raise self.refused(
                "valid_to is not after valid_from; the end is the first instant at which it no longer holds"
            )
        return start, end

    def refused(self, message: str) -> SourceMalformed:
        """The refusal of this entry."""
        return SourceMalformed(message, self.line, self.text)


@dataclass(frozen=True, slots=True)
class Held:
    """A key that holds for a stretch, where it stands in the file: what ``overlapping`` compares."""

    key: object
    start: Instant | None
    end: Instant | None
    entry: Entry
    told: str


def overlapping(held: Sequence[Held]) -> Iterator[SourceMalformed]:
    """A refusal for each entry whose stretch begins before that of an earlier one of the same key has ended."""
    by_key: dict[object, list[Held]] = {}
    for each in held:
        by_key.setdefault(each.key, []).append(each)
    for group in by_key.values():
        group.sort(key=lambda each: (each.start is not None, each.start or 0))
        last = group[0]
        for each in group[1:]:
            if last.end is None or each.start is None or each.start < last.end:
                later, earlier = (each, last) if each.entry.line >= last.entry.line else (last, each)
                yield later.entry.refused(
                    f"{each.told}: holds at the same time as line {earlier.entry.line}: give one of them a valid_to, or the other a valid_from"
                )
            if last.end is not None and (each.end is None or each.end > last.end):
                last = each


def csv_entries(
    text: str,
    ctx: ReadContext,
    known: Mapping[str, Collection[str]],
    needed: Callable[[Collection[str]], Collection[str]],
    refusals: Refusals,
) -> list[Entry]:
    """The entries of a CSV by the names in its header. ``known``: column -> other spellings of it; ``needed``: which must be there, given which
    are. Rows of empty cells alone are none.

    A header that lacks a needed column, repeats one or has one that is not known is refused, and nothing below it is read.
    """
    table = CsvTable(_EXCEL_MARK.sub("#", text), ctx, SOURCE)
    names = _names(table, known, needed, refusals)
    if names is None:
        return []
    entries: list[Entry] = []
    for row in table:
        if isinstance(row, Finding):
            refusals.add(SourceMalformed(row.message, row.line or 0, row.excerpt or ""))
        elif any(row.cells.values()):
            entries.append(Entry(row.line, row.text, {name: row.get(written) for written, name in names.items()}))
        if len(entries) > ENTRIES_MAX:
            refusals.add(SourceMalformed(f"expected at most {ENTRIES_MAX} entries, found more", row.line or 0))
            return []
    if not entries and not refusals:
        refusals.add(SourceMalformed("expected rows below the header, found none"))
    return entries


def _names(
    table: CsvTable,
    known: Mapping[str, Collection[str]],
    needed: Callable[[Collection[str]], Collection[str]],
    refusals: Refusals,
) -> dict[str, str] | None:
    """The header's own name -> the column's; None where the header is refused."""
    spelled = {alias: name for name, aliases in known.items() for alias in (name, *aliases)}
    names: dict[str, str] = {}
    wrong: list[str] = [f"the column {name[:40]!r} stands twice" for name in table.repeated]
    for written in table.columns:
        name = spelled.get(re.sub(r"[\s-]+", "_", written.strip().lower()))
        if name is None:
            wrong.append(f"a column {written[:40]!r} that is not known: expected {', '.join(known)}")
        elif name in names.values():
            wrong.append(f"the column {name} stands twice")
        else:
            names[written] = name
    missing = [name for name in needed(list(names.values())) if name not in names.values()]
    if missing:
        wrong.append(f"expected the columns {', '.join(missing)}, found none of that name")
    for message in wrong:
        refusals.add(SourceMalformed(message, 1, ",".join(table.columns)))
    return None if wrong else names
