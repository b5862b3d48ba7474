"""The table ``[state]`` of the settings: where the rules of states draw their lines, by the defaults of ``definitions.gpu_state``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from steelyard.definitions.gpu_state import DEFAULTS, StateThresholds
from steelyard.primitives.instant import MINUTE_US

_Ratio = Annotated[float, Field(gt=0, le=1)]
_Bytes = Annotated[int, Field(ge=1, le=2**50)]


class StateSetting(BaseModel):
    """Ratios are 0 to 1, rates are bytes per second; what each is for stands at ``StateThresholds``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    idle_ratio: _Ratio = DEFAULTS.idle_ratio
    low_ratio: _Ratio = DEFAULTS.low_ratio
    bound_ratio: _Ratio = DEFAULTS.bound_ratio
    quiet_ratio: _Ratio = DEFAULTS.quiet_ratio
    hang_busy_ratio: _Ratio = DEFAULTS.hang_busy_ratio
    hang_still_ratio: _Ratio = DEFAULTS.hang_still_ratio
    hang_power_ratio: _Ratio = DEFAULTS.hang_power_ratio
    hang_minutes: int = Field(default=DEFAULTS.hang_us // MINUTE_US, ge=1, le=1_440)
    copy_bytes_per_second: _Bytes = DEFAULTS.copy_bytes_per_second
    collective_bytes_per_second: _Bytes = DEFAULTS.collective_bytes_per_second
    occupancy_ratio: _Ratio = DEFAULTS.occupancy_ratio
    host_ratio: _Ratio = DEFAULTS.host_ratio
    network_bytes_per_second: _Bytes = DEFAULTS.network_bytes_per_second
    load_minutes: int = Field(default=DEFAULTS.load_us // MINUTE_US, ge=1, le=1_440)

    def thresholds(self) -> StateThresholds:
        """As the ledgers take them."""
        values = self.model_dump(exclude={"hang_minutes", "load_minutes"})
        return StateThresholds(**values, hang_us=self.hang_minutes * MINUTE_US, load_us=self.load_minutes * MINUTE_US)
