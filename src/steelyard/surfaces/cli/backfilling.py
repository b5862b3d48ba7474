"""``steelyard backfill``: what a Prometheus remembers of cards and pods."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from steelyard.answers.contract import Column, Table
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import format_instant
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.backfill_ports import PLANNED, RUNNING, BackfillReport, BackfillRequest, FilledChunk
from steelyard.surfaces.shared.options import duration_of, instant_of
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import Line, lay_out

_HELP: Final = _(
    "Take in what a Prometheus of the settings already knows: samples of cards and holdings of pods, an hour at a time, oldest first. "
    "What is there is passed over, so a run that was cut off goes on where it stopped."
)


def add_backfilling(app: typer.Typer, ports: Ports) -> None:
    """The command that takes in the past."""
    epilog = _("Example: {command}").format(command="steelyard backfill --from 2026-11-01 --dry-run")
    app.command("backfill", help=_HELP, short_help=_("Take in the past of a Prometheus"), epilog=epilog)(
        _backfill(ports)
    )


def _backfill(ports: Ports) -> Callable[..., None]:
    def backfill(
        start: Annotated[
            str | None,
            typer.Option(
                "--from", metavar="TIME", help=_("Its start; default: as far back as it reaches, up to the horizon.")
            ),
        ] = None,
        end: Annotated[str | None, typer.Option("--to", metavar="TIME", help=_("Its end; default: now."))] = None,
        prometheus: Annotated[
            str | None,
            typer.Option("--prometheus", metavar="NAME", help=_("Which one, where the settings name several.")),
        ] = None,
        chunk: Annotated[
            str | None,
            typer.Option(
                "--chunk", metavar="TIME", help=_("How much at a time, such as 10m for a large estate; default: 1h.")
            ),
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help=_("Only list the chunks that are missing."))] = False,
        detach: Annotated[
            bool, typer.Option("--detach", help=_("Where a server does it, do not wait for its end."))
        ] = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        request = BackfillRequest(
            prometheus,
            instant_of(start, "--from"),
            instant_of(end, "--to"),
            duration_of(chunk, "--chunk"),
            dry_run,
        )
        if request.start is not None and request.end is not None and request.start >= request.end:
            raise UsageError(_("--to must be later than --from: found {start} and {end}").format(start=start, end=end))
        report = ports.backfill(data).run(request, _tell, follow=not detach)
        put_out(as_json, report.to_json, lambda width, rows_max: _lines(report, width, rows_max), rows)

    return backfill


def _tell(chunk: FilledChunk, done: int, total: int) -> None:
    """One line for each chunk, on stderr: a run may take hours."""
    if sys.stderr is None:
        return
    text = _("{done} of {total}: {start} to {end}, {count} new facts").format(
        done=done,
        total=total,
        start=format_instant(chunk.window.start),
        end=format_instant(chunk.window.end),
        count=f"{chunk.new_count:,}",
    )
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _lines(report: BackfillReport, width: int | None, rows_max: int | None) -> list[Line]:
    name = printable(report.prometheus)
    if report.state == PLANNED:
        cells = [(format_instant(part.start), format_instant(part.end)) for part in report.missing]
        table = Table(_("missing of {name}").format(name=name), (Column("from"), Column("to")), cells)
        return lay_out(table, width, rows_max)
    if report.state == RUNNING:
        return [Line("row", _("the server takes in what {name} remembers").format(name=name))]
    if not report.filled:
        return [Line("row", _("nothing is missing of {name}").format(name=name))]
    text = _("{name}: {chunks} chunks taken in, {facts} facts of them new; {count} ledger rows posted")
    return [
        Line(
            "row",
            text.format(
                name=name,
                chunks=len(report.filled),
                facts=f"{report.new_count:,}",
                count=f"{report.postings_count:,}",
            ),
        )
    ]
