"""Over-use: who takes more of a card than was granted, and who uses one without a grant.

``ledgers/excess*.sql`` judge each sample, ``ledgers/over_use.sql`` makes episodes of them. The trick to know: an accusation stands on samples. An
episode lasts only as long as samples closer than ``shown_us`` show it; a sample that stands alone shows that it was so and not for how long, so it is
soft at most and counts towards no other rule. A bypass needs no length: that the process is there is the offence.

Unknown: no path that measures the pod is no "no violation"; ``split_by_grant`` (a card's use divided by reservation) is never a ground. A hardware
partition (MIG) cannot be exceeded, and a profile larger than the request is legitimate rounding.

Sceptic's command: ``nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,used_memory --format=csv -l 60`` and ``cat /proc/PID/cgroup``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US, DurationUs

VERSION: Final = "1"
FORMULA: Final = (
    "use above the grant by more than max(5 %, 600 MiB per process) of memory, or 15 points of forced cores over one-minute means: soft for less "
    "than 15 min, hard from then on, from the third soft episode in 24 h, from 1 GPU-hour of excess in 7 days, and for any bypass"
)

RULES: Final = (
    "memory",
    "compute",
    "no_grant",
    "tampered_grant",
    "after_end",
    "outside_allocation",
    "exposed",
)
BYPASS: Final = frozenset({"no_grant", "tampered_grant", "after_end", "outside_allocation"})
SEVERITIES: Final = ("hard", "soft", "exposed")
"""The gravest first."""
HARD_REASONS: Final = ("bypass", "lasting", "repeated", "weekly_excess")
"""In the order in which they are tried."""

EXEMPT_PROCESSES: Final = (
    "nvidia-cuda-mps-server",
    "nvidia-cuda-mps-control",
    "nvidia-persistenced",
    "nv-hostengine",
    "dcgm-exporter",
    "nvidia-device-plugin",
    "vgpu-monitor",
    "vGPUmonitor",
)
"""Not a bypass where a pod of a DaemonSet runs them: anybody may call a process so, few may run a DaemonSet."""
EXEMPT_NAMESPACES: Final = ("kube-system", "gpu-operator", "nvidia-gpu-operator")
"""The site's own pods, which look after cards."""


@dataclass(frozen=True, slots=True)
class OverUseThresholds:
    """Where the rules draw their lines; all are settings.

    memory_percent, memory_process_mib: tolerance of memory, the larger of a part of the grant and so much per process. compute_points: of cores.
    shown_us: samples closer than this show what lies between them. soft_us: from this length on an episode is hard. repeated_count soft episodes
    that start within repeated_us, weekly_gpu_us of excess within weekly_us: hard. end_grace_us: use so long after the pod's end is none.
    cores_forced: the site enforces cores everywhere, whatever a pod's environment says.
    """

    memory_percent: int = 5
    memory_process_mib: int = 600
    compute_points: int = 15
    shown_us: DurationUs = 15 * MINUTE_US
    soft_us: DurationUs = 15 * MINUTE_US
    repeated_count: int = 3
    repeated_us: DurationUs = DAY_US
    weekly_gpu_us: int = HOUR_US
    weekly_us: DurationUs = 7 * DAY_US
    end_grace_us: DurationUs = 120 * SECOND_US
    cores_forced: bool = False


DEFAULTS: Final = OverUseThresholds()


def tolerance_mib(granted_mib: int, processes: int, limits: OverUseThresholds = DEFAULTS) -> int:
    """By how much memory may exceed its grant, MiB; floored. ``processes``: how many of the pod were seen on the card, 1 where not known."""
    return max(granted_mib * limits.memory_percent // 100, limits.memory_process_mib * max(processes, 1))


def hard_reason(
    rule: str, length_us: DurationUs, soft_in_time: int, excess_gpu_us: int, limits: OverUseThresholds = DEFAULTS
) -> str | None:
    """Why an episode is hard, one of ``HARD_REASONS``; None: it is soft, or exposed.

    soft_in_time: soft episodes of the same pod, card and rule that start within ``repeated_us`` up to this one, itself included.
    excess_gpu_us: of the pod and rule within ``weekly_us`` up to this episode's end. A sample that stands for no time gives soft at most.
    """
    if rule in BYPASS:
        return "bypass"
    if rule == "exposed" or not length_us:
        return None
    if length_us >= limits.soft_us:
        return "lasting"
    if soft_in_time >= limits.repeated_count:
        return "repeated"
    return "weekly_excess" if excess_gpu_us >= limits.weekly_gpu_us else None
