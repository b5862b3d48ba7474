"""What the settings file says about live sources: ``[[scrape]]``, ``[[prometheus]]``, ``[[kubernetes]]``, ``[[audit_log]]``, ``[collection]``.

Secrets are never written here: they stand in files that are named here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US, DurationUs
from steelyard.surfaces.shared.options import duration_of

TARGETS_MAX: Final = 20_000
_STRICT: Final = ConfigDict(extra="forbid", frozen=True)


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("expected a length of time such as 30s, 5m or 1h, in quotes")
    try:
        return duration_of(value, "a length of time")
    except UsageError:
        raise ValueError("expected a length of time such as 30s, 5m or 1h") from None


Interval = Annotated[DurationUs, BeforeValidator(_duration), Field(ge=100_000, le=DAY_US)]
Timeout = Annotated[DurationUs, BeforeValidator(_duration), Field(ge=100_000, le=10 * MINUTE_US)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
ClusterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]


class ScrapeSetting(BaseModel):
    """One job of metrics endpoints that are asked directly. ``url``: one address or several. ``labels``: added where a sample has none of that
    name. ``samples_max``: a target that says more has failed. ``cluster``: None = that of the settings."""

    model_config = _STRICT

    name: Name
    url: tuple[str, ...] = Field(min_length=1, max_length=TARGETS_MAX)
    interval: Interval = 30 * SECOND_US
    timeout: Timeout = 10 * SECOND_US
    labels: dict[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$")], str] = Field(default_factory=dict)
    samples_max: int = Field(default=250_000, ge=1, le=10_000_000)
    cluster: ClusterName | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False

    @field_validator("url", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from steelyard.sources.scrape import Target

        try:
            instances = [Target.of(url) for url in value]
        except UsageError as error:
            raise ValueError(str(error)) from None
        if len(set(instances)) < len(instances):
            raise ValueError("expected each address once")
        return value


class BackfillSetting(BaseModel):
    """What a server takes in of a Prometheus's past: ``horizon`` back at most (None = as long as samples of a minute are kept), a ``chunk`` each
    ``interval``."""

    model_config = _STRICT

    horizon: Annotated[DurationUs | None, BeforeValidator(_duration), Field(ge=HOUR_US, le=3_650 * DAY_US)] = None
    chunk: Annotated[DurationUs, BeforeValidator(_duration), Field(ge=MINUTE_US, le=DAY_US)] = HOUR_US
    interval: Interval = MINUTE_US


class PrometheusSetting(BaseModel):
    """One Prometheus, or what speaks its API (Thanos, Mimir, VictoriaMetrics). ``lag``: how long before now a round's window ends, at least the
    longest ``scrape_timeout`` of its jobs, so that no scrape is read of which a part is not stored yet. ``backfill``: None = a server leaves its
    past alone. ``host_metrics``: also what cAdvisor and node_exporter say of CPU held back, waiting and traffic, which is much in a large cluster."""

    model_config = _STRICT

    name: Name
    url: str = Field(pattern=r"^https?://[^\s@]+$", max_length=2000)
    interval: Interval = 30 * SECOND_US
    timeout: Timeout = 30 * SECOND_US
    lag: Annotated[DurationUs, BeforeValidator(_duration), Field(ge=0, le=10 * MINUTE_US)] = 15 * SECOND_US
    cluster: ClusterName | None = None
    token_file: Path | None = None
    username: str | None = Field(default=None, max_length=200)
    password_file: Path | None = None
    ca_file: Path | None = None
    org_id: str | None = Field(default=None, max_length=200)
    backfill: BackfillSetting | None = None
    host_metrics: bool = False

    @model_validator(mode="after")
    def _one_way_in(self) -> PrometheusSetting:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("expected username and password_file together, or neither")
        if self.username is not None and self.token_file is not None:
            raise ValueError("expected token_file, or username and password_file, not both")
        return self


class KubernetesSetting(BaseModel):
    """One cluster that is watched; ``name`` is written into its facts (``Settings`` gives one without a name its own). Reached through a
    kubeconfig, from within a pod, or by address."""

    model_config = _STRICT

    name: ClusterName = "default"
    interval: Interval = 30 * SECOND_US
    kubeconfig: Path | None = None
    context: str | None = Field(default=None, max_length=500)
    in_cluster: bool = False
    address: str | None = Field(default=None, pattern=r"^https?://[^\s@]+$", max_length=2000)
    token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False

    @model_validator(mode="after")
    def _one_way_in(self) -> KubernetesSetting:
        ways = [self.kubeconfig is not None, self.in_cluster, self.address is not None]
        if sum(ways) != 1:
            raise ValueError("expected one of kubeconfig, in_cluster = true and address")
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("expected context only beside kubeconfig")
        return self


class AuditLogSetting(BaseModel):
    """One audit log of an API server that is followed as it grows. ``cluster``: None = that of the settings."""

    model_config = _STRICT

    name: Name = "audit"
    path: Path
    interval: Interval = 5 * SECOND_US
    cluster: ClusterName | None = None


class CollectionSetting(BaseModel):
    """How often the ledgers are posted at most, how long a round may take, and the longest pause before a source that is down is asked again."""

    model_config = _STRICT

    post_interval: Annotated[DurationUs, BeforeValidator(_duration), Field(ge=0, le=DAY_US)] = 30 * SECOND_US
    round_timeout: Timeout = 2 * MINUTE_US
    backoff_max: Interval = 10 * MINUTE_US
