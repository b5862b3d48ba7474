"""``read_host_metrics(points, resolver, ctx, tally, memory)``: counters of cAdvisor and node_exporter as gauges of a minute.

Yields MetricSample of family ``host``. The tricks to know: a counter is differentiated here and a gauge nowhere, between samples at least a minute
apart, so the first sample of a series (and the first after a restart) gives nothing; and where cAdvisor prints a row of the pod as a whole, its
containers are not added to it. Method: throttled periods / periods; else difference / seconds.
Sceptic's query: ``rate(container_cpu_cfs_throttled_periods_total[1m]) / rate(container_cpu_cfs_periods_total[1m])``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from steelyard.facts.base import Fact
from steelyard.primitives.instant import AT_OBSERVATION, SECOND_US, Instant
from steelyard.sources.shared import host_figures as figures
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory

SOURCE: Final = "host_metrics"
SERIES_MAX: Final = 200_000
PERIODS: Final = "container_cpu_cfs_periods_total"
THROTTLED: Final = "container_cpu_cfs_throttled_periods_total"
_OF_PODS: Final[Mapping[str, str]] = {
    "container_cpu_usage_seconds_total": figures.CPU_USED,
    "container_pressure_cpu_waiting_seconds_total": figures.CPU_PRESSURE,
    "container_pressure_io_waiting_seconds_total": figures.IO_PRESSURE,
    "container_pressure_memory_waiting_seconds_total": figures.MEMORY_PRESSURE,
    "container_fs_reads_bytes_total": figures.IO_READ,
    "container_fs_writes_bytes_total": figures.IO_WRITTEN,
    "container_network_receive_bytes_total": figures.NETWORK_RECEIVED,
    "container_network_transmit_bytes_total": figures.NETWORK_SENT,
}
_OF_NODES: Final[Mapping[str, str]] = {
    "node_pressure_cpu_waiting_seconds_total": figures.CPU_PRESSURE,
    "node_pressure_io_waiting_seconds_total": figures.IO_PRESSURE,
    "node_pressure_memory_waiting_seconds_total": figures.MEMORY_PRESSURE,
}
HOST_METRICS: Final = frozenset({PERIODS, THROTTLED, *_OF_PODS, *_OF_NODES})
_POD_UID: Final = re.compile(
    r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])"
)


class _Whose(NamedTuple):
    """Whose figures are added up: a pod's, or the node's."""

    namespace: str | None
    pod: str | None
    node: str | None


class _Series(NamedTuple):
    """One series of the exporter. ``container`` None: the row of the pod as a whole."""

    name: str
    whose: _Whose
    container: str | None
    rest: str


@dataclass(slots=True)
class _Last:
    at: Instant
    value: float
    pod_uid: str | None = None


@dataclass(frozen=True, slots=True)
class _Grown:
    """How much a counter grew up to an instant, and over how many seconds."""

    series: _Series
    by: float
    seconds: float
    pod_uid: str | None


def read_host_metrics(
    points: Iterable[MetricPoint],
    resolver: LabelResolver,
    ctx: ReadContext,
    tally: MetricTally | None = None,
    memory: RoundMemory | None = None,
) -> Iterator[Fact]:
    """The figures of a round. ``memory`` keeps the last value of each series, so that one sample a round is enough; None: within the round alone."""
    tally = tally if tally is not None else MetricTally()
    kept = (memory or RoundMemory()).kept.setdefault(SOURCE, {})
    last: dict[_Series, _Last] = kept if isinstance(kept, dict) else {}
    grown: dict[tuple[Instant, _Whose], list[_Grown]] = {}
    for point in sorted(points, key=lambda each: each.at):
        series, pod_uid = _series(point, resolver, ctx)
        if series is None or not 0 <= point.value < 2**63:
            tally.ignore(point.name)
            continue
        tally.use(point.name)
        at = ctx.observed_at if point.at == AT_OBSERVATION else point.at
        before = last.get(series)
        if before is not None and 0 <= at - before.at < figures.APART_US_MIN:
            continue
        if before is None and len(last) >= SERIES_MAX:
            continue
        last[series] = _Last(at, point.value, pod_uid)
        if before is not None and point.value >= before.value and 0 < at - before.at <= figures.APART_US_MAX:
            seconds = (at - before.at) / SECOND_US
            grown.setdefault((at, series.whose), []).append(
                _Grown(series, point.value - before.value, seconds, pod_uid)
            )
    _forget(last, ctx.observed_at)
    for (at, whose), parts in sorted(grown.items(), key=lambda item: (item[0][0], repr(item[0][1]))):
        pod_uid = next((part.pod_uid for part in parts if part.pod_uid is not None), None)
        for metric, value in _figures(parts):
            yield figures.host_sample(
                ctx,
                SOURCE,
                metric,
                value,
                at,
                node=whose.node,
                pod_uid=pod_uid,
                namespace=whose.namespace,
                pod=whose.pod,
            )


def _series(point: MetricPoint, resolver: LabelResolver, ctx: ReadContext) -> tuple[_Series | None, str | None]:
    resolved = resolver.resolve(point.labels)
    labels, target = resolved.labels, resolved.target
    node = ctx.node or labels.get("node") or target.node or labels.get("kubernetes_io_hostname")
    if point.name in _OF_NODES:
        host = node or (target.instance or "").rpartition(":")[0] or target.instance
        return (_Series(point.name, _Whose(None, None, host), None, ""), None) if host else (None, None)
    pod, namespace = labels.get("pod") or labels.get("pod_name"), labels.get("namespace")
    container = labels.get("container") or labels.get("container_name")
    if not pod or container == "POD":
        return None, None
    match = _POD_UID.search(labels.get("id", ""))
    rest = "/".join(labels.get(name, "") for name in ("device", "interface", "id"))
    series = _Series(point.name, _Whose(namespace, pod, node), container, rest[:1_000])
    return series, match.group(1).replace("_", "-") if match else None


def _figures(parts: list[_Grown]) -> Iterator[tuple[str, float]]:
    by_name: dict[str, list[_Grown]] = {}
    for part in parts:
        by_name.setdefault(part.series.name, []).append(part)
    throttled = _throttled(by_name)
    if throttled is not None:
        yield figures.CPU_THROTTLED, throttled
    for name, metric in (*_OF_PODS.items(), *_OF_NODES.items()):
        found = by_name.get(name, [])
        whole = [part for part in found if part.series.container is None] or found
        if not whole:
            continue
        rates = [part.by / part.seconds for part in whole]
        value = figures.as_ratio(max(rates)) if metric.endswith("_ratio") else sum(rates)
        if value is not None:
            yield metric, value


def _throttled(by_name: Mapping[str, list[_Grown]]) -> float | None:
    """The worst container's share of throttled periods; None where no limit was in force in any."""
    held = {(part.series.container, part.series.rest): part.by for part in by_name.get(THROTTLED, [])}
    shares = [
        held[key] / part.by
        for part in by_name.get(PERIODS, [])
        if part.by > 0 and (key := (part.series.container, part.series.rest)) in held
    ]
    return figures.as_ratio(max(shares)) if shares else None


def _forget(last: dict[_Series, _Last], now: Instant) -> None:
    """Series of pods that are gone."""
    if len(last) > SERIES_MAX // 2:
        for series in [key for key, each in last.items() if now - each.at > figures.APART_US_MAX]:
            del last[series]
