"""Disputes: a tenant contests a line of a closed statement; somebody owns it and decides it by a deadline; what is accepted comes as a correction.

The trick to know: nothing that is closed changes. An accepted dispute waits as an amount until the next close, which carries it as a line of kind
``correction`` with the reason ``dispute`` and marks it in the same transaction; every step is a row of the audit trail.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

from steelyard.primitives.errors import NotFound, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, Window, format_instant
from steelyard.settlement.added_lines import plain_line
from steelyard.settlement.people import is_same_person
from steelyard.settlement.snapshot import read_corrections
from steelyard.settlement.statement import DISPUTED, DISPUTED_TAX, Statement, StatementLine
from steelyard.store import Store
from steelyard.store.rewriting import quoted

DisputeState = Literal["open", "accepted", "rejected"]
TEXT_MAX: Final = 2_000
AMOUNT_MAX_MICRO: Final = 10**15
"""Of a line that has no amount of its own: a thousand million of any currency."""
_COLUMNS: Final = (
    "dispute_id, number, line_id, tenant, reason, owner, epoch_us(deadline_at), state, epoch_us(opened_at), currency, amount_micro, "
    "correction_micro, corrected_in"
)


@dataclass(frozen=True, slots=True)
class Dispute:
    """A line that somebody contests. amount_micro: of the line, None = unpriced. correction_micro: by how much it was decided to move, None = not.

    corrected_in: the period whose statement carries that, None = none yet.
    """

    dispute_id: str
    number: str
    line_id: str
    tenant: str
    reason: str
    owner: str
    deadline_at: Instant
    state: DisputeState
    opened_at: Instant
    currency: str
    amount_micro: int | None
    correction_micro: int | None
    corrected_in: str | None

    def to_json(self, now: Instant) -> dict[str, Any]:
        """The documented JSON form; ``overdue`` by ``now``."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found |= {"deadline_at": format_instant(self.deadline_at), "opened_at": format_instant(self.opened_at)}
        return {**found, "overdue": self.state == "open" and now > self.deadline_at}


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """What a dispute is opened with."""

    line_id: str
    reason: str
    owner: str
    deadline_at: Instant
    actor: str


def open_dispute(store: Store, statement: Statement, request: OpenRequest, now: Instant) -> Dispute:
    """Contest a line of a closed statement. Raises UsageError where the statement is a draft or the line is contested already,
    NotFound where it has no such line."""
    for name, text in (("--reason", request.reason), ("--owner", request.owner)):
        if not text.strip() or len(text) > TEXT_MAX:
            raise UsageError(
                _("{option}: expected some text of at most {limit} characters").format(option=name, limit=TEXT_MAX)
            )
    if statement.number is None:
        raise UsageError(_("a draft is not contested: correct what it is made of, or wait for the close"))
    line = next((each for each in statement.lines if each.line_id == request.line_id), None)
    if line is None:
        raise NotFound(
            _("statement {number} has no line {line}").format(number=statement.number, line=request.line_id[:40])
        )
    if request.deadline_at <= now:
        raise UsageError(
            _("--deadline: expected an instant to come, found {at}").format(at=format_instant(request.deadline_at))
        )
    with store.transaction():
        if any(
            each.line_id == line.line_id and each.number == statement.number and each.state == "open"
            for each in disputes(store)
        ):
            raise UsageError(_("line {line} is contested already").format(line=line.line_id))
        dispute_id = secrets.token_hex(4)
        store.execute(
            "INSERT INTO store.dispute VALUES (?, ?, ?, ?, ?, ?, make_timestamp(?::BIGINT), 'open', make_timestamp(?::BIGINT), ?, ?, NULL, NULL)",
            [
                dispute_id, statement.number, line.line_id, statement.tenant, request.reason, request.owner, request.deadline_at, now,
                statement.currency, line.amount_micro,
            ],
        )  # fmt: skip
        _record(store, dispute_id, now, request.actor, "opened", request.reason)
    return dispute(store, dispute_id)


def decide(
    store: Store,
    dispute_id: str,
    decision: Literal["accept", "reject"],
    amount_micro: int | None,
    reason: str,
    actor: str,
    now: Instant,
) -> Dispute:
    """Accept (the line moves by ``amount_micro``, by default all that is left of it goes back) or reject.

    Raises UsageError where it was decided, nobody said why, the one who decides opened it, an accepted line has no amount, or all that was accepted
    of the line comes to more than the line itself.
    """
    if not reason.strip() or len(reason) > TEXT_MAX:
        raise UsageError(_("--reason: say why, in at most {limit} characters").format(limit=TEXT_MAX))
    with store.transaction():
        found = dispute(store, dispute_id)
        if found.state != "open":
            raise UsageError(_("dispute {dispute} was decided: {state}").format(dispute=dispute_id, state=found.state))
        if any(
            each["action"] == "opened" and is_same_person(each["actor"], actor) for each in events(store, dispute_id)
        ):
            raise UsageError(_("{actor} opened the dispute, so somebody else has to decide it").format(actor=actor))
        state: DisputeState = "accepted" if decision == "accept" else "rejected"
        moved = _moved(store, found, amount_micro) if decision == "accept" else None
        store.execute(
            "UPDATE store.dispute SET state = ?, correction_micro = ? WHERE dispute_id = ?", [state, moved, dispute_id]
        )
        _record(store, dispute_id, now, actor, state, reason)
    return dispute(store, dispute_id)


