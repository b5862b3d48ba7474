"""``steelyard reconcile``: the words about each pod on a card side by side, and what of them does not agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from steelyard.answers.reconcile import BY, title
from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.options import conditions_of, instant_of, names_of, window_of
from steelyard.surfaces.shared.ports import Ports, ReconcileRequest

_EXAMPLES: Final = (
    "steelyard reconcile · steelyard reconcile --by card --json · "
    "steelyard reconcile --from 2026-11-29T00:00:00Z --to 2026-11-30T00:00:00Z --by tenant"
)


def add_reconcile(app: typer.Typer, ports: Ports) -> None:
    """The command."""
    told = _(
        "Five columns that are never merged, of memory and of cores: what was requested, granted by the scheduler, enforced by the sharing layer, "
        "counted by it, and reported by the device; with the difference, and what the exporters say that the cluster does not."
    )
    app.command(
        "reconcile",
        help=f"{title()}.\n\n{told}",
        short_help=_("Requested, granted, enforced, counted, device: side by side"),
        epilog=_("Examples: {commands}").format(commands=_EXAMPLES),
    )(_reconcile(ports))


def _reconcile(ports: Ports) -> Callable[..., None]:
    def reconcile(
        at: options.At = None,
        start: options.From = None,
        end: options.To = None,
        by: Annotated[
            list[str] | None,
            typer.Option("--by", metavar="|".join(BY), help=_("Which tables; default: all three.")),
        ] = None,
        where: options.Where = None,
        gpu: options.Gpu = None,
        node: options.Node = None,
        pod: options.Pod = None,
        tenant: options.Tenant = None,
        rows: options.Rows = None,
        explain: options.Explain = False,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        named = {"gpu": gpu, "node": node, "pod": pod, "tenant": tenant}
        request = ReconcileRequest(
            at=instant_of(at, "--at"),
            window=window_of(start, end),
            by=names_of(by or ()),
            where=conditions_of(where or (), named),
            explain=explain,
        )
        found = ports.reconciler(data).reconcile(request)
        put_out(as_json, found.to_json, lambda width, rows_max: render_answer(found, width, rows_max), rows)

    return reconcile
