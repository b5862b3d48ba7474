"""The audit log collector: one file followed as it grows; its cursor is stored with the events it brought."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from steelyard.app.audit import documents_of, read_audit
from steelyard.app.collectors.scrape import gap_max_us
from steelyard.app.source_settings import AuditLogSetting
from steelyard.facts.base import Fact
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import Instant
from steelyard.sources.audit_log import AuditTail, Lines
from steelyard.sources.shared.context import ReadContext, ReadSettings

SOURCE: Final = "audit_log"


class AuditLogCollector:
    """Implements ``Collector`` and ``Resumable`` for one ``[[audit_log]]``."""

    def __init__(self, setting: AuditLogSetting, cluster: str, settings: ReadSettings) -> None:
        self.name = f"audit_log/{setting.name}"
        self.source = SOURCE
        self.interval_us = setting.interval
        self._path = setting.path
        self._ctx = ReadContext(cluster=setting.cluster or cluster, file=str(setting.path)[:300], settings=settings)
        self._tail = AuditTail(setting.path, settings.line_bytes_max)

    def resume(self, cursor: str | None) -> None:
        """Go on where the last stored round ended."""
        self._tail.resume(cursor)

    def cursor(self) -> str | None:
        """Where the file was left."""
        return self._tail.cursor()

    def collect(self, at: Instant) -> Iterator[Fact]:
        """The events that were written since the last round. Raises SourceUnavailable where the file is not there."""
        ctx = replace(self._ctx, observed_at=at)
        gaps = self._tail.gaps_count
        count = 0
        for part in self._tail.read():
            count += len(part.lines)
            yield from self._facts(part, ctx)
        if self._tail.gaps_count > gaps:
            yield ctx.finding(
                SOURCE,
                "audit_log_gap",
                f"file {ctx.file}",
                "the file that was read last is gone (packed or removed before its end was read): events may be missing",
            )
        yield SourceStatus(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{SOURCE}/{self.name.removeprefix('audit_log/')}",
            occurred_at=at,
            observed_at=at,
            kind=SOURCE,
            scope=f"file/{self.name.removeprefix('audit_log/')}",
            status="partial" if self._tail.gaps_count > gaps or self._tail.is_behind else "ok",
            objects_count=count,
            gap_max_us=gap_max_us(self.interval_us),
        )

    def close(self) -> None:
        """Nothing is held open between rounds."""

    def _facts(self, part: Lines, ctx: ReadContext) -> Iterator[Fact]:
        for offset in part.too_long:
            yield ctx.finding(
                SOURCE,
                "source_malformed",
                f"file {ctx.file} at byte {offset}",
                f"expected a line of at most {ctx.settings.line_bytes_max} bytes",
            )
        yield from read_audit(documents_of(part.lines, ctx), ctx)
