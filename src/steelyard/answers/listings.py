"""Plain listings (findings, cards) a page at a time, and how the books stand: no question, only rows for machines.

The server's routes stand on these. The trick to know: a page begins after a *key*, not at a number, so rows that come in between pages
neither repeat nor hide others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from steelyard.answers import grounds
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, MINUTE_US, Instant, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")

Key = Sequence[str | int]
"""The values by which a listing is ordered, of one row."""

AGENT_SILENT_US: Final = 5 * MINUTE_US
AGENT_KNOWN_US: Final = DAY_US

_FINDING_KEY: Final = (("rank", int, 0), ("code", str, ""), ("subject", str, ""), ("id", str, ""))
_DEVICE_KEY: Final = (("cluster", str, ""), ("device_uuid", str, ""), ("node", str, ""))
_STAMPS: Final = {
    "occurred_us": "occurred_at",
    "first_seen_us": "first_seen_at",
    "last_seen_us": "last_seen_at",
    "valid_to_us": "valid_to_at",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """Rows as JSON values, and the key of the last where more follow."""

    rows: Sequence[Record]
    after: Key | None


@dataclass(frozen=True, slots=True)
class Books:
    """The last posting, the sum of absolute residuals in GPU-microseconds, the observed share of the last known day's supply."""

    run_id: int | None
    posted_at: Instant | None
    as_of: Instant | None
    residual_gpu_us: int | None
    coverage: float | Unknown


def findings_listed(rows: Rows, after: Key | None, limit: int) -> Listed:
    """Findings of facts and ledgers, gravest first, then by code, subject and content. Raises UsageError for a key of another form."""
    found = Reading(rows, SQL).run("findings", rows_max=limit + 1, **_bound(_FINDING_KEY, after))
    listed = [_row(row, {"rank"}) for row in found[:limit]]
    for row in listed:
        row["evidence"] = _parsed(row["evidence"])
    return Listed(listed, _key(found, limit, ("rank", "code", "subject", "id")))


def devices_listed(rows: Rows, after: Key | None, limit: int) -> Listed:
    """Every card on every node that it was seen on. Raises UsageError for a key of another form."""
    found = Reading(rows, SQL).run("devices", rows_max=limit + 1, **_bound(_DEVICE_KEY, after))
    listed = [_row(row, {"node_key"}) for row in found[:limit]]
    return Listed(listed, _key(found, limit, ("cluster", "device_uuid", "node_key")))


def last_run_id(rows: Rows) -> int | None:
    """The number of the last posting; None where there was none."""
    found = Reading(rows, SQL).run("last_posting")
    return int(found[0]["run_id"]) if found else None


def agents_heard(rows: Rows, now: Instant) -> tuple[int, int] | None:
    """(node agents heard of within ``AGENT_KNOWN_US``, those of them not within ``AGENT_SILENT_US``); None: none was.

    An agent's every delivery has a ``source_status`` of its node with source ``agent``.
    """
    found = Reading(rows, SQL).run("agents", silent=now - AGENT_SILENT_US, known=now - AGENT_KNOWN_US)[0]
    return (int(found["known"]), int(found["silent"])) if found["known"] else None


def books(rows: Rows) -> Books:
    """How the books stand. Coverage is Unknown where no supply is known."""
    reading = Reading(rows, SQL, grounds.SQL)
    posting = next(iter(reading.run("last_posting")), None)
    observed = reading.run("observed")[0]
    supply, unobserved = int(observed["supply_gpu_us"] or 0), int(observed["unobserved_gpu_us"] or 0)
    residual = grounds.residual(reading, None).value
    return Books(
        run_id=None if posting is None else int(posting["run_id"]),
        posted_at=None if posting is None else posting["posted_us"],
        as_of=None if posting is None else posting["as_of_us"],
        residual_gpu_us=residual if isinstance(residual, int) else None,
        coverage=float(Fraction(supply - unobserved, supply))
        if supply > 0
        else Unknown(_("no card of this estate is known")),
    )


def _bound(parts: Sequence[tuple[str, type, Any]], after: Key | None) -> dict[str, Any]:
    if after is None:
        return {"first": True, **{name: least for name, _kind, least in parts}}
    if len(after) != len(parts) or any(
        type(value) is not kind or (kind is int and not abs(int(value)) < 2**31)
        for value, (_name, kind, _least) in zip(after, parts, strict=True)
    ):
        raise UsageError(_("cursor: expected the next_cursor of a page of this listing"))
    return {"first": False, **{name: value for value, (name, _kind, _least) in zip(after, parts, strict=True)}}


def _key(found: Sequence[Record], limit: int, names: Sequence[str]) -> Key | None:
    return [found[limit - 1][name] for name in names] if len(found) > limit else None


def _row(row: Record, without: set[str]) -> Record:
    kept = {name: value for name, value in row.items() if name not in without}
    for name, stamp in _STAMPS.items():
        if name in kept:
            value = kept.pop(name)
            kept[stamp] = None if value is None else format_instant(value)
    return kept


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
