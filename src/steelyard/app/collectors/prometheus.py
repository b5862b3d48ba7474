"""The Prometheus collector: each round the last samples that a Prometheus stored, as a direct scrape would have seen them.

The trick to know: a scrape bears the instant at which it began and is stored when it has ended, all of it at once; and a round asks for its metrics
in several questions. A round that asked up to now could find a scrape in its second question that its first did not, so each ends ``lag``
before now: by then every scrape that began before the end is stored (``scrape_timeout`` is at most the scrape interval), or never will be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from steelyard.app.collectors.scrape import gap_max_us
from steelyard.app.prometheus_round import read_prometheus
from steelyard.app.source_settings import PrometheusSetting
from steelyard.facts.base import Fact
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US, Instant, Window
from steelyard.sources.prometheus import PrometheusApi, PrometheusEndpoint
from steelyard.sources.scrape import TargetAccess
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.read_bound import Cut
from steelyard.sources.shared.round_memory import RoundMemory

SOURCE: Final = "prometheus"
MISSED_US_MAX: Final = HOUR_US
"""After a pause so much is asked for at most; what lies further back is for the back-fill."""

OVERLAP_US: Final = 30 * SECOND_US
"""Windows overlap by so much: a VictoriaMetrics shows samples only when they are 30 seconds old, and remote storage gets them late."""


class PrometheusCollector:
    """Implements ``Collector`` and ``Resumable`` for one ``[[prometheus]]``. The cursor is the end of the last window that was stored."""

    def __init__(self, setting: PrometheusSetting, cluster: str, settings: ReadSettings) -> None:
        self.name = f"prometheus/{setting.name}"
        self.source = SOURCE
        self.interval_us = setting.interval
        self._setting = setting
        self._ctx = ReadContext(
            cluster=setting.cluster or cluster,
            file=self.name,
            settings=settings,
            expected_interval_us=gap_max_us(setting.interval),
        )
        self._memory = RoundMemory()
        self._api: PrometheusApi | None = None
        self._spoken_to: PrometheusEndpoint | None = None
        self._end_at: Instant | None = None
        self._cut = Cut()

    def resume(self, cursor: str | None) -> None:
        """Ask from the end of the last window on."""
        self._end_at = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 19 else None

    def cursor(self) -> str | None:
        """The end of the last window."""
        return None if self._end_at is None else str(self._end_at)

    def collect(self, at: Instant) -> Iterator[Fact]:
        """The last sample of each series up to ``lag`` before ``at``; after a pause, all since then. Raises SourceUnavailable."""
        api = self._spoken()
        window, is_after_pause = self._window(at - self._setting.lag)
        ctx = replace(self._ctx, observed_at=at)
        yield from read_prometheus(
            api,
            window,
            ctx,
            self._memory,
            every=is_after_pause,
            cut=self._cut,
            host=self._setting.host_metrics,
        )
        self._end_at = window.end

    def close(self) -> None:
        """End a round that is under way, and let go of its connections."""
        self._cut.say()
        self._let_go()

    def _let_go(self) -> None:
        api, self._api = self._api, None
        if api is not None:
            api.close()

    def _window(self, end: Instant) -> tuple[Window, bool]:
        """What to ask for, and whether rounds fell out before, so that every sample counts and not only the last."""
        usual = end - max(3 * self.interval_us, 2 * MINUTE_US)
        last = self._end_at
        if last is None or last > end:  # a first round, or the clock went back
            return Window(usual, end), False
        if last < usual:
            return Window(max(last, end - MISSED_US_MAX), end), True
        return Window(max(usual, last - OVERLAP_US), end), False

    def _spoken(self) -> PrometheusApi:
        """The client, kept over rounds with what it learnt: labels, and how much may be asked at once; a new one where a secret was changed."""
        endpoint = endpoint_of(self._setting)
        if self._api is None or endpoint != self._spoken_to:
            self._let_go()
            self._api, self._spoken_to = PrometheusApi(endpoint), endpoint
        return self._api


def endpoint_of(setting: PrometheusSetting) -> PrometheusEndpoint:
    """Where it is and who we are to it, with its secrets read anew: they are rotated. Raises SourceUnavailable where one cannot be read."""
    return PrometheusEndpoint(
        setting.url,
        bearer_token=TargetAccess(token_file=setting.token_file).token(),
        username=setting.username,
        password=_line_of(setting.password_file),
        org_id=setting.org_id,
        ca_file=setting.ca_file,
        timeout_seconds=setting.timeout / SECOND_US,
    )


def _line_of(path: Path | None) -> str | None:
    """The password in a file. Raises SourceUnavailable where it cannot be read; the message never holds it."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceUnavailable(f"password file {path}: cannot be read") from error
