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
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.sources.exposition import LinesRead, SeriesCache, read_exposition
from steelyard.sources.scrape import Fetched, ScrapeLimits, Scraper, Target, TargetAccess, text_of
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.read_bound import Cut, ReadBound
from steelyard.sources.shared.round_memory import RoundMemory

SOURCE: Final = "scrape"
KIND: Final = "metrics"
INSTANCE: Final = "instance"
MALFORMED: Final = "malformed"
POINTS_MAX: Final = 1_000_000
"""So many samples all targets of a job may bring in one round: what they cost is held in memory until they are read together."""


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
        self._cut = Cut()

    def collect(self, at: Instant) -> Iterator[Fact]:
        """The facts of all targets; one that fails is a status ``failed`` of its own. Raises SourceUnavailable where all of them fail, and where
        it was closed: then what was yielded is a part of a round, for the caller to drop."""
        ctx = replace(self._ctx, observed_at=at)
        fetched = self._scraper.fetch(self._targets)
        points: list[MetricPoint] = []
        failed: list[tuple[Fetched, str]] = []
        with quiet_collector():
            for each in fetched:
                found, error = self._points(each, POINTS_MAX - len(points), ctx)
                if error is not None:
                    failed.append((each, error))
                for one in found:
                    if isinstance(one, Finding):
                        yield one
                    else:
                        points.append(one)
            yield from self._cut.watched(read_points(self._cut.watched(points), ctx, self._memory))
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
        """End a round that is under way, also one that is past the network."""
        self._cut.say()
        self._scraper.close()

    def _points(
        self, fetched: Fetched, points_max: int, ctx: ReadContext
    ) -> tuple[list[MetricPoint | Finding], str | None]:
        """All that a target said, or nothing and why. Raises SourceUnavailable where the round was cut."""
        if fetched.error is not None:
            return [], fetched.error
        bound = ReadBound(self._limits.seconds, "to read what it sends", self._cut)
        lines = LinesRead()
        try:
            text = text_of(fetched.body, fetched.encoding, fetched.content_type, self._limits.text_bytes_max)
            found = self._series[fetched.target.instance].read(text, points_max, ctx, bound, lines)
        except SourceUnavailable as error:
            self._cut.check()
            self._series[fetched.target.instance].forget()
            return [], str(error)
        samples_count = sum(isinstance(each, MetricPoint) for each in found)
        if lines.refused_count > samples_count and lines.first_refused is not None:
            self._series[fetched.target.instance].forget()
            number, why, excerpt = lines.first_refused
            refused = ngettext(
                "{count} line cannot be read", "{count} lines cannot be read", lines.refused_count
            ).format(count=lines.refused_count)
            said = f"line {number}: {plain(why)[:200]}: {plain(excerpt[:60])!r}"
            return (
                [],
                f"{MALFORMED}: {refused} and {samples_count} can; {said}",
            )
        if not samples_count:
            return [each for each in found if isinstance(each, Finding)], "an answer without a single sample"
        return found, None

    def _failure(self, fetched: Fetched, error: str, ctx: ReadContext) -> Iterator[Fact]:
        instance = fetched.target.instance
        yield replace_status(self._status(0, 1, 0, ctx), f"target/{instance}", "failed", error)
        is_malformed = error.startswith(MALFORMED)
        if self._memory.is_news(f"failed/{instance}", MALFORMED if is_malformed else error, ctx.observed_at):
            code = "source_malformed" if is_malformed else "source_unavailable"
            yield ctx.finding(SOURCE, code, f"target {instance}", f"{self.name}: {error}", severity="error")

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

    def read(
        self, text: bytes, points_max: int, ctx: ReadContext, bound: ReadBound, lines: LinesRead
    ) -> list[MetricPoint | Finding]:
        """The points of one text, each with the labels of its way where it has none of that name. ``lines`` is filled.

        Raises SourceUnavailable where they are more than may be held (``points_max``: in this round), or ``bound`` is over.
        """
        named: dict[int, tuple[Mapping[str, str], Mapping[str, str]]] = {}
        found: list[MetricPoint | Finding] = []
        for each in read_exposition(text, replace(ctx, file=self._target.url[:300]), self._cache, bound, lines):
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
            if len(found) >= points_max:
                raise SourceUnavailable("the targets of this round have more samples than fit: ask fewer in one job")
            found.append(MetricPoint(each.name, known[1], each.value, each.at, each.declared))
        self._named = named
        return found

    def forget(self) -> None:
        """Remember nothing any more."""
        self._cache = SeriesCache()
        self._named = {}
