"""History from what a Prometheus already has: samples of cards and holdings of pods, chunk by chunk, oldest first, each chunk whole.

``fill`` stores each chunk in one transaction with a status that says which stretch it was, so whoever is killed goes on at the first
chunk that is missing. Facts carry ``confidence = backfilled``. The trick to know: reductions of one minute are made by the server (means of
ratios, power and clocks; the last sample of counters, masks, memory and flags), stamped with the start of the minute that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from steelyard.app.collectors.rounds import Round
from steelyard.app.metric_readers import read_points, reader_of
from steelyard.app.prometheus_round import asked_names
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.request import Request
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, DurationUs, Instant, Window
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.pods import parse_pod

if TYPE_CHECKING:
    from steelyard.sources.kube_state_metrics import SeenPod
    from steelyard.sources.prometheus import PrometheusApi
    from steelyard.store import Store

BACKFILLED: Final = "backfilled"
"""The confidence of facts that were taken from a Prometheus afterwards."""

KIND: Final = "backfill"
SOURCE: Final = "prometheus"
_MARKED: Final = (DeviceSample, PartitionSample, MetricSample, Request, Grant)

Points = list[MetricPoint]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of history and its facts, the status that closes it among them."""

    window: Window
    facts: list[Fact]


def chunks(
    api: PrometheusApi,
    window: Window,
    ctx: ReadContext,
    done: Iterable[Window] = (),
    *,
    chunk_us: DurationUs = HOUR_US,
    step_us: DurationUs = MINUTE_US,
    origin: str = SOURCE,
) -> Iterator[Chunk]:
    """The chunks of the window that are not ``done``, oldest first. ``ctx.observed_at``: now. ``origin``: which Prometheus, in one word.

    ``window`` is cut to whole steps since the epoch. Raises SourceUnavailable in the middle of a chunk: then nothing of that chunk is yielded.
    """
    for part in missing(window, done, chunk_us=chunk_us, step_us=step_us):
        facts: list[Fact] = []
        samples = _samples(api, part, ctx, step_us, facts)
        holdings = _holdings(api, part, ctx, step_us, facts)
        facts.extend(_marked(samples, step_us))
        facts.extend(_marked(holdings, step_us))
        facts.append(_status(part, ctx, len(facts), origin))
        yield Chunk(part, facts)


