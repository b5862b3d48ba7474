"""Which of these lists a CSV is, by its header."""

from __future__ import annotations

import re
from collections.abc import Collection

from steelyard.sources.money.bill import is_bill_header
from steelyard.sources.money.exchange_rates import is_rates_header
from steelyard.sources.money.service_use import is_service_use_header


def sniff_money(header: Collection[str]) -> str | None:
    """``price_book``, ``tenancy``, ``exchange_rates``, ``service_use`` or ``bill`` where the header's names say so, else None."""
    if is_bill_header(header):
        return "bill"
    names = {re.sub(r"[\s-]+", "_", name.strip().lower()) for name in header}
    if {"side", "price", "per"} <= names or ("table" in names and names & {"price", "discount_percent", "weight"}):
        return "price_book"
    if {"by", "match"} <= names and names & {"department", "team", "project", "cost_centre", "cost_center"}:
        return "tenancy"
    if is_rates_header(names):
        return "exchange_rates"
    return "service_use" if is_service_use_header(header) else None
