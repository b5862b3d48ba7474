"""Periods, statements, closes and budgets as lines of text; amounts of money with two decimals, rounded for the eye alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import HOUR_US, format_instant
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.settlement.statement_json import statement_of
from steelyard.surfaces.shared.money_client import listing_of
from steelyard.surfaces.shared.money_text import render_listing
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import Line, lay_out, sentence, wrapped

Lines = Callable[[int | None, int | None], list[Line]]


def money_text(micro: int | None) -> str:
    """Millionths as an amount with two decimals, a half rounded away from 0: ``1,234.50``; a dash where there is none."""
    if micro is None:
        return "-"
    cents = (abs(micro) + 5_000) // 10_000
    return f"{'-' if micro < 0 and cents else ''}{cents // 100:,}.{cents % 100:02d}"


def render_listed(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """A listing, as it came."""
    return render_listing(listing_of(found), width, rows_max)


def render_bill(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """One statement with its lines, or the totals of all of them."""
    statements = [statement_of(each) for each in found["statements"]]
    if not statements:
        return sentence(
            "row", _("no statement: nobody is asked for anything in {period}").format(period=found["period"]), width
        )
    if len(statements) == 1:
        return _statement(statements[0], width, rows_max)
    columns = tuple(Column(name) for name in ("tenant", "number", "state", "currency", "amount", "lines", "unpriced"))
    rows = [
        (
            each.tenant,
            each.number,
            each.state,
            each.currency,
            money_text(each.amount_micro),
            len(each.lines),
            each.unpriced_count,
        )
        for each in statements
    ]
    title = sentence("heading", _("Statements of {period}").format(period=statements[0].period), width)
    return [*title, Line("row", ""), *lay_out(Table("statements", columns, rows), width, rows_max)]


def _statement(statement: Statement, width: int | None, rows_max: int | None) -> list[Line]:
    head = _("Statement {number} of {tenant}, {period}").format(
        number=statement.number or _("(draft)"), tenant=printable(statement.tenant), period=statement.period
    )
    window = (
        f"{format_instant(statement.window.start)} .. {format_instant(statement.window.end)} ({statement.time_zone})"
    )
    total = _("total {amount} {currency}").format(
        amount=money_text(statement.amount_micro), currency=statement.currency
    )
    told = [window, total]
    if statement.unpriced_count:
        text = ngettext("{count} line has no price", "{count} lines have no price", statement.unpriced_count)
        told.append(text.format(count=statement.unpriced_count))
    if statement.previous_micro is not None:
        told.append(_("the period before {amount}").format(amount=money_text(statement.previous_micro)))
    names = ("line_id", "kind", "what", "where", "gpu_hours", "unit_price", "amount", "cost", "marks")
    units = {"gpu_hours": "GPU-h"}
    table = Table(
        "lines", tuple(Column(name, units.get(name, "")) for name in names), [_line(each) for each in statement.lines]
    )
    lines = [*sentence("heading", head, width), *(Line("row", text) for text in wrapped(told, width, ""))]
    return [*lines, Line("row", ""), *lay_out(table, width, rows_max)]


def _line(line: StatementLine) -> Sequence[Value]:
    price = None if line.unit_price_micro is None else f"{line.unit_price_micro / 1e6:,.4f}/{line.per}"
    marks = [
        *([_("estimated")] if line.estimated else []),
        *([_("provisional")] if line.provisional else []),
        *([line.unpriced_reason] if line.unpriced_reason else []),
        *([f"{line.reference}: {line.reason}"] if line.reference else []),
    ]
    where = " ".join(part for part in (line.node, line.model) if part) or None
    hours = line.quantity_gpu_us / HOUR_US if line.quantity_gpu_us else None
    return (
        line.line_id, line.kind, line.description, where, hours, price, money_text(line.amount_micro),
        None if line.cost_micro is None else money_text(line.cost_micro), ", ".join(marks) or None,
    )  # fmt: skip


def render_close(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """What speaks against a close, or what it made."""
    label = found["period"] + (" (shadow)" if found["shadow"] else "")
    if found["state"] == "closed":
        told = [
            _("{period} is closed since {at}").format(period=label, at=found["closed_at"]),
            _("in {folder}").format(folder=printable(found["folder"])),
            _("manifest {sha256}").format(sha256=found["manifest_sha256"]),
        ]
        told += [
            _("waived: {code}, because {reason}").format(code=code, reason=printable(reason))
            for code, reason in found["waived"].items()
        ]
        told += [
            _("not written: {format}: {reason}").format(format=form, reason=printable(reason))
            for form, reason in found["left_out"].items()
        ]
        told += [
            _("told: {target}: {state}").format(target=printable(each["target"]), state=each["state"])
            for each in found.get("notices", ())
        ]
        columns = tuple(Column(name) for name in ("number", "tenant", "currency", "amount", "lines", "unpriced"))
        rows = [
            (
                each["number"],
                each["tenant"],
                each["currency"],
                money_text(each["amount_micro"]),
                each["lines_count"],
                each["unpriced_count"],
            )
            for each in found["statements"]
        ]
        lines = [line for text in told for line in sentence("row", text, width)]
        return [*lines, Line("row", ""), *lay_out(Table("statements", columns, rows), width, rows_max)]
    lines = (
        sentence("row", _("{period}: nothing speaks against closing it").format(period=label), width)
        if found["can_close"]
        else []
    )
    if found["blockers"]:
        heads = tuple(Column(name) for name in ("code", "what", "to_do", "can_be_waived"))
        cells = [(each["code"], each["message"], each["todo"], each["can_be_waived"]) for each in found["blockers"]]
        lines += sentence("row", _("{period} cannot be closed yet").format(period=label), width)
        lines += [Line("row", ""), *lay_out(Table("blockers", heads, cells), width, rows_max)]
    count = found["corrections_count"]
    if count:
        text = ngettext(
            "{count} correction of closed periods would be carried",
            "{count} corrections of closed periods would be carried",
            count,
        )
        lines += sentence("note", text.format(count=count), width)
    return lines


def render_verification(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """Whether a snapshot is what the close wrote, and comes out of its files again."""
    if found["is_same"]:
        text = _(
            "{period}: {count} files are what the close wrote, and lines and documents come out of them byte for byte"
        )
        return sentence("row", text.format(period=found["period"], count=found["files_count"]), width)
    return [line for each in found["differences"] for line in sentence("row", each, width)]


_DISPUTE: Final = (
    "dispute_id",
    "tenant",
    "number",
    "line_id",
    "state",
    "owner",
    "deadline_at",
    "overdue",
    "amount",
    "correction",
    "corrected_in",
)


def render_disputes(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """Disputes, or one with its trail."""
    listed = found["disputes"] if "disputes" in found else [found["dispute"]]
    rows = []
    for each in listed:
        shown = {**each, "amount": money_text(each["amount_micro"]), "correction": money_text(each["correction_micro"])}
        rows.append([shown[name] for name in _DISPUTE])
    lines = lay_out(Table("disputes", tuple(Column(name) for name in _DISPUTE), rows), width, rows_max)
    if "events" in found:
        names = ("at", "actor", "action", "detail")
        table = Table(
            "events",
            tuple(Column(name) for name in names),
            [[each[name] for name in names] for each in found["events"]],
        )
        lines += [Line("row", ""), *lay_out(table, width, rows_max)]
    return lines


def render_budgets(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """Budgets, or one that was just set or approved."""
    listed = found["budgets"] if "budgets" in found else [found["budget"]]
    names = ("tenant", "period", "version", "amount", "currency", "state", "set_by", "approved_by")
    rows = [
        (
            each["tenant"], each["label"], each["version"], money_text(each["amount_micro"]), each["currency"], each["state"], each["set_by"],
            each["approved_by"],
        )
        for each in listed
    ]  # fmt: skip
    return lay_out(Table("budgets", tuple(Column(name) for name in names), rows), width, rows_max)


def render_check(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """How budgets stand: one line for each, worst told by the exit code."""
    checks = found["checks"]
    if not checks:
        return sentence("row", _("UNKNOWN - no budget counts in {period}").format(period=found["period"]), width)
    names = ("tenant", "verdict", "budget", "spent", "used", "forecast", "low", "high", "quota_gpus", "why")
    units = {"used": "%", "quota_gpus": "GPU"}
    rows = [
        (
            each["tenant"], each["verdict"].upper(), money_text(each["amount_micro"]), money_text(each["spent_micro"]), each["used_percent"],
            money_text(each["forecast_micro"]), money_text(each["forecast_low_micro"]), money_text(each["forecast_high_micro"]),
            each["quota_gpus"], "; ".join(each["reasons"]) or None,
        )
        for each in checks
    ]  # fmt: skip
    table = Table("budgets", tuple(Column(name, units.get(name, "")) for name in names), rows)
    first = checks[0]
    said = _("forecast: {method}; between low and high in {level} of earlier cases of the same reach").format(
        method=first["forecast_method"], level=f"{first['forecast_level_percent']} %"
    )
    return [*lay_out(table, width, rows_max), *sentence("note", said, width)]


def render_notices(found: Mapping[str, Any], width: int | None, rows_max: int | None) -> list[Line]:
    """Who was told of closes, and whether it was taken."""
    names = ("notice_id", "label", "target", "state", "tries_count", "last_at", "message")
    table = Table(
        "notices", tuple(Column(name) for name in names), [[each[name] for name in names] for each in found["notices"]]
    )
    return lay_out(table, width, rows_max)
