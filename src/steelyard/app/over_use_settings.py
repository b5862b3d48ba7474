"""The table ``[over_use]`` of the settings: from where on use above a grant is over-use, by the defaults of ``definitions.over_use``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from steelyard.definitions.over_use import DEFAULTS, EXEMPT_NAMESPACES, EXEMPT_PROCESSES, OverUseThresholds
from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US

_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Minutes = Annotated[int, Field(ge=1, le=1_440)]


class OverUseSetting(BaseModel):
    """What each is for stands at ``OverUseThresholds``. exempt_namespaces: pods that look after cards. exempt_processes: names of processes that
    do, where a pod of a DaemonSet runs them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory_percent: int = Field(default=DEFAULTS.memory_percent, ge=0, le=100)
    memory_process_mib: int = Field(default=DEFAULTS.memory_process_mib, ge=0, le=1_000_000)
    compute_points: int = Field(default=DEFAULTS.compute_points, ge=0, le=100)
    shown_minutes: _Minutes = DEFAULTS.shown_us // MINUTE_US
    soft_minutes: _Minutes = DEFAULTS.soft_us // MINUTE_US
    repeated_count: int = Field(default=DEFAULTS.repeated_count, ge=1, le=1_000)
    repeated_hours: int = Field(default=DEFAULTS.repeated_us // HOUR_US, ge=1, le=8_760)
    weekly_gpu_hours: float = Field(default=DEFAULTS.weekly_gpu_us / HOUR_US, gt=0, le=1_000_000, allow_inf_nan=False)
    end_grace_seconds: int = Field(default=DEFAULTS.end_grace_us // SECOND_US, ge=0, le=86_400)
    cores_forced: bool = DEFAULTS.cores_forced
    exempt_namespaces: tuple[_Name, ...] = EXEMPT_NAMESPACES
    exempt_processes: tuple[_Name, ...] = EXEMPT_PROCESSES

    def thresholds(self) -> OverUseThresholds:
        """As the ledgers take them."""
        return OverUseThresholds(
            memory_percent=self.memory_percent,
            memory_process_mib=self.memory_process_mib,
            compute_points=self.compute_points,
            shown_us=self.shown_minutes * MINUTE_US,
            soft_us=self.soft_minutes * MINUTE_US,
            repeated_count=self.repeated_count,
            repeated_us=self.repeated_hours * HOUR_US,
            weekly_gpu_us=round(self.weekly_gpu_hours * HOUR_US),
            end_grace_us=self.end_grace_seconds * SECOND_US,
            cores_forced=self.cores_forced,
        )
