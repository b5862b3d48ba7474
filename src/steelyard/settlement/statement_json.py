"""The documented JSON form of a statement, and the statement behind it: instants in RFC 3339, amounts in millionths, totals beside the lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from steelyard.primitives.instant import format_instant, parse_instant
from steelyard.settlement.statement import Statement, StatementLine


def statement_json(statement: Statement) -> dict[str, Any]:
    """The JSON form."""
    return {
        "number": statement.number,
        "period": statement.period,
        "tenant": statement.tenant,
        "from": format_instant(statement.window.start),
        "to": format_instant(statement.window.end),
        "time_zone": statement.time_zone,
        "state": statement.state,
        "closed_at": None if statement.closed_at is None else format_instant(statement.closed_at),
        "as_of": format_instant(statement.as_of),
        "currency": statement.currency,
        "amount_micro": statement.amount_micro,
        "previous_micro": statement.previous_micro,
        "unpriced_count": statement.unpriced_count,
        "lines": [line_json(line) for line in statement.lines],
        "daily": [{"day": format_instant(day), "amount_micro": amount} for day, amount in statement.daily],
        "versions": dict(statement.versions),
        "notes": list(statement.notes),
    }


def line_json(line: StatementLine) -> dict[str, Any]:
    """A line's fields."""
    found = {each.name: getattr(line, each.name) for each in fields(line)}
    return {**found, "started_at": format_instant(line.started_at), "ended_at": format_instant(line.ended_at)}


def statement_of(found: Mapping[str, Any]) -> Statement:
    """The statement behind that form. Raises LookupError, TypeError or ValueError where it is of another one."""
    lines = []
    for each in found["lines"]:
        stamps = {"started_at": parse_instant(each["started_at"]), "ended_at": parse_instant(each["ended_at"])}
        lines.append({**each, **stamps})
    plain = {
        **{
            name: found[name]
            for name in (
                "number",
                "period",
                "tenant",
                "time_zone",
                "state",
                "currency",
                "previous_micro",
                "versions",
                "notes",
            )
        },
        "window": {"start": parse_instant(found["from"]), "end": parse_instant(found["to"])},
        "closed_at": None if found["closed_at"] is None else parse_instant(found["closed_at"]),
        "as_of": parse_instant(found["as_of"]),
        "lines": lines,
        "daily": [(parse_instant(each["day"]), each["amount_micro"]) for each in found["daily"]],
    }
    return msgspec.convert(plain, Statement)
