"""``steelyard backup``, ``verify-backup``, ``restore``, ``standby`` and ``retention``: what keeps a data directory alive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from steelyard.answers.contract import Column, Table
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import format_instant
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import Line, lay_out
from steelyard.surfaces.shared.upkeep_ports import BackupReport, RetentionReport, StandbyReport

_COLUMNS = tuple(Column(name) for name in ("table", "exported_count", "reduced_count", "made_count", "dropped_count"))


def add_upkeep(app: typer.Typer, ports: Ports) -> None:
    """The five commands."""
    _add(
        app,
        "backup",
        _("Write a backup of the data directory, also of one that is served, to a folder that is not there yet."),
        _("Back up the data directory"),
        "backups/2026-11-30",
        _backup(ports),
    )
    _add(
        app,
        "verify-backup",
        _("Check a backup: every byte, every count, and that its books close. No data directory is touched."),
        _("Check a backup"),
        "backups/2026-11-30",
        _verify(ports),
    )
    _add(
        app,
        "restore",
        _("Make an empty data directory from a backup."),
        _("Make a data directory from a backup"),
        "backups/2026-11-30 --data restored",
        _restore(ports),
    )
    _add(
        app,
        "standby",
        _("Make a standby from the newest backup below a folder and the daily exports written since; again and again."),
        _("Make a standby from backups and exports"),
        "--from copies --data standby",
        _standby(ports),
    )
    _add(
        app,
        "retention",
        _("Export facts by day, reduce old samples to one a minute and drop the oldest, as the settings say."),
        _("Export facts and let samples age"),
        "--dry-run",
        _retention(ports),
    )


def _add(
    app: typer.Typer, name: str, help_text: str, short_help: str, example: str, command: Callable[..., None]
) -> None:
    epilog = _("Example: {command}").format(command=f"steelyard {name} {example}")
    app.command(name, help=help_text, short_help=short_help, epilog=epilog)(command)


def _backup(ports: Ports) -> Callable[..., None]:
    def backup(
        destination: Annotated[Path, typer.Argument(metavar="DEST", help=_("The folder to write."))],
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        report = ports.upkeep(data).backup(destination)
        put_out(
            as_json, report.to_json, lambda *_sizes: [Line("row", _("backed up: {what}").format(what=_told(report)))]
        )

    return backup


def _verify(ports: Ports) -> Callable[..., None]:
    def verify(
        source: Annotated[Path, typer.Argument(metavar="SRC", help=_("A backup."))], as_json: options.Json = False
    ) -> None:
        report = ports.upkeep(options.DATA_DEFAULT).verify(source)
        put_out(as_json, report.to_json, lambda *_sizes: [Line("row", _("whole: {what}").format(what=_told(report)))])

    return verify


def _restore(ports: Ports) -> Callable[..., None]:
    def restore(
        source: Annotated[Path, typer.Argument(metavar="SRC", help=_("A backup."))],
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        report = ports.upkeep(data).restore(source)
        text = _("restored to {directory}: {what}").format(directory=printable(str(data)), what=_told(report))
        put_out(as_json, report.to_json, lambda *_sizes: [Line("row", text)])

    return restore


def _standby(ports: Ports) -> Callable[..., None]:
    def standby(
        source: Annotated[
            Path, typer.Option("--from", metavar="SRC", help=_("A folder with backups, and exports in `facts`."))
        ],
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        report = ports.upkeep(data).standby(source)
        put_out(as_json, report.to_json, lambda *_sizes: _standby_lines(data, report))

    return standby


def _retention(ports: Ports) -> Callable[..., None]:
    def retention(
        dry_run: Annotated[bool, typer.Option("--dry-run", help=_("Only say what would go."))] = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        report = ports.upkeep(data).retention(dry_run)
        put_out(as_json, report.to_json, lambda width, rows_max: _retention_lines(report, width, rows_max), rows)

    return retention


def _told(report: BackupReport) -> str:
    books = _("its books close") if report.residual_gpu_us == 0 else _("its books do NOT close")
    residual = _("its books are not posted") if report.residual_gpu_us is None else books
    return _("{path}, of {created}: {rows} rows in {tables} tables, {size} bytes, layout {layout}; {residual}").format(
        path=printable(report.path),
        created=format_instant(report.created_at),
        rows=report.rows_count,
        tables=report.tables_count,
        size=report.bytes_count,
        layout=report.layout,
        residual=residual,
    )


def _standby_lines(data: Path, report: StandbyReport) -> list[Line]:
    until = _("no facts") if report.facts_until is None else format_instant(report.facts_until)
    return [
        Line(
            "row", _("standby in {directory}: {what}").format(directory=printable(str(data)), what=_told(report.backup))
        ),
        Line(
            "row",
            _("{files} exports written since, {new} facts of them new; facts until {until}").format(
                files=report.exports_count, new=report.new_count, until=until
            ),
        ),
    ]


def _retention_lines(report: RetentionReport, width: int | None, rows_max: int | None) -> list[Line]:
    title = _("what would go") if report.dry_run else _("what went")
    cells = [
        (row.table, row.exported_count, row.reduced_count, row.made_count, row.dropped_count) for row in report.tables
    ]
    lines = lay_out(Table(title, _COLUMNS, cells), width, rows_max)
    lines.append(
        Line(
            "note",
            _("raw samples from {raw} on, one a minute from {minute} on; older ones are in the exports").format(
                raw=format_instant(report.raw_before), minute=format_instant(report.minute_before)
            ),
        )
    )
    if report.late_count:
        lines.append(
            Line(
                "note",
                ngettext(
                    "{count} sample came after the raw ones of its day had been reduced: exported, in no ledger",
                    "{count} samples came after the raw ones of their day had been reduced: exported, in no ledger",
                    report.late_count,
                ).format(count=report.late_count),
            )
        )
    lines.append(
        Line(
            "note",
            _("the file: {before} bytes before, {after} after").format(
                before=report.bytes_before, after=report.bytes_after
            ),
        )
    )
    return lines
