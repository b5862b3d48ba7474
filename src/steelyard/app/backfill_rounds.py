"""The back-fill collector: while a server runs, one chunk of a Prometheus's past each round, oldest first, until nothing is missing.

``makers`` is called by ``app.serving``, for each ``[prometheus.backfill]``. The trick to know: it takes in what was before the first round, and what
lies in the gaps that the rounds left (a server that was down for longer than a round reaches back); what the rounds saw it leaves alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from steelyard.app.backfilling import Source
from steelyard.app.collectors.prometheus import MISSED_US_MAX, endpoint_of
from steelyard.app.prometheus_history import chunks, done_windows
from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant, Window

if TYPE_CHECKING:
    from steelyard.app.settings import Settings
    from steelyard.sources.prometheus import PrometheusApi
    from steelyard.store import Store

SOURCE: Final = "prometheus"
_SPANS_MAX: Final = 1_000


def makers(settings: Settings, store: Store) -> list[Callable[[], BackfillCollector]]:
    """A maker for each Prometheus whose past a server takes in by itself; one round on request does not."""
    return [
        partial(BackfillCollector, partial(Source.of, settings, setting), setting.backfill.interval, store)
        for setting in settings.prometheus
        if setting.backfill is not None
    ]


class BackfillCollector:
    """Implements ``Collector`` and ``Resumable``. ``source_at``: the source as of an instant. The cursor: the stretches that are still wanted, as
    JSON pairs of microseconds."""

    def __init__(self, source_at: Callable[[Instant], Source], interval_us: int, store: Store) -> None:
        setting = source_at(0).setting
        self.name = f"backfill/{setting.name}"
        self.source = SOURCE
        self.interval_us = interval_us
        self._source_at = source_at
        self._store = store
        self._wanted: list[Window] | None = None
        self._api: PrometheusApi | None = None
        with store.reader() as reader:  # before the rounds of this process begin
            self._rounds_ended_at = _stamp(reader.cursor(f"prometheus/{setting.name}"))

    def resume(self, cursor: str | None) -> None:
        """Go on with what was wanted when it was last stored."""
        self._wanted = None if cursor is None else _spans(cursor)

    def cursor(self) -> str | None:
        """What is still wanted."""
        return None if self._wanted is None else json.dumps([[part.start, part.end] for part in self._wanted])

    def collect(self, at: Instant) -> Iterator[Fact]:
        """The facts of the next chunk that is missing; none where all is there. Raises SourceUnavailable."""
        from steelyard.sources.prometheus import PrometheusApi

        source = self._source_at(at)
        with PrometheusApi(endpoint_of(source.setting)) as api:
            self._api = api
            wanted = self._all_wanted(source, api)
            while wanted:
                with self._store.reader() as reader:
                    parts = source.missing(reader, wanted[0])
                    done = done_windows(reader, source.ctx.cluster, source.setting.name)
                if not parts:
                    wanted.pop(0)
                    continue
                for chunk in chunks(
                    api, parts[0], source.ctx, done, chunk_us=source.chunk_us, origin=source.setting.name
                ):
                    yield from chunk.facts
                break
            self._wanted = wanted

    def close(self) -> None:
        """Cut short what it asks for."""
        api, self._api = self._api, None
        if api is not None:
            api.close()

    def _all_wanted(self, source: Source, api: PrometheusApi) -> list[Window]:
        """What is wanted, with the gap before this process's rounds."""
        at = source.ctx.observed_at
        wanted = list(self._wanted) if self._wanted is not None else [source.window(api, None, None)]
        last, self._rounds_ended_at = self._rounds_ended_at, None
        if self._wanted is not None and last is not None and last < at - MISSED_US_MAX:
            wanted.append(Window(last, at - MISSED_US_MAX))
        return wanted


def _stamp(text: str | None) -> Instant | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def _spans(text: str) -> list[Window] | None:
    """The stretches of a cursor; None where it is none of ours: then all is looked at again."""
    try:
        return [Window(int(start), int(end)) for start, end in json.loads(text)[:_SPANS_MAX]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
