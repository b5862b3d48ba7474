"""The scrape collector: all targets of one job in one round, read together, since only together they show two exporters of one card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from steelyard.app.metric_readers import read_points
from steelyard.app.parsing import quiet_collector
from steelyard.app.source_settings import ScrapeSetting
from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.sources.exposition import SeriesCache, read_exposition
from steelyard.sources.scrape import Fetched, ScrapeLimits, Scraper, Target, TargetAccess, text_of
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.round_memory import RoundMemory

SOURCE: Final = "scrape"
KIND: Final = "metrics"
INSTANCE: Final = "instance"


def gap_max_us(interval_us: int) -> int:
    """How far apart two rounds may lie and the time between still counts as seen: one that is late, not one that is missing."""
    return interval_us * 3 // 2


class ScrapeCollector:
    """Implements ``Collector`` for one ``[[scrape]]``. ``settings``: what readers are told."""

    def __init__(self, job: ScrapeSetting, cluster: str, settings: ReadSettings) -> None:
        self.name = f"scrape/{job.name}"
        self.source = SOURCE
        self.interval_us = job.interval
        self._targets = [Target.of(url) for url in job.url]
        access = TargetAccess(job.token_file, job.ca_file, job.cert_file, job.key_file, job.insecure)
        self._limits = ScrapeLimits(
            seconds=job.timeout / SECOND_US, text_bytes_max=min(settings.decompressed_bytes_max, 128 << 20)
        )
        self._scraper = Scraper(access, self._limits)
        self._labels = dict(job.labels)
        self._ctx = ReadContext(
            cluster=job.cluster or cluster,
            file=self.name,
            settings=settings,
            expected_interval_us=gap_max_us(job.interval),
        )
        self._series = {
            target.instance: _SeriesOfTarget(target, self._labels, job.samples_max) for target in self._targets
        }
        self._memory = RoundMemory()

    def collect(self, at: Instant) -> Iterator[Fact]:
        """The facts of all targets; one that fails is a status ``failed`` of its own. Raises SourceUnavailable where all of them fail."""
        ctx = replace(self._ctx, observed_at=at)
        fetched = self._scraper.fetch(self._targets)
        points: list[MetricPoint] = []
        failed: list[tuple[Fetched, str]] = []
        with quiet_collector():
            for each in fetched:
                found, error = self._points(each, ctx)
                if error is not None:
                    failed.append((each, error))
                for one in found:
                    if isinstance(one, Finding):
                        yield one
                    else:
                        points.append(one)
            yield from read_points(points, ctx, self._memory)
        for each, error in failed:
            yield from self._failure(each, error, ctx)
        if len(failed) == len(fetched):
            first, error = failed[0]
            waits = [each.retry_after_seconds for each, _error in failed if each.retry_after_seconds is not None]
            raise SourceUnavailable(
                f"{first.target.instance}: {error}" + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""),
                max(waits, default=None),
            )
        yield self._status(len(fetched) - len(failed), len(failed), len(points), ctx)

    def close(self) -> None:
        """End a round that is under way."""
        self._scraper.close()

    def _points(self, fetched: Fetched, ctx: ReadContext) -> tuple[list[MetricPoint | Finding], str | None]:
        """All that a target said, or nothing and why."""
        if fetched.error is not None:
            return [], fetched.error
        try:
            text = text_of(fetched.body, fetched.encoding, fetched.content_type, self._limits.text_bytes_max)
        except SourceUnavailable as error:
            return [], str(error)
        try:
            found = self._series[fetched.target.instance].read(text, ctx)
        except SourceUnavailable as error:
            self._series[fetched.target.instance].forget()
            return [], str(error)
        if not any(isinstance(each, MetricPoint) for each in found):
            return [each for each in found if isinstance(each, Finding)], "an answer without a single sample"
        return found, None

    def _failure(self, fetched: Fetched, error: str, ctx: ReadContext) -> Iterator[Fact]:
        instance = fetched.target.instance
        yield replace_status(self._status(0, 1, 0, ctx), f"target/{instance}", "failed", error)
        if self._memory.is_news(f"failed/{instance}", error, ctx.observed_at):
            yield ctx.finding(
                SOURCE, "source_unavailable", f"target {instance}", f"{self.name}: {error}", severity="error"
            )

    def _status(self, well: int, failed: int, points: int, ctx: ReadContext) -> SourceStatus:
        """That the job was asked; how much of it answered."""
        scope = f"job/{self.name.removeprefix('scrape/')}"
        return SourceStatus(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{KIND}/{scope}",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            kind=KIND,
            scope=scope,
            status="ok" if not failed else "partial",
            objects_count=points,
            message=f"{well} of {well + failed} targets",
        )


def replace_status(status: SourceStatus, scope: str, word: str, message: str) -> SourceStatus:
    """The same of another scope."""
    return SourceStatus(
        cluster=status.cluster,
        source=status.source,
        natural_key=f"{status.kind}/{scope}",
        occurred_at=status.occurred_at,
        observed_at=status.observed_at,
        kind=status.kind,
        scope=scope,
        status=word,
        message=message,
    )


class _SeriesOfTarget:
    """What is remembered of one target from round to round: what its label texts mean, and the same with ``instance`` and the job's labels."""

    def __init__(self, target: Target, labels: Mapping[str, str], samples_max: int) -> None:
        self._target = target
        self._samples_max = samples_max
        self._more = {**labels, INSTANCE: target.instance}
        self._cache = SeriesCache()
        self._named: dict[int, tuple[Mapping[str, str], Mapping[str, str]]] = {}

    def read(self, text: bytes, ctx: ReadContext) -> list[MetricPoint | Finding]:
        """The points of one text, each with the labels of its way where it has none of that name.

        Raises SourceUnavailable where they are more than may be held.
        """
        named: dict[int, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        found: list[MetricPoint | Finding] = []
        for each in read_exposition(text, replace(ctx, file=self._target.url[:300]), self._cache):
            if isinstance(each, Finding):
                found.append(each)
                continue
            labels = each.labels
            known = named.get(id(labels)) or self._named.get(id(labels))
            if known is None or known[0] is not labels:
                known = (labels, {**self._more, **labels})
            named[id(labels)] = known
            if len(found) >= self._samples_max:
                raise SourceUnavailable(
                    f"more than {self._samples_max} samples: expected fewer from one target; if it is right, raise samples_max of its job"
                )
            found.append(MetricPoint(each.name, known[1], each.value, each.at))
        self._named = named
        return found

    def forget(self) -> None:
        """Remember nothing any more."""
        self._cache = SeriesCache()
        self._named = {}
