"""FOCUS rows of statements: Cost and Usage 1.2 and 1.4 with split costs, and Billing Period 1.4.

Called by ``surfaces/reports``, which writes them as CSV and Parquet. The trick to know: the statement's integers are the invoice
(``BilledCost``), and the products that FOCUS wants exact are made exact by the quantity: ``PricingQuantity`` is the list amount by
``ListUnitPrice`` at 14 places and ``ListCost`` the product of the two in full, so it meets the statement's list amount to the micro-unit and the
identity without any rounding. An unpriced line has no row, because FOCUS allows no cost that is not known; its id is in ``left_out``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from steelyard.primitives.instant import HOUR_US, SECOND_US, Instant
from steelyard.settlement.focus_columns import (
    BILLING_PERIOD,
    CONTRACTED_PRICE_SCALE,
    COST_AND_USAGE,
    QUANTITY_SCALE,
    FocusColumn,
    Version,
)
from steelyard.settlement.focus_split import Share, method_details, ratios
from steelyard.settlement.statement import Statement, StatementLine

Cell: TypeAlias = str | int | bool | Decimal | None
Row: TypeAlias = dict[str, Cell]

UNITS: Final = {"hour": "GPU-Hours", "day": "GPU-Days", "month": "GPU-Months", "year": "GPU-Years"}
METHOD_ID: Final = "declared-share-x-time/1"
BOOK: Final = "price book "
"""How a statement's ``versions`` name a price book."""
_PRICED_BY_QUANTITY: Final = frozenset({"usage", "burst", "reserved_unused", "service_share"})
_CATEGORY: Final = {"tax": "Tax", "credit": "Credit"}


@dataclass(frozen=True, slots=True)
class FocusTerms:
    """What FOCUS wants to know of the seller, who is the platform itself unless the settings say otherwise."""

    issuer: str = "GPU Platform"
    provider: str = "GPU Platform"
    host: str | None = None
    account_id: str = "gpu-platform"
    account_name: str | None = "GPU Platform"
    service: str = "Shared GPU"
    region_id: str | None = None
    region_name: str | None = None


@dataclass(frozen=True, slots=True)
class FocusTable:
    """A data set: instants are in microseconds, on a whole second. ``left_out``: ids of lines without a price, which have no row."""

    columns: Sequence[FocusColumn]
    rows: Sequence[Row]
    left_out: Sequence[str] = ()


def cost_and_usage(statements: Sequence[Statement], version: Version, terms: FocusTerms | None = None) -> FocusTable:
    """The priced lines of statements as Cost and Usage rows, in their order; see docs/focus.md for each column."""
    said = terms or FocusTerms()
    rows: list[Row] = []
    left_out: list[str] = []
    for statement in statements:
        made: list[tuple[Row, StatementLine]] = []
        for line in statement.lines:
            if line.amount_micro is None:
                left_out.append(line.line_id)
            else:
                made.append((_row(statement, line, said, version), line))
        if version == "1.4":
            _split(made)
        rows += [row for row, _line in made]
    return FocusTable(COST_AND_USAGE[version], rows, left_out)


def billing_periods(statements: Sequence[Statement], terms: FocusTerms | None = None) -> FocusTable:
    """One row per billing period among the statements: Closed once all of its statements are, with the latest instant they carry."""
    issuer = (terms or FocusTerms()).issuer
    by_window: dict[tuple[Instant, Instant], list[Statement]] = {}
    for statement in statements:
        by_window.setdefault((statement.window.start, statement.window.end), []).append(statement)
    rows: list[Row] = [
        {
            "BillingPeriodCreated": _second(start),
            "BillingPeriodEnd": _second(end),
            "BillingPeriodLastUpdated": max(_second(each.closed_at or each.as_of) for each in group),
            "BillingPeriodStart": _second(start),
            "BillingPeriodStatus": "Open" if any(each.state == "draft" for each in group) else "Closed",
            "InvoiceIssuerName": issuer,
        }
        for (start, end), group in sorted(by_window.items())
    ]
    return FocusTable(BILLING_PERIOD, rows)


