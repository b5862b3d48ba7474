"""A provider's bill in FOCUS (Cost and Usage, 1.0 to 1.4), from CSV: the lines that are laid beside the cost book.

Called by the importer; ``bill_parquet`` gives its rows to the same function. The tricks to know: 1.2 and before say ``ProviderName`` where 1.3 and
later say ``ServiceProviderName``, and both are read; a provider's amounts have more than six decimals, so each line is rounded half to even,
which a comparison of totals must allow for (half a millionth a line).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.bill_line import BillLine
from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import parse_instant
from steelyard.sources.money import amounts
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvTable, malformed

SOURCE: Final = "focus"
NEEDED: Final = ("BillingCurrency", "ChargePeriodStart", "ChargePeriodEnd", "BilledCost")
MARKS: Final = frozenset({"BilledCost", "ChargePeriodStart", "ChargeCategory"})
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "provider": ("ServiceProviderName", "ProviderName", "InvoiceIssuerName"),
    "account": ("BillingAccountId",),
    "sub_account": ("SubAccountId",),
    "invoice_id": ("InvoiceId",),
    "service": ("ServiceName",),
    "sku": ("SkuId", "SkuPriceId"),
    "resource_id": ("ResourceId",),
    "region": ("RegionId", "RegionName"),
    "charge_category": ("ChargeCategory",),
    "charge_class": ("ChargeClass",),
    "pricing_category": ("PricingCategory",),
    "description": ("ChargeDescription",),
}
_COSTS: Final = {
    "billed_micro": "BilledCost",
    "effective_micro": "EffectiveCost",
    "list_micro": "ListCost",
    "contracted_micro": "ContractedCost",
}
COLUMNS: Final = frozenset(
    {*NEEDED, *_COSTS.values(), *(name for names in _NAMES.values() for name in names)}
    | {"ConsumedQuantity", "ConsumedUnit", "PricingQuantity", "PricingUnit", "Tags"}
)
"""All columns that are read; others are passed over."""

_TEXT_MAX: Final = 2_000
_TAGS_MAX: Final = 64 << 10
_NULLS: Final = frozenset({"", "null"})
_NUMBER: Final = re.compile(r"-?\d{1,30}(?:\.\d{1,40})?(?:[Ee][+-]?\d{1,3})?\Z", re.ASCII)
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_EVEN)
_WHOLE_DIGITS_MAX: Final = 12


def is_bill_header(names: Collection[str]) -> bool:
    """Whether a header is that of a FOCUS Cost and Usage file."""
    return set(names) >= MARKS


def read_bill_csv(text: str, sha256: str, ctx: ReadContext) -> Iterator[Fact]:
    """A fact per line of the bill; lines that cannot be read are findings."""
    table = CsvTable(text, ctx, SOURCE)
    missing = missing_columns(table.columns, ctx)
    if missing is not None:
        yield missing
        return
    for row in table:
        if isinstance(row, Finding):
            yield row
            continue
        try:
            yield bill_line(row.cells, row.line, sha256, ctx)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, SourceMalformed(error.message, row.line, row.text))


def missing_columns(names: Collection[str], ctx: ReadContext) -> Finding | None:
    """The finding of a file that lacks what every bill has; None where it has it all."""
    missing = [name for name in NEEDED if name not in names]
    if not missing:
        return None
    return ctx.finding(
        SOURCE,
        "bill_columns_missing",
        f"file {ctx.file}",
        f"expected the FOCUS columns {', '.join(missing)}; nothing was taken from it",
        severity="error",
        evidence={"missing": missing, "found": sorted(names)[:80]},
    )


def bill_line(cells: Mapping[str, str], line: int, sha256: str, ctx: ReadContext) -> BillLine:
    """One line. ``cells``: column -> text, "" where it is null. Raises SourceMalformed."""
    start, end = (_read(cells, name, line, parse_instant) for name in ("ChargePeriodStart", "ChargePeriodEnd"))
    currency = _read(cells, "BillingCurrency", line, amounts.currency)
    if start is None or end is None or currency is None:
        raise SourceMalformed("expected ChargePeriodStart, ChargePeriodEnd and BillingCurrency", line)
    if end <= start:
        raise SourceMalformed("ChargePeriodEnd is not after ChargePeriodStart", line)
    costs = {field: _read(cells, name, line, lambda text: rounded(text, 6)) for field, name in _COSTS.items()}
    if costs["billed_micro"] is None:
        raise SourceMalformed("BilledCost: expected an amount, found none", line)
    consumed = "Consumed" if _said(cells, "ConsumedQuantity") else "Pricing"
    named: dict[str, Any] = {field: _first(cells, names, line) for field, names in _NAMES.items()}
    return BillLine(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{sha256}/{line}",
        occurred_at=start,
        observed_at=ctx.observed_at,
        currency=currency,
        quantity_milli=_read(cells, f"{consumed}Quantity", line, lambda text: rounded(text, 3)),
        unit=_first(cells, (f"{consumed}Unit",), line),
        ended_at=end,
        tags=_tags(cells.get("Tags", ""), line),
        **named,
        **costs,
    )


def rounded(text: str, digits: int) -> int:
    """A number, plain or with an exponent, times ten to the ``digits``, rounded half to even. Raises ValueError for what is none."""
    if _NUMBER.match(text) is None:
        raise ValueError(f"expected a number such as 12.34 or 1.234E1; found {text[:40]!r}")
    number = Decimal(text)
    if number and number.adjusted() >= _WHOLE_DIGITS_MAX:
        raise ValueError(f"expected less than 1E{_WHOLE_DIGITS_MAX}; found {text[:40]!r}")
    if number and number.adjusted() < -_WHOLE_DIGITS_MAX - digits:
        return 0
    return int(_EXACT.quantize(_EXACT.scaleb(number, digits), Decimal(1)))


def _said(cells: Mapping[str, str], name: str) -> str | None:
    text = cells.get(name, "")
    return None if text.lower() in _NULLS else text


def _read(cells: Mapping[str, str], name: str, line: int, reader: Any) -> Any:
    text = _said(cells, name)
    if text is None:
        return None
    try:
        return reader(text)
    except ValueError as error:
        raise SourceMalformed(f"{name}: {error}", line) from None


def _first(cells: Mapping[str, str], names: Collection[str], line: int) -> str | None:
    for name in names:
        text = _said(cells, name)
        if text is not None:
            if len(text) > _TEXT_MAX:
                raise SourceMalformed(f"{name}: expected at most {_TEXT_MAX} characters", line)
            return text
    return None


def _tags(text: str, line: int) -> str:
    """The tags as a JSON object with sorted keys; none = an empty one."""
    if text.lower() in _NULLS:
        return "{}"
    try:
        found = msgspec.json.decode(text) if len(text) <= _TAGS_MAX else None
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        found = None
    if not isinstance(found, dict):
        raise SourceMalformed(f"Tags: expected a JSON object of at most {_TAGS_MAX} characters", line)
    return msgspec.json.encode(found, order="sorted").decode()
