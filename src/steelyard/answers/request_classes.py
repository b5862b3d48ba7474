"""The typical requests of a site: the most frequent shapes of the days before an instant, out of ``dim.request_class``, or those that it declares.

``fragmentation`` weighs what is free by them, ``fits`` takes a shape by hand. The trick to know: what a resource counts decides what a shape is.
Whole cards are asked for by a resource that counts cards and nothing beside it; a MIG resource names its profile; memory and cores are per card;
what says neither (a slot of a sharing layer, a replica) asks for an amount that is not known, and whether it fits is not known either.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.answers.quota_balance import counts_cards
from steelyard.answers.reading import Reading, Record
from steelyard.definitions.fragmentation import TYPICAL_DAYS, TYPICAL_PPM, Mix, RequestClass, Shape, typical
from steelyard.definitions.share import WHOLE_PPM
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, INSTANT_MIN, Instant
from steelyard.primitives.unknown import Unknown

_MIG_RESOURCE: Final = re.compile(r"[^/,]+/mig-([a-z0-9.+-]+?)(?:\.shared)?\Z", re.IGNORECASE)
CLASS_COLUMNS: Final = (
    Column("rank"),
    Column("cards_count", "1"),
    Column("share_ratio", "1"),
    Column("memory_mib", "MiB"),
    Column("cores_percent", "%"),
    Column("profile"),
    Column("models"),
    Column("cpu_milli", "mCPU"),
    Column("popularity_ratio", "1"),
)


@dataclass(frozen=True, slots=True)
class TypicalRequests:
    """``mix``: all classes, those without a card too; ``cards``: the typical ones among requests for cards. ``asked_count``: requests that were
    counted; ``unread_count``: further ones of which nobody can tell how many cards they want. ``declared``: by the settings, not by what was seen."""

    mix: Mix
    cards: Mix
    asked_count: int
    unread_count: int
    declared: bool = False


def typical_requests(
    reading: Reading, at: Instant, days: int = TYPICAL_DAYS, threshold_ppm: int = TYPICAL_PPM
) -> TypicalRequests:
    """The typical requests as they are declared, else of the ``days`` before ``at``; ``reading`` has the statements of ``free_shares``."""
    declared = declared_requests(reading)
    if declared.classes:
        return TypicalRequests(declared, declared.only_cards(), 0, 0, declared=True)
    counts: Counter[Shape] = Counter()
    unread = 0
    start = max(INSTANT_MIN, at - days * DAY_US)
    for row in reading.run("free_classes", at_us=at, from_us=start):
        shape = shape_of(row)
        if shape is None:
            unread += row["requests_count"]
        else:
            counts[shape] += row["requests_count"]
    cards = {shape: count for shape, count in counts.items() if shape.cards_count}
    return TypicalRequests(typical(counts, threshold_ppm), typical(cards, threshold_ppm), counts.total(), unread)


def declared_requests(reading: Reading) -> Mix:
    """The classes that the settings declare, those of most weight first."""
    rows = reading.run("free_declared")
    classes = [RequestClass(_declared_shape(row), row["weight"]) for row in rows]
    classes.sort(key=lambda each: -each.weight)
    return Mix(tuple(classes), sum(each.weight for each in classes))


def _declared_shape(row: Record) -> Shape:
    return Shape(
        row["cards_count"],
        row["share_ppm"],
        row["cpu_milli"],
        row["memory_mib"],
        row["cores_percent"],
        row["profile"],
        _words(row["models"]),
    )


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(sorted({word.strip() for word in re.split(r"[|,]", text or "") if word.strip()}))


def shape_of(row: Record) -> Shape | None:
    """What a row of ``dim.request_class`` asks for; None where nobody can tell how many cards."""
    count = row["cards_count"]
    if count is None or count < 0:
        return None
    if not count:
        return Shape(0, cpu_milli=row["cpu_milli"])
    names = [name for name in (row["resource_names"] or "").split(",") if name]
    profile = next((match.group(1) for name in names if (match := _MIG_RESOURCE.match(name))), None)
    share = None if row["gpu_milli"] is None else row["gpu_milli"] * 1_000
    if share is None and not (profile or row["memory_mib"] or row["cores_percent"]):
        share = WHOLE_PPM if names and all(map(counts_cards, names)) else None
    return Shape(
        count,
        share,
        row["cpu_milli"],
        None if profile else row["memory_mib"] or None,
        None if profile else row["cores_percent"] or None,
        profile.lower().replace(".me", "+me") if profile else None,
        _words(row["model"]),
    )


def class_table(mix: Mix) -> Table:
    """The classes, the most frequent first."""
    untold = Unknown(_("the request does not say"))

    def cells(rank: int, shape: Shape, weight: int) -> Sequence[Value]:
        share: Value = untold if shape.cards_count and shape.share_ppm is None else (shape.share_ppm or 0) / WHOLE_PPM
        sized = shape.memory_mib is not None or shape.cores_percent or shape.profile
        return (
            rank,
            shape.cards_count,
            None if sized and shape.share_ppm is None else share,
            shape.memory_mib,
            shape.cores_percent,
            shape.profile,
            "|".join(shape.models) or None,
            untold if shape.cpu_milli is None else shape.cpu_milli,
            weight / mix.whole,
        )

    rows = [cells(rank, each.shape, each.weight) for rank, each in enumerate(mix.classes, 1)]
    return Table("request_classes", CLASS_COLUMNS, rows)