def _row(statement: Statement, line: StatementLine, terms: FocusTerms, version: Version) -> Row:
    by_quantity = _is_priced_by_quantity(line)
    row: Row = {column.name: None for column in COST_AND_USAGE[version]}
    row |= _sold_by(terms, version)
    row |= _charge(statement, line)
    row |= _costs(line)
    row |= _resource(line, version)
    row |= _said_besides(line)
    row["ServiceName"] = terms.service
    if by_quantity:
        row |= _prices(statement, line)
    if line.kind == "reserved_unused":
        row["CapacityReservationId"] = f"{line.cluster}/{line.queue or statement.tenant}"
        row["CapacityReservationStatus"] = "Unused"
    if version == "1.2":
        row["PricingCurrency"] = statement.currency
        row["PricingCurrencyContractedUnitPrice"] = row["ContractedUnitPrice"]
        row["PricingCurrencyEffectiveCost"] = row["EffectiveCost"]
        row["PricingCurrencyListUnitPrice"] = row["ListUnitPrice"]
    else:
        row["InvoiceDetailId"] = None if statement.number is None else line.line_id
        row["x_StartedAt"], row["x_EndedAt"] = _second(line.started_at), _second(line.ended_at, up=True)
    return row


def _is_priced_by_quantity(line: StatementLine) -> bool:
    """Whether the cost is a price times a quantity: a part of a shared service that only moves money between tenants is not."""
    return line.kind in _PRICED_BY_QUANTITY and (line.kind != "service_share" or line.quantity_gpu_us > 0)


def _category(line: StatementLine) -> str:
    if line.kind == "service_share" and line.quantity_gpu_us == 0:
        return "Adjustment"
    return _CATEGORY.get(line.kind, "Usage")


def _sold_by(terms: FocusTerms, version: Version) -> Row:
    row: Row = {
        "BillingAccountId": terms.account_id,
        "BillingAccountName": terms.account_name,
        "InvoiceIssuerName": terms.issuer,
        "RegionId": terms.region_id,
        "RegionName": terms.region_name,
    }
    if version == "1.2":
        return row | {"ProviderName": terms.provider, "PublisherName": terms.host or terms.provider}
    return row | {"ServiceProviderName": terms.provider, "HostProviderName": terms.host}


def _charge(statement: Statement, line: StatementLine) -> Row:
    serving = line.kind == "service_share"
    return {
        "BillingCurrency": statement.currency,
        "BillingPeriodStart": _second(statement.window.start),
        "BillingPeriodEnd": _second(statement.window.end, up=True),
        "ChargePeriodStart": _second(line.started_at),
        "ChargePeriodEnd": _second(line.ended_at, up=True),
        "ChargeCategory": _category(line),
        "ChargeClass": "Correction" if line.kind == "correction" else None,
        "ChargeDescription": line.description,
        "ChargeFrequency": "Usage-Based" if _is_priced_by_quantity(line) else "One-Time",
        "InvoiceId": statement.number,
        "ServiceCategory": "AI and Machine Learning" if serving else "Compute",
        "ServiceSubcategory": "Generative AI" if serving else "Other (Compute)",
        "SubAccountId": statement.tenant,
        "SubAccountName": statement.tenant,
        "SubAccountType": "Tenant",
    }


def _costs(line: StatementLine) -> Row:
    """The four costs of a line that no quantity is the ground of; ``_prices`` replaces two of them. A correction keeps its own list amount."""
    billed = _micro(line.amount_micro)
    as_listed = line.kind in ("correction", "tax") and line.list_micro is not None
    return {
        "BilledCost": billed,
        "ContractedCost": billed,
        "EffectiveCost": billed,
        "ListCost": _micro(line.list_micro) if as_listed else billed,
    }


