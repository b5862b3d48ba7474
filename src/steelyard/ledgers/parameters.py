"""What a posting run is told by the settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.definitions.fragmentation import RequestClass
from steelyard.definitions.gpu_state import StateThresholds
from steelyard.definitions.grain import check_grain
from steelyard.definitions.money import MoneyPolicy
from steelyard.definitions.normalised_gpu_hours import REFERENCE_WEIGHT_PPM
from steelyard.definitions.over_use import EXEMPT_NAMESPACES, EXEMPT_PROCESSES, OverUseThresholds
from steelyard.definitions.quota_balance import LEAK_GRACE_MINUTES, WAIT_CEILING_MINUTES
from steelyard.definitions.tenant import DEFAULT_RULES, TenantRule
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, MINUTE_US, DurationUs, Instant

HISTORY_DAYS_MAX: Final = 3660
"""Ten years."""

PERSON_ANNOTATIONS: Final = ("steelyard.io/owner",)
RATE_ANNOTATIONS: Final = ("steelyard.io/samples-per-second",)

CONTACT_ANNOTATIONS: Final = (
    "steelyard.io/contact",
    "steelyard.io/owner",
    "contact",
    "owner",
    "openshift.io/requester",
)


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
    history_days_max: how far before the latest evidence the ledgers of time reach. What is stamped earlier comes from a broken clock far more often
    than from an old estate, and would be posted grain by grain: it is left out, and findings name it.
    leak_grace_us: what is admitted and without a live pod for longer than this is leaked quota. wait_ceiling_us: a request within its queue's own
    quota that waited no longer than this was fulfilled.
    person_annotations: keys of annotations that name who is behind a pod, the first that is there wins. contacts: (namespace, person), of requests
    of which nobody else is known; contact_annotations: keys of a namespace's annotations that name its contact where those
    do not. state: where the rules of ``gpu_state`` draw their lines.
    over_use: the same of ``over_use``; exempt_namespaces, exempt_processes: pods that look after cards, and names of processes of pods of
    DaemonSets that do.
    request_classes: typical requests as they are declared; none = those that were seen. money: what the site decided about money.
    rate_annotations: keys of annotations in which a pod says how many samples per second its job does, the first that is there wins.
    Raises UsageError for a grain that cannot be set and a history of no day.
    """

    grain_us: DurationUs = HOUR_US
    floor_by_slots: bool = False
    tenant_rules: tuple[TenantRule, ...] = DEFAULT_RULES
    model_weights: tuple[ModelWeight, ...] = ()
    weight_default_ppm: int = REFERENCE_WEIGHT_PPM
    history_days_max: int = HISTORY_DAYS_MAX
    leak_grace_us: DurationUs = LEAK_GRACE_MINUTES * MINUTE_US
    wait_ceiling_us: DurationUs = WAIT_CEILING_MINUTES * MINUTE_US
    person_annotations: tuple[str, ...] = PERSON_ANNOTATIONS
    contacts: tuple[tuple[str, str], ...] = ()
    contact_annotations: tuple[str, ...] = CONTACT_ANNOTATIONS
    rate_annotations: tuple[str, ...] = RATE_ANNOTATIONS
    state: StateThresholds = field(default_factory=StateThresholds)
    over_use: OverUseThresholds = field(default_factory=OverUseThresholds)
    exempt_namespaces: tuple[str, ...] = EXEMPT_NAMESPACES
    exempt_processes: tuple[str, ...] = EXEMPT_PROCESSES
    request_classes: tuple[RequestClass, ...] = ()
    money: MoneyPolicy = field(default_factory=MoneyPolicy)

    def __post_init__(self) -> None:
        check_grain(self.grain_us)
        if not 1 <= self.history_days_max <= 36_600:
            raise UsageError(
                _("a history of {days} days cannot be posted: it must be 1 to 36,600 days").format(
                    days=self.history_days_max
                )
            )

    def bound(self) -> Mapping[str, object]:
        """The values that ``dimensions/parameter.sql`` binds."""
        return {
            "grain_us": self.grain_us,
            "floor_by_slots": self.floor_by_slots,
            "weight_default_ppm": self.weight_default_ppm,
            "history_days_max": self.history_days_max,
            "leak_grace_us": self.leak_grace_us,
            "wait_ceiling_us": self.wait_ceiling_us,
        }

    def settings_hash(self) -> str:
        """sha256 over all of it: two runs with the same hash went by the same settings."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()