def missing(
    window: Window, done: Iterable[Window], *, chunk_us: DurationUs = HOUR_US, step_us: DurationUs = MINUTE_US
) -> list[Window]:
    """The chunks of the window, cut to whole steps since the epoch, that are not ``done``, oldest first."""
    from steelyard.sources.prometheus import missing_chunks

    start = -(-window.start // step_us) * step_us
    return list(missing_chunks(Window(start, max(start, window.end // step_us * step_us)), chunk_us, done))


def reaches_back_to(api: PrometheusApi, window: Window) -> Instant:
    """The start of the first day within the window in which the Prometheus has any metric that is read; the window's end where there is none.

    Raises SourceUnavailable.
    """
    from steelyard.sources.kube_state_metrics.names import PRESENCE
    from steelyard.sources.prometheus import chunks_of

    for day in chunks_of(window, DAY_US):
        names = api.names(day)
        if names is None or any(name == PRESENCE or reader_of(name) is not None for name in names):
            return day.start
    return window.end


def done_windows(store: Store, cluster: str, origin: str = SOURCE) -> list[Window]:
    """The stretches that are stored already, oldest first."""
    return store.stretches(cluster, KIND, f"prometheus/{origin}")


def fill(
    store: Store,
    api: PrometheusApi,
    window: Window,
    ctx: ReadContext,
    *,
    chunk_us: DurationUs = HOUR_US,
    step_us: DurationUs = MINUTE_US,
    origin: str = SOURCE,
) -> Iterator[tuple[Window, int]]:
    """Store what is missing of the window, chunk by chunk, each in one transaction; the chunks and how many facts of each were new.

    Nothing is taken in from before ``Store.closed_until``, which is looked at again in each transaction. The ledgers are posted by whoever calls.
    Raises SourceUnavailable where the Prometheus stops to answer: the chunks before stay.
    """
    window = after_closed(store, window)
    done = done_windows(store, ctx.cluster, origin)
    for chunk in chunks(api, window, ctx, done, chunk_us=chunk_us, step_us=step_us, origin=origin):
        found = Round(f"{KIND}/{origin}", ctx.observed_at)
        found.add(chunk.facts)
        chunk.facts.clear()
        with store.transaction():
            if after_closed(store, chunk.window) != chunk.window:
                continue  # its period was closed meanwhile
            new_count = store.append_tables(found.joined()).new
            if new_count:
                store.mark_collected()
        yield chunk.window, new_count


def after_closed(store: Store, window: Window) -> Window:
    """What of the window lies behind the last closed period; an empty window at its end where nothing does."""
    closed = store.closed_until()
    return window if closed is None else Window(min(max(window.start, closed), window.end), window.end)


def backfill(
    store: Store,
    api: PrometheusApi,
    window: Window,
    ctx: ReadContext,
    *,
    chunk_us: DurationUs = HOUR_US,
    step_us: DurationUs = MINUTE_US,
    origin: str = SOURCE,
    progress: Callable[[Window], None] = lambda window: None,
) -> int:
    """``fill`` to its end; how many chunks."""
    count = 0
    for part, _new_count in fill(store, api, window, ctx, chunk_us=chunk_us, step_us=step_us, origin=origin):
        progress(part)
        count += 1
    return count


def _parted(answers: Iterable[MetricPoint | Finding], facts: list[Fact]) -> Points:
    """The points of an answer; its findings go to the facts."""
    points: Points = []
    for each in answers:
        if isinstance(each, Finding):
            facts.append(each)
        else:
            points.append(each)
    return points


def _samples(
    api: PrometheusApi, part: Window, ctx: ReadContext, step_us: DurationUs, facts: list[Fact]
) -> Iterator[Fact]:
    """Facts of the reductions of one chunk; the points are fetched at once."""
    from steelyard.sources.dcgm import averaged_names

    averaged = averaged_names()
    names = asked_names(api, part)
    means = [name for name in names if name in averaged]
    lasts = [name for name in names if name not in averaged]
    points = _parted(api.minutes(means, lasts, part, ctx, step_us), facts)
    return read_points(points, ctx)


def _holdings(
    api: PrometheusApi, part: Window, ctx: ReadContext, step_us: DurationUs, facts: list[Fact]
) -> Iterator[Fact]:
    """Facts of the pods of one chunk; the points are fetched at once."""
    from steelyard.sources.kube_state_metrics import covered_stretches, known_resources, questions, read_pods
    from steelyard.sources.prometheus import step_text
    from steelyard.sources.shared.accelerators import named_resources

    ask = questions(step_text(step_us), step_text(part.duration_us))
    earlier = Window(part.start - step_us, part.end)
    presence = _parted(api.expression(ask.presence, earlier, ctx, step_us), facts)
    coverage = _parted(api.expression(ask.coverage, earlier, ctx, step_us), facts)
    points: Points = []
    for metric, query in ask.pods.items() if presence else ():
        points.extend(_parted(api.expression(query, part, ctx, part.duration_us, metric), facts))
    stretches = covered_stretches(coverage, earlier, step_us)
    covered = [Window(max(each.start, part.start), each.end) for each in stretches if each.end > part.start]
    relisted = [each.start for each in stretches if each.start >= part.start]
    pods = read_pods(points, presence, covered, part, step_us, ctx, known_resources(named_resources()))
    return _pod_facts(pods, covered, relisted, ctx)


def _pod_facts(
    pods: Iterable[SeenPod | Finding], covered: Iterable[Window], relisted: Iterable[Instant], ctx: ReadContext
) -> Iterator[Fact]:
    """Facts of pods, a status for each stretch that was seen throughout, and one like a listing's where a stretch begins after a gap: a pod that
    is not there any more then ended somewhere in the gap."""
    count = 0
    for pod in pods:
        if isinstance(pod, Finding):
            yield pod
            continue
        count += 1
        if pod.seen_from_at < pod.seen_to_at:
            yield _sighting("pod", pod.uid, pod.seen_from_at, ctx)
        if pod.payload is not None:
            yield from _of_object(pod, ctx)
        if pod.gone_at is not None:
            yield _sighting("pod_gone", pod.uid, pod.gone_at, ctx)
    for at in relisted:
        yield _pods_status(at, None, count, ctx)
    for stretch in covered:
        yield _pods_status(stretch.end, stretch, count, ctx)


def _pods_status(at: Instant, seen: Window | None, count: int, ctx: ReadContext) -> SourceStatus:
    return SourceStatus(
        cluster=ctx.cluster,
        source="kube_api",
        natural_key="pods/cluster",
        occurred_at=at,
        observed_at=ctx.observed_at,
        kind="pods",
        complete=True,
        objects_count=count,
        as_of_basis=BACKFILLED,
        observed_from_at=seen.start if seen else None,
        observed_to_at=seen.end if seen else None,
    )


def _of_object(pod: SeenPod, ctx: ReadContext) -> Iterator[Fact]:
    """What the reader of pods makes of the object, as of the last instant at which it was there."""
    from steelyard.sources.kube_api.pods import read_pod

    assert pod.payload is not None  # noqa: S101 (asked by the caller)
    try:
        view = parse_pod(pod.payload)
    except SourceMalformed as error:
        yield ctx.finding("kube_state_metrics", "source_malformed", f"pod {pod.uid}"[:300], error.message)
        return
    for fact in read_pod(view, replace(ctx, observed_at=pod.seen_to_at)):
        yield msgspec.structs.replace(fact, observed_at=ctx.observed_at)


def _sighting(kind: str, uid: str, at: Instant, ctx: ReadContext) -> Sighting:
    return Sighting(
        cluster=ctx.cluster,
        source="kube_api",
        natural_key=uid,
        occurred_at=at,
        observed_at=ctx.observed_at,
        object_kind=kind,
        object_uid=uid,
    )


def _marked(facts: Iterable[Fact], step_us: DurationUs) -> Iterator[Fact]:
    """The facts with their confidence, and samples of cards with the stretch that they stand for."""
    for fact in facts:
        if isinstance(fact, DeviceSample):
            yield msgspec.structs.replace(fact, confidence=BACKFILLED, interval_us=step_us)
        elif isinstance(fact, _MARKED):
            yield msgspec.structs.replace(fact, confidence=BACKFILLED)
        else:
            yield fact


def _status(part: Window, ctx: ReadContext, count: int, origin: str) -> SourceStatus:
    return SourceStatus(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{KIND}/{origin}",
        occurred_at=part.end,
        observed_at=ctx.observed_at,
        kind=KIND,
        scope=f"prometheus/{origin}",
        objects_count=count,
        as_of_basis=BACKFILLED,
        observed_from_at=part.start,
        observed_to_at=part.end,
    )