def _moved(store: Store, found: Dispute, amount_micro: int | None) -> int:
    """By how much the line moves: within its own amount, whatever was accepted of it before."""
    before = sum(
        each.correction_micro or 0
        for each in disputes(store, found.tenant)
        if (each.number, each.line_id, each.state) == (found.number, found.line_id, "accepted")
    )
    if found.amount_micro is None:
        if amount_micro is None:
            raise UsageError(_("the line has no amount: say with --amount by how much it moves"))
        if abs(before + amount_micro) > AMOUNT_MAX_MICRO:
            raise UsageError(_("--amount: beyond what can be booked"))
        return amount_micro
    moved = -found.amount_micro - before if amount_micro is None else amount_micro
    if abs(before + moved) > abs(found.amount_micro):
        raise UsageError(
            _(
                "--amount: the line is of {amount} {currency}, {before} of it were moved before; it cannot move by {moved} more"
            ).format(
                amount=_units(found.amount_micro), currency=found.currency, before=_units(before), moved=_units(moved)
            )
        )
    if amount_micro is None and not moved:
        raise UsageError(_("nothing is left of the line: all of it was given back before"))
    return moved


def _units(amount_micro: int) -> str:
    return f"{Decimal(amount_micro).scaleb(-6):f}"


def disputes(store: Store, tenant: str | None = None) -> list[Dispute]:
    """All disputes, or a tenant's, oldest first."""
    rows = store.rows(
        f"SELECT {_COLUMNS} FROM store.dispute WHERE $tenant IS NULL OR tenant = $tenant ORDER BY opened_at, dispute_id",
        {"tenant": tenant},
    )
    return [Dispute(*row) for row in rows]


def dispute(store: Store, dispute_id: str) -> Dispute:
    """One of them. Raises NotFound where there is none of that id."""
    rows = store.rows(f"SELECT {_COLUMNS} FROM store.dispute WHERE dispute_id = ?", [dispute_id])
    if not rows:
        raise NotFound(_("no dispute has the id {dispute}").format(dispute=dispute_id[:40]))
    return Dispute(*rows[0])


def events(store: Store, dispute_id: str) -> list[dict[str, Any]]:
    """The audit trail of one, oldest first."""
    rows = store.rows(
        "SELECT epoch_us(occurred_at), actor, action, detail FROM store.dispute_event WHERE dispute_id = ? ORDER BY occurred_at, rowid",
        [dispute_id],
    )
    return [
        {"at": format_instant(at), "actor": actor, "action": action, "detail": detail}
        for at, actor, action, detail in rows
    ]


def dispute_lines(store: Store, folders: Sequence[Path]) -> list[tuple[str, StatementLine]]:
    """(tenant, line) of accepted disputes that no statement carries yet. ``folders``: the snapshots of all closed periods. Each is dated as the line
    that it is about, so that the tax that was due on that is the one that moves."""
    waiting = [each for each in disputes(store) if each.state == "accepted" and each.corrected_in is None]
    if not waiting or not folders:
        return []
    files = ", ".join(quoted(str(folder / "lines.parquet")) for folder in folders)
    about = {
        (number, line_id): (kind, Window(start, end))
        for number, line_id, kind, start, end in store.rows(
            f"SELECT number, line_id, kind, epoch_us(started_at), epoch_us(ended_at) FROM read_parquet([{files}]) WHERE (number, line_id) IN "
            "(SELECT (number, line_id) FROM store.dispute WHERE state = 'accepted' AND corrected_in IS NULL)"
        )
    }
    return [(each.tenant, _line(each, *about[each.number, each.line_id])) for each in waiting]


def mark_corrected(store: Store, label: str, folder: Path) -> None:
    """Say that the snapshot in ``folder`` carries its disputes; within the transaction that closes the period."""
    for _tenant, line in read_corrections(folder):
        if line.reason in (DISPUTED, DISPUTED_TAX):
            store.execute("UPDATE store.dispute SET corrected_in = ? WHERE dispute_id = ?", [label, line.description])


def _line(found: Dispute, kind: str, window: Window) -> StatementLine:
    amount = found.correction_micro or 0
    plain = plain_line("correction", found.dispute_id, window, amount, identity=(DISPUTED, found.dispute_id))
    reason = DISPUTED_TAX if kind == "tax" else DISPUTED
    return replace(plain, reference=f"{found.number}/{found.line_id}", reason=reason)


def _record(store: Store, dispute_id: str, now: Instant, actor: str, action: str, detail: str) -> None:
    store.execute(
        "INSERT INTO store.dispute_event VALUES (?, make_timestamp(?::BIGINT), ?, ?, ?)",
        [dispute_id, now, actor, action, detail],
    )
