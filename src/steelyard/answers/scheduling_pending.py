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
from steelyard.answers.story_change import changes, standing_word
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
    told_rows = [
        _row(
            row,
            words.get((row["cluster"], row["demand_id"]), ()),
            quota.get((row["cluster"], row["queue"]), ()),
            queues.get((row["cluster"], row["queue"])),
            fits.get((row["cluster"], row["demand_id"])) if row["stage"] == "queue" else None,
            confined,
        )
        for row in rows
    ]
    more = rows[0]["rows_count"] - len(rows) if rows else 0
    spots = [_("{count} more requests wait, for a shorter time").format(count=more)] if more else []
    return PendingPart(Table("pending", COLUMNS, told_rows), spots)


def _row(
    row: Record,
    words: Sequence[Record],
    quota: Sequence[Record],
    queue: Record | None,
    fit: Record | None,
    confined: bool,
) -> Sequence[Value]:
    word = standing_word(words, row["started_us"])
    found = changes(word, row, row["stage"], quota, queue, confined=confined, quota_fit=fit)
    nobody = Unknown(_("nobody said why it waits"))
    cause = row["cause"] or (word["cause"] if word else None)
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
        Unknown(_("the request does not state it")) if row["gpu_milli"] is None else Fraction(row["gpu_milli"], 1_000),
        row["fit"],
        nobody if cause is None else cause,
        _beyond_all_nodes(row) or ("; ".join(change.text for change in found) if found else nobody),
        row["cluster"],
    )


def _beyond_all_nodes(row: Record) -> str | None:
    """What would have to change where no node, even an empty one, has what is asked for; None where one has, or it is not known."""
    if row["lacking"] is None:
        return None
    asked = f"{row['asked_count']} {row['fit_resource']}"
    if row["lacking"] == "model":
        return _("a node of model {model} must be added, or another model asked for: no node is of it").format(
            model=row["fit_model"]
        )
    if row["lacking"] == "memory":
        return _(
            "ask for less memory or fewer cards in one pod, or add such a node: it asks for {asked} of {memory} MiB each, and the"
            " most that any of {nodes} nodes has is {most}"
        ).format(asked=asked, memory=row["fit_memory_mib"], nodes=row["nodes_count"], most=row["most_count"])
    return _(
        "ask for fewer in one pod, or add such a node: it asks for {asked}, and the most that any of {nodes} nodes has, even an empty"
        " one, is {most}"
    ).format(asked=asked, nodes=row["nodes_count"], most=row["most_count"])
