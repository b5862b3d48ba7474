"""Dated exchange rates, as somebody declared them."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class ExchangeRate(Fact, frozen=True, kw_only=True):
    """One unit of ``base_currency`` in ``quote_currency``, from ``occurred_at`` until the next rate of the pair. natural_key: ``USD/CNY``.

    rate_nano: thousand-millionths of the quote currency. declared_by: whose rate it is (``ECB``, a policy), None = not told.
    """

    TABLE: ClassVar[str] = "exchange_rate"

    base_currency: str
    quote_currency: str
    rate_nano: int
    declared_by: str | None = None
