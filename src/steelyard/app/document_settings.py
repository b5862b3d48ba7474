"""The table ``[documents]`` of the settings: how a site wants its statements written down, and what its ERP system takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from steelyard.surfaces.reports.document_set import DocumentSet
    from steelyard.surfaces.reports.erp_profile import ErpProfile

_STRICT: Final = ConfigDict(extra="forbid", frozen=True)
_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Text = Annotated[str, Field(max_length=1_000)]


class SellerSetting(BaseModel):
    """Who asks for the money, as FOCUS wants to know: see ``settlement.focus.FocusTerms``."""

    model_config = _STRICT

    issuer: _Name = "GPU Platform"
    provider: _Name = "GPU Platform"
    host: _Name | None = None
    account_id: _Name = "gpu-platform"
    account_name: _Name | None = "GPU Platform"
    service: _Name = "Shared GPU"
    region_id: _Name | None = None
    region_name: _Name | None = None


class ProfileColumnSetting(BaseModel):
    """One column of a profile: where it is taken from, or what stands in each of its rows."""

    model_config = _STRICT

    name: _Name
    source: _Name | None = None
    value: _Text | None = None
    digits: int | None = Field(default=None, ge=0, le=6)


class ProfileSetting(BaseModel):
    """How one ERP system wants its file: see ``surfaces.reports.erp_profile.ErpProfile``."""

    model_config = _STRICT

    columns: tuple[ProfileColumnSetting, ...] = Field(min_length=1, max_length=200)
    by: tuple[_Name, ...] = Field(default=(), max_length=20)
    delimiter: Literal[",", ";", "|", "\t"] = ","
    decimal_comma: bool = False
    date_format: str = Field(default="%Y-%m-%d", pattern=r"^(%[YmdHMSyjb]|[ ./:TZ_-]){1,40}$")
    header: bool = True
    encoding: Literal["utf-8", "gb18030"] = "utf-8"
    bom: bool = False

    def profile(self, name: str) -> ErpProfile:
        """As the report takes it."""
        from steelyard.surfaces.reports.erp_profile import ErpProfile, ProfileColumn

        columns = tuple(ProfileColumn(each.name, each.source, each.value, each.digits) for each in self.columns)
        return ErpProfile(
            name, columns, self.by, self.delimiter, self.decimal_comma, self.date_format, self.header, self.encoding, self.bom
        )  # fmt: skip

    @model_validator(mode="after")
    def _can_be_carried_out(self) -> ProfileSetting:
        from steelyard.primitives.errors import UsageError

        try:
            self.profile("").check()
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self


class DocumentsSetting(BaseModel):
    """``languages``: one PDF in each, ``both`` = side by side. ``font_folder``: where the font that PDFs embed lies, None = the system's.
    ``profiles``: name -> an export profile, which becomes ``erp-<name>.csv``."""

    model_config = _STRICT

    csv_bom: bool = False
    languages: tuple[Literal["en", "zh", "both"], ...] = Field(default=("en", "zh", "both"), min_length=1, max_length=3)
    font_folder: Path | None = None
    seller: SellerSetting = Field(default_factory=SellerSetting)
    profiles: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")], ProfileSetting] = Field(
        default_factory=dict, max_length=50
    )

    def documents(self) -> DocumentSet:
        """Who writes statements down in this style."""
        from steelyard.settlement.focus import FocusTerms
        from steelyard.surfaces.reports.document_set import DocumentSet, DocumentStyle

        return DocumentSet(
            DocumentStyle(
                csv_bom=self.csv_bom,
                languages=tuple(dict.fromkeys(self.languages)),
                font_folder=self.font_folder,
                focus_terms=FocusTerms(**self.seller.model_dump()),
                profiles=tuple(each.profile(name) for name, each in sorted(self.profiles.items())),
            )
        )
