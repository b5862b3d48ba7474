"""What a reader refuses, as findings, in bounds: the first of each kind in full, the rest as one count.

A hostile file has as many bad lines as it likes; a reader says so without writing as many rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.facts.finding import Finding
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain

SHOWN_MAX: Final = 200


class Refusals:
    """Findings of one file: at most ``SHOWN_MAX`` per code, then ``rest`` tells how many more there were. ``count`` counts all."""

    def __init__(self, ctx: ReadContext, source: str, shown_max: int = SHOWN_MAX) -> None:
        self._ctx = ctx
        self._source = source
        self._shown_max = shown_max
        self._counts: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many findings were asked for, shown or not."""
        return sum(self._counts.values())

    def of(self, code: str) -> int:
        """How many findings of one code were asked for."""
        return self._counts[code]

    def refuse(self, message: str, line: int, excerpt: str) -> Iterator[Finding]:
        """A line that cannot be read: ``source_malformed``."""
        yield from self.find("source_malformed", f"file {self._ctx.file}", message, line=line, excerpt=excerpt)

    def find(
        self,
        code: str,
        subject: str,
        message: str,
        *,
        severity: str = "warning",
        evidence: Mapping[str, object] | None = None,
        line: int | None = None,
        excerpt: str | None = None,
    ) -> Iterator[Finding]:
        """A finding, or none where enough of its code were shown."""
        self._counts[code] += 1
        if self._counts[code] <= self._shown_max:
            yield self._ctx.finding(
                self._source,
                code,
                plain(subject[:300]),
                plain(message[:1_000]),
                severity=severity,
                evidence=evidence,
                line=line,
                excerpt=plain(excerpt[:200]) if excerpt is not None else None,
            )

    def rest(self) -> Iterator[Finding]:
        """One finding per code that was not shown in full."""
        for code, count in sorted(self._counts.items()):
            if count > self._shown_max:
                yield self._ctx.finding(
                    self._source,
                    "more_findings",
                    f"file {self._ctx.file}: {code}",
                    f"{count - self._shown_max} more findings {code} in this file",
                    evidence={"code": code, "count": count, "shown": self._shown_max},
                )
