"""What a posting run is told by the settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from steelyard.definitions.grain import check_grain
from steelyard.definitions.normalised_gpu_hours import REFERENCE_WEIGHT_PPM
from steelyard.definitions.tenant import DEFAULT_RULES, TenantRule
from steelyard.primitives.instant import HOUR_US, DurationUs, Instant


@dataclass(frozen=True, slots=True)
class ModelWeight:
    """The weight of a model in parts per million of the reference model, from ``valid_from_at`` to ``valid_to_at`` (None: without end).

    ``model``: words that all occur in the card's model, as in ``definitions.models`` (``h100 80gb``).
    """

    model: str
    weight_ppm: int
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class PostingParameters:
    """Settings that ledgers obey; the defaults are those of ``definitions``.

    floor_by_slots: a vGPU counts at least 1 / split count of its card. weight_default_ppm: of a model that no weight names.
    Raises UsageError for a grain that cannot be set.
    """

    grain_us: DurationUs = HOUR_US
    floor_by_slots: bool = False
    tenant_rules: tuple[TenantRule, ...] = DEFAULT_RULES
    model_weights: tuple[ModelWeight, ...] = ()
    weight_default_ppm: int = REFERENCE_WEIGHT_PPM

    def __post_init__(self) -> None:
        check_grain(self.grain_us)

    def bound(self) -> Mapping[str, object]:
        """The values that ``dimensions/parameter.sql`` binds."""
        return {
            "grain_us": self.grain_us,
            "floor_by_slots": self.floor_by_slots,
            "weight_default_ppm": self.weight_default_ppm,
        }

    def settings_hash(self) -> str:
        """sha256 over all of it: two runs with the same hash went by the same settings."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()
