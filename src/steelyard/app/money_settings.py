"""The table ``[money]`` of the settings: what a site decided about money, by the defaults of ``definitions.money``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from steelyard.app.settlement_settings import SettlementSetting
from steelyard.definitions.money import MoneyPolicy
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
        )