def _prices(statement: Statement, line: StatementLine) -> Row:
    amount, listed = line.amount_micro or 0, line.list_micro
    listed = amount if listed is None else listed
    quantity = _rounded(Fraction(line.quantity_gpu_us, HOUR_US), QUANTITY_SCALE)
    unit = "GPU-Hours"
    price = _micro(line.unit_price_micro)
    if price is None:
        price = _quotient(Decimal(f"{listed}E-6"), quantity)
    else:
        unit = UNITS.get(line.per or "hour", "GPU-Hours")
        if line.unit_price_micro:
            quantity = _rounded(Fraction(listed, line.unit_price_micro), QUANTITY_SCALE)
    contracted = price if amount == listed else _quotient(Decimal(f"{amount}E-6"), quantity)
    sku = f"gpu/{line.model or 'any model'}/{line.unit_kind or 'any unit'}"
    return {
        "ListUnitPrice": price,
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ListCost": exact_product(price, quantity),
        "ContractedUnitPrice": contracted,
        "ContractedCost": exact_product(contracted, quantity),
        "ConsumedQuantity": Decimal(0)
        if line.kind == "reserved_unused"
        else _rounded(Fraction(line.quantity_gpu_us, HOUR_US), QUANTITY_SCALE),
        "ConsumedUnit": "GPU-Hours",
        "PricingCategory": "Dynamic" if line.commitment == "spot" else "Standard",
        "SkuId": sku,
        "SkuMeter": "GPU time",
        "SkuPriceDetails": json_text({"GpuCount": 1, "x_Model": line.model, "x_UnitKind": line.unit_kind}),
        "SkuPriceId": f"{_price_with_version(statement, line)}/{sku}",
    }


def _price_with_version(statement: Statement, line: StatementLine) -> str:
    """The price line's id with the version of its book: ``std@3/h100``. Where the id names no book, the statement's books stand before it."""
    if line.price_id is not None and "@" in line.price_id:
        return line.price_id
    books = [
        f"{name.removeprefix(BOOK)}@{version}"
        for name, version in sorted(statement.versions.items())
        if name.startswith(BOOK)
    ]
    return "/".join([*([",".join(books)] if books else []), line.price_id or "unlisted"])


def _resource(line: StatementLine, version: Version) -> Row:
    """In 1.2 the resource is the pod's unit on a card, in 1.4 the card, which is split to pods."""
    tags = _tags(line)
    if line.device_uuid is None and line.pod is None:
        return {"Tags": json_text(tags)}
    card = f"{line.cluster}/{line.device_uuid}" if line.device_uuid is not None else None
    pod = "/".join(part for part in (line.cluster, line.namespace, line.pod_uid or line.pod) if part)
    if version == "1.2" or card is None:
        whole = (
            pod if line.unit_id is None and line.device_uuid is None else f"{pod}/{line.unit_id or line.device_uuid}"
        )
        return {
            "ResourceId": whole if line.pod is not None else card,
            "ResourceName": line.pod or line.device_uuid,
            "ResourceType": "GPU Share",
            "Tags": json_text(tags),
        }
    return {
        "ResourceId": card,
        "ResourceName": line.device_uuid,
        "ResourceType": "GPU",
        "Tags": json_text({"cluster": line.cluster}),
    }


def _tags(line: StatementLine) -> Mapping[str, str | None]:
    names = ("cluster", "node", "namespace", "workload", "queue", "department", "team", "project", "cost_centre")
    return {name: getattr(line, name) for name in names}


def _said_besides(line: StatementLine) -> Row:
    normalised = line.normalised_gpu_us
    return {
        "x_LineId": line.line_id,
        "x_Kind": line.kind,
        "x_LineDescription": line.description,
        "x_Commitment": line.commitment,
        "x_CorrectionReference": line.reference,
        "x_CorrectionReason": line.reason,
        "x_Estimated": line.estimated,
        "x_Provisional": line.provisional,
        "x_CoverageRatio": None if line.coverage_ppm is None else Decimal(f"{line.coverage_ppm}E-6"),
        "x_CostBookCost": _micro(line.cost_micro),
        "x_UsedCost": _micro(line.used_micro),
        "x_UsedCostUpper": _micro(line.used_upper_micro),
        "x_NormalisedGpuHours": None if normalised is None else _rounded(Fraction(normalised, HOUR_US), QUANTITY_SCALE),
    }


