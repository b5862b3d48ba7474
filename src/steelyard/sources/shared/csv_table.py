"""CSV that people and exports write: rows by header name, every line that is no row as a finding.

Used by the readers of traces and of a site's own lists. The trick to know: a record that spans lines is joined over at most
``RECORD_LINES_MAX`` of them, so a quote that never closes costs its own line and not the rest of the file.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext

RECORD_LINES_MAX: Final = 20
COLUMNS_MAX: Final = 1_000
_DELIMITERS: Final = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One record. ``line`` counts from 1 and is where it starts; ``cells`` maps header name to the stripped text; ``text`` is its raw form."""

    line: int
    cells: Mapping[str, str]
    text: str

    def get(self, column: str) -> str:
        """The cell of a column; empty where the file has no such column."""
        return self.cells.get(column, "")


class CsvTable:
    """A CSV with a header. ``columns`` are the header's names as written, stripped; iterate for its rows and findings."""

    def __init__(self, lines: Iterable[str] | str, ctx: ReadContext, source: str) -> None:
        self._ctx = ctx
        self._source = source
        self._records = _records(lines.splitlines() if isinstance(lines, str) else lines)
        self._delimiter = ","
        self._header: list[str] = []
        self._read_header()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the header, without repetitions; empty where the file holds nothing."""
        return tuple(dict.fromkeys(name for name in self._header if name))

    @property
    def repeated(self) -> tuple[str, ...]:
        """The names that stand more than once in the header; of their columns the first is read."""
        return tuple(name for name in self.columns if self._header.count(name) > 1)

    def __iter__(self) -> Iterator[CsvRow | Finding]:
        for line, text in self._records:
            if not text.strip():
                continue
            try:
                yield self._row(line, text)
            except SourceMalformed as error:
                yield malformed(self._ctx, self._source, error)

    def _read_header(self) -> None:
        for _, text in self._records:
            header = text.lstrip("\ufeff")
            if not header.strip() or header.lstrip().startswith("#"):
                continue
            if len(header) > self._ctx.settings.line_bytes_max:
                return
            self._delimiter = max(_DELIMITERS, key=header.count)
            try:
                names = _split(header, self._delimiter)
            except csv.Error:
                return
            self._header = [] if len(names) > COLUMNS_MAX else [name.strip() for name in names]
            return

    def _row(self, line: int, text: str) -> CsvRow:
        if len(text) > self._ctx.settings.line_bytes_max:
            raise SourceMalformed(
                f"expected a row of at most {self._ctx.settings.line_bytes_max} characters, found {len(text)}",
                line,
                text,
            )
        readable = text if text.isascii() else text.encode("utf-8", "replace").decode()
        if readable != text:
            raise SourceMalformed("expected text, found a lone surrogate, which is no character", line, readable)
        try:
            values = _split(text, self._delimiter)
        except csv.Error as error:
            raise SourceMalformed(f"expected a CSV row: {error}", line, text) from None
        if len(values) > len(self._header) and any(value.strip() for value in values[len(self._header) :]):
            raise SourceMalformed(
                f"expected {len(self._header)} cells as in the header, found {len(values)}", line, text
            )
        if len(values) < len(self._header):
            raise SourceMalformed(
                f"expected {len(self._header)} cells as in the header, found {len(values)}", line, text
            )
        cells: dict[str, str] = {}
        for name, value in zip(self._header, values, strict=False):
            if name:
                cells.setdefault(name, value.strip())
        return CsvRow(line, cells, text)


def malformed(ctx: ReadContext, source: str, error: SourceMalformed) -> Finding:
    """The finding of a refused line: ``source_malformed`` with file, line and excerpt."""
    return ctx.finding(
        source,
        "source_malformed",
        f"file {ctx.file}",
        error.message,
        severity="warning",
        line=error.line,
        excerpt=error.excerpt,
    )


def _split(text: str, delimiter: str) -> list[str]:
    rows = list(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True))
    return rows[0] if rows else []


def _records(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(first line, text) of each record: a line with an open quote takes the following ones until it closes, else it stands alone."""
    source = iter(lines)
    waiting: deque[tuple[int, str]] = deque()
    number = 0

    def pull() -> tuple[int, str] | None:
        nonlocal number
        text = next(source, None)
        if text is None:
            return None
        number += 1
        return number, text.rstrip("\r\n")

    while True:
        first = waiting.popleft() if waiting else pull()
        if first is None:
            return
        quotes = first[1].count('"')
        if quotes % 2 == 0:
            yield first
            continue
        while len(waiting) < RECORD_LINES_MAX - 1:
            following = pull()
            if following is None:
                break
            waiting.append(following)
        yield _joined(first, waiting, quotes)


def _joined(first: tuple[int, str], waiting: deque[tuple[int, str]], quotes: int) -> tuple[int, str]:
    for count, (_, text) in enumerate(waiting, start=1):
        quotes += text.count('"')
        if quotes % 2 == 0:
            parts = [first[1], *(waiting.popleft()[1] for _ in range(count))]
            return first[0], "\n".join(parts)
    return first
