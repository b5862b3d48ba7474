"""A round through the API of a Prometheus: what it stored of the metrics that are read, as the same facts that a direct scrape gives.

Called by a collector for each round. The trick to know: a window that begins a little before the end of the last one loses no sample that
was stored late, and adds none twice, because a sample's own stamp is part of what its facts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from steelyard.app.metric_readers import HOST, metric_names, read_points, reader_of
from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import Window
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.read_bound import Cut

POINTS_MAX: Final = 2_000_000
"""So many samples one round may bring: they are held in memory until they are read together."""

if TYPE_CHECKING:
    from steelyard.sources.prometheus import PrometheusApi
    from steelyard.sources.shared.metric_tally import MetricTally
    from steelyard.sources.shared.round_memory import RoundMemory


def asked_names(api: PrometheusApi, window: Window, *, host: bool = False) -> list[str]:
    """The metrics to ask for: those the server has that a reader takes, all that are read where it cannot say what it has. ``host``: those of
    cAdvisor and node_exporter too.

    Raises SourceUnavailable.
    """
    found = api.names(window)
    if found is None:
        return sorted(metric_names(host=host))
    passed_over = (None,) if host else (None, HOST)
    return [name for name in found if reader_of(name) not in passed_over]


def read_prometheus(
    api: PrometheusApi,
    window: Window,
    ctx: ReadContext,
    memory: RoundMemory | None = None,
    tally: MetricTally | None = None,
    *,
    every: bool = False,
    cut: Cut | None = None,
    host: bool = False,
    points_max: int = POINTS_MAX,
) -> Iterator[Fact]:
    """The facts of the last sample of each series in the window (``every``: of all of them), and the server's warnings as findings.

    All points are fetched before the first fact. ``cut`` ends it from outside.
    ``host``: as of ``asked_names``. Raises SourceUnavailable (also for more than ``points_max``
    samples), SourceUnsupported and SourceMalformed as ``PrometheusApi`` does.
    """
    points: list[MetricPoint] = []
    ask = api.points if every else api.latest
    for each in ask(asked_names(api, window, host=host), window, ctx):
        if isinstance(each, Finding):
            yield each
        elif len(points) >= points_max:
            raise SourceUnavailable(f"more than {points_max} samples in one round: expected fewer")
        else:
            points.append(each)
    cut = cut or Cut()
    yield from cut.watched(read_points(cut.watched(points), ctx, memory, tally))
