"""``steelyard import`` and ``steelyard demo``: files, real or simulated, into the data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.invocation import what_to_ask
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.cli.serving import LISTEN_DEFAULT, Listen, telling
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.console import progress_bar
from steelyard.surfaces.shared.import_text import import_json, render_import
from steelyard.surfaces.shared.options import duration_of, instant_of
from steelyard.surfaces.shared.ports import DemoSpec, ImportReport, ImportRequest, Ports, Question
from steelyard.surfaces.shared.tables import Line

EXIT_NOTHING_READ: Final = 2
EXIT_SOME_REFUSED: Final = 3

_IMPORT_HELP: Final = _(
    "Read files of the estate: kubectl dumps, nvidia-smi outputs, PodResources, traces, asset lists, kernel logs; "
    "directories and gzip too."
)
_IMPORT_EXITS: Final = _(
    "The first word is a kind only if it names one and a path follows; write ./KIND for a file of that name. "
    "Exit 0: every file was read, with findings or not. 3: some files were refused, the others are in. 2: nothing could be read."
)


def add_imports(app: typer.Typer, ports: Ports) -> None:
    """The commands that bring data in."""
    epilog = _("Example: {command}").format(
        command="steelyard import pods.json nodes.json --as-of 2026-11-30T02:00:40Z"
    )
    app.command(
        "import", help=f"{_IMPORT_HELP}\n\n{_IMPORT_EXITS}", short_help=_("Read files of the estate"), epilog=epilog
    )(_import(ports))
    epilog = _("Example: {command}").format(command="steelyard demo --gpus 64 --days 14 --seed 7")
    help_text = _("Simulate an estate, read it back through the real readers, answer who holds what and how much.")
    app.command("demo", help=help_text, short_help=_("A simulated estate, weighed"), epilog=epilog)(_demo(ports))


def exit_code(report: ImportReport) -> int:
    """0: every file was read; 3: some were refused; 2: all were, or there was none."""
    refused = sum(1 for file in report.files if file.status == "refused")
    if refused == len(report.files):
        return EXIT_NOTHING_READ
    return EXIT_SOME_REFUSED if refused else 0


def _import(ports: Ports) -> Callable[..., None]:
    def import_files(
        words: Annotated[list[str], typer.Argument(metavar="[KIND] PATH...", help=_("Files or directories."))],
        as_of: Annotated[
            str | None,
            typer.Option(
                "--as-of", metavar="TIME", help=_("The instant of the snapshot; default: the latest stamp in it.")
            ),
        ] = None,
        cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help=_("Which cluster it is."))] = "default",
        node: Annotated[
            str | None,
            typer.Option("--node", metavar="NAME", help=_("Which node the files come from, where they do not say.")),
        ] = None,
        nodes: Annotated[
            Path | None, typer.Option("--nodes", metavar="FILE", help=_("The node file of an openb trace."))
        ] = None,
        epoch: Annotated[
            str | None,
            typer.Option("--epoch", metavar="TIME", help=_("Which instant a trace calls 0; default 1970-01-01.")),
        ] = None,
        expected_interval: Annotated[
            str | None,
            typer.Option(
                "--expected-interval",
                metavar="TIME",
                help=_(
                    "Listings and samples come this often (30s, 5m): between two no further apart, all was seen. Samples that come more "
                    "often stand for no longer than half as far again as they usually lie apart."
                ),
            ),
        ] = None,
        all_namespaces: Annotated[
            bool,
            typer.Option(
                "--all-namespaces",
                help=_("The listings of pods are of the whole cluster (kubectl get pods -A), whatever they show."),
            ),
        ] = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        kind, paths = _kind_and_paths(words, ports)
        request = ImportRequest(
            paths=paths,
            kind=kind,
            as_of=instant_of(as_of, "--as-of"),
            cluster=cluster,
            node=node,
            epoch=instant_of(epoch, "--epoch"),
            expected_interval_us=duration_of(expected_interval, "--expected-interval"),
            companions={"nodes": nodes} if nodes is not None else {},
            all_namespaces=all_namespaces,
        )
        with progress_bar() as progress:
            report = ports.importer(data).import_paths(request, progress)
        put_out(
            as_json,
            lambda: import_json(report),
            lambda width, rows_max: [*render_import(report, width, rows_max), *what_to_ask(data, report.asks)],
            rows,
        )
        raise typer.Exit(exit_code(report))

    return import_files


def _kind_and_paths(words: list[str], ports: Ports) -> tuple[str | None, list[Path]]:
    if len(words) > 1 and words[0] in ports.kinds():
        return words[0], [Path(word) for word in words[1:]]
    return None, [Path(word) for word in words]


def _demo(ports: Ports) -> Callable[..., None]:
    def demo(
        gpus: Annotated[int, typer.Option("--gpus", min=1, max=100_000, help=_("How many GPUs."))] = 64,
        days: Annotated[int, typer.Option("--days", min=1, max=3_650, help=_("How many days."))] = 14,
        seed: Annotated[int, typer.Option("--seed", min=0, help=_("The seed that fixes everything."))] = 7,
        troubles: Annotated[
            bool,
            typer.Option(
                "--troubles/--no-troubles",
                help=_("Beside it a small cluster of that name in which twelve things are wrong."),
            ),
        ] = True,
        live: Annotated[
            bool,
            typer.Option(
                "--live", help=_("Let the estate live now: watch and scrape it and serve, until interrupted.")
            ),
        ] = False,
        listen: Listen = LISTEN_DEFAULT,
        rows: Annotated[
            int | None, typer.Option("--rows", min=0, metavar="N", help=_("Rows of a table to show; 0 = all."))
        ] = 10,
        as_json: options.Json = False,
        data: options.Data = options.DEMO_DATA_DEFAULT,
    ) -> None:
        if live:
            ports.live_demo(data).run(DemoSpec(gpus, days, seed), listen, telling(data, as_json))
            return
        with progress_bar() as progress:
            report = ports.demo(data).run(DemoSpec(gpus, days, seed, troubles), progress)
        query = ports.query(data)
        answers = [
            query.answer(1, Question(by=("tenant",))),
            query.answer(2, Question(by=("tenant",))),
        ]

        def lines(width: int | None, rows_max: int | None) -> list[Line]:
            parts = [render_import(report, width, rows_max)]
            parts += [render_answer(answer, width, rows_max) for answer in answers]
            return [*(line for part in parts for line in (*part, Line("row", ""))), *what_to_ask(data)]

        put_out(
            as_json,
            lambda: {"import": import_json(report), "answers": [answer.to_json() for answer in answers]},
            lines,
            rows,
        )

    return demo
