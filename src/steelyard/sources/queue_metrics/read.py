"""``read_queue_metrics(points, resolver, ctx, tally)``: samples of queue controllers and schedulers, one per series, in whole units.

Of several replicas of Kueue the leader counts (every replica exports, and a sum over them is wrong). Volcano's scalar resources are
milli-units, ``pods`` is not; facts hold whole ones. An unset limit of Kueue is ``+Inf``; releases up to 0.18 print 0 for it, so a 0 there is
not known. Sceptic's command: ``kubectl get clusterqueue -o yaml``, ``kubectl get queue -o yaml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.primitives.instant import Instant
from steelyard.sources.queue_metrics.catalogue import LIMITS, MILLI, QUEUE_METRICS, SCALARS, SINCE_V0_19
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_catalogue import Found
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_samples import read_samples
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory

SOURCE: Final = "queue_metrics"
_ROLE: Final = "replica_role"
_FOLLOWER: Final = "follower"
PENDING: Final = "kueue_pending_workloads"

Series = tuple[str, tuple[tuple[str, str], ...], Instant]


def read_queue_metrics(
    points: Iterable[MetricPoint],
    resolver: LabelResolver,
    ctx: ReadContext,
    tally: MetricTally | None = None,
    memory: RoundMemory | None = None,
) -> Iterator[Fact]:
    """MetricSample facts of family ``queue`` and ``scheduler``, and findings. ``memory``: of a collector's rounds, None for an import."""
    tally = tally or MetricTally()
    points = list(points)
    chosen = _leaders(points, resolver, tally)
    tells_unset = _tells_unset(chosen)
    zero_limits = 0

    def rule(found: Found, labels: dict[str, str], value: float) -> float | None:
        nonlocal zero_limits
        labels.pop(_ROLE, None)
        if found.name in LIMITS and value == 0 and not tells_unset:
            zero_limits += 1
            return None
        is_milli = found.name.endswith(SCALARS) and labels.get("resource") != "pods"
        return value / MILLI if is_milli else value

    yield from read_samples(chosen, QUEUE_METRICS, resolver, ctx, SOURCE, tally, rule)
    doubled = list(_double_counts(points, chosen, resolver, ctx))
    subjects = frozenset(each.subject for each in doubled)
    if doubled and (memory is None or memory.is_news("replica_role", subjects, ctx.observed_at)):
        yield from doubled
    if zero_limits:
        yield ctx.finding(
            SOURCE,
            "quota_limit_zero_may_be_unset",
            f"file {ctx.file}",
            f"{zero_limits} limits of cluster queues read 0, which releases up to 0.18 also print for an unset limit: they are not known; the "
            "ClusterQueue objects tell",
            severity="info",
            evidence={"count": zero_limits},
        )


def _tells_unset(points: Sequence[MetricPoint]) -> bool:
    """Whether this Kueue prints an unset limit as infinite, so that 0 means 0."""
    return any(point.name in SINCE_V0_19 or (point.name in LIMITS and point.value == float("inf")) for point in points)


def _leaders(points: Sequence[MetricPoint], resolver: LabelResolver, tally: MetricTally) -> list[MetricPoint]:
    """The points without those of followers for which another replica has the same series."""
    led: set[Series] = set()
    for point in points:
        labels = resolver.resolve(point.labels).labels
        if _ROLE in labels and labels[_ROLE] != _FOLLOWER:
            led.add(_series(point, labels.items()))
    chosen: list[MetricPoint] = []
    followed: set[Series] = set()
    for point in points:
        labels = resolver.resolve(point.labels).labels
        if labels.get(_ROLE) == _FOLLOWER:
            series = _series(point, labels.items())
            if series in led or series in followed:
                tally.repeat(point.name)
                continue
            followed.add(series)
        chosen.append(point)
    return chosen


def _double_counts(
    points: Sequence[MetricPoint], chosen: Sequence[MetricPoint], resolver: LabelResolver, ctx: ReadContext
) -> Iterator[Finding]:
    """Per queue, where a sum over the replicas would count its pending workloads more than once."""
    if len(points) == len(chosen):
        return
    naive, led = (_pending_by_queue(each, resolver) for each in (points, chosen))
    for queue in sorted(naive):
        if naive[queue] != led.get(queue, 0.0):
            yield ctx.finding(
                SOURCE,
                "replica_role_double_count",
                f"cluster queue {queue}",
                "every replica of Kueue exports the series: the leader's counts, a sum over replica_role counts it again",
                severity="info",
                evidence={
                    "metric": PENDING,
                    "cluster_queue": queue,
                    "leader_count": int(led.get(queue, 0.0)),
                    "naive_sum_count": int(naive[queue]),
                },
            )


def _pending_by_queue(points: Iterable[MetricPoint], resolver: LabelResolver) -> dict[str, float]:
    found: dict[str, float] = {}
    for point in points:
        if point.name == PENDING and 0 <= point.value < 1e9:
            queue = resolver.resolve(point.labels).labels.get("cluster_queue", "")
            found[queue] = found.get(queue, 0.0) + point.value
    return found


def _series(point: MetricPoint, labels: Iterable[tuple[str, str]]) -> Series:
    return (point.name, tuple(sorted(label for label in labels if label[0] != _ROLE)), point.at)
