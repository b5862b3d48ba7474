"""``steelyard dispute`` and ``steelyard budget``: lines that are contested, and what tenants may be asked for."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Annotated, Final

import typer

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import format_instant
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.cli.settling import As, Period, maybe, text_of
from steelyard.surfaces.shared.options import instant_of
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.settlement_ports import Act, Look
from steelyard.surfaces.shared.settlement_text import (
    render_budgets,
    render_check,
    render_disputes,
    render_listed,
    render_notices,
)

MICRO_MAX: Final = 2**62


def add_contesting(app: typer.Typer, ports: Ports) -> None:
    """Both groups."""
    group = _group(
        app,
        "dispute",
        _("Contest a line of a closed statement; an accepted one comes back as a correction in the next period."),
    )
    example = "0123456789abcdef --reason 'the node was down' --owner finance-desk --deadline 2027-01-15 --as ann"
    _add(group, "dispute open", _("Contest a line: why, who decides it, until when."), example, _open(ports))
    _add(group, "dispute list", _("All disputes, and how each stands."), "--json", _list(ports))
    _add(group, "dispute show", _("One dispute with its trail."), "1a2b3c4d", _show(ports))
    _add(
        group,
        "dispute decide",
        _("Accept or reject a dispute; whoever opened it may not."),
        "1a2b3c4d accept --reason 'so it was' --as bob",
        _decide(ports),
    )
    group = _group(app, "budget", _("What a tenant may be asked for in a period: set, approve, check with a forecast."))
    _add(
        group,
        "budget set",
        _("Put a budget down; it counts at once, or once it is approved."),
        "team-a 2026-12 20000 --currency USD",
        _set(ports),
    )
    _add(
        group,
        "budget approve",
        _("Let a proposed budget count; whoever proposed it may not."),
        "team-a 2026-12 1 --as bob",
        _approve(ports),
    )
    _add(group, "budget list", _("All budgets, version by version."), "--json", _budgets(ports))
    _add(
        group,
        "budget check",
        _("What is gone, and where the period is going to end. Exit 0 all is well, 1 warning, 2 critical, 3 unknown."),
        "--tenant team-a",
        _check(ports),
    )
    _add(group, "budget approvals", _("Who approves what, by the settings."), "--json", _approvals(ports))
    _add(
        group,
        "budget notices",
        _("Who was told of closes; --send tries again what was not taken."),
        "--send",
        _notices(ports),
    )


def _group(app: typer.Typer, name: str, help_text: str) -> typer.Typer:
    group = typer.Typer(name=name, help=help_text, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group)
    return group


def _add(group: typer.Typer, words: str, help_text: str, example: str, command: Callable[..., None]) -> None:
    epilog = _("Example: {command}").format(command=f"steelyard {words} {example}")
    group.command(words.split()[1], help=help_text, short_help=help_text, epilog=epilog)(command)


def _open(ports: Ports) -> Callable[..., None]:
    def command(
        line: Annotated[
            str, typer.Argument(metavar="LINE", help=_("The id of the line, as `steelyard bill` shows it."))
        ],
        reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help=_("Why it is contested."))],
        owner: Annotated[str, typer.Option("--owner", metavar="NAME", help=_("Who decides it."))],
        deadline: Annotated[str, typer.Option("--deadline", metavar="TIME", help=_("Until when it is to be decided."))],
        number: Annotated[
            str | None, typer.Option("--statement", metavar="NUMBER", help=_("Its statement, where several have it."))
        ] = None,
        actor: As = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        until = instant_of(text_of(deadline), "--deadline")
        body = {
            "line": text_of(line), "number": maybe(number), "reason": text_of(reason), "owner": text_of(owner),
            "deadline_at": None if until is None else format_instant(until),
        }  # fmt: skip
        found = ports.settlement(data).act(Act("dispute_open", actor=maybe(actor), body=body))
        put_out(as_json, lambda: found, lambda width, rows_max: render_disputes(found, width, rows_max))

    return command


def _decide(ports: Ports) -> Callable[..., None]:
    def command(
        dispute: Annotated[str, typer.Argument(metavar="ID", help=_("The id that `steelyard dispute list` shows."))],
        decision: Annotated[str, typer.Argument(metavar="accept|reject", help=_("What is decided."))],
        reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help=_("Why."))],
        amount: Annotated[
            str | None,
            typer.Option(
                "--amount",
                metavar="AMOUNT",
                help=_("By how much the line moves, such as -12.50; default: all of it back."),
            ),
        ] = None,
        actor: As = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        if decision not in ("accept", "reject"):
            raise UsageError(_("expected accept or reject, found {found}").format(found=repr(decision[:40])))
        body = {
            "decision": decision,
            "reason": text_of(reason),
            "amount_micro": None if amount is None else micro_of(amount, "--amount"),
        }
        found = ports.settlement(data).act(Act("dispute_decide", text_of(dispute), maybe(actor), body=body))
        put_out(as_json, lambda: found, lambda width, rows_max: render_disputes(found, width, rows_max))

    return command


def _list(ports: Ports) -> Callable[..., None]:
    def command(
        tenant: options.Tenant = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        found = ports.settlement(data).look(Look("disputes", tenant=maybe(tenant)))
        put_out(as_json, lambda: found, lambda width, rows_max: render_disputes(found, width, rows_max), rows)

    return command


def _show(ports: Ports) -> Callable[..., None]:
    def command(
        dispute: Annotated[str, typer.Argument(metavar="ID", help=_("The id that `steelyard dispute list` shows."))],
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        found = ports.settlement(data).look(Look("dispute", key=text_of(dispute)))
        put_out(as_json, lambda: found, lambda width, rows_max: render_disputes(found, width, rows_max))

    return command


def _set(ports: Ports) -> Callable[..., None]:
    def command(
        tenant: Annotated[str, typer.Argument(metavar="TENANT", help=_("Whose."))],
        period: Annotated[str, typer.Argument(metavar="PERIOD", help=_("Such as 2026-12."))],
        amount: Annotated[str, typer.Argument(metavar="AMOUNT", help=_("How much, such as 20000 or 1250.50."))],
        currency: Annotated[
            str, typer.Option("--currency", metavar="CODE", help=_("Of the amount, such as USD or CNY."))
        ],
        actor: As = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        body = {
            "tenant": text_of(tenant),
            "period": text_of(period),
            "amount_micro": micro_of(amount, "AMOUNT"),
            "currency": text_of(currency),
        }
        found = ports.settlement(data).act(Act("budget_set", actor=maybe(actor), body=body))
        put_out(as_json, lambda: found, lambda width, rows_max: render_budgets(found, width, rows_max))

    return command


def _approve(ports: Ports) -> Callable[..., None]:
    def command(
        tenant: Annotated[str, typer.Argument(metavar="TENANT", help=_("Whose."))],
        period: Annotated[str, typer.Argument(metavar="PERIOD", help=_("Such as 2026-12."))],
        version: Annotated[int, typer.Argument(metavar="VERSION", help=_("Which version of it."))],
        actor: As = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        body = {"tenant": text_of(tenant), "period": text_of(period), "version": version}
        found = ports.settlement(data).act(Act("budget_approve", actor=maybe(actor), body=body))
        put_out(as_json, lambda: found, lambda width, rows_max: render_budgets(found, width, rows_max))

    return command


def _budgets(ports: Ports) -> Callable[..., None]:
    def command(
        tenant: options.Tenant = None,
        period: Period = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        found = ports.settlement(data).look(Look("budgets", maybe(period), maybe(tenant)))
        put_out(as_json, lambda: found, lambda width, rows_max: render_budgets(found, width, rows_max), rows)

    return command


def _check(ports: Ports) -> Callable[..., None]:
    def command(
        tenant: options.Tenant = None,
        period: Period = None,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        found = ports.settlement(data).look(Look("budget_check", maybe(period), maybe(tenant)))
        put_out(as_json, lambda: found, lambda width, rows_max: render_check(found, width, rows_max), rows)
        raise typer.Exit(found["exit_code"])

    return command


def _approvals(ports: Ports) -> Callable[..., None]:
    def command(as_json: options.Json = False, data: options.Data = options.DATA_DEFAULT) -> None:
        found = ports.settlement(data).look(Look("approvals"))
        put_out(as_json, lambda: found, lambda width, rows_max: render_listed(found, width, rows_max))

    return command


def _notices(ports: Ports) -> Callable[..., None]:
    def command(
        send: Annotated[bool, typer.Option("--send", help=_("Send what was not taken yet."))] = False,
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        settlement = ports.settlement(data)
        found = settlement.act(Act("notify")) if send else settlement.look(Look("notices"))
        put_out(as_json, lambda: found, lambda width, rows_max: render_notices(found, width, rows_max), rows)

    return command


def micro_of(typed: str, option: str) -> int:
    """An amount with at most six decimals as millionths. Raises UsageError for any other text."""
    try:
        micro = Decimal(typed.strip().replace(",", "")) * 1_000_000
        whole = int(micro)
    except (InvalidOperation, ValueError, OverflowError):
        micro, whole = Decimal(0), 1
    if micro != whole or abs(whole) >= MICRO_MAX:
        raise UsageError(
            _("{option}: expected an amount such as 1250.50, found {found}").format(
                option=option, found=repr(typed[:40])
            )
        )
    return whole
