"""``PrometheusApi``: points by query, whole or not at all per request, in parts where the server finds a request too large.

``app`` makes one per Prometheus and calls ``latest`` for a live round and ``minutes`` for a back-fill. The trick to know: a range selector
in an instant query (``metric[30s]``) returns the stored samples with their own stamps, so a live round sees what a direct scrape would have
seen, and a series that ended does not go on for five minutes as it does in a range query.
Sceptic's command: ``curl 'PROMETHEUS/api/v1/query?query=DCGM_FI_DEV_GPU_UTIL[1m]'``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final

from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceMalformed, SourceUnavailable, SourceUnsupported, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import MINUTE_US, SECOND_US, DurationUs, Instant, Window
from steelyard.sources.prometheus.answer import Answer, LabelMemory, Row, last_of, samples_of
from steelyard.sources.prometheus.asking import Asker, TooMuch
from steelyard.sources.prometheus.endpoint import PrometheusEndpoint
from steelyard.sources.prometheus.windows import chunks_from_start
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.refusals import Refusals

if TYPE_CHECKING:
    import httpx

SOURCE: Final = "prometheus"
WARNING: Final = "prometheus_warning"
INFO: Final = "prometheus_info"
PARTIAL: Final = "prometheus_partial"
_METRIC_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,999}\Z", re.ASCII)
_MILLISECOND_US: Final = 1_000
_LONG_US: Final = 5 * MINUTE_US
_TIMEOUTS_MAX: Final = 4
_SAID_MAX: Final = 10_000

_Ask = Callable[[Sequence[str], Window], Answer]
_OfRow = Callable[[Row, Window], Iterator[tuple[Instant, float]]]


@dataclass(frozen=True, slots=True)
class Condition:
    """``version`` and ``retention`` in the server's own words (``15d``, ``15d or 50GiB``); ``date``: the Date header of an answer."""

    version: str | None
    retention: str | None
    date: str


