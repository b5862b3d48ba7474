"""Processes on a card at one moment."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class ProcessSample(Fact, frozen=True, kw_only=True):
    """One process on a unit at ``occurred_at``. natural_key: ``<device_uuid>[/gi<N>[/ci<M>]]/<pid>``.

    pid is the host's. process_type: C, G, C+G, M+C. pod_uid is set only where a source proved it (cgroup). unknown: as in
    device_sample; under MIG sm_ratio is never measurable.
    """

    TABLE: ClassVar[str] = "process_sample"

    device_uuid: str
    gi: int | None = None
    ci: int | None = None
    pid: int
    process_name: str | None = None
    process_type: str | None = None
    pod_uid: str | None = None
    memory_used_mib: int | None = None
    sm_ratio: float | None = None
    memory_ratio: float | None = None
    interval_us: int | None = None
    unknown: str = "{}"
