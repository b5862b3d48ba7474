"""What a held card did in a minute: the triple 1001, 1002 and 1005 read together, and what a state's cause may rest on.

``state_of`` judges one one-minute mean by the first rule that holds. The trick to know: logic is three-valued. A rule one of whose inputs is not
known, and which could hold still, does not hold; a later rule that holds wins; where none holds and one was open, the state is ``held_unknown``
with the fields that are missing, for a share of a card is never called idle because nobody looked. 203 GPU_UTIL stands in for 1001
where that is missing, and the basis says so. ``suspected_hang`` needs more than a minute: its signature (``hang_signature``) must last.

Unknown: a ratio below 0 or above 1.05 is none; counters that read 0 while 203 is above a half (``prof_suspect``) are none either.

Sceptic's command: ``dcgmi dmon -e 203,1001,1002,1003,1005,155,112,1009,1010,1011,1012``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from steelyard.definitions.used_share import RATIO_MAX
from steelyard.primitives.instant import MINUTE_US, DurationUs

VERSION: Final = "1"
FORMULA: Final = (
    "state of each share of each card at each instant, by the first rule that holds on one-minute means: suspected_hang, saturated, "
    "memory_bound, compute_bound, held_idle, held_low, busy_not_working, mixed; a missing field makes held_unknown; all states of a place "
    "and grain sum to its supply"
)

HELD_BY_TRIPLE: Final = (
    "suspected_hang",
    "saturated",
    "memory_bound",
    "compute_bound",
    "held_idle",
    "held_low",
    "busy_not_working",
    "mixed",
)
"""In the order of the rules; the number of a state in SQL is its place here, from 1."""

UNKNOWN: Final = "held_unknown"
OTHER_HELD: Final = ("held_down", "held_starting", UNKNOWN, "held_unattributed")
NOT_HELD: Final = ("out_of_service", "unobserved", "reserved", "in_suspense", "free_waiting", "free_no_demand")
STATES: Final = (*HELD_BY_TRIPLE, *OTHER_HELD, *NOT_HELD)

IDLE_CAUSES: Final = (
    "no_load",
    "model_load",
    "interactive",
    "checkpoint",
    "host_cpu",
    "io",
    "network",
    "throttled",
    "unknown",
)
"""Of ``held_idle`` and ``held_low``: the first of which there is evidence."""
BUSY_CAUSES: Final = ("copy", "collective_wait", "small_kernels", "unknown")
WAITING_CAUSES: Final = ("quota", "fragmentation", "gang", "placement", "scheduler")
BASES: Final = ("occupancy", "triple", "instance", "card")
FALLBACK: Final = "+203"
"""Ends a basis where 203 stood in for 1001."""

FIELDS: Final = ("1001", "1002", "1005")
THROTTLE_FAULTS: Final = 0x8 | 0x20 | 0x40 | 0x80
"""Of the clock event reasons (112): hardware slowdown, software and hardware thermal, power brake. An idle clock and a power cap are no faults."""


@dataclass(frozen=True, slots=True)
class StateThresholds:
    """Where the rules draw their lines; all are settings.

    idle_ratio, low_ratio: 1001 below it is idle, low. bound_ratio: 1002 or 1005 from it on is bound. quiet_ratio: 1002 and 1005 below it while
    busy is no work. hang_busy_ratio: 1001 from it on, hang_still_ratio: 1002 and 1005 below it, hang_power_ratio: power up to this part of
    its limit, for hang_us, is a hang. copy_bytes_per_second, collective_bytes_per_second: PCIe, NVLink from it on is evidence of a copy or a
    collective. occupancy_ratio: 1003 below it is evidence of small kernels. host_ratio: throttled periods of CPU, or time waiting, from it on is
    evidence of the host, network_bytes_per_second of the network. load_us: for so long after a pod became ready what comes over PCIe is a model.
    """

    idle_ratio: float = 0.05
    low_ratio: float = 0.5
    bound_ratio: float = 0.6
    quiet_ratio: float = 0.2
    hang_busy_ratio: float = 0.95
    hang_still_ratio: float = 0.05
    hang_power_ratio: float = 0.35
    hang_us: DurationUs = 10 * MINUTE_US
    copy_bytes_per_second: int = 1_000_000_000
    collective_bytes_per_second: int = 1_000_000_000
    occupancy_ratio: float = 0.2
    host_ratio: float = 0.25
    network_bytes_per_second: int = 125_000_000
    load_us: DurationUs = 10 * MINUTE_US


DEFAULTS: Final = StateThresholds()


@dataclass(frozen=True, slots=True)
class HeldState:
    """``cause``: of ``held_unknown`` the missing fields, else None."""

    name: str
    cause: str | None = None


def measured_ratio(ratio: float | None) -> float | None:
    """A ratio as measured, at most 1. None: not known, no number, or beyond its physical limits."""
    return None if ratio is None or not 0 <= ratio <= RATIO_MAX else min(ratio, 1.0)


def _all(*conditions: bool | None) -> bool | None:
    """Three-valued AND."""
    if any(condition is False for condition in conditions):
        return False
    return None if any(condition is None for condition in conditions) else True


def _at_least(value: float | None, bound: float) -> bool | None:
    return None if value is None else value >= bound


def _below(value: float | None, bound: float) -> bool | None:
    return None if value is None else value < bound


def hang_signature(
    engine: float | None,
    sm: float | None,
    dram: float | None,
    power_watts: float | None,
    limit_watts: float | None,
    at: StateThresholds = DEFAULTS,
) -> bool | None:
    """Whether a minute looks as a hang does: busy, nothing moves, power near idle. None: it may, and a figure is missing.

    A limit of 0 W or less is no limit. Three-valued: one figure that speaks against it is enough.
    """
    known = power_watts is not None and power_watts >= 0 and limit_watts is not None and limit_watts > 0
    near_idle = power_watts <= limit_watts * at.hang_power_ratio if known else None  # type: ignore[operator]  # known: neither is None
    return _all(
        _at_least(engine, at.hang_busy_ratio),
        _below(sm, at.hang_still_ratio),
        _below(dram, at.hang_still_ratio),
        near_idle,
    )


def state_of(
    engine: float | None,
    sm: float | None,
    dram: float | None,
    hang: bool = False,
    at: StateThresholds = DEFAULTS,
) -> HeldState:
    """The state of a held unit in one minute, of its measured 1001 (or 203 in its place), 1002 and 1005, 0 to 1.

    hang: whether its minute belongs to a signature that lasted.
    """
    missing = {"1001"} if engine is None else set()
    missing |= ({"1002"} if sm is None else set()) | ({"1005"} if dram is None else set())
    rules: tuple[tuple[str, bool | None, tuple[str, ...]], ...] = (
        ("suspected_hang", hang, ()),
        ("saturated", _all(_at_least(sm, at.bound_ratio), _at_least(dram, at.bound_ratio)), ("1002", "1005")),
        ("memory_bound", _at_least(dram, at.bound_ratio), ("1005",)),
        ("compute_bound", _at_least(sm, at.bound_ratio), ("1002",)),
        ("held_idle", _below(engine, at.idle_ratio), ("1001",)),
        ("held_low", _below(engine, at.low_ratio), ("1001",)),
        (
            "busy_not_working",
            _all(_at_least(engine, at.low_ratio), _below(sm, at.quiet_ratio), _below(dram, at.quiet_ratio)),
            FIELDS,
        ),
    )
    for name, holds, _fields in rules:
        if holds:
            return HeldState(name)
    open_fields = {name for _rule, holds, fields in rules if holds is None for name in fields} & missing
    return HeldState(UNKNOWN, "+".join(sorted(open_fields))) if open_fields else HeldState("mixed")


CLAIMING_STAGES: Final = ("queue", "backoff", "admission_check", "gate", "scheduler")
"""Stages of a wait in which a request claims free share."""
CLAIMING_REASONS: Final = ("workload_not_seen", "end_not_stamped", "gate_not_seen")
"""Of the reasons why a wait is not known exactly: those with which it was there all the same."""
GPU_MILLI_MAX: Final = 1_000_000_000


def spent_as(state: str, cause: str | None) -> str | None:
    """``memory_bound`` or ``saturated`` where a holder's time says that of its card: by its state, or by the card's where no path tells of the
    holder."""
    told = cause if state == "held_unattributed" else state
    return told if told in ("memory_bound", "saturated") else None


def claims_free_share(stage: str | None, fit: str | None, gpu_milli: int | None, unknown_reason: str | None) -> bool:
    """Whether a wait is demand that free share is matched with. A request that never fits claims nothing."""
    known = unknown_reason is None or unknown_reason in CLAIMING_REASONS
    return stage in CLAIMING_STAGES and 1 <= (gpu_milli or 0) <= GPU_MILLI_MAX and fit != "never_fits" and known


def waiting_cause(cause: str | None, stage: str, demand_kind: str) -> str:
    """Why a request waits while share is free: the decider's word; without one its stage's (a queue holds back for quota, a pod group's for its
    gang). Capacity that lacks while share is free is fragmentation."""
    if cause in WAITING_CAUSES:
        return cause
    if cause == "capacity":
        return "fragmentation"
    if cause is None and stage == "queue":
        return "gang" if demand_kind == "pod_group" else "quota"
    return "scheduler"
