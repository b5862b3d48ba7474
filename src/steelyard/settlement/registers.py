"""What is decided about periods, as rows of ``store.period`` and ``store.statement``: which is closing or closed, what its statements are called.

``closing`` moves a period from state to state here and nowhere else. The trick to know: a period without a row is open, so opening one needs no act,
and a close that never came to its end leaves a row that says ``closing``, from which the next start knows where to look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from steelyard.primitives.instant import Instant, Window
from steelyard.store import Store

State = Literal["open", "closing", "closed"]
_COLUMNS: Final = (
    "label, shadow, state, epoch_us(from_at), epoch_us(to_at), epoch_us(started_at), started_by, epoch_us(closed_at), run_id, "
    "manifest_sha256, waived"
)


@dataclass(frozen=True, slots=True)
class PeriodRow:
    """A period that is closing or closed. ``run_id``: the last posting run that the close saw. ``waived``: code -> reason."""

    label: str
    shadow: bool
    state: State
    window: Window
    started_at: Instant
    started_by: str
    closed_at: Instant | None = None
    run_id: int | None = None
    manifest_sha256: str | None = None
    waived: Mapping[str, str] | None = None

    @property
    def folder_name(self) -> str:
        """The period's folder below ``periods``."""
        return f"{self.label}-shadow" if self.shadow else self.label


@dataclass(frozen=True, slots=True)
class StatementRow:
    """A statement that was closed, without its lines."""

    number: str
    label: str
    shadow: bool
    tenant: str
    currency: str
    time_zone: str
    window: Window
    lines_count: int
    unpriced_count: int
    amount_micro: int


def period_rows(store: Store) -> list[PeriodRow]:
    """All periods that have a row, oldest first."""
    return [_period(row) for row in store.rows(f"SELECT {_COLUMNS} FROM store.period ORDER BY from_at, label, shadow")]


def period_row(store: Store, label: str, shadow: bool = False) -> PeriodRow | None:
    """The row of a period; None = it is open."""
    found = store.rows(f"SELECT {_COLUMNS} FROM store.period WHERE label = ? AND shadow = ?", [label, shadow])
    return _period(found[0]) if found else None


def _period(row: Sequence[Any]) -> PeriodRow:
    waived = msgspec.json.decode(row[10], type=dict[str, str]) if row[10] else None
    return PeriodRow(
        row[0], bool(row[1]), row[2], Window(row[3], row[4]), row[5], row[6], row[7], row[8], row[9], waived
    )


def begin(store: Store, label: str, shadow: bool, window: Window, actor: str, now: Instant) -> None:
    """The period is closing from now on."""
    with store.transaction():
        store.execute(
            "INSERT INTO store.period (label, shadow, state, from_at, to_at, started_at, started_by) "
            "VALUES (?, ?, 'closing', make_timestamp(?::BIGINT), make_timestamp(?::BIGINT), make_timestamp(?::BIGINT), ?)",
            [label, shadow, window.start, window.end, now, actor],
        )


def roll_back(store: Store, label: str, shadow: bool) -> None:
    """The period is open again: its close never came to an end."""
    with store.transaction():
        store.execute("DELETE FROM store.period WHERE label = ? AND shadow = ? AND state = 'closing'", [label, shadow])


def finish(
    store: Store,
    row: PeriodRow,
    closed_at: Instant,
    run_id: int | None,
    manifest_sha256: str,
    waived: Mapping[str, str],
    statements: Sequence[StatementRow],
) -> None:
    """The period is closed, and its statements have their numbers, in one transaction (or within the open one)."""
    with store.transaction():
        store.execute(
            "UPDATE store.period SET state = 'closed', closed_at = make_timestamp(?::BIGINT), run_id = ?, manifest_sha256 = ?, waived = ? "
            "WHERE label = ? AND shadow = ?",
            [
                closed_at,
                run_id,
                manifest_sha256,
                msgspec.json.encode(dict(waived), order="sorted").decode(),
                row.label,
                row.shadow,
            ],
        )
        for each in statements:
            store.execute(
                "INSERT INTO store.statement (number, label, shadow, tenant, currency, time_zone, from_at, to_at, lines_count, unpriced_count, "
                "amount_micro) VALUES (?, ?, ?, ?, ?, ?, make_timestamp(?::BIGINT), make_timestamp(?::BIGINT), ?, ?, ?)",
                [
                    each.number, each.label, each.shadow, each.tenant, each.currency, each.time_zone, each.window.start, each.window.end,
                    each.lines_count, each.unpriced_count, each.amount_micro,
                ],
            )  # fmt: skip


def statement_rows(store: Store, label: str | None = None, tenant: str | None = None) -> list[StatementRow]:
    """Statements that were closed, by number; of one period or tenant where these are given."""
    rows = store.rows(
        "SELECT number, label, shadow, tenant, currency, time_zone, epoch_us(from_at), epoch_us(to_at), lines_count, unpriced_count, amount_micro "
        "FROM store.statement WHERE ($label IS NULL OR label = $label) AND ($tenant IS NULL OR tenant = $tenant) ORDER BY from_at, number",
        {"label": label, "tenant": tenant},
    )
    return [_statement(row) for row in rows]


def _statement(row: Sequence[Any]) -> StatementRow:
    number, label, shadow, tenant, currency, zone, start, end, lines, unpriced, amount = row
    return StatementRow(
        number, label, bool(shadow), tenant, currency, zone, Window(start, end), lines, unpriced, amount
    )


def number_of(label: str, shadow: bool, place: int) -> str:
    """The number of the ``place``-th statement (from 1, by tenant) of a period."""
    return f"{'S-' if shadow else ''}{label}-{place:04d}"
