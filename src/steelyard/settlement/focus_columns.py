"""Which columns our FOCUS data sets have, in which order, and of which type: Cost and Usage 1.2 and 1.4, Billing Period 1.4.

The trick to know: 1.2 names who sells ``ProviderName`` and ``PublisherName``, 1.4 ``ServiceProviderName`` and ``HostProviderName``; 1.4 has
split-cost columns besides. Custom columns (``x_``) come after those of the specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Version = Literal["1.2", "1.4"]
VERSIONS: Final[tuple[Version, ...]] = ("1.2", "1.4")
FocusType = Literal["string", "decimal", "instant", "json", "flag"]

MONEY_SCALE: Final = 6
QUANTITY_SCALE: Final = 14
CONTRACTED_PRICE_SCALE: Final = 12
RATIO_SCALE: Final = 12


@dataclass(frozen=True, slots=True)
class FocusColumn:
    """A column. ``scale``: decimal places of a ``decimal``, which are enough to hold every product exactly."""

    name: str
    type: FocusType = "string"
    scale: int = 0


def _decimal(name: str, scale: int = MONEY_SCALE) -> FocusColumn:
    return FocusColumn(name, "decimal", scale)


def _instant(name: str) -> FocusColumn:
    return FocusColumn(name, "instant")


def _words(*names: str) -> tuple[FocusColumn, ...]:
    return tuple(FocusColumn(name) for name in names)


_PERIODS: Final = tuple(
    _instant(name) for name in ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
)
_COSTS: Final = (
    _decimal("BilledCost"),
    _decimal("ContractedCost", QUANTITY_SCALE + CONTRACTED_PRICE_SCALE),
    _decimal("EffectiveCost"),
    _decimal("ListCost", QUANTITY_SCALE + CONTRACTED_PRICE_SCALE),
)
_QUANTITIES: Final = (
    _decimal("ConsumedQuantity", QUANTITY_SCALE),
    FocusColumn("ConsumedUnit"),
    _decimal("PricingQuantity", QUANTITY_SCALE),
    FocusColumn("PricingUnit"),
    _decimal("ContractedUnitPrice", CONTRACTED_PRICE_SCALE),
    _decimal("ListUnitPrice", CONTRACTED_PRICE_SCALE),
)
_COMMON: Final = (
    *_words("BillingAccountId", "BillingAccountName", "BillingCurrency"),
    *_PERIODS,
    *_words("ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"),
    *_COSTS,
    *_QUANTITIES,
    *_words("InvoiceId", "InvoiceIssuerName", "PricingCategory", "RegionId", "RegionName"),
    *_words("ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory"),
    *_words("SkuId", "SkuMeter"),
    FocusColumn("SkuPriceDetails", "json"),
    *_words("SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType"),
    FocusColumn("Tags", "json"),
    *_words("CapacityReservationId", "CapacityReservationStatus"),
)
_CUSTOM: Final = (
    *_words("x_LineId", "x_Kind", "x_LineDescription", "x_Commitment", "x_CorrectionReference", "x_CorrectionReason"),
    FocusColumn("x_Estimated", "flag"),
    FocusColumn("x_Provisional", "flag"),
    _decimal("x_CoverageRatio", 6),
    _decimal("x_CostBookCost"),
    _decimal("x_UsedCost"),
    _decimal("x_UsedCostUpper"),
    _decimal("x_NormalisedGpuHours", QUANTITY_SCALE),
)
COST_AND_USAGE: Final[dict[Version, tuple[FocusColumn, ...]]] = {
    "1.2": (
        *_COMMON,
        *_words("ProviderName", "PublisherName", "AvailabilityZone"),
        *_words("CommitmentDiscountId", "CommitmentDiscountStatus", "PricingCurrency"),
        _decimal("PricingCurrencyContractedUnitPrice", CONTRACTED_PRICE_SCALE),
        _decimal("PricingCurrencyEffectiveCost"),
        _decimal("PricingCurrencyListUnitPrice", CONTRACTED_PRICE_SCALE),
        *_CUSTOM,
    ),
    "1.4": (
        *_COMMON,
        *_words("ServiceProviderName", "HostProviderName", "InvoiceDetailId", "AllocatedMethodId"),
        FocusColumn("AllocatedMethodDetails", "json"),
        *_words("AllocatedResourceId", "AllocatedResourceName"),
        FocusColumn("AllocatedTags", "json"),
        *_CUSTOM,
        FocusColumn("x_OriginChargeId"),
        _instant("x_StartedAt"),
        _instant("x_EndedAt"),
    ),
}
"""Cost and Usage, by version."""

BILLING_PERIOD: Final = (
    _instant("BillingPeriodCreated"),
    _instant("BillingPeriodEnd"),
    _instant("BillingPeriodLastUpdated"),
    _instant("BillingPeriodStart"),
    *_words("BillingPeriodStatus", "InvoiceIssuerName"),
)
"""Billing Period 1.4."""
