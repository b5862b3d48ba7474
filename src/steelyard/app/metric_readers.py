"""Which reader a metric goes to: the one table, asked by name, for scraped text, imported files, a Prometheus API and remote write alike.

The trick to know: all points of a round are read together, whatever exporter they came from, because only together they show that two exporters
print one card, or whose the ``pod`` label of a free card is. What no reader knows is counted in one finding, never lost in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX, INSTANT_MIN
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint

if TYPE_CHECKING:
    from steelyard.sources.exposition import SeriesCache
    from steelyard.sources.shared.metric_labels import TargetKey
    from steelyard.sources.shared.metric_tally import MetricTally
    from steelyard.sources.shared.round_memory import RoundMemory

DCGM: Final = "dcgm"
HAMI: Final = "hami"
QUEUES: Final = "queue_metrics"
INFERENCE: Final = "inference_server"
AGENT: Final = "agent_metrics"
HOST: Final = "host_metrics"
SOURCE: Final = "metrics"
_DCGM_PREFIXES: Final = ("DCGM_FI_", "DCGM_EXP_", "dcgm_fi_")
_AGENT_PREFIXES: Final = ("steelyard_gpu_", "steelyard_agent_")


@cache
def _tables() -> tuple[tuple[str, frozenset[str]], ...]:
    from steelyard.sources.hami import HAMI_METRICS
    from steelyard.sources.host_metrics import HOST_METRICS
    from steelyard.sources.inference_server import INFERENCE_METRICS
    from steelyard.sources.queue_metrics import QUEUE_METRICS

    return (
        (HAMI, frozenset(HAMI_METRICS)),
        (QUEUES, QUEUE_METRICS.names()),
        (INFERENCE, INFERENCE_METRICS.names()),
        (HOST, HOST_METRICS),
    )


def reader_of(name: str) -> str | None:
    """The reader of a metric (``dcgm``, ``hami``, ``queue_metrics``, ``inference_server``, ``agent_metrics``, ``host_metrics``); None: nobody's."""
    if name.startswith(_DCGM_PREFIXES):
        return DCGM
    if name.startswith(_AGENT_PREFIXES):
        return AGENT
    return next((reader for reader, names in _tables() if name in names), None)


def metric_names(*, host: bool = False) -> frozenset[str]:
    """Every metric that is read, in all its spellings: what to ask a Prometheus for. Those of DCGM in upper case with their prefix. ``host``: those
    of cAdvisor and node_exporter too, which every container of a cluster has."""
    from steelyard.sources.agent_metrics import AGENT_METRICS
    from steelyard.sources.dcgm import exported_names

    return exported_names().union(AGENT_METRICS, *(names for reader, names in _tables() if host or reader != HOST))


def read_points(
    points: Iterable[MetricPoint],
    ctx: ReadContext,
    memory: RoundMemory | None = None,
    tally: MetricTally | None = None,
    hidden: dict[TargetKey, set[str]] | None = None,
) -> Iterator[Fact]:
    """The facts of a round of points, of any exporters and instants. ``memory``: kept by a collector over its rounds, None for an import.
    ``tally`` (filled) tells what became of every point; what nobody reads is one finding ``metrics_ignored``. ``hidden``: as of
    ``LabelResolver``, where one scrape may come in several rounds."""
    from steelyard.sources.agent_metrics import read_agent_metrics
    from steelyard.sources.dcgm import read_dcgm
    from steelyard.sources.hami import read_hami_metrics
    from steelyard.sources.host_metrics import read_host_metrics
    from steelyard.sources.inference_server import read_inference_metrics
    from steelyard.sources.queue_metrics import read_queue_metrics
    from steelyard.sources.shared.metric_labels import LabelResolver
    from steelyard.sources.shared.metric_tally import MetricTally
    from steelyard.sources.shared.refusals import Refusals

    tally = tally if tally is not None else MetricTally()
    refusals = Refusals(ctx, SOURCE)
    routes: dict[str, str | None] = {}
    routed: dict[str, list[MetricPoint]] = {DCGM: [], HAMI: [], QUEUES: [], INFERENCE: [], AGENT: [], HOST: []}
    for point in points:
        name = point.name
        if name not in routes:
            routes[name] = reader_of(name)
        reader = routes[name]
        if reader is None:
            tally.ignore(name)
        elif point.at != AT_OBSERVATION and not INSTANT_MIN <= point.at <= INSTANT_MAX:
            tally.refuse(name)
            yield from refusals.find(
                "stamp_out_of_range",
                f"metric {name}",
                "expected a stamp in the years 1 to 9999",
                evidence={"at_us": str(point.at)[:40]},
            )
        else:
            routed[reader].append(point)
    resolver = LabelResolver((point for each in routed.values() for point in each), hidden)
    yield from read_dcgm(routed[DCGM], resolver, ctx, tally, memory, whole=hidden is None)
    yield from read_hami_metrics(routed[HAMI], resolver, ctx, tally, memory)
    yield from read_queue_metrics(routed[QUEUES], resolver, ctx, tally, memory)
    yield from read_inference_metrics(routed[INFERENCE], resolver, ctx, tally)
    yield from read_agent_metrics(routed[AGENT], resolver, ctx, tally)
    yield from read_host_metrics(routed[HOST], resolver, ctx, tally, memory)
    yield from refusals.rest()
    finding = tally.finding(ctx, SOURCE)
    if finding is not None and (memory is None or memory.is_news("ignored", frozenset(tally.ignored), ctx.observed_at)):
        yield finding


def read_metrics_text(
    text: str | bytes,
    ctx: ReadContext,
    cache: SeriesCache | None = None,
    memory: RoundMemory | None = None,
    tally: MetricTally | None = None,
) -> Iterator[Fact]:
    """The facts of one exposition text: parsed, routed and read. ``cache`` and ``memory`` belong to one scrape target each."""
    from steelyard.sources.exposition import read_exposition

    points: list[MetricPoint] = []
    for each in read_exposition(text, ctx, cache):
        if isinstance(each, Finding):
            yield each
        else:
            points.append(each)
    yield from read_points(points, ctx, memory, tally)
