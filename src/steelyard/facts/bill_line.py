"""A provider's bill, line by line (FOCUS), to lay beside the cost book."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class BillLine(Fact, frozen=True, kw_only=True):
    """One line of a cloud bill. natural_key: the line's own id, else ``<sha256 of the file>/<line>``. ``occurred_at``: start of the charge
    period.

    Amounts in millionths of ``currency``, None = not told. provider, service, sku, resource_id, region, account: the provider's words.
    charge_category, charge_class, pricing_category: FOCUS words. quantity_milli, unit: what was consumed. invoice_id: None = not invoiced yet.
    """

    TABLE: ClassVar[str] = "bill_line"

    provider: str | None = None
    account: str | None = None
    sub_account: str | None = None
    invoice_id: str | None = None
    service: str | None = None
    sku: str | None = None
    resource_id: str | None = None
    region: str | None = None
    charge_category: str | None = None
    charge_class: str | None = None
    pricing_category: str | None = None
    description: str | None = None
    currency: str
    billed_micro: int | None = None
    effective_micro: int | None = None
    list_micro: int | None = None
    contracted_micro: int | None = None
    quantity_milli: int | None = None
    unit: str | None = None
    ended_at: Instant
    tags: str = "{}"
