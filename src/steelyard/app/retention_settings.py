"""The settings of what becomes of samples as they age."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator


class RetentionSetting(BaseModel):
    """``raw_days``: samples as they were seen. ``status_days``: how each round of each source went; of older ones that say the same one an hour
    is kept, and every change. ``minute_days``: one a minute; older ones are in the exports alone. ``export_directory``: where daily
    exports go; None = ``facts`` in the data directory. ``free_ratio_min``: the share of free blocks from which on the file is written anew."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    raw_days: int = Field(default=14, ge=1, le=36_500)
    status_days: int = Field(default=14, ge=1, le=36_500)
    minute_days: int = Field(default=90, ge=1, le=36_500)
    export_directory: Path | None = None
    free_ratio_min: float = Field(default=0.3, ge=0.05, le=0.95, allow_inf_nan=False)

    @model_validator(mode="after")
    def _minutes_outlive_raw(self) -> RetentionSetting:
        if self.minute_days < self.raw_days:
            raise ValueError(
                f"expected minute_days >= raw_days; found minute_days = {self.minute_days}, raw_days = {self.raw_days}"
            )
        return self
