"""``PrometheusApi``: points by query, whole or not at all per request, in parts where the server finds a request too large.

``app`` makes one per Prometheus and calls ``points`` for a live round and ``minutes`` for a back-fill. The trick to know: a range selector
in an instant query (``metric[30s]``) returns the stored samples with their own stamps, so a live round sees what a direct scrape would have
seen and a series that ended does not go on for five minutes.
Sceptic's command: ``curl 'PROMETHEUS/api/v1/query?query=DCGM_FI_DEV_GPU_UTIL[1m]'``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from steelyard.facts.finding import Finding
from steelyard.primitives.instant import MINUTE_US, DurationUs, Window
from steelyard.sources.prometheus.endpoint import PrometheusEndpoint
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint


class PrometheusApi:
    """One Prometheus. Use as a context manager, or ``close`` it. Threads may not share one."""

    def __init__(self, endpoint: PrometheusEndpoint) -> None:
        self.endpoint = endpoint

    def present(self, names: Collection[str], window: Window, ctx: ReadContext) -> list[str]:
        """Which of the names it has series of, sorted; all of them where it cannot say."""
        raise NotImplementedError

    def points(self, names: Collection[str], window: Window, ctx: ReadContext) -> Iterator[MetricPoint | Finding]:
        """The stored samples of these metrics within the window, with their own stamps; and findings for its warnings.

        Raises SourceUnavailable where it does not answer, SourceUnsupported where it is no such API, UsageError where it refuses us.
        """
        raise NotImplementedError

    def latest(self, names: Collection[str], window: Window, ctx: ReadContext) -> Iterator[MetricPoint | Finding]:
        """As ``points``, of each series only the last sample within the window: a live round as a direct scrape would see it."""
        raise NotImplementedError

    def minutes(
        self,
        means: Collection[str],
        lasts: Collection[str],
        window: Window,
        ctx: ReadContext,
        step_us: DurationUs = MINUTE_US,
    ) -> Iterator[MetricPoint | Finding]:
        """Reductions of ``step_us`` made by the server: of ``means`` the mean, of ``lasts`` (counters, masks, flags, the Xid gauge) the
        last sample; ``at`` is the start of the stretch that the value stands for. A stretch without a sample has no point."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of its connections; what another thread waits for is cut short. Twice is harmless."""