class PrometheusApi:
    """One Prometheus. Use as a context manager, or ``close`` it; only ``close`` may be called from another thread.

    ``transport``: for tests. Raises UsageError where the endpoint cannot be spoken to as it is set up.
    """

    def __init__(self, endpoint: PrometheusEndpoint, transport: httpx.BaseTransport | None = None) -> None:
        self._endpoint = endpoint
        self._asker = Asker(endpoint, transport)
        self._labels = LabelMemory()
        self._names_at_once = max(1, endpoint.names_per_query_max)

    def __enter__(self) -> PrometheusApi:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of its connections; nothing is asked any more. Twice is harmless."""
        self._asker.close()

    def names(self, window: Window) -> list[str] | None:
        """The names of all metrics that have series in the window, sorted; None where the server cannot say. Raises SourceUnavailable."""
        try:
            parameters = {"start": _seconds(window.start), "end": _seconds(window.end)}
            found = self._asker.ask("label/__name__/values", parameters, get=True).texts()
        except (TooMuch, SourceUnsupported, SourceMalformed):
            return None
        return sorted({name for name in found if _METRIC_NAME.match(name)})

    def condition(self) -> Condition:
        """What the server says of itself; what it does not say is None. Raises SourceUnavailable, and SourceUnsupported where no Prometheus API
        is there at all."""
        try:
            self._asker.ask("query", {"query": "1"}, get=True)
        except TooMuch as error:
            raise SourceUnavailable(_("{url}: {reason}").format(url=self._endpoint.url[:200], reason=error)) from None
        date = self._asker.date
        said: dict[str, str | None] = {}
        for path, key in (("status/buildinfo", "version"), ("status/runtimeinfo", "storageRetention")):
            try:
                said[key] = self._asker.ask(path, {}, get=True).text_of(key)
            except (TooMuch, SourceUnsupported, SourceMalformed, SourceUnavailable):
                said[key] = None  # Mimir and others have no such page, which is no fault
        return Condition(said["version"], said["storageRetention"], date)

    def points(self, names: Collection[str], window: Window, ctx: ReadContext) -> Iterator[MetricPoint | Finding]:
        """The stored samples of these metrics within the window, with their own stamps, series by series; and findings for what the server
        warns of. A stale mark is no sample; NaN and infinities that were exposed are.

        Raises SourceUnavailable where it does not answer or refuses us, SourceUnsupported where no such API is there, SourceMalformed
        where the answer is none. Then part of the points may have been yielded: a round is kept whole by whoever stores it.
        """
        yield from self._stored(names, window, ctx, lambda row, part: samples_of(row))

    def _stored(
        self, names: Collection[str], window: Window, ctx: ReadContext, of_row: _OfRow
    ) -> Iterator[MetricPoint | Finding]:
        """The stored samples that ``of_row`` takes of each series of an answer, within the part of the window that the answer is about."""
        told = _Told(ctx)
        self._labels.turn()

        def ask(some: Sequence[str], part: Window) -> Answer:
            # Up to release 2 a range selector includes its left end, from release 3 on it does not: one more millisecond serves both.
            length = -(-part.duration_us // _MILLISECOND_US) + 1
            return self._asker.ask("query", {"query": f"{_selector(some)}[{length}ms]", "time": _seconds(part.end)})

        for answer, _some, part in self._answers(_checked(names), [window], ask, _MILLISECOND_US):
            yield from told.beside(answer)
            for row in answer.rows():
                self._asker.check()
                for name, labels, at, value in self._samples(row, told, of_row, part):
                    if part.start <= at < part.end:
                        yield MetricPoint(name, labels, value, at)
            yield from told.out()
        yield from told.rest()

    def latest(self, names: Collection[str], window: Window, ctx: ReadContext) -> Iterator[MetricPoint | Finding]:
        """As ``points``, of each series only its last sample in the window: a live round as a direct scrape would see it. A series whose last
        sample lies before the window has ended or was not scraped: it has no point."""
        last: dict[tuple[str, int], MetricPoint] = {}
        for each in self._stored(names, window, ctx, last_of):
            if isinstance(each, Finding):
                yield each
                continue
            key = (each.name, id(each.labels))  # the labels live as long as the point that is kept here
            known = last.get(key)
            if known is None or known.at <= each.at:
                last[key] = each
        yield from last.values()

    def minutes(
        self,
        means: Collection[str],
        lasts: Collection[str],
        window: Window,
        ctx: ReadContext,
        step_us: DurationUs = MINUTE_US,
    ) -> Iterator[MetricPoint | Finding]:
        """Reductions of ``step_us`` made by the server: of ``means`` the mean, of ``lasts`` (counters, masks, flags, the Xid gauge) the
        last sample; ``at`` is the start of the stretch that the value stands for. A stretch without a sample has no point.

        ``window`` is cut into whole steps from its start; a rest shorter than a step is left out. Raises as ``points`` does, and
        ValueError for a step that is not a whole number of milliseconds.
        """
        told = _Told(ctx)
        self._labels.turn()
        parts = self._parts(window, step_us)
        for name in _checked(means):
            yield from self._reduced("avg_over_time", [name], parts, step_us, told)
        yield from self._reduced("last_over_time", _checked(lasts), parts, step_us, told)
        yield from told.rest()

    def expression(
        self, query: str, window: Window, ctx: ReadContext, step_us: DurationUs, name: str = ""
    ) -> Iterator[MetricPoint | Finding]:
        """As ``minutes``, for an expression whose range selectors are ``step_us`` long (``step_text`` spells it). ``name``: of its points, where
        the expression drops the metric's."""
        told = _Told(ctx)
        self._labels.turn()
        yield from self._ranged(lambda _some: query, [name], self._parts(window, step_us), step_us, told)
        yield from told.rest()

    def _parts(self, window: Window, step_us: DurationUs) -> list[Window]:
        """The whole steps of a window, in pieces that the server's limit of points admits."""
        if step_us <= 0 or step_us % _MILLISECOND_US:
            raise ValueError(f"expected a step of whole milliseconds, found {step_us} us")
        whole = Window(window.start, window.start + window.duration_us // step_us * step_us)
        return list(chunks_from_start(whole, max(1, self._endpoint.series_points_max - 1) * step_us))

    def _reduced(
        self, function: str, names: list[str], parts: Sequence[Window], step_us: DurationUs, told: _Told
    ) -> Iterator[MetricPoint | Finding]:
        """One function over stretches of ``step_us``. A mean drops the name of the metric, so it is asked for one name at a time."""

        def query(some: Sequence[str]) -> str:
            return f"{function}({_selector(some)}[{step_text(step_us)}])"

        yield from self._ranged(query, names, parts, step_us, told)

    def _ranged(
        self,
        query: Callable[[Sequence[str]], str],
        names: list[str],
        parts: Sequence[Window],
        step_us: DurationUs,
        told: _Told,
    ) -> Iterator[MetricPoint | Finding]:
        def ask(some: Sequence[str], part: Window) -> Answer:
            first = part.start + step_us - _MILLISECOND_US  # the sample at the stretch's end belongs to the next one
            parameters = {
                "query": query(some),
                "start": _seconds(first),
                "end": _seconds(part.end - _MILLISECOND_US),
                "step": _seconds(step_us),
                "nocache": "1",
            }
            return self._asker.ask("query_range", parameters)

        for answer, some, part in self._answers(names, parts, ask, step_us):
            yield from told.beside(answer)
            for row in answer.rows():
                self._asker.check()
                for name, labels, at, value in self._samples(row, told, lambda row, part: samples_of(row), part):
                    number = round((at + _MILLISECOND_US - step_us - part.start) / step_us)
                    start = part.start + number * step_us
                    if not name and len(some) == 1:
                        name = some[0]
                    if part.start <= start < part.end:
                        yield MetricPoint(name, labels, value, start)
            yield from told.out()

    def _samples(
        self, row: Row, told: _Told, of_row: _OfRow, part: Window
    ) -> Iterator[tuple[str, Mapping[str, str], Instant, float]]:
        """(name, labels, instant, value) of what ``of_row`` takes of a series; what cannot be read of it is told."""
        try:
            name, labels = self._labels.read(bytes(row.metric))
            if row.has_histograms:
                told.note(
                    "native_histogram_not_read",
                    f"metric {name}",
                    "a native histogram has no buckets that are read: let it be scraped with classic buckets too",
                    severity="info",
                )
            for at, value in of_row(row, part):
                yield name, labels, at, value
        except SourceMalformed as error:
            told.note("source_malformed", "series", error.message, excerpt=error.excerpt)

    def _answers(
        self, names: list[str], windows: Sequence[Window], ask: _Ask, least_us: DurationUs
    ) -> Iterator[tuple[Answer, Sequence[str], Window]]:
        """The answers to a question about all names and windows, halved where the server finds it too large, oldest first for each name."""
        single = not names or len(names) == 1
        at_once = 1 if single else self._names_at_once
        batches: list[Sequence[str]] = [names[start : start + at_once] for start in range(0, len(names), at_once)]
        waiting = [(batch, window) for batch in batches for window in windows if window.duration_us]
        waiting.reverse()
        timeouts = 0
        while waiting:
            some, window = waiting.pop()
            try:
                answer = ask(some, window)
            except TooMuch as error:
                timeouts += error.timed_out
                halves = _halves(some, window, least_us) if timeouts <= _TIMEOUTS_MAX else None
                if halves is None:
                    raise SourceUnavailable(
                        _("{url}: {reason}; asked for {names} over {window}").format(
                            url=self._endpoint.url[:200],
                            reason=str(error)[:500],
                            names=", ".join(some[:3]) + (", ..." if len(some) > 3 else ""),
                            window=window,
                        )
                    ) from None
                if len(halves[0][0]) < len(some):
                    self._names_at_once = min(self._names_at_once, len(halves[0][0]))
                waiting.extend(reversed(halves))
                continue
            timeouts = 0
            yield answer, some, window


class _Told:
    """Findings of one round, each said once."""

    def __init__(self, ctx: ReadContext) -> None:
        self._refusals = Refusals(ctx, SOURCE)
        self._said: set[tuple[str, str]] = set()
        self._waiting: list[Finding] = []

    def note(
        self, code: str, subject: str, message: str, *, severity: str = "warning", excerpt: str | None = None
    ) -> None:
        """A finding for ``out``."""
        if (code, subject + message) not in self._said:
            if len(self._said) < _SAID_MAX:
                self._said.add((code, subject + message))
            self._waiting.extend(self._refusals.find(code, subject, message, severity=severity, excerpt=excerpt))

    def beside(self, answer: Answer) -> Iterator[Finding]:
        """What the server says beside an answer."""
        for text in answer.warnings:
            self.note(WARNING, "query", f"the server warns: {text}")
        for text in answer.infos:
            self.note(INFO, "query", f"the server notes: {text}", severity="info")
        if answer.is_partial:
            self.note(PARTIAL, "query", "a part of the storage did not answer: series may be missing")
        yield from self.out()

    def out(self) -> Iterator[Finding]:
        """What was noted since."""
        yield from self._waiting
        self._waiting.clear()

    def rest(self) -> Iterator[Finding]:
        """What was not shown in full."""
        yield from self.out()
        yield from self._refusals.rest()


def _halves(names: Sequence[str], window: Window, least_us: DurationUs) -> list[tuple[Sequence[str], Window]] | None:
    """The question in two: a long window in time, else by names, else a short window in time; None where it is as small as can be."""
    steps = window.duration_us // least_us
    in_time = steps >= 2 and (window.duration_us > _LONG_US or len(names) == 1)
    if in_time:
        middle = window.start + steps // 2 * least_us
        return [(names, Window(window.start, middle)), (names, Window(middle, window.end))]
    if len(names) > 1:
        middle = len(names) // 2
        return [(names[:middle], window), (names[middle:], window)]
    return None


def _checked(names: Collection[str]) -> list[str]:
    """The names, sorted, each once. Raises UsageError for one that is no metric's: a query is never made of it."""
    for name in names:
        if not _METRIC_NAME.match(name):
            raise UsageError(_("{name}: expected the name of a metric").format(name=repr(name[:100])))
    return sorted(set(names))


def step_text(step_us: DurationUs) -> str:
    """A length as a range selector spells it."""
    return f"{step_us // _MILLISECOND_US}ms"


def _selector(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f'{{__name__="{names[0]}"}}'
    return f'{{__name__=~"{"|".join(names)}"}}'


def _seconds(at: Instant) -> str:
    sign, at = ("-", -at) if at < 0 else ("", at)
    return f"{sign}{at // SECOND_US}.{at % SECOND_US // _MILLISECOND_US:03d}"
