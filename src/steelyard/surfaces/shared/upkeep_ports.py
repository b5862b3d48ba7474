"""What a surface may ask to keep a data directory alive: backups, their check and return, a standby, and what becomes of old samples.

``app.upkeep`` implements ``Upkeep``; the plain values here have one JSON form, which the server sends and ``--json`` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, format_instant, parse_instant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A backup that is whole. ``layout``: of its store. ``residual_gpu_us``: supply less all accounts, absolute (0: the books close); None
    where nothing was posted."""

    path: str
    created_at: Instant
    layout: int
    program: str
    tables_count: int
    rows_count: int
    bytes_count: int
    residual_gpu_us: int | None

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "path": self.path,
            "created_at": format_instant(self.created_at),
            "layout": self.layout,
            "program": self.program,
            "tables_count": self.tables_count,
            "rows_count": self.rows_count,
            "bytes_count": self.bytes_count,
            "ledger_residual_gpu_us": self.residual_gpu_us,
        }


@dataclass(frozen=True, slots=True)
class StandbyReport:
    """A standby that is ready: the backup it was made of, and the daily exports since (files read, facts that were new). ``facts_until``: the
    latest instant at which any of its facts was seen, None where there are none: what came later is lost if it has to take over."""

    backup: BackupReport
    exports_count: int
    new_count: int
    facts_until: Instant | None

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "backup": self.backup.to_json(),
            "exports_count": self.exports_count,
            "new_count": self.new_count,
            "facts_until": None if self.facts_until is None else format_instant(self.facts_until),
        }


@dataclass(frozen=True, slots=True)
class RetentionRow:
    """What became, or would become, of one fact table: facts written to daily exports, rows removed because their minute was reduced, the
    one-minute rows made of those (None in a dry run), rows removed for their age."""

    table: str
    exported_count: int
    reduced_count: int
    made_count: int | None
    dropped_count: int


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """A retention run. Samples before ``raw_before`` are kept by the minute, those before ``minute_before`` in the exports alone. ``compacted``: the
    file was written anew. Sizes of the file in bytes, before and after."""

    dry_run: bool
    raw_before: Instant
    minute_before: Instant
    tables: Sequence[RetentionRow]
    late_count: int
    compacted: bool
    bytes_before: int
    bytes_after: int

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "dry_run": self.dry_run,
            "raw_before": format_instant(self.raw_before),
            "minute_before": format_instant(self.minute_before),
            "tables": [
                {
                    "table": row.table,
                    "exported_count": row.exported_count,
                    "reduced_count": row.reduced_count,
                    "made_count": row.made_count,
                    "dropped_count": row.dropped_count,
                }
                for row in self.tables
            ],
            "late_count": self.late_count,
            "compacted": self.compacted,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
        }


class Upkeep(Protocol):
    """Keeps one data directory alive."""

    def backup(self, destination: Path) -> BackupReport:
        """Write a backup to a folder that is not there yet; the server of the directory goes on meanwhile. Raises UsageError, StoreFailed."""
        ...

    def verify(self, source: Path) -> BackupReport:
        """Check every byte, every count and the books of a backup, touching no data directory.

        Raises StoreDamaged where it is not what was written or its books do not close, UsageError where it is none or of a newer version.
        """
        ...

    def restore(self, source: Path) -> BackupReport:
        """Make the directory, which must be empty, from a backup. Raises as ``verify``, and UsageError where something is in the directory."""
        ...

    def standby(self, source: Path) -> StandbyReport:
        """Make the directory, or make it anew, from the newest backup below ``source`` and the exports since. Raises as ``restore``."""
        ...

    def retention(self, dry_run: bool) -> RetentionReport:
        """Export, reduce and drop samples by the settings, or only say what would go."""
        ...


def backup_of(found: Any) -> BackupReport:
    """The report behind its JSON form. Raises SourceUnsupported where that is of another form."""
    return _read(
        lambda: BackupReport(
            found["path"],
            parse_instant(found["created_at"]),
            found["layout"],
            found["program"],
            found["tables_count"],
            found["rows_count"],
            found["bytes_count"],
            found["ledger_residual_gpu_us"],
        )
    )


def retention_of(found: Any) -> RetentionReport:
    """The report behind its JSON form. Raises SourceUnsupported where that is of another form."""
    return _read(
        lambda: RetentionReport(
            found["dry_run"],
            parse_instant(found["raw_before"]),
            parse_instant(found["minute_before"]),
            [RetentionRow(**row) for row in found["tables"]],
            found["late_count"],
            found["compacted"],
            found["bytes_before"],
            found["bytes_after"],
        )
    )


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise SourceUnsupported(
            _(
                "the server of this directory answers in a form that this version does not know: run the same version of both"
            )
        ) from error
