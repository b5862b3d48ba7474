"""``steelyard why``: the story of one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from steelyard.answers.story import title
from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.options import instant_of
from steelyard.surfaces.shared.ports import Ports, StoryRequest

_EXAMPLES: Final = "steelyard why team-a/train-llm · steelyard why notebook-7 --at 2026-11-30T02:00:00Z · steelyard why train --kind job --json"


def add_stories(app: typer.Typer, ports: Ports) -> None:
    """The command."""
    told = _(
        "Tells in time order what happened to a request, each line with its source, where it stands in its queue, whether it never fits or not "
        "now, what would have to change, and how long it may still take."
    )
    exits = _("Exit 0: told. 2: nothing has that name, or several things have it; the nearest names are printed.")
    app.command(
        "why",
        help=f"{title()}.\n\n{told}\n\n{exits}",
        short_help=_("The story of one request, and what would have to change"),
        epilog=_("Examples: {commands}").format(commands=_EXAMPLES),
    )(_why(ports))


def _why(ports: Ports) -> Callable[..., None]:
    def why(
        name: Annotated[
            str,
            typer.Argument(
                metavar="POD|JOB|WORKLOAD", help=_("namespace/name, a name alone where it is unique, or a uid.")
            ),
        ],
        kind: Annotated[
            str | None, typer.Option("--kind", metavar="pod|job|workload", help=_("What the name is a name of."))
        ] = None,
        cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help=_("In which cluster."))] = None,
        at: options.At = None,
        rows: options.Rows = None,
        explain: options.Explain = False,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        text = name.encode("utf-8", "replace").decode()
        request = StoryRequest(text, kind, cluster, instant_of(at, "--at"), explain)
        found = ports.stories(data).why(request)
        put_out(as_json, found.to_json, lambda width, rows_max: render_answer(found, width, rows_max), rows)

    return why