def _split(made: Sequence[tuple[Row, StatementLine]]) -> None:
    """Mark the rows of each card as allocated charges of one origin: alike in dimensions and unit prices, their ratios sum to 1."""
    origins: dict[tuple[Cell, ...], list[tuple[Row, StatementLine]]] = {}
    for row, line in made:
        if line.device_uuid is not None and _is_priced_by_quantity(line) and line.quantity_gpu_us > 0:
            origins.setdefault(_origin_key(row, line), []).append((row, line))
    for number, group in enumerate(origins.values(), start=1):
        card = group[0][1]
        origin_id = f"{card.cluster}/{card.device_uuid}#{number}"
        price = _contracted_of_all([row for row, _line in group])
        for (row, line), ratio in zip(group, ratios([line.quantity_gpu_us for _row, line in group]), strict=True):
            quantity = row["PricingQuantity"]
            if not isinstance(quantity, Decimal):
                raise TypeError("a row that is priced by quantity has one")
            row["ContractedUnitPrice"], row["ContractedCost"] = price, exact_product(price, quantity)
            row["ChargeDescription"] = f"GPU time of {line.model}" if line.model else "GPU time"
            row["ChargePeriodStart"], row["ChargePeriodEnd"] = row["BillingPeriodStart"], row["BillingPeriodEnd"]
            row["InvoiceDetailId"] = None if row["InvoiceId"] is None else origin_id
            row["x_OriginChargeId"] = origin_id
            row["AllocatedMethodId"] = METHOD_ID
            row["AllocatedMethodDetails"] = method_details(Share(ratio, line.quantity_gpu_us))
            row["AllocatedResourceId"] = "/".join(
                part for part in (line.cluster, line.namespace, line.pod_uid, line.unit_id) if part
            )
            row["AllocatedResourceName"] = line.pod
            row["AllocatedTags"] = json_text(_tags(line))


def _origin_key(row: Row, line: StatementLine) -> tuple[Cell, ...]:
    """What the allocated charges of one origin share. The discount enters in hundredths of a percent, since each amount was rounded by itself.

    Time at a price that is not charged (a card that was down) is an origin of its own: its part in the cost is none.
    """
    listed = line.list_micro or 0
    discount = round(Fraction(10_000 * (line.discount_micro or 0), listed)) if listed else 0
    shared = ("ResourceId", "SkuPriceId", "ListUnitPrice", "PricingUnit", "PricingCategory", "ChargeCategory")
    return (*(row[name] for name in shared), row["CapacityReservationId"], discount, listed == 0)


def _contracted_of_all(rows: Sequence[Row]) -> Decimal:
    billed = sum((_fraction(row["BilledCost"]) for row in rows), Fraction(0))
    listed = sum((_fraction(row["ListCost"]) for row in rows), Fraction(0))
    quantity = sum((_fraction(row["PricingQuantity"]) for row in rows), Fraction(0))
    price = row_price if isinstance(row_price := rows[0]["ListUnitPrice"], Decimal) else Decimal(0)
    if quantity == 0 or round(listed, 6) == billed:
        return price
    return _rounded(billed / quantity, CONTRACTED_PRICE_SCALE)


def _fraction(cell: Cell) -> Fraction:
    return Fraction(cell) if isinstance(cell, Decimal) else Fraction(0)


def exact_product(price: Decimal, quantity: Decimal) -> Decimal:
    """The product in full, whatever the decimal context's precision."""
    places = -(_exponent(price) + _exponent(quantity))
    return _rounded(Fraction(price) * Fraction(quantity), max(0, places))


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _quotient(amount: Decimal, quantity: Decimal) -> Decimal:
    return _rounded(Fraction(amount) / Fraction(quantity), CONTRACTED_PRICE_SCALE) if quantity else Decimal(0)


def _rounded(value: Fraction, places: int) -> Decimal:
    """A fraction as a decimal with that many places, half to even."""
    return Decimal(f"{round(value * 10**places)}E-{places}")


def _micro(amount: int | None) -> Decimal | None:
    return None if amount is None else Decimal(f"{amount}E-6")


def _second(instant: Instant, *, up: bool = False) -> Instant:
    """FOCUS instants have no fraction: starts go down to the second, ends up."""
    return -(-instant // SECOND_US) * SECOND_US if up else instant // SECOND_US * SECOND_US


def json_text(values: Mapping[str, str | int | None]) -> str:
    """A key-value object without the keys that have no value; lone surrogates stay escapes."""
    kept = {key: value for key, value in values.items() if value is not None}
    text = json.dumps(kept, ensure_ascii=False, sort_keys=True)
    return text if text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text) else json.dumps(kept)
