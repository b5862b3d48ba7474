"""Who waits at the end of the window, since when, why, and what would have to change: the table ``pending`` of Q6.

Q6 calls ``pending_part``; the sentences are those of ``story_change``, which ``steelyard why`` tells of one request. The trick to know: a word is
evidence and no truth. Where the queue can never have what is asked for, the request never fits, whatever its decider says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.reading import Reading, Record
from steelyard.answers.story_change import beyond_all_nodes, changes, limit_not_read, standing_word
from steelyard.answers.story_state import backoff_of, changes_of_state
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
PENDING_MAX: Final = 1_000
_POOLED: Final = frozenset({"pool", "cohort"})

COLUMNS: Final = (
    Column("namespace"),
    Column("name"),
    Column("kind"),
    Column("queue"),
    Column("tenant"),
    Column("priority", "1"),
    Column("person"),
    Column("stage"),
    Column("since"),
    Column("age_seconds", "s"),
    Column("gpus_asked", "GPU"),
    Column("fit"),
    Column("cause"),
    Column("what_would_have_to_change"),
    Column("cluster"),
)


def gpus_not_told(refused: bool | None = None) -> str:
    """Why it is not known how many cards a request asks for: it names none, parts of cards, or one that was ``refused`` (None: not looked up)."""
    if refused:
        return _(
            "the amount that it states was refused: it is no number that there can be (finding quantity_malformed)"
        )
    if refused is False:
        return _("it states no number of whole cards")
    return _("the request does not state it, or states no number of whole cards that there can be")


@dataclass(frozen=True, slots=True)
class PendingPart:
    """The table, and what it leaves out."""

    table: Table
    blind_spots: Sequence[str]


def pending_part(reading: Reading, scope: DemandScope, confined: bool) -> PendingPart:
    """Each request that waits at the end of the window, the longest wait first, at most PENDING_MAX.

    ``confined``: what others keep of the quota is not told, nor any free text of a decider, which may name them.
    """
    rows = reading.run("pending", listed_max=PENDING_MAX, **scope.bound())
    to_us = scope.window.end
    words: dict[tuple[str, str], list[Record]] = {}
    queues: dict[tuple[str, str], Record] = {}
    quota: dict[tuple[str, str], list[Record]] = {}
    fits: dict[tuple[str, str], Record] = {}
    if rows:
        for row in reading.run("pending_fits", demands=[row["demand_id"] for row in rows]):
            fits[row["cluster"], row["demand_id"]] = row
        for row in reading.run("pending_words", demands=[row["demand_id"] for row in rows], to_us=to_us):
            words.setdefault((row["cluster"], row["demand_id"]), []).append(row)
        for row in reading.run("pending_queues", to_us=to_us):
            queues[row["cluster"], row["queue"]] = row
        for row in reading.run("quota_now"):
            if row["queue_kind"] not in _POOLED:
                told = {**row, "leaked_milli": None} if confined else row
                quota.setdefault((row["cluster"], row["queue"]), []).append(told)
    backoffs: dict[tuple[str, str], list[Record]] = {}
    delayed = [row["demand_id"] for row in rows if row["stage"] == "backoff"]
    for row in reading.run("pending_backoffs", demands=delayed, to_us=to_us) if delayed else ():
        backoffs.setdefault((row["cluster"], row["demand_id"]), []).append(row)
    untold = [row["demand_id"] for row in rows if row["gpu_milli"] is None]
    refused = {
        (row["cluster"], row["demand_id"]) for row in (reading.run("pending_refused", demands=untold) if untold else ())
    }
    told_rows = [
        _row(
            row,
            (row["cluster"], row["demand_id"]) in refused,
            words.get((row["cluster"], row["demand_id"]), ()),
            quota.get((row["cluster"], row["queue"]), ()),
            queues.get((row["cluster"], row["queue"])),
            fits.get((row["cluster"], row["demand_id"])) if row["stage"] == "queue" else None,
            backoffs.get((row["cluster"], row["demand_id"]), ()),
            confined,
        )
        for row in rows
    ]
    more = rows[0]["rows_count"] - len(rows) if rows else 0
    spots = [_("{count} more requests wait, for a shorter time").format(count=more)] if more else []
    return PendingPart(Table("pending", COLUMNS, told_rows), spots)


def _row(
    row: Record,
    refused: bool,
    words: Sequence[Record],
    quota: Sequence[Record],
    queue: Record | None,
    fit: Record | None,
    backoffs: Sequence[Record],
    confined: bool,
) -> Sequence[Value]:
    word = standing_word(words, row["started_us"])
    cause = row["cause"] or (word["cause"] if word else None)
    if row["stage"] == "backoff":
        ends = [each["until_us"] for each in backoffs if each["is_step"]]
        said = [each for each in backoffs if not each["is_step"]]
        found = changes_of_state("backoff", row, None, None, backoff_of(ends, said, row["started_us"]), confined)
        cause = "backoff"
    else:
        found = changes(word, row, row["stage"], quota, queue, confined=confined, quota_fit=fit)
    nobody = Unknown(_("nobody said why it waits"))
    return (
        row["namespace"],
        row["name"],
        row["demand_kind"],
        row["queue"],
        row["tenant"],
        row["priority"],
        row["person"],
        row["stage"],
        format_instant(row["started_us"]),
        Fraction(row["known_to_us"] - row["started_us"], SECOND_US),
        Unknown(gpus_not_told(refused)) if row["gpu_milli"] is None else Fraction(row["gpu_milli"], 1_000),
        Unknown(limit_not_read(fit)) if row["fit"] is None and fit is not None and fit["unread"] else row["fit"],
        nobody if cause is None else cause,
        beyond_all_nodes(row) or ("; ".join(change.text for change in found) if found else nobody),
        row["cluster"],
    )
