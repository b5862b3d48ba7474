"""``steelyard collect``: one round of the sources that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.invocation import what_to_ask
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.collect_text import collect_json, render_collect
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.service_ports import CollectReport

EXIT_NONE_SEEN: Final = 2
EXIT_SOME_FAILED: Final = 3

_HELP: Final = _(
    "One round of the sources that steelyard.toml names: clusters, metrics endpoints, Prometheus servers, audit logs; then the ledgers."
)
_EXITS: Final = _(
    "Exit 0: every source answered. 3: some failed, or some of their targets; the others are in. 2: none answered."
)


def add_collecting(app: typer.Typer, ports: Ports) -> None:
    """The command that collects once."""
    epilog = _("Example: {command}").format(command="steelyard collect --only scrape/dcgm --json")
    app.command("collect", help=f"{_HELP}\n\n{_EXITS}", short_help=_("Collect once"), epilog=epilog)(_collect(ports))


def exit_code(report: CollectReport) -> int:
    """0: all is well; 3: some failed, in whole or in part; 2: all failed."""
    if all(each.status == "failed" for each in report.rounds):
        return EXIT_NONE_SEEN
    return EXIT_SOME_FAILED if any(each.status != "ok" for each in report.rounds) else 0


def _collect(ports: Ports) -> Callable[..., None]:
    def collect(
        only: Annotated[
            list[str] | None,
            typer.Option("--only", metavar="NAME", help=_("A collector, such as scrape/dcgm; may be repeated.")),
        ] = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        report = ports.collection(data).collect_now(only or [])
        put_out(
            as_json,
            lambda: collect_json(report),
            lambda width, rows_max: [*render_collect(report, width, rows_max), *what_to_ask(data)],
            rows,
        )
        raise typer.Exit(exit_code(report))

    return collect
