"""``steelyard serve`` and ``steelyard token``: the server of a data directory, and who may ask it over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from steelyard.answers.contract import Column, Table
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import format_instant
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.client import token_json
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.service_ports import ROLES, ServerAddress, Started, Token
from steelyard.surfaces.shared.tables import Line, lay_out

LISTEN_DEFAULT: Final = "127.0.0.1:8780"
_LOOPBACK: Final = ("http://127.", "http://[::1]")
_COLUMNS: Final = tuple(Column(name) for name in ("id", "name", "role", "tenant", "created_at", "revoked_at"))


def add_serving(app: typer.Typer, ports: Ports) -> None:
    """The command that serves, and those about tokens."""
    help_text = _("Hold the data directory and answer over HTTP; other commands on it talk to this one.")
    epilog = _("Example: {command}").format(command="steelyard serve --data DIR --listen 127.0.0.1:8780")
    app.command("serve", help=help_text, short_help=_("Serve the data directory"), epilog=epilog)(_serve(ports))
    group = typer.Typer(
        name="token",
        help=_("Tokens for the HTTP interface: make, list, revoke."),
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    _add(
        group,
        "create",
        _("Make a token; its secret is shown this once."),
        "--role viewer --tenant team-a --name grafana",
        _create(ports),
    )
    _add(group, "list", _("All tokens, the revoked ones too; never a secret."), "--json", _list(ports))
    _add(group, "revoke", _("Refuse a token from now on."), "0123456789ab", _revoke(ports))
    app.add_typer(group)


def _add(group: typer.Typer, name: str, help_text: str, example: str, command: Callable[..., None]) -> None:
    epilog = _("Example: {command}").format(command=f"steelyard token {name} {example}")
    group.command(name, help=help_text, short_help=help_text, epilog=epilog)(command)


Listen: TypeAlias = Annotated[
    str,
    typer.Option("--listen", metavar="HOST:PORT", help=_("Where to answer over HTTP; port 0 takes any free one.")),
]


def _serve(ports: Ports) -> Callable[..., None]:
    def serve(
        listen: Listen = LISTEN_DEFAULT,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        ports.server(data).run(listen, telling(data, as_json))

    return serve


def telling(data: Path, as_json: bool) -> Started:
    """Says once where the server is reached: one line, or one line of JSON."""

    def started(address: ServerAddress) -> None:
        text = _("serving {directory} at {address}; process {pid}; socket {socket}").format(
            directory=printable(str(data)),
            address=address.address,
            pid=address.pid,
            socket=printable(str(address.socket)),
        )
        document = {
            "address": address.address,
            "pid": address.pid,
            "socket": str(address.socket),
            "started_at": format_instant(address.started_at),
        }
        put_out(as_json, lambda: document, lambda *_sizes: [Line("row", text)], one_line=True)
        if not address.address.startswith(_LOOPBACK):
            warning = _("others can reach this address, and tokens pass it in the clear: put TLS before it")
            sys.stderr.write(f"steelyard: {warning}\n")

    return started


def _create(ports: Ports) -> Callable[..., None]:
    def create(
        role: Annotated[
            str, typer.Option("--role", metavar="ROLE", help=_("viewer, operator, finance, admin or agent."))
        ],
        name: Annotated[str, typer.Option("--name", metavar="NAME", help=_("What the token is for."))],
        tenant: Annotated[
            str | None, typer.Option("--tenant", metavar="NAME", help=_("A viewer's tenant, the only one it sees."))
        ] = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        wanted = next((known for known in ROLES if known == role), None)
        if wanted is None:
            raise UsageError(
                _("--role: expected one of {roles}; found {role}").format(roles=", ".join(ROLES), role=role[:40])
            )
        made = ports.tokens(data).create(name, wanted, tenant)
        note = _("keep it now: it is shown this once, and only its hash is stored (id {token})")
        put_out(
            as_json,
            lambda: {"token": token_json(made.token), "secret": made.secret},
            lambda *_sizes: [Line("row", made.secret), Line("note", note.format(token=made.token.token_id))],
        )

    return create


def _list(ports: Ports) -> Callable[..., None]:
    def listed(
        rows: options.Rows = None, as_json: options.Json = False, data: options.Data = options.DATA_DEFAULT
    ) -> None:
        tokens = ports.tokens(data).listed()
        put_out(
            as_json,
            lambda: {"tokens": [token_json(token) for token in tokens]},
            lambda width, rows_max: lay_out(
                Table(_("tokens"), _COLUMNS, [_row(each) for each in tokens]), width, rows_max
            ),
            rows,
        )

    return listed


def _row(token: Token) -> tuple[str | None, ...]:
    revoked = None if token.revoked_at is None else format_instant(token.revoked_at)
    return token.token_id, token.name, token.role, token.tenant, format_instant(token.created_at), revoked


def _revoke(ports: Ports) -> Callable[..., None]:
    def revoke(
        token_id: Annotated[str, typer.Argument(metavar="ID", help=_("The id that `steelyard token list` shows."))],
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        token = ports.tokens(data).revoke(token_id)
        text = _("revoked: {token} ({name})").format(token=token.token_id, name=printable(token.name))
        put_out(as_json, lambda: token_json(token), lambda *_sizes: [Line("row", text)])

    return revoke
