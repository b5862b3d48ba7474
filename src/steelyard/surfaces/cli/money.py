"""``steelyard prices``, ``tenancy`` and ``rates``: what is declared about money, what holds, and what nothing covers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.money_ports import DeclaredKind, DeclareRequest, Listing
from steelyard.surfaces.shared.money_text import render_declaration, render_listing
from steelyard.surfaces.shared.options import instant_of
from steelyard.surfaces.shared.ports import Ports

FILE_BYTES_MAX: Final = 16 << 20

_File: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help=_("The file; taken whole or not at all."))]
_DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help=_("Only say what would change; nothing is written."))
]
_Book: TypeAlias = Annotated[
    str | None,
    typer.Option("--book", metavar="NAME", help=_("Which price book; default: what the file says, else `default`.")),
]
_At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help=_("The instant, such as 2026-11-30T02:00:00Z; default: the last one that is known."),
    ),
]


def add_money(app: typer.Typer, ports: Ports) -> None:
    """The three groups of commands."""
    prices = _group(
        app,
        "prices",
        _("Price books"),
        _("Price books: declare a version, see what holds, what changed and what is unpriced."),
    )
    _add(
        prices,
        "prices import",
        _("Declare a version of a price book from CSV or TOML."),
        'prices.csv --reason "list of 2027"',
        _import_prices(ports),
    )
    _add(
        prices,
        "prices list",
        _("The prices that hold at an instant."),
        "--at 2026-11-30T00:00:00Z",
        _list_prices(ports),
    )
    _add(
        prices,
        "prices diff",
        _("What a version changed: lines added, removed, and changed, old and new."),
        "1 2",
        _diff(ports),
    )
    _add(prices, "prices unpriced", _("What no line prices, and why."), "--json", _unpriced(ports))
    tree = _group(
        app,
        "tenancy",
        _("The tenancy tree"),
        _("The tenancy tree: department, team, project and cost centre of each namespace."),
    )
    _add(
        tree,
        "tenancy import",
        _("Declare a version of the tree from a CSV."),
        "tree.csv --dry-run",
        _import(ports, "tenancy"),
    )
    _add(
        tree,
        "tenancy show",
        _("The lines that hold at an instant, in the order in which they decide."),
        "--at 2026-11-30T00:00:00Z",
        _tree(ports),
    )
    _add(tree, "tenancy check", _("Namespaces that were seen and that no line maps."), "--json", _check(ports))
    rates = _group(app, "rates", _("Dated exchange rates"), _("Dated exchange rates."))
    _add(rates, "rates import", _("Declare rates from a CSV."), "rates.csv", _import(ports, "exchange_rates"))
    _add(rates, "rates list", _("The rates that hold at an instant."), "--at 2026-11-30T00:00:00Z", _rates(ports))


def _group(app: typer.Typer, name: str, short_help: str, help_text: str) -> typer.Typer:
    group = typer.Typer(name=name, help=help_text, short_help=short_help, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group)
    return group


def _add(group: typer.Typer, words: str, help_text: str, example: str, command: Callable[..., None]) -> None:
    epilog = _("Example: {command}").format(command=f"steelyard {words} {example}")
    group.command(words.split()[1], help=help_text, short_help=help_text, epilog=epilog)(command)


def _import_prices(ports: Ports) -> Callable[..., None]:
    def command(
        file: _File,
        book: _Book = None,
        reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help=_("Why, for the audit."))] = None,
        dry_run: _DryRun = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        request = DeclareRequest("price_book", _content(file), _name(file), _text(book), _text(reason), dry_run)
        _declare(ports, data, request, rows, as_json)

    return command


def _import(ports: Ports, kind: DeclaredKind) -> Callable[..., None]:
    def command(
        file: _File,
        dry_run: _DryRun = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        request = DeclareRequest(kind, _content(file), _name(file), dry_run=dry_run)
        _declare(ports, data, request, rows, as_json)

    return command


def _list_prices(ports: Ports) -> Callable[..., None]:
    def command(
        at: _At = None,
        book: _Book = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        _show(ports.money(data).prices(instant_of(at, "--at"), _text(book)), rows, as_json)

    return command


def _diff(ports: Ports) -> Callable[..., None]:
    def command(
        versions: Annotated[
            list[int] | None,
            typer.Argument(
                metavar="[A B]", min=0, help=_("Two versions; default: the last one and the one before it.")
            ),
        ] = None,
        book: _Book = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        asked: list[int | None] = [*versions] if versions else [None, None]
        if len(asked) != 2:
            raise UsageError(_("expected two versions such as `1 2`, or none; found one"))
        _show(ports.money(data).price_changes(asked[0], asked[1], _text(book)), rows, as_json)

    return command


def _unpriced(ports: Ports) -> Callable[..., None]:
    def command(
        rows: options.Rows = None, as_json: options.Json = False, data: options.Data = options.DATA_DEFAULT
    ) -> None:
        _show(ports.money(data).unpriced(), rows, as_json)

    return command


def _tree(ports: Ports) -> Callable[..., None]:
    def command(
        at: _At = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        _show(ports.money(data).tree(instant_of(at, "--at")), rows, as_json)

    return command


def _check(ports: Ports) -> Callable[..., None]:
    def command(
        rows: options.Rows = None, as_json: options.Json = False, data: options.Data = options.DATA_DEFAULT
    ) -> None:
        _show(ports.money(data).unmapped(), rows, as_json)

    return command


def _rates(ports: Ports) -> Callable[..., None]:
    def command(
        at: _At = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        _show(ports.money(data).rates(instant_of(at, "--at")), rows, as_json)

    return command


def _content(file: Path) -> bytes:
    """The file's bytes within the bound. Raises UsageError beyond it, for a folder and where there is none."""
    if not file.is_file():
        raise UsageError(_("no such file: {path}").format(path=file))
    with file.open("rb") as stream:
        content = stream.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(_("{path}: expected at most {limit} bytes").format(path=file, limit=FILE_BYTES_MAX))
    return content


def _name(file: Path) -> str:
    return file.name.encode("utf-8", "replace").decode()


def _text(typed: str | None) -> str | None:
    return None if typed is None else typed.encode("utf-8", "replace").decode()


def _declare(ports: Ports, data: Path, request: DeclareRequest, rows: int | None, as_json: bool) -> None:
    report = ports.money(data).declare(request)
    put_out(as_json, report.to_json, lambda width, rows_max: render_declaration(report, width, rows_max), rows)


def _show(listing: Listing, rows: int | None, as_json: bool) -> None:
    put_out(as_json, listing.to_json, lambda width, rows_max: render_listing(listing, width, rows_max), rows)
