"""``Survey``: everything that was seen of a site at one moment, as plain values. Probes fill it, checks read it, nobody else.

The trick to know: None always means that nobody could see it, never that it is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from steelyard.primitives.instant import DurationUs, Instant

KindState = Literal["ok", "forbidden", "not_installed", "failed"]
Stage = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]


@dataclass(frozen=True, slots=True)
class ExporterSeen:
    """One dcgm-exporter. ``fields``: numbers of DCGM that have rows. ``current_names``: it prints names of DCGM 4.6 or later. ``devices``: UUIDs.
    ``working``: cards at work, of which ``named`` name a pod; ``shadowed``: of which the label ``pod`` is the scraped pod itself and
    no ``exported_pod`` is there. ``host_is_pod``: its ``Hostname`` is its own pod's name. ``instances``: (node or None, UUID) -> GPU
    instances by field number."""

    key: str
    fields: frozenset[int] = frozenset()
    current_names: bool = False
    devices: frozenset[str] = frozenset()
    working: int = 0
    named: int = 0
    shadowed: int = 0
    host_is_pod: bool = False
    instances: Mapping[tuple[str | None, str], Mapping[int, frozenset[int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricsSeen:
    """What a way in (a scrape job, a Prometheus) brings. ``families``: words such as ``dcgm``, ``hami_monitor``, ``kueue``, ``vllm``. ``doubled``:
    (exporter, exporter, cards that both print)."""

    families: frozenset[str] = frozenset()
    exporters: tuple[ExporterSeen, ...] = ()
    doubled: tuple[tuple[str, str, int], ...] = ()

    @property
    def fields(self) -> frozenset[int]:
        """Numbers of DCGM that any exporter has."""
        return frozenset().union(*(each.fields for each in self.exporters))

    @property
    def devices(self) -> frozenset[str]:
        """UUIDs of all cards."""
        return frozenset().union(*(each.devices for each in self.exporters))


@dataclass(frozen=True, slots=True)
class ScrapeSeen:
    """A ``[[scrape]]`` job. ``failed``: instance -> reason. ``skews_us``: instance -> its clock minus ours, where it says its time."""

    name: str
    targets_count: int
    failed: Mapping[str, str] = field(default_factory=dict)
    skews_us: Mapping[str, DurationUs] = field(default_factory=dict)
    metrics: MetricsSeen = MetricsSeen()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PrometheusSeen:
    """A ``[[prometheus]]``. ``error``: why it could not be asked. ``retention_us``: None = it does not say, or is bounded by size.
    ``names_known``: whether it can list its metrics."""

    name: str
    error: str | None = None
    version: str | None = None
    retention: str | None = None
    retention_us: DurationUs | None = None
    skew_us: DurationUs | None = None
    names_known: bool = False
    metrics: MetricsSeen = MetricsSeen()


@dataclass(frozen=True, slots=True)
class KindSeen:
    """A kind of a cluster. ``verb``: what is forbidden. ``group``, ``plural``: for the rule that grants it."""

    state: KindState
    group: str
    plural: str
    verb: str | None = None
    message: str | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """A ``[[kubernetes]]``. ``kinds``: by word. ``hami``: whether a node bears HAMi's register; None = nodes cannot be read. ``encodings``:
    register form -> nodes. ``node_skews_us``: node -> how far its last heartbeat lies ahead of the API server's clock. ``mig_by_node``: MIG
    devices that nodes say they have."""

    name: str
    error: str | None = None
    version: str | None = None
    skew_us: DurationUs | None = None
    kinds: Mapping[str, KindSeen] = field(default_factory=dict)
    hami: bool | None = None
    encodings: Mapping[str, int] = field(default_factory=dict)
    node_skews_us: Mapping[str, DurationUs] = field(default_factory=dict)
    mig_by_node: Mapping[str, int] = field(default_factory=dict)

    def is_read(self, word: str) -> bool:
        """Whether the kind can be listed and watched."""
        kind = self.kinds.get(word)
        return kind is not None and kind.state == "ok"

    def has(self, word: str) -> bool | None:
        """Whether there are objects of the kind; None = not known."""
        kind = self.kinds.get(word)
        if kind is None or kind.state in ("forbidden", "failed"):
            return None
        return kind.state == "ok" and bool(kind.count)


@dataclass(frozen=True, slots=True)
class AuditLogSeen:
    """An ``[[audit_log]]``, judged by its last lines. ``refused_count``: of ``events_count + refused_count`` lines, those that are no event."""

    name: str
    error: str | None = None
    events_count: int = 0
    refused_count: int = 0
    stages: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()
    changes_count: int = 0


@dataclass(frozen=True, slots=True)
class StoredSeen:
    """What the store holds. ``rows``: (table, source) that have rows; ``live``: those that came lately by collecting or pushing, not from a file.
    ``columns``: columns of device samples that have values. ``origins``: of partition samples. ``families``: of metric samples.
    ``encodings``: register form -> nodes. ``mig_expected``: card -> GPU instances, as others than an exporter say. ``error``: why it
    could not be looked at."""

    has_data: bool = False
    posted: bool = False
    error: str | None = None
    rows: frozenset[tuple[str, str]] = frozenset()
    live: frozenset[tuple[str, str]] = frozenset()
    columns: frozenset[str] = frozenset()
    live_columns: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    live_families: frozenset[str] = frozenset()
    audit_stages: frozenset[str] = frozenset()
    encodings: Mapping[str, int] = field(default_factory=dict)
    mig_expected: Mapping[str, int] = field(default_factory=dict)
    observed_days: float | None = None
    tokens_valid: int | None = None


@dataclass(frozen=True, slots=True)
class DirectorySeen:
    """The data directory. ``store_bytes``: None = no store. ``backup_at``: when the last backup of it was written; None = none is known of."""

    is_demo: bool = False
    free_bytes: int | None = None
    store_bytes: int | None = None
    raw_days: int = 14
    backup_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """A site at one moment. ``unanswered``: names of the sources whose probe did not end in time; ``faults``: of those over which a probe of ours
    failed, with the kind of mistake."""

    now: Instant
    directory: DirectorySeen = DirectorySeen()
    stored: StoredSeen = StoredSeen()
    clusters: tuple[ClusterSeen, ...] = ()
    scrapes: tuple[ScrapeSeen, ...] = ()
    prometheus: tuple[PrometheusSeen, ...] = ()
    audit_logs: tuple[AuditLogSeen, ...] = ()
    unanswered: tuple[str, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)

    @property
    def ways(self) -> tuple[tuple[str, MetricsSeen], ...]:
        """Every way by which metrics come, by the collector's name."""
        return (
            *((f"scrape/{each.name}", each.metrics) for each in self.scrapes),
            *((f"prometheus/{each.name}", each.metrics) for each in self.prometheus),
        )

    @property
    def families(self) -> frozenset[str]:
        """Families of metrics that come now, by any way."""
        return frozenset().union(*(metrics.families for _name, metrics in self.ways))

    @property
    def fields(self) -> frozenset[int]:
        """Numbers of DCGM that come now, by any way."""
        return frozenset().union(*(metrics.fields for _name, metrics in self.ways))

    @property
    def is_configured(self) -> bool:
        """Whether any source is."""
        return bool(
            self.clusters or self.scrapes or self.prometheus or self.audit_logs or self.unanswered or self.faults
        )
