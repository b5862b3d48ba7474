"""Declared capacity: a count of cards at a place, or the asset list of a site."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class InventoryBasis(Fact, frozen=True, kw_only=True):
    """A statement about physical cards, good from ``valid_from_at`` to ``valid_to_at``. natural_key: uuid, serial or ``node/<name>``.

    basis: ``gfd_label``, ``declared`` (a trace's node file), ``asset_list``. cards_count: how many cards the row stands for (1 for an asset).
    Money is kept as text with its currency (``price``): prices are booked only through a price book.
    """

    TABLE: ClassVar[str] = "inventory_basis"

    basis: str
    node: str | None = None
    cards_count: int = 1
    model: str | None = None
    memory_mib: int | None = None
    device_uuid: str | None = None
    serial: str | None = None
    rack: str | None = None
    asset_owner: str | None = None
    asset_status: str | None = None
    purchased_at: Instant | None = None
    warranty_to_at: Instant | None = None
    price: str | None = None
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None
