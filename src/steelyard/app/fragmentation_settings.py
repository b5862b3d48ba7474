"""The table ``[fragmentation]`` of the settings: typical requests as the site declares them, instead of those that were seen."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from steelyard.definitions.fragmentation import RequestClass, Shape
from steelyard.definitions.share import WHOLE_PPM

_Model = Annotated[str, Field(min_length=1, max_length=200)]
_MIB_MAX: Final = 10_000_000


class RequestClassSetting(BaseModel):
    """One shape and its weight among the others. ``gpu``: cards, 0 = a request without any; ``share``, ``gpumem_mib``, ``cores_percent``: of each of
    them; ``mig``: a profile; with none of the four whole cards are asked for. ``models``: any of these, empty = any. ``cpu``: cores, None = not
    known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: int = Field(default=1, ge=1, le=1_000_000_000)
    gpu: int = Field(default=1, ge=0, le=1_000_000)
    share: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False)
    gpumem_mib: int | None = Field(default=None, ge=1, le=_MIB_MAX)
    cores_percent: int | None = Field(default=None, ge=1, le=100)
    mig: str | None = Field(default=None, pattern=r"^[1-9][0-9]*g\.[1-9][0-9]*gb(\+[a-z0-9.]+)?$")
    models: tuple[_Model, ...] = Field(default=(), max_length=100)
    cpu: float | None = Field(default=None, ge=0, le=1_000_000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _says_one_thing(self) -> RequestClassSetting:
        sizes = [self.share, self.gpumem_mib, self.cores_percent]
        if self.mig is not None and any(size is not None for size in sizes):
            raise ValueError("expected mig, or share, gpumem_mib and cores_percent, not both")
        if not self.gpu and (self.mig is not None or self.models or any(size is not None for size in sizes)):
            raise ValueError("expected nothing but cpu and weight with gpu = 0")
        return self

    def request_class(self) -> RequestClass:
        """As the definitions take it."""
        whole = self.share is None and self.gpumem_mib is None and self.cores_percent is None and self.mig is None
        share = 1.0 if whole else self.share
        return RequestClass(
            Shape(
                self.gpu,
                None if share is None or not self.gpu else round(share * WHOLE_PPM),
                None if self.cpu is None else round(self.cpu * 1_000),
                self.gpumem_mib,
                self.cores_percent,
                self.mig,
                tuple(sorted(self.models)),
            ),
            self.weight,
        )


class FragmentationSetting(BaseModel):
    """``classes``: the typical requests; none = the most frequent ones of the days before the instant that is asked about."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    classes: tuple[RequestClassSetting, ...] = Field(default=(), max_length=1_000)

    def request_classes(self) -> tuple[RequestClass, ...]:
        """As the ledgers take them."""
        return tuple(each.request_class() for each in self.classes)
