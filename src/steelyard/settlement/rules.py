"""What settlement is told by the settings: calendars, currencies, tax, credits, shared services, thresholds, who approves what.

``app`` makes one from the settings; it goes into the manifest of every closed period as it stood, so that a snapshot explains itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from steelyard.definitions.token_split import TokenWeights
from steelyard.primitives.instant import Instant
from steelyard.settlement.periods import PeriodRules

IdleSharing = Literal["none", "proportional", "even"]
PPM: Final = 1_000_000
COVERAGE_MIN_PPM: Final = 950_000
ALERTS_PPM: Final = (800_000, PPM)


@dataclass(frozen=True, slots=True)
class TaxRule:
    """A tax of tenants that match a glob, from ``valid_from_at`` to ``valid_to_at``. ``rate_ppm``: of the amount before tax."""

    name: str
    rate_ppm: int
    tenant: str = "*"
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None

    def holds(self, tenant: str, instant: Instant) -> bool:
        """Whether it is due for a tenant's line that starts then."""
        return (
            fnmatchcase(tenant, self.tenant)
            and (self.valid_from_at is None or self.valid_from_at <= instant)
            and (self.valid_to_at is None or instant < self.valid_to_at)
        )

    def name_with_rate(self) -> str:
        """As its line is called: ``VAT 6 %``."""
        percent = f"{self.rate_ppm / 10_000:.4f}".rstrip("0").rstrip(".")
        return f"{self.name} {percent} %"


@dataclass(frozen=True, slots=True)
class CreditRule:
    """What a tenant is given back for time in which its share was down: ``rate_ppm`` of the list price of that time, once there was at least
    ``least_gpu_us`` of it in the period. Time that was down is not charged in the first place; a credit comes on top."""

    name: str
    rate_ppm: int
    tenant: str = "*"
    least_gpu_us: int = 0


@dataclass(frozen=True, slots=True)
class SettlementRules:
    """All of it. ``currency``: of statements, None = the price book's own; ``tenant_currencies``: of tenants that have another.

    ``coverage_min_ppm``: below it a line is marked as estimated, and a close is blocked. ``late_after_us``: a source that told nothing for so long
    before a period's end is late. ``alerts_ppm``: parts of a budget at which it is told. ``approvers``: what has to be approved (``budget``,
    ``dispute``, ``waiver``) -> roles that may. ``settings_sha256``: of the whole settings.
    ``joins_lines``: parts of a line that differ in nothing are one, whatever changed meanwhile for others.
    """

    periods: PeriodRules = field(default_factory=PeriodRules)
    currency: str | None = None
    tenant_currencies: Mapping[str, str] = field(default_factory=dict)
    taxes: tuple[TaxRule, ...] = ()
    credits: tuple[CreditRule, ...] = ()
    services: TokenWeights = field(default_factory=TokenWeights)
    idle_sharing: IdleSharing = "none"
    coverage_min_ppm: int = COVERAGE_MIN_PPM
    late_after_us: int = 24 * 3_600_000_000
    alerts_ppm: tuple[int, ...] = ALERTS_PPM
    approvers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings_sha256: str = ""
    joins_lines: bool = True

    def currency_of(self, tenant: str) -> str | None:
        """What a tenant's statement is in; None: what the price book is in."""
        return self.tenant_currencies.get(tenant, self.currency)

    def to_json(self) -> str:
        """All of it as one line of JSON, for the manifest."""
        return msgspec.json.encode(self, order="sorted").decode()

    def sha256(self) -> str:
        """Two closes with the same hash went by the same rules."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def rules_of(text: str | bytes) -> SettlementRules:
    """The rules behind ``to_json``. Those of a close that knew of no joining join nothing, so that it comes out of its files as it was."""
    found = msgspec.json.decode(text, type=SettlementRules)
    return found if "joins_lines" in msgspec.json.decode(text) else replace(found, joins_lines=False)
