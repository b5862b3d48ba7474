"""The tables of holders and cards: what stands in their cells, and what is said where a cell is not known.

Q1 shows them. The trick to know: rows come by the thousand, so a table is made column by column, and a reason that holds for a whole
column is one object in all its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, Final

from steelyard.answers import dimensions
from steelyard.answers.contract import Column, RowsByColumn, Value
from steelyard.answers.dimensions import Dimension
from steelyard.answers.narrowing import names_shown
from steelyard.answers.reading import Record
from steelyard.answers.scene import CARD_PPM, Card, Holders, Scene, at_least
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.unknown import Unknown

HOLDER_COLUMNS: Final = (
    Column("device_uuid"),
    Column("namespace"),
    Column("pod"),
    Column("share_ratio", "GPU"),
    Column("memory_mib", "MiB"),
    Column("cores_percent", "%"),
    Column("tenant"),
    Column("occupancy"),
    Column("unit_kind"),
    Column("unit_id"),
    Column("profile"),
    Column("containers"),
    Column("workload"),
    Column("started_at"),
    Column("ended_at"),
    Column("evidence_grade"),
    Column("node"),
    Column("device_index"),
    Column("model"),
    Column("neighbours"),
    Column("scheme"),
    Column("start_basis"),
    Column("share_basis"),
    Column("cluster"),
)
DEVICE_COLUMNS: Final = (
    Column("device_uuid"),
    Column("node"),
    Column("device_index"),
    Column("model"),
    Column("memory_mib", "MiB"),
    Column("occupancy"),
    Column("share_held_ratio", "GPU"),
    Column("share_reserved_ratio", "GPU"),
    Column("share_in_suspense_ratio", "GPU"),
    Column("share_free_ratio", "GPU"),
    Column("holders_count", "1"),
    Column("state"),
    Column("state_reason"),
    Column("healthy"),
    Column("placeable"),
    Column("cordoned"),
    Column("mode"),
    Column("basis"),
    Column("serial"),
    Column("cluster"),
)
GROUP_COLUMNS: Final = (
    Column("gpus_held", "GPU"),
    Column("gpus_reserved", "GPU"),
    Column("gpus_in_suspense", "GPU"),
    Column("devices_count", "1"),
    Column("holders_count", "1"),
    Column("memory_mib", "MiB"),
    Column("cores_percent", "%"),
)
ZONE_COLUMNS: Final = (
    Column("node"),
    Column("zone"),
    Column("zone_type"),
    Column("resource"),
    Column("capacity_count", "1"),
    Column("allocatable_count", "1"),
    Column("available_count", "1"),
    Column("cluster"),
)
_OF_USE: Final = frozenset(
    {
        "occupancy", "share_held_ratio", "share_reserved_ratio", "share_in_suspense_ratio", "share_free_ratio", "holders_count",
    }
)  # fmt: skip
"""The columns of a card that no inventory tells."""


def holder_rows(holders: Holders, neighbours: Sequence[str | None] | None = None) -> RowsByColumn:
    """One row per holding, in the columns of ``HOLDER_COLUMNS``. ``neighbours`` None: nobody is told."""
    shown: dict[str, Sequence[Value]] = {
        "device_uuid": _device_cells(holders),
        "share_ratio": _share_cells(holders),
        "memory_mib": _told(holders["memory_mib"], _("neither the grant nor the card states it")),
        "cores_percent": _told(holders["cores_percent"], _("neither the grant nor the card states it")),
        "started_at": holders["started"],
        "ended_at": holders["ended"],
        "neighbours": [""] * len(holders) if neighbours is None else neighbours,
    }
    return RowsByColumn([shown[c.name] if c.name in shown else holders[c.name] for c in HOLDER_COLUMNS])


def _told(cells: list[Any], unknown_reason: str) -> Sequence[Value]:
    """The cells, with the reason in those that nobody states."""
    if None not in cells:
        return cells
    unknown = Unknown(unknown_reason)
    return [unknown if cell is None else cell for cell in cells]


def _device_cells(holders: Holders) -> Sequence[Value]:
    uuids = holders["device_uuid"]
    if None not in uuids:
        return uuids
    unnamed = _("no source names the card")
    return [
        Unknown(reason or unnamed) if uuid is None else uuid
        for uuid, reason in zip(uuids, holders["device_unknown_reason"], strict=True)
    ]


def _share_cells(holders: Holders) -> list[Value]:
    return [
        _share_unknown(least_ppm) if share_ppm is None else share_ppm / CARD_PPM
        for share_ppm, least_ppm in zip(holders["share_ppm"], holders["share_at_least_ppm"], strict=True)
    ]


def _share_unknown(least_ppm: int | None) -> Unknown:
    return Unknown(_("the share of the card is not known") + at_least(least_ppm or 0))


def device_rows(cards: Sequence[Card]) -> RowsByColumn:
    """One row per card, in the columns of ``DEVICE_COLUMNS``."""
    unstated = _("no source states it")
    of_record = {c.name: [card.record[c.name] for card in cards] for c in DEVICE_COLUMNS if c.name not in _OF_USE}
    shown: dict[str, Sequence[Value]] = {
        **of_record,
        "memory_mib": _told(of_record["memory_mib"], unstated),
        "healthy": _told(of_record["healthy"], unstated),
        "occupancy": [_occupancy(card) for card in cards],
        "share_held_ratio": [_taken_share(card, "held", card.held_ppm) for card in cards],
        "share_reserved_ratio": [_taken_share(card, "reserved", card.reserved_ppm) for card in cards],
        "share_in_suspense_ratio": [_taken_share(card, "in_suspense", card.in_suspense_ppm) for card in cards],
        "share_free_ratio": [_free_share(card) for card in cards],
        "holders_count": [len(card.pods) for card in cards],
    }
    return RowsByColumn([shown[column.name] for column in DEVICE_COLUMNS])


def zone_rows(zones: Sequence[Record]) -> list[Sequence[Value]]:
    """One row per zone and accelerator, in the columns of ``ZONE_COLUMNS``."""
    unstated = Unknown(_("the node's topology does not state it"))
    return [
        tuple(
            unstated if zone[column.name] is None and column.name.endswith("_count") else zone[column.name]
            for column in ZONE_COLUMNS
        )
        for zone in zones
    ]


def _occupancy(card: Card) -> Value:
    if card.held_ppm or "held" in card.share_unknown:
        return "held" if card.taken_ppm >= CARD_PPM else "held_in_part"
    for name, amount in (("reserved", card.reserved_ppm), ("in_suspense", card.in_suspense_ppm)):
        if amount or name in card.share_unknown:
            return name
    if card.down:
        return "out_of_service"
    if not card.supply_ppm:
        return "asset_only"
    if card.doubt or (not card.watched and not card.unplaced_near):
        return "unobserved"
    # All of the node's share is told, at the node: held there, and which of its cards holds it is not known.
    return Unknown(_("a pod whose card is unknown may hold it")) if card.unplaced_near else "free"


def _taken_share(card: Card, occupancy: str, amount_ppm: int) -> Value:
    if card.share_unknown and occupancy in card.share_unknown:
        return Unknown(_("the share of a holder is not known") + at_least(amount_ppm))
    return amount_ppm / CARD_PPM


def _free_share(card: Card) -> Value:
    if card.down or not card.supply_ppm:
        return Unknown(_("the card is not in service"))
    left = max(0, card.supply_ppm - card.taken_ppm)
    if left and not card.watched:
        return Unknown(_("not all pods were seen at this instant"))
    if left and card.doubt:
        return Unknown(card.doubt)
    if left and card.unplaced_near:
        return Unknown(_("a pod whose card is unknown may hold it"))
    return left / CARD_PPM


def group_rows(scene: Scene, by: Sequence[Dimension]) -> list[Sequence[Value]]:
    """What each group holds; a group that a holder may belong to whose card is not known is not known."""
    rows: list[Sequence[Value]] = []
    unsettled = list(scene.unsettled.records())
    open_groups = dimensions.grouped(unsettled, by)
    for values, records in dimensions.grouped(chain(scene.holders.records(), unsettled), by).items():
        if values in open_groups:
            rows.append((*values, *[Unknown(unsettled_reason(scene))] * len(GROUP_COLUMNS)))
            continue
        held = [row for row in records if row["occupancy"] == "held"]
        rows.append(
            (
                *values,
                *(_gpus_as(occupancy, records) for occupancy in ("held", "reserved", "in_suspense")),
                len({row["device_uuid"] for row in held if row["device_uuid"] is not None}),
                len({(row["cluster"], row["pod_uid"]) for row in held}),
                _total(held, "memory_mib"),
                _total(held, "cores_percent"),
            )
        )
    return rows


def _gpus_as(occupancy: str, records: Sequence[Record]) -> Value:
    taken = [row for row in records if row["occupancy"] == occupancy]
    return gpus([row["share_ppm"] for row in taken], [row["share_at_least_ppm"] for row in taken])


def _total(records: Sequence[Record], name: str) -> Value:
    """The sum of a stated amount; Unknown with what is known where some rows do not state it."""
    stated = [int(row[name]) for row in records if row[name] is not None]
    if len(stated) == len(records):
        return sum(stated)
    missing = len(records) - len(stated)
    return Unknown(
        _("{missing} of {all} grants do not state it; the others sum to {sum}").format(
            missing=missing, all=len(records), sum=sum(stated)
        )
    )


def gpus(shares_ppm: Sequence[int | None], at_least_ppm: Sequence[int | None]) -> Value:
    """The sum in GPUs of what each holder takes of a card, and takes at least; Unknown with what is known of it where a share is not known."""
    vague = shares_ppm.count(None)
    least = least_sum_ppm(shares_ppm, at_least_ppm)
    if not vague:
        return Fraction(least, CARD_PPM)
    return Unknown(
        ngettext("the share of {count} holder is not known", "the share of {count} holders is not known", vague).format(
            count=vague
        )
        + at_least(least)
    )


def gpus_of(holders: Holders) -> Value:
    """``gpus`` of all of them."""
    return gpus(holders["share_ppm"], holders["share_at_least_ppm"])


def least_sum_ppm(shares_ppm: Sequence[int | None], at_least_ppm: Sequence[int | None]) -> int:
    """What the holders take together at the least."""
    return sum(share_ppm or least_ppm or 0 for share_ppm, least_ppm in zip(shares_ppm, at_least_ppm, strict=True))


def unsettled_reason(scene: Scene) -> str:
    """Why nobody can tell what is held of the cards asked about."""
    return _("the card of {pods} is not known and may be one of those asked about").format(
        pods=names_shown(scene.unsettled["pod_name"])
    )
