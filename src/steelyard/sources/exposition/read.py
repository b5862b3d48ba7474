"""``read_exposition(text, ctx, cache)``: the points of one text, in its order, and a finding for each line that is none.

Called by ``app`` for scraped text and for imported files. Lines are cut from the text as they are read, so that a text of nothing but line
ends costs no list of them. A line that was seen in the last scrape of the same target costs one look-up
and one number. Method: Prometheus text format 0.0.4; of OpenMetrics UNIT, EOF, exemplars (passed over) and stamps in seconds.
Sceptic's command: ``promtool check metrics < text``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import AT_OBSERVATION
from steelyard.sources.exposition.line import parse_line, parse_rest
from steelyard.sources.exposition.series_cache import Series, SeriesCache
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.plain_text import decode_text
from steelyard.sources.shared.read_bound import ReadBound
from steelyard.sources.shared.refusals import Refusals

SOURCE: Final = "exposition"
_TYPES: Final = frozenset(
    {"counter", "gauge", "histogram", "gaugehistogram", "summary", "untyped", "unknown", "info", "stateset"}
)
_COMMENT: Final = re.compile(r"#[ \t]++(HELP|TYPE|UNIT|EOF)(?:[ \t]++(.*))?+\Z", re.ASCII)
_DECLARED: Final = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*+|"[^"]++")(?:[ \t]++(\S.*))?+\Z', re.ASCII)
_EOF: Final = "# EOF"
_BLOCK_CHARACTERS: Final = 1 << 16


@dataclass(slots=True)
class LinesRead:
    """What became of the lines of a text: those that were refused, and an example."""

    refused_count: int = 0
    first_refused: tuple[int, str, str] | None = None
    """Line number, why, and how it begins."""


def read_exposition(
    text: str | bytes,
    ctx: ReadContext,
    cache: SeriesCache | None = None,
    bound: ReadBound | None = None,
    lines: LinesRead | None = None,
) -> Iterator[MetricPoint | Finding]:
    """Points and findings (``source_malformed`` with line and excerpt, ``duplicate_label_name``), findings in bounds.

    ``bound``: how long it may take; raises SourceUnavailable where it takes longer. ``lines`` is filled.
    ``at`` is AT_OBSERVATION where a line bears no stamp. A text that ends in ``# EOF`` is OpenMetrics: its stamps are seconds.
    """
    decoded = text if isinstance(text, str) and text.isascii() and "\0" not in text else decode_text(text)
    cache = cache if cache is not None else SeriesCache()
    cache.turn()
    yield from _Reader(ctx, cache, decoded, bound, lines or LinesRead()).read()


def _blocks(text: str, bound: ReadBound | None) -> Iterator[list[str]]:
    """The lines of a text, some at a time; ``bound`` is asked between."""
    start = 0
    while start >= 0:
        if bound is not None:
            bound.check()
        end = text.find("\n", start + _BLOCK_CHARACTERS)
        yield (text[start:] if end < 0 else text[start:end]).split("\n")
        start = end + 1 if end >= 0 else -1


class _Reader:
    def __init__(
        self, ctx: ReadContext, cache: SeriesCache, text: str, bound: ReadBound | None, read: LinesRead
    ) -> None:
        self._cache = cache
        self._lines = chain.from_iterable(_blocks(text, bound))
        self._read = read
        self._seconds = text[-64:].rstrip().endswith(_EOF)
        self._refusals = Refusals(ctx, SOURCE)
        self._ended = False

    def read(self) -> Iterator[MetricPoint | Finding]:
        fresh, stale, keep = self._cache.fresh, self._cache.stale, self._cache.keep
        lines = enumerate(self._lines, start=1)
        for number, line in lines:
            key, brace, rest = line.rpartition("} ")
            if not brace:
                key, _, rest = line.partition(" ")
            series = fresh.get(key)
            if series is None:
                series = stale.get(key)
                if series is None:
                    yield from self._unseen(line, number, key)
                    if self._ended:
                        break
                    continue
                keep(key, series)
            at = AT_OBSERVATION
            try:
                value = float(rest)
                if "_" in rest or not rest.isascii():
                    raise ValueError
            except ValueError:
                try:
                    value, at = parse_rest(rest, seconds=self._seconds)
                except ValueError:
                    yield from self._unseen(line, number, key)
                    continue
            yield MetricPoint(series[0], series[1], value, at, series[2])
        for number, line in lines:
            if line.strip():
                yield from self._refuse("expected nothing after # EOF", number, line)
        yield from self._refusals.rest()

    def _unseen(self, line: str, number: int, key: str) -> Iterator[MetricPoint | Finding]:
        """A comment, a blank, or a series that the last scrape did not name."""
        text = line.strip(" \t\r")
        if not text:
            return
        if text[0] == "#":
            yield from self._comment(text, number)
            return
        try:
            sample = parse_line(text, number, seconds=self._seconds)
        except SourceMalformed as error:
            yield from self._refuse(error.message, number, line)
            return
        series: Series = (sample.name, sample.labels, self._cache.type_of(sample.name))
        if sample.repeated:
            yield from self._refusals.find(
                "duplicate_label_name",
                f"metric {sample.name}",
                f"the label {', '.join(sample.repeated[:8])} stands twice: the text is invalid and Prometheus refuses it; the first one counts",
                evidence={"labels": sorted(set(sample.repeated))[:20]},
                line=number,
                excerpt=line,
            )
        elif text == line and key in (text[: sample.end], text[: sample.end - 1]):
            self._cache.keep(key, series)
        yield MetricPoint(sample.name, sample.labels, sample.value, sample.at, series[2])

    def _comment(self, text: str, number: int) -> Iterator[MetricPoint | Finding]:
        match = _COMMENT.match(text)
        if match is None:
            return
        word, rest = match.groups()
        if word == "EOF":
            self._ended = True
            return
        declared = _DECLARED.match(rest or "")
        if declared is None:
            yield from self._refuse(f"expected the name of a metric after # {word}", number, text)
        elif word == "TYPE":
            kind = (declared.group(2) or "").strip()
            if kind in _TYPES:
                self._cache.declare(declared.group(1), kind)
            else:
                yield from self._refuse(f"expected a type such as gauge or counter after # {word}", number, text)

    def _refuse(self, message: str, number: int, line: str) -> Iterator[Finding]:
        self._read.refused_count += 1
        if self._read.first_refused is None:
            self._read.first_refused = (number, message, line[:200])
        yield from self._refusals.refuse(message, number, line)
