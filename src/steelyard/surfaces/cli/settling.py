"""``steelyard close``, ``bill``, ``restate``, ``control``: periods and their statements. Disputes and budgets stand in ``contesting``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.settlement_ports import DOCUMENT_FORMATS, Act, DocumentFormat, Look
from steelyard.surfaces.shared.settlement_text import render_bill, render_close, render_listed, render_verification

EXIT_BLOCKED: Final = 1
_FORMATS: Final = ("text", *DOCUMENT_FORMATS)

As: TypeAlias = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help=_("Who does it; default: the user of this machine."))
]
Shadow: TypeAlias = Annotated[
    bool, typer.Option("--shadow", help=_("The shadow period of that name, which no money follows."))
]
Period: TypeAlias = Annotated[
    str | None,
    typer.Option("--period", metavar="PERIOD", help=_("Such as 2026-11; default: that of the last known instant.")),
]
Label: TypeAlias = Annotated[
    str, typer.Argument(metavar="PERIOD", help=_("Such as 2026-11, or FY2026-P08 of a shifted calendar."))
]


def add_settling(app: typer.Typer, ports: Ports) -> None:
    """The four commands, and the list of periods."""
    examples = (
        "steelyard close 2026-11 --dry-run · steelyard close 2026-11 --accept open_incidents --reason 'no amount moves' --as ann · "
        "steelyard close 2026-11 --verify"
    )
    told = _(
        "Freezes a period into a folder of its own: rows, prices, lines and documents with their hashes; nothing changes it afterwards."
    )
    exits = _(
        "Exit 0: closed, or nothing speaks against it. 1: something blocks (--dry-run), or the snapshot is not what was written (--verify)."
    )
    _add(app, "close", f"{told}\n\n{exits}", _("Close a period, or say what blocks that"), examples, _close(ports))
    _add(
        app,
        "bill",
        _(
            "What tenants are asked for: drafts of an open period, the closed statements of a closed one, and what a line is made of."
        ),
        _("Statements, as text or documents"),
        "steelyard bill · steelyard bill --tenant team-a --period 2026-11 · steelyard bill --tenant team-a --format csv --out bill.csv",
        _bill(ports),
    )
    _add(
        app,
        "restate",
        _(
            "What the ledgers would say of a closed period now, against what was closed, and why: late facts, a price, a definition."
        ),
        _("What a closed period would be corrected by"),
        "steelyard restate 2026-10",
        _restate(ports),
    )
    _add(
        app,
        "control",
        _(
            "What finance checks before it signs: trial balance, recovery, ties to declared totals and to a provider's bill, estimated lines."
        ),
        _("The control page of a period"),
        "steelyard control 2026-11 --declared 'depreciation=120000 USD'",
        _control(ports),
    )
    _add(
        app,
        "periods",
        _("All periods that have rows, and how each stands."),
        None,
        "steelyard periods --json",
        _periods(ports),
    )


def _add(app: typer.Typer, name: str, told: str, short: str | None, example: str, command: Callable[..., None]) -> None:
    epilog = _("Examples: {commands}").format(commands=example)
    app.command(name, help=told, short_help=short or told, epilog=epilog)(command)


def _close(ports: Ports) -> Callable[..., None]:
    def command(
        period: Label,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help=_("Only list what blocks, with what to do about it."))
        ] = False,
        verify: Annotated[
            bool, typer.Option("--verify", help=_("Check every hash of a closed period and make its documents again."))
        ] = False,
        accept: Annotated[
            list[str] | None,
            typer.Option("--accept", metavar="CODE", help=_("Let a blocker pass by its code; may be repeated.")),
        ] = None,
        reason: Annotated[
            str, typer.Option("--reason", metavar="TEXT", help=_("Why they are let pass; it is recorded."))
        ] = "",
        shadow: Shadow = False,
        actor: As = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        label, codes = text_of(period), [text_of(code) for code in accept or ()]
        if verify and dry_run:
            raise UsageError(_("--dry-run and --verify do not go together"))
        if verify:
            found = ports.settlement(data).look(Look("verify", label, shadow=shadow))
            put_out(as_json, lambda: found, lambda width, rows_max: render_verification(found, width, rows_max), rows)
            raise typer.Exit(0 if found["is_same"] else EXIT_BLOCKED)
        if dry_run:
            found = ports.settlement(data).look(Look("close", label, shadow=shadow, accepted=codes))
            put_out(as_json, lambda: found, lambda width, rows_max: render_close(found, width, rows_max), rows)
            raise typer.Exit(EXIT_BLOCKED if found["blockers"] else 0)
        body = {"shadow": shadow, "accepted": dict.fromkeys(codes, text_of(reason))}
        found = ports.settlement(data).act(Act("close", label, maybe(actor), body=body))
        put_out(as_json, lambda: found, lambda width, rows_max: render_close(found, width, rows_max), rows)

    return command


def _bill(ports: Ports) -> Callable[..., None]:
    def command(
        tenant: options.Tenant = None,
        period: Period = None,
        line: Annotated[
            str | None, typer.Option("--line", metavar="ID", help=_("What a line is made of: intervals and grains."))
        ] = None,
        form: Annotated[
            str,
            typer.Option(
                "--format", metavar="FORMAT", help=_("text, csv, xlsx, pdf, parquet, focus-1.2 or focus-1.4.")
            ),
        ] = "text",
        out: Annotated[
            Path | None,
            typer.Option(
                "--out", metavar="FILE", help=_("Where a document goes; a folder for those of several tenants.")
            ),
        ] = None,
        shadow: Shadow = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        wanted = Look("statements" if line is None else "line", maybe(period), maybe(tenant), shadow, maybe(line))
        if form == "text":
            if out is not None:
                raise UsageError(_("--out goes with a --format other than text"))
            found = ports.settlement(data).look(wanted)
            render = render_bill if line is None else render_listed
            put_out(as_json, lambda: found, lambda width, rows_max: render(found, width, rows_max), rows)
            return
        known: DocumentFormat | None = next((each for each in DOCUMENT_FORMATS if each == form), None)
        if known is None:
            raise UsageError(
                _("--format: expected one of {formats}; found {found}").format(
                    formats=", ".join(_FORMATS), found=form[:40]
                )
            )
        _write(ports.settlement(data).documents(wanted, known), known, out, as_json)

    return command


def _write(documents: Sequence[tuple[str, bytes]], form: str, out: Path | None, as_json: bool) -> None:
    """One document to a file or to stdout, several into a folder."""
    if out is None and len(documents) == 1 and form in ("csv", "focus-1.2", "focus-1.4"):
        sys.stdout.buffer.write(documents[0][1])
        sys.stdout.flush()
        return
    if out is None:
        raise UsageError(_("--out: name a file for one document, or a folder for those of several tenants"))
    if len(documents) > 1 and (out.suffix or out.is_file()):
        raise UsageError(
            _("{count} statements: name one with --tenant, or a folder with --out").format(count=len(documents))
        )
    paths = []
    for name, content in documents:
        path = out / name if len(documents) > 1 or out.is_dir() else out
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.part")
        draft.write_bytes(content)
        draft.replace(path)
        paths.append(str(path))
    from steelyard.surfaces.shared.tables import Line

    put_out(as_json, lambda: {"files": paths}, lambda *_sizes: [Line("row", printable(path)) for path in paths])


def _restate(ports: Ports) -> Callable[..., None]:
    def command(
        period: Label,
        tenant: options.Tenant = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        _show(ports, data, Look("restatement", text_of(period), maybe(tenant)), rows, as_json)

    return command


def _control(ports: Ports) -> Callable[..., None]:
    def command(
        period: Label,
        declared: Annotated[
            list[str] | None,
            typer.Option(
                "--declared",
                metavar="NAME=AMOUNT CURRENCY",
                help=_("A total of depreciation or invoices to tie to; may be repeated."),
            ),
        ] = None,
        shadow: Shadow = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        texts = tuple(text_of(each) for each in declared or ())
        _show(ports, data, Look("control", text_of(period), None, shadow, declared=texts), rows, as_json)

    return command


def _periods(ports: Ports) -> Callable[..., None]:
    def command(
        rows: options.Rows = None, as_json: options.Json = False, data: options.Data = options.DATA_DEFAULT
    ) -> None:
        _show(ports, data, Look("periods"), rows, as_json)

    return command


def _show(ports: Ports, data: Path, look: Look, rows: int | None, as_json: bool) -> None:
    found = ports.settlement(data).look(look)
    put_out(as_json, lambda: found, lambda width, rows_max: render_listed(found, width, rows_max), rows)


def text_of(typed: str) -> str:
    """What was typed as text: bytes of the command line that are none are replaced."""
    return typed.encode("utf-8", "replace").decode()


def maybe(typed: str | None) -> str | None:
    """The same of what may be left out."""
    return None if typed is None else text_of(typed)
