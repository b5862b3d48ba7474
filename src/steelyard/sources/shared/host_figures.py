"""What a host says of a pod's work beside the cards, in one set of names: CPU held back, time spent waiting, bytes moved.

``cgroup`` reads it on the node, ``host_metrics`` out of what cAdvisor and node_exporter export; both yield ``MetricSample`` of family ``host``,
gauges of a minute. The trick to know: ratios of a pod are its worst container's, amounts are the sum of all; a figure without a pod is the node's.
"""

from __future__ import annotations

from typing import Final

import msgspec

from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.instant import HOUR_US, MINUTE_US, DurationUs, Instant
from steelyard.sources.shared.context import ReadContext

FAMILY: Final = "host"
CPU_THROTTLED: Final = "host_cpu_throttled_ratio"
CPU_PRESSURE: Final = "host_cpu_pressure_ratio"
IO_PRESSURE: Final = "host_io_pressure_ratio"
MEMORY_PRESSURE: Final = "host_memory_pressure_ratio"
CPU_USED: Final = "host_cpu_used_cores"
IO_READ: Final = "host_io_read_bytes_per_second"
IO_WRITTEN: Final = "host_io_write_bytes_per_second"
NETWORK_RECEIVED: Final = "host_network_receive_bytes_per_second"
NETWORK_SENT: Final = "host_network_transmit_bytes_per_second"

APART_US_MIN: Final[DurationUs] = MINUTE_US
"""Two looks closer than this give no figure: the later one is passed over."""

APART_US_MAX: Final[DurationUs] = HOUR_US
"""Nor do two looks further apart: what happened between them is no figure of a minute."""


def host_sample(
    ctx: ReadContext,
    source: str,
    metric: str,
    value: float,
    at: Instant,
    *,
    node: str | None,
    pod_uid: str | None = None,
    namespace: str | None = None,
    pod: str | None = None,
) -> MetricSample:
    """One figure of a pod, or of the node (no pod), for the stretch up to ``at``."""
    labels = {} if pod_uid is None else {"pod_uid": pod_uid}
    whose = {
        **labels,
        **{key: word for key, word in (("namespace", namespace), ("pod", pod), ("node", node)) if word is not None},
    }
    return MetricSample(
        cluster=ctx.cluster,
        source=source,
        natural_key=f"{metric}{msgspec.json.encode(whose, order='sorted').decode()}",
        occurred_at=at,
        observed_at=ctx.observed_at,
        family=FAMILY,
        metric=metric,
        labels=msgspec.json.encode(labels).decode(),
        value=round(value, 6),
        namespace=namespace,
        pod=pod,
        node=node,
    )


def as_ratio(value: float) -> float | None:
    """A share of time or of periods; None where it cannot be one. Up to 1.05 it counts as 1: the two looks are not at one instant."""
    if not 0 <= value <= 1.05:
        return None
    return min(value, 1.0)
