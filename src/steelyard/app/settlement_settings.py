"""The part of the table ``[money]`` that periods, statements and budgets go by; the rest stands in ``money_settings``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator

from steelyard.definitions.token_split import TokenWeights
from steelyard.primitives.currency import CURRENCIES
from steelyard.primitives.instant import HOUR_US, Instant, from_datetime
from steelyard.settlement.calendar import FiscalCalendar
from steelyard.settlement.documents import FORMATS, Format
from steelyard.settlement.rules import PPM, CreditRule, TaxRule

_STRICT: Final = ConfigDict(extra="forbid", frozen=True)
_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Approval = Literal["budget", "dispute", "waiver"]
_Role = Literal["operator", "finance", "admin"]


def _ppm(percent: float) -> int:
    return round(percent * PPM / 100)


def _instant(moment: datetime | None) -> Instant | None:
    return None if moment is None else from_datetime(moment)


def _currency(code: str | None) -> str | None:
    if code is not None and code not in CURRENCIES:
        raise ValueError("expected a currency of ISO 4217, such as CNY or USD")
    return code


class CalendarSetting(BaseModel):
    """The fiscal calendar; what each is for stands at ``FiscalCalendar``."""

    model_config = _STRICT

    scheme: Literal["month", "445", "454", "544"] = "month"
    start_month: int = Field(default=1, ge=1, le=12)
    start_day: int = Field(default=1, ge=1, le=28)
    named_by_end: bool = False

    def calendar(self) -> FiscalCalendar:
        """As settlement takes it."""
        return FiscalCalendar(self.scheme, self.start_month, self.start_day, self.named_by_end)


class TenantSetting(BaseModel):
    """What a tenant has other than the estate: time zone, currency."""

    model_config = _STRICT

    time_zone: str | None = None
    currency: str | None = None

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, value: str | None) -> str | None:
        return value if value is None else zone_name(value)

    _code = field_validator("currency")(_currency)


class TaxSetting(BaseModel):
    """A tax of the tenants that ``tenant`` (a glob) matches, within its validity."""

    model_config = _STRICT

    name: _Name
    percent: _Percent
    tenant: _Name = "*"
    valid_from: datetime | None = None
    valid_to: datetime | None = None

    @field_validator("valid_from", "valid_to")
    @classmethod
    def _has_a_zone(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("expected a time with a zone, such as 2027-01-01T00:00:00+08:00")
        return value

    def rule(self) -> TaxRule:
        """As settlement takes it."""
        return TaxRule(self.name, _ppm(self.percent), self.tenant, _instant(self.valid_from), _instant(self.valid_to))


class CreditSetting(BaseModel):
    """What is given back for time that was down, in percent of its list price, from so many GPU-hours in a period on."""

    model_config = _STRICT

    name: _Name = "credit for time that was down"
    percent: float = Field(gt=0, le=1_000, allow_inf_nan=False)
    tenant: _Name = "*"
    least_gpu_hours: float = Field(default=0, ge=0, le=1e9, allow_inf_nan=False)

    def rule(self) -> CreditRule:
        """As settlement takes it."""
        return CreditRule(self.name, _ppm(self.percent), self.tenant, round(self.least_gpu_hours * HOUR_US))


class ServiceSetting(BaseModel):
    """How much a token weighs where a shared service is split, against one of the prompt."""

    model_config = _STRICT

    decode_weight: float = Field(default=4, ge=0, le=1_000, allow_inf_nan=False)
    cached_weight: float = Field(default=0.1, ge=0, le=1_000, allow_inf_nan=False)

    def weights(self) -> TokenWeights:
        """As settlement takes them."""
        return TokenWeights(round(self.decode_weight * PPM), round(self.cached_weight * PPM))


class WebhookSetting(BaseModel):
    """Who is told of a close. ``token_file``: holds the bearer token, which is never logged."""

    model_config = _STRICT

    url: str = Field(pattern=r"^https?://[^/@\s]+(/\S*)?$", max_length=2_000)
    token_file: Path | None = None
    timeout_seconds: float = Field(default=10, gt=0, le=120, allow_inf_nan=False)
    tries: int = Field(default=3, ge=1, le=10)


class SettlementSetting(BaseModel):
    """``currency``: of statements; None = what the price book is in. ``time_zone``: by which the estate's periods begin and end. ``approvers``: what
    has to be approved -> roles that may. ``formats``: of the documents that a close writes."""

    model_config = _STRICT

    currency: str | None = None
    time_zone: str = "UTC"
    calendar: CalendarSetting = Field(default_factory=CalendarSetting)
    tenants: dict[_Name, TenantSetting] = Field(default_factory=dict, max_length=10_000)
    taxes: tuple[TaxSetting, ...] = Field(default=(), max_length=1_000)
    credits: tuple[CreditSetting, ...] = Field(default=(), max_length=1_000)
    services: ServiceSetting = Field(default_factory=ServiceSetting)
    coverage_min_percent: _Percent = 95
    late_after_hours: float = Field(default=24, ge=0, le=8_784, allow_inf_nan=False)
    budget_alerts_percent: tuple[_Percent, ...] = Field(default=(80, 100), max_length=20)
    approvers: dict[Approval, tuple[_Role, ...]] = Field(default_factory=dict)
    formats: tuple[Format, ...] = FORMATS
    webhook: WebhookSetting | None = None

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        return zone_name(value)

    _code = field_validator("currency")(_currency)


def zone_name(value: str) -> str:
    """A name of the IANA list. Raises ValueError for any other text."""
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise ValueError("expected a time zone of the IANA list, such as UTC or Asia/Shanghai") from None
    return value
