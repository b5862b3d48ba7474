"""Notices: who is told of a close, what they are told, and whether they were.

``app.notifying`` sends them. The trick to know: a notice is written down before anybody is called, with the very bytes that are sent, so that one
that was not delivered can be sent again as it was, and the receiver knows it by its id.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.primitives.instant import Instant, format_instant
from steelyard.settlement.closing import CloseReport, statement_row_json
from steelyard.store import Store

NoticeState = Literal["pending", "delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to ``target`` (a URL without what may be secret in it). ``tries_count``: so often it was tried. ``message``: why it failed last."""

    notice_id: str
    label: str
    shadow: bool
    target: str
    body: str
    state: NoticeState
    tries_count: int
    last_at: Instant | None
    message: str | None

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form, without the body."""
        found = {name: getattr(self, name) for name in self.__slots__ if name != "body"}
        return {**found, "last_at": None if self.last_at is None else format_instant(self.last_at)}


def close_body(report: CloseReport) -> str:
    """What is told of a close: the period, its hash, and the heads of its statements."""
    return json.dumps(
        {
            "event": "period.closed",
            "period": report.label,
            "shadow": report.shadow,
            "closed_at": None if report.closed_at is None else format_instant(report.closed_at),
            "manifest_sha256": report.manifest_sha256,
            "statements": [statement_row_json(each) for each in report.statements],
        },
        sort_keys=True,
        ensure_ascii=True,
    )


def add_notice(store: Store, report: CloseReport, target: str) -> Notice:
    """Write a notice of a close down. The same close again is the same notice."""
    body = close_body(report)
    notice_id = hashlib.sha256(f"{target}\n{body}".encode()).hexdigest()[:16]
    with store.transaction():
        if not any(each.notice_id == notice_id for each in notices(store)):
            store.execute(
                "INSERT INTO store.notice VALUES (?, ?, ?, ?, ?, 'pending', 0, NULL, NULL)",
                [notice_id, report.label, report.shadow, target, body],
            )
    return next(each for each in notices(store) if each.notice_id == notice_id)


def record_try(store: Store, notice_id: str, state: NoticeState, now: Instant, message: str | None) -> None:
    """Keep what became of one try."""
    with store.transaction():
        store.execute(
            "UPDATE store.notice SET state = ?, tries_count = tries_count + 1, last_at = make_timestamp(?::BIGINT), message = ? WHERE notice_id = ?",
            [state, now, message, notice_id],
        )


def notices(store: Store) -> list[Notice]:
    """All notices, by period and id."""
    rows = store.rows(
        "SELECT notice_id, label, shadow, target, body, state, tries_count, epoch_us(last_at), message FROM store.notice "
        "ORDER BY label, shadow, notice_id"
    )
    return [Notice(*row) for row in rows]
