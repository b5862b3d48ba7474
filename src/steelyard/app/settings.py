"""The settings: one TOML file and environment variables ``STEELYARD_*``, checked once, with one clear line per mistake.

The file is the one named (``--config``), else ``STEELYARD_CONFIG``, else ``steelyard.toml`` in the data directory if there is
one. A variable wins over the file; nested keys are joined by two underscores (``STEELYARD_IMPORT_LIMITS__JSON_DEPTH_MAX=100``),
lists and tables are given as JSON.
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from steelyard.app.document_settings import DocumentsSetting
from steelyard.app.fragmentation_settings import FragmentationSetting
from steelyard.app.money_settings import MoneySetting
from steelyard.app.over_use_settings import OverUseSetting
from steelyard.app.retention_settings import RetentionSetting
from steelyard.app.source_settings import (
    AuditLogSetting,
    CollectionSetting,
    KubernetesSetting,
    PrometheusSetting,
    ScrapeSetting,
)
from steelyard.app.state_settings import StateSetting
from steelyard.definitions.quota_balance import LEAK_GRACE_MINUTES, WAIT_CEILING_MINUTES
from steelyard.ledgers.parameters import CONTACT_ANNOTATIONS, PERSON_ANNOTATIONS, RATE_ANNOTATIONS
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _, is_spoken, languages
from steelyard.sources.shared.context import ReadSettings, SharedScheme

FILE_NAME: Final = "steelyard.toml"
_FILE_BYTES_MAX: Final = 4 << 20
_PREFIX: Final = "STEELYARD_"
_NESTED: Final = "__"
_SECRET: Final = re.compile(
    r"(?:token|password|secret|authorization|credential|bearer)(?!_file\b)[^.]*\Z", re.IGNORECASE
)
_USER_IN_URL: Final = re.compile(r"//[^/@\s]*@")
_STRICT: Final = ConfigDict(extra="forbid", frozen=True)
_Weight = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
_Key = Annotated[str, Field(min_length=1, max_length=317)]
_Namespace = Annotated[str, Field(min_length=1, max_length=253)]
_Person = Annotated[str, Field(min_length=1, max_length=253)]
_Scaling = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class TenantRule(BaseModel):
    """One rule that maps pods to a tenant; the first that matches wins. ``match`` is a glob (``team-*``) or the exact text, laid on
    the namespace, or on the value of the label or annotation ``key``. ``tenant`` None = the matched value itself."""

    model_config = _STRICT

    by: Literal["namespace", "label", "annotation"]
    key: str | None = Field(default=None, min_length=1, max_length=317)
    match: str = Field(default="*", min_length=1, max_length=1000)
    tenant: str | None = Field(default=None, min_length=1, max_length=253)

    @model_validator(mode="after")
    def _key_belongs_to_maps(self) -> TenantRule:
        if (self.key is None) != (self.by == "namespace"):
            raise ValueError(
                "expected `key` with by = label or annotation, and none with by = namespace; "
                f"found by = {self.by}, key = {self.key!r}"
            )
        return self


class SchemeSetting(BaseModel):
    """How one count of an extended resource of another sharing scheme becomes a share of a card."""

    model_config = _STRICT

    resource: str = Field(min_length=1, max_length=317)
    unit: Literal["memory_mib", "memory_gib", "percent", "cards"]


class ImportLimits(BaseModel):
    """Bounds of reading files: bytes after decompression, bytes of a line, JSON nesting, annotations of an object."""

    model_config = _STRICT

    decompressed_bytes_max: int = Field(default=1024**3, ge=1024, le=2**40)
    line_bytes_max: int = Field(default=8 * 1024**2, ge=1024, le=2**30)
    json_depth_max: int = Field(default=200, ge=10, le=1000)
    annotations_max: int = Field(default=10_000, ge=1, le=10_000_000)


def _default_schemes() -> tuple[SchemeSetting, ...]:
    return tuple(
        SchemeSetting.model_validate({"resource": s.resource, "unit": s.unit}) for s in ReadSettings().shared_schemes
    )


class Settings(BaseSettings):
    """All settings, with defaults that are right for a stock installation.

    cluster: the name that facts carry where a command names none. grain_minutes: the ledgers' grain. floor_by_slots: a vGPU holds at least
    1 / split count. history_days_max: how far back from the latest evidence the ledgers of time reach. leak_grace_minutes: quota that is
    admitted and without a live pod for longer is leaked. wait_ceiling_minutes: a request within its queue's own quota that waited no longer is
    fulfilled. person_annotations: keys of annotations that name who is behind a pod; rate_annotations: in which one says how many samples
    per second its job does. contacts: namespace -> who answers for it, where nobody else
    is known; contact_annotations: keys of annotations of a namespace that name its contact. model_weights: model glob -> weight of a
    normalised GPU-hour (reference = 1). hami_memory_scaling: node -> factor of HAMi's ``--device-memory-scaling``. hami_timezone, smi_timezone:
    the zones in which the scheduler's handshake stamps and the hosts'
    nvidia-smi stamps are written. prof_suspect_util_percent: a card busier than this whose profiling counters read 0 or nothing has dead counters,
    no idle job. scrape, prometheus, kubernetes, audit_log: what ``steelyard serve`` collects. state: where the
    rules of Q3's states draw their lines. over_use: from where on use above a grant is over-use (Q7).
    fragmentation: typical requests as the site declares them. money: what the site decided about money (Q9).
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_nested_delimiter=_NESTED, extra="forbid", frozen=True, env_ignore_empty=True
    )

    cluster: str = Field(default="default", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")
    lang: str | None = Field(default=None, pattern=r"^[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*$")
    grain_minutes: Literal[60, 30, 15] = 60
    floor_by_slots: bool = False
    history_days_max: int = Field(default=3_660, ge=1, le=36_600)
    leak_grace_minutes: int = Field(default=LEAK_GRACE_MINUTES, ge=0, le=10_080)
    wait_ceiling_minutes: int = Field(default=WAIT_CEILING_MINUTES, ge=1, le=525_600)
    tenant_rules: tuple[TenantRule, ...] = ()
    person_annotations: tuple[_Key, ...] = PERSON_ANNOTATIONS
    rate_annotations: tuple[_Key, ...] = RATE_ANNOTATIONS
    contacts: dict[_Namespace, _Person] = Field(default_factory=dict)
    contact_annotations: tuple[_Key, ...] = CONTACT_ANNOTATIONS
    model_weights: dict[str, _Weight] = Field(default_factory=dict)
    shared_schemes: tuple[SchemeSetting, ...] = Field(default_factory=_default_schemes)
    hami_memory_scaling: dict[str, _Scaling] = Field(default_factory=dict)
    hami_timezone: str = "UTC"
    smi_timezone: str = "UTC"
    prof_suspect_util_percent: float = Field(default=50, ge=1, le=100)
    import_limits: ImportLimits = Field(default_factory=ImportLimits)
    scrape: tuple[ScrapeSetting, ...] = ()
    prometheus: tuple[PrometheusSetting, ...] = ()
    kubernetes: tuple[KubernetesSetting, ...] = ()
    audit_log: tuple[AuditLogSetting, ...] = ()
    collection: CollectionSetting = Field(default_factory=CollectionSetting)
    retention: RetentionSetting = Field(default_factory=RetentionSetting)
    state: StateSetting = Field(default_factory=StateSetting)
    over_use: OverUseSetting = Field(default_factory=OverUseSetting)
    fragmentation: FragmentationSetting = Field(default_factory=FragmentationSetting)
    money: MoneySetting = Field(default_factory=MoneySetting)
    documents: DocumentsSetting = Field(default_factory=DocumentsSetting)

    @model_validator(mode="before")
    @classmethod
    def _clusters_have_names(cls, values: Any) -> Any:
        """A watched cluster without a name is the cluster of these settings."""
        clusters = values.get("kubernetes") if isinstance(values, dict) else None
        if isinstance(clusters, list) and "cluster" in values:
            named = [{"name": values["cluster"], **each} if isinstance(each, dict) else each for each in clusters]
            return {**values, "kubernetes": named}
        return values

    @field_validator("grain_minutes", mode="before")
    @classmethod
    def _whole_minutes(cls, value: object) -> object:
        """Variables are text; a literal of numbers wants a number."""
        return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value

    @field_validator("lang")
    @classmethod
    def _language_exists(cls, value: str | None) -> str | None:
        if value is not None and not is_spoken(value):
            raise ValueError(f"expected one of {', '.join(languages())}")
        return value

    @field_validator("hami_timezone", "smi_timezone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            raise ValueError("expected a time zone of the IANA list, such as UTC or Asia/Shanghai") from None
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Variables before the file, whose content comes in as the constructor's arguments."""
        return env_settings, init_settings

    def to_read_settings(self) -> ReadSettings:
        """What readers are told of these settings."""
        limits = self.import_limits
        return ReadSettings(
            shared_schemes=tuple(SharedScheme(scheme.resource, scheme.unit) for scheme in self.shared_schemes),
            hami_memory_scaling_by_node=dict(self.hami_memory_scaling),
            hami_timezone=self.hami_timezone,
            smi_timezone=self.smi_timezone,
            prof_suspect_util_percent=self.prof_suspect_util_percent,
            line_bytes_max=limits.line_bytes_max,
            json_depth_max=limits.json_depth_max,
            decompressed_bytes_max=limits.decompressed_bytes_max,
            annotations_max=limits.annotations_max,
        )


def load_settings(directory: Path, config: Path | None = None) -> Settings:
    """The settings for a data directory. Raises UsageError, one line per mistake: where, what was expected, what was found."""
    path = _config_path(directory, config)
    values = _read_toml(path) if path is not None else {}
    try:
        return Settings(**values)
    except ValidationError as error:
        first, *others = (_line(path, values, item) for item in error.errors(include_url=False))
        raise UsageError(first, others) from error
    except SettingsError as error:
        raise UsageError(
            _("environment: expected JSON in a STEELYARD_* list or table: {error}").format(error=error)
        ) from error


def _config_path(directory: Path, config: Path | None) -> Path | None:
    named = config or (Path(text) if (text := os.environ.get("STEELYARD_CONFIG")) else None)
    if named is not None:
        if not named.is_file():
            raise UsageError(_("no such settings file: {path}").format(path=named))
        return named
    standard = directory / FILE_NAME
    return standard if standard.is_file() else None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(_FILE_BYTES_MAX + 1)
        if len(data) > _FILE_BYTES_MAX:
            raise UsageError(_("{path}: expected at most {limit} bytes").format(path=path, limit=_FILE_BYTES_MAX))
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(_("{path}: expected TOML: {error}").format(path=path, error=error)) from error
    except OSError as error:
        raise UsageError(_("{path}: cannot be read: {error}").format(path=path, error=error.strerror)) from error


def _line(path: Path | None, values: dict[str, Any], item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"]) or "settings"
    from_file = bool(item["loc"]) and item["loc"][0] in values and not _in_environment(str(item["loc"][0]))
    where = str(path) if from_file and path else _("environment")
    message = item["msg"].removeprefix("Value error, ")
    found = _shown(key, item["input"])
    short = partial(str.format, where=where, key=key, message=message, found=found[:80])
    return short(_("{where}: {key}: {message}; found {found}"))


def _shown(key: str, found: object) -> str:
    """What was found, for a person; of what may be a secret only that it is there."""
    if _SECRET.search(key):
        return "..."
    if isinstance(found, dict):
        return f"a table with {', '.join(sorted(str(name) for name in found))}"
    return _USER_IN_URL.sub("//...@", repr(found))


def _in_environment(key: str) -> bool:
    name = f"{_PREFIX}{key}".upper()
    return any(variable.upper() == name or variable.upper().startswith(name + _NESTED) for variable in os.environ)
