"""Taking in what a Prometheus remembers, as a command, as a job of the server, and (by ``backfill_rounds``) a chunk now and then.

What to call: ``OwnBackfiller`` for a directory that nobody serves, ``BackfillJobs`` over a server's open store. The trick to know: which chunks are
missing is asked of the store each time, so a run that was cut off anywhere goes on, and whoever fills the same stretch does it once.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from steelyard.app.collectors.prometheus import endpoint_of
from steelyard.app.demo_mark import refuse_in_demo
from steelyard.app.posting import post
from steelyard.app.prometheus_history import after_closed, done_windows, fill, missing, reaches_back_to
from steelyard.app.settings import Settings
from steelyard.app.source_settings import BackfillSetting, PrometheusSetting
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import SourceUnavailable, SteelyardError, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, MINUTE_US, DurationUs, Instant, Window
from steelyard.sources.shared.context import ReadContext
from steelyard.store import Store
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.backfill_ports import (
    DONE,
    FAILED,
    PLANNED,
    RUNNING,
    BackfillProgress,
    BackfillReport,
    BackfillRequest,
    FilledChunk,
)

if TYPE_CHECKING:
    from steelyard.sources.prometheus import PrometheusApi

POST_EACH: Final = 24
"""The ledgers are posted after so many chunks, and at the end."""

_CHUNK_US_MIN: Final = MINUTE_US
_STOP_SECONDS: Final = 15.0

Planned = Callable[[Window, list[Window]], None]


@dataclass(frozen=True, slots=True)
class Source:
    """One Prometheus whose past is wanted: its setting, how chunks are cut, how far back at most, and who reads."""

    setting: PrometheusSetting
    chunk_us: DurationUs
    horizon_us: DurationUs
    ctx: ReadContext

    @staticmethod
    def of(settings: Settings, setting: PrometheusSetting, now: Instant, chunk_us: DurationUs | None = None) -> Source:
        """As the settings say; without a horizon there, as long as samples of a minute are kept."""
        wanted = setting.backfill or BackfillSetting()
        ctx = ReadContext(
            cluster=setting.cluster or settings.cluster,
            file=f"backfill/{setting.name}",
            observed_at=now,
            settings=settings.to_read_settings(),
        )
        horizon_us = wanted.horizon or settings.retention.minute_days * DAY_US
        return Source(setting, chunk_us or wanted.chunk, horizon_us, ctx)

    def window(self, api: PrometheusApi, start: Instant | None, end: Instant | None) -> Window:
        """The stretch to take in. Raises SourceUnavailable, and UsageError where it would end before it begins."""
        now = self.ctx.observed_at
        last = now - max(self.setting.lag, MINUTE_US)
        end = last if end is None else min(end, last)
        if start is not None and start >= end:
            raise UsageError(_("nothing lies between --from and now, or --to"))
        if start is None:
            start = reaches_back_to(api, Window(min(end, now - self.horizon_us) // DAY_US * DAY_US, end))
        return Window(start, end)

    def missing(self, store: Store, window: Window) -> list[Window]:
        """Its chunks that are not stored."""
        done = done_windows(store, self.ctx.cluster, self.setting.name)
        return missing(after_closed(store, window), done, chunk_us=self.chunk_us)

    def filled(self, store: Store, api: PrometheusApi, window: Window) -> Iterator[FilledChunk]:
        """Store what is missing, chunk by chunk; see ``prometheus_history.fill``."""
        for part, new_count in fill(store, api, window, self.ctx, chunk_us=self.chunk_us, origin=self.setting.name):
            yield FilledChunk(part, new_count)


def source_of(settings: Settings, request: BackfillRequest, now: Instant) -> Source:
    """The Prometheus that a request means. Raises UsageError where there is none of that name, or several and none is named."""
    if not settings.prometheus:
        raise UsageError(_("no [[prometheus]] is in the settings: name one in steelyard.toml"))
    if request.chunk_us is not None and not _CHUNK_US_MIN <= request.chunk_us <= DAY_US:
        raise UsageError(_("--chunk: expected a length from 1m to 1d"))
    known = {setting.name: setting for setting in settings.prometheus}
    names = ", ".join(known)
    if request.prometheus is None and len(known) > 1:
        raise UsageError(_("several Prometheus servers are in the settings: name one of {names}").format(names=names))
    setting = next(iter(known.values())) if request.prometheus is None else known.get(request.prometheus)
    if setting is None:
        wrong = (request.prometheus or "")[:100]
        raise UsageError(_("no such Prometheus: {name}; there is {names}").format(name=wrong, names=names))
    return Source.of(settings, setting, now, request.chunk_us)


class OwnBackfiller:
    """Implements ``Backfiller`` for a directory that nobody serves; it is held until the end."""

    def __init__(self, directory: Path, settings: Settings, clock: Clock) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock

    def run(self, request: BackfillRequest, progress: BackfillProgress, *, follow: bool = True) -> BackfillReport:
        """Take it in; see ``Backfiller``. ``follow`` changes nothing here. Raises StoreLocked while another process holds the directory."""
        from steelyard.sources.prometheus import PrometheusApi

        refuse_in_demo(self._directory)
        source = source_of(self._settings, request, self._clock.now())
        with self._opened(request.dry_run) as store, PrometheusApi(endpoint_of(source.setting)) as api:
            window = source.window(api, request.start, request.end)
            parts = source.missing(store, window)
            if request.dry_run:
                return _planned(source, window, parts)
            report = BackfillReport(source.setting.name, DONE, window, len(parts))
            postings_count = 0
            filled: list[FilledChunk] = []
            try:
                for chunk in source.filled(store, api, window):
                    filled.append(chunk)
                    progress(chunk, len(filled), len(parts))
                    if len(filled) % POST_EACH == 0:
                        postings_count += self._posted(store)
            finally:
                postings_count += self._posted(store)
            return replace(
                report,
                filled=filled,
                new_count=sum(chunk.new_count for chunk in filled),
                postings_count=postings_count,
            )

    @contextmanager
    def _opened(self, dry_run: bool) -> Iterator[Store]:
        """The store; for a look alone nothing is made."""
        if not dry_run:
            opened = Store.open(self._directory)
        elif (self._directory / FILE_NAME).is_file():
            opened = Store.open(self._directory, read_only=True)
        else:
            opened = Store.open_memory()
        with opened:
            yield opened

    def _posted(self, store: Store) -> int:
        return post(store, self._settings, self._clock) if store.has_collected() else 0


class BackfillJobs:
    """Back-fills over a server's open store, at most one for each Prometheus at a time, each in a thread of its own. The loop's writer posts what
    they bring meanwhile; each posts once more at its end. ``stop`` ends them between two chunks or cuts their asking short."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._jobs: dict[str, _Job] = {}

    def begin(self, request: BackfillRequest) -> BackfillReport:
        """Begin one, or join the one under way where nothing else is asked for; how it stands. A dry run is answered at once.

        Raises UsageError where another stretch of the same Prometheus is under way, or as ``source_of`` does.
        """
        source = source_of(self._settings, request, self._clock.now())
        if request.dry_run:
            return self._dry(source, request)
        name = source.setting.name
        with self._changed:
            job = self._jobs.get(name)
            if job is None or job.report.state != RUNNING:
                job = self._jobs[name] = _Job(source, request, BackfillReport(name, RUNNING))
                job.thread = threading.Thread(
                    target=self._run, args=(job,), name=f"steelyard-backfill-{name}", daemon=True
                )
                job.thread.start()
            elif replace(request, prometheus=None) not in (BackfillRequest(), replace(job.request, prometheus=None)):
                raise UsageError(_("another stretch of {name} is being taken in: wait for its end").format(name=name))
            return job.report

    def report(self, name: str, after: int = 0, wait_seconds: float = 0.0) -> BackfillReport:
        """How the last one of that Prometheus stands, the chunks behind the first ``after`` alone; waits so long for there to be any.

        Raises UsageError where there was none.
        """
        with self._changed:
            job = self._jobs.get(name)
            if job is None:
                raise UsageError(_("no back-fill of {name} was asked for").format(name=name[:100]))
            self._changed.wait_for(lambda: len(job.report.filled) > after or job.report.state != RUNNING, wait_seconds)
            found = job.report
        return replace(found, filled=found.filled[after:], filled_before=min(after, len(found.filled)))

    def stop(self) -> None:
        """End all; returns when that is done."""
        self._stopping.set()
        with self._changed:
            jobs = list(self._jobs.values())
        for job in jobs:
            if job.api is not None:
                job.api.close()
        for job in jobs:
            if job.thread is not None:
                job.thread.join(_STOP_SECONDS)

    def _dry(self, source: Source, request: BackfillRequest) -> BackfillReport:
        from steelyard.sources.prometheus import PrometheusApi

        with PrometheusApi(endpoint_of(source.setting)) as api:
            window = source.window(api, request.start, request.end)
        with self._store.reader() as reader:
            return _planned(source, window, source.missing(reader, window))

    def _run(self, job: _Job) -> None:
        try:
            self._fill(job)
        except SteelyardError as error:
            self._note(job, state=FAILED, message=str(error))
        except Exception as error:  # ours: told in full, and whoever follows is not left waiting
            traceback.print_exc()
            self._note(job, state=FAILED, message=f"{type(error).__name__}: {error}"[:500])

    def _fill(self, job: _Job) -> None:
        from steelyard.sources.prometheus import PrometheusApi

        with PrometheusApi(endpoint_of(job.source.setting)) as api:
            job.api = api
            self._go_on()
            window = job.source.window(api, job.request.start, job.request.end)
            with self._store.reader() as reader:
                parts = job.source.missing(reader, window)
            self._note(job, window=window, chunks_count=len(parts))
            for chunk in job.source.filled(self._store, api, window):
                self._note(job, filled=[*job.report.filled, chunk], new_count=job.report.new_count + chunk.new_count)
                self._go_on()
        postings_count = post(self._store, self._settings, self._clock) if parts else 0
        self._note(job, state=DONE, postings_count=postings_count)

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise SourceUnavailable(_("the server is ending: run the command again"))

    def _note(self, job: _Job, **changes: object) -> None:
        with self._changed:
            job.report = replace(job.report, **changes)  # type: ignore[arg-type]  # names and types are those of the report, at every call
            self._changed.notify_all()


@dataclass(slots=True)
class _Job:
    """A back-fill under way, or done."""

    source: Source
    request: BackfillRequest
    report: BackfillReport
    thread: threading.Thread | None = None
    api: PrometheusApi | None = None


def _planned(source: Source, window: Window, parts: list[Window]) -> BackfillReport:
    return BackfillReport(source.setting.name, PLANNED, window, len(parts), parts)
