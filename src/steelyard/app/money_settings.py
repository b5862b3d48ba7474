"""The table ``[money]`` of the settings: what a site decided about money, by the defaults of ``definitions.money``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from steelyard.app.settlement_settings import SettlementSetting
from steelyard.definitions.cost_change import ChangeRule
from steelyard.definitions.money import MICRO, WHOLE_PPM, MoneyPolicy
from steelyard.definitions.tenant import like_pattern
from steelyard.primitives.instant import MINUTE_US

_STRICT = ConfigDict(extra="forbid", frozen=True)
_Name = Annotated[str, Field(min_length=1, max_length=253)]


class DedicatedSetting(BaseModel):
    """Nodes that are one tenant's, held or idle: ``node`` is a glob (``h100-*``)."""

    model_config = _STRICT

    node: _Name
    tenant: _Name


class CommitmentSetting(BaseModel):
    """How nodes are paid for whose labels do not tell: ``node`` is a glob."""

    model_config = _STRICT

    node: _Name
    commitment: Literal["on_demand", "reserved", "spot"]


class AnomalySetting(BaseModel):
    """When Q9 calls a day's cost an anomaly: it differs from the mean of the ``days`` days before, of which at least ``days_least`` are known, by
    ``percent`` of it and by ``least`` of its currency, or more."""

    model_config = _STRICT

    days: int = Field(default=7, ge=1, le=366)
    days_least: int = Field(default=3, ge=1, le=366)
    percent: float = Field(default=25, ge=0, le=1e6, allow_inf_nan=False)
    least: float = Field(default=10, ge=0, le=1e9, allow_inf_nan=False)

    @model_validator(mode="after")
    def _can_be_met(self) -> Self:
        if self.days_least > self.days:
            raise ValueError("days_least: expected at most days")
        return self

    def rule(self) -> ChangeRule:
        """As Q9 takes it."""
        return ChangeRule(self.days, self.days_least, round(self.percent * WHOLE_PPM / 100), round(self.least * MICRO))


class MoneySetting(SettlementSetting):
    """What each is for stands at ``MoneyPolicy``. Of rules over nodes the first that matches counts."""

    model_config = _STRICT

    charge_start: Literal["running", "bind"] = "running"
    burst: Literal["none", "charged"] = "none"
    reserved_unused: Literal["none", "shown", "charged"] = "shown"
    idle_sharing: Literal["none", "proportional", "even"] = "none"
    dedicated: tuple[DedicatedSetting, ...] = Field(default=(), max_length=10_000)
    commitments: tuple[CommitmentSetting, ...] = Field(default=(), max_length=10_000)
    platform_start_minutes: int = Field(default=10, ge=0, le=1_440)
    anomaly: AnomalySetting = Field(default_factory=AnomalySetting)

    def policy(self) -> MoneyPolicy:
        """As the ledgers take it."""
        return MoneyPolicy(
            charge_start=self.charge_start,
            burst=self.burst,
            reserved_unused=self.reserved_unused,
            idle_sharing=self.idle_sharing,
            dedicated=tuple((like_pattern(rule.node), rule.tenant) for rule in self.dedicated),
            commitments=tuple((like_pattern(rule.node), rule.commitment) for rule in self.commitments),
            platform_start_us=self.platform_start_minutes * MINUTE_US,
            token_weights=self.services.weights(),
            change=self.anomaly.rule(),
        )
