"""Probes: each looks at one configured source once and says what it saw. Nothing is stored; what fails is a value, never an exception.

``probing`` runs all of them side by side with a deadline. A probe ends early where its ``Deadline`` says so, and keeps what it has.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from steelyard.app.collectors.prometheus import endpoint_of
from steelyard.app.doctor.metric_survey import SUMMED_UP, MetricSurvey
from steelyard.app.doctor.survey import AuditLogSeen, MetricsSeen, PrometheusSeen, ScrapeSeen
from steelyard.app.source_settings import AuditLogSetting, PrometheusSetting, ScrapeSetting
from steelyard.primitives.errors import SourceUnavailable, SteelyardError
from steelyard.primitives.instant import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    DurationUs,
    Instant,
    Window,
    from_datetime,
)
from steelyard.sources.dcgm import field_names
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.read_bound import ReadBound

if TYPE_CHECKING:
    from steelyard.sources.prometheus import PrometheusApi
    from steelyard.sources.scrape import Fetched

Opened = Callable[[Callable[[], None]], None]
"""Handed what cuts a probe's connections short, for whoever gives it up."""

AT_ONCE: Final = 64
LOOK_BACK_US: Final[DurationUs] = 150 * SECOND_US
TAIL_BYTES: Final = 1 << 20
TAIL_LINES_MAX: Final = 2_000
_UNITS_US: Final = {
    "ms": 1_000, "s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US, "w": 7 * DAY_US, "y": 365 * DAY_US,
}  # fmt: skip
_LENGTH: Final = re.compile(r"(?:\d{1,9}(?:ms|[smhdwy])){1,8}\Z", re.ASCII)
_PART: Final = re.compile(r"(\d{1,9})(ms|[smhdwy])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a probe has to be done, on a clock that only goes forward."""

    ends: float

    @classmethod
    def within(cls, length_us: DurationUs) -> Deadline:
        """So long from now."""
        return cls(time.monotonic() + length_us / SECOND_US)

    @property
    def seconds_left(self) -> float:
        """What is left, never less than a moment."""
        return max(0.05, self.ends - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self.ends


def skew_us(date: str, now: Instant) -> DurationUs | None:
    """How far a Date header lies ahead of ``now``; 0 where less than its own second explains it; None where it is none."""
    try:
        moment = parsedate_to_datetime(date)
        said = from_datetime(moment)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    ahead, behind = said - now, now - (said + SECOND_US)
    return max(ahead, 0) - max(behind, 0)


def retention_us(text: str | None) -> DurationUs | None:
    """A retention as Prometheus writes it (``15d``, ``15d or 50GiB``, ``1y6w``); None where it bounds no time."""
    first = (text or "").split(" ")[0]
    if not _LENGTH.match(first):
        return None
    return sum(int(count) * _UNITS_US[unit] for count, unit in _PART.findall(first)) or None


def probe_scrape(
    setting: ScrapeSetting,
    reading: ReadSettings,
    now: Callable[[], Instant],
    deadline: Deadline,
    opened: Opened = lambda close: None,
) -> ScrapeSeen:
    """Ask every target of a job, some at once; those that the deadline leaves no time for have failed."""
    from steelyard.sources.scrape import ScrapeLimits, Scraper, Target, TargetAccess

    targets = [Target.of(url) for url in setting.url]
    access = TargetAccess(setting.token_file, setting.ca_file, setting.cert_file, setting.key_file, setting.insecure)
    text_bytes_max = min(reading.decompressed_bytes_max, 128 << 20)
    survey, failed, skews = MetricSurvey(), {}, {}
    try:
        for start in range(0, len(targets), AT_ONCE):
            some = targets[start : start + AT_ONCE]
            if deadline.is_over:
                failed.update({target.instance: "not asked: the time was over" for target in some})
                continue
            seconds = min(deadline.seconds_left, setting.timeout / SECOND_US)
            limits = ScrapeLimits(seconds=seconds, connect_seconds=min(5.0, seconds), text_bytes_max=text_bytes_max)
            scraper = Scraper(access, limits)
            opened(scraper.close)
            for fetched in scraper.fetch(some):
                instance = fetched.target.instance
                points, error = _points_of(fetched, setting, text_bytes_max, reading)
                if error is not None:
                    failed[instance] = error
                    continue
                survey.take(points)
                ahead = skew_us(fetched.date, now())
                if ahead is not None:
                    skews[instance] = ahead
    except SteelyardError as error:
        return ScrapeSeen(setting.name, len(targets), error=str(error))
    return ScrapeSeen(setting.name, len(targets), failed, skews, survey.seen())


def _points_of(
    fetched: Fetched, setting: ScrapeSetting, text_bytes_max: int, reading: ReadSettings
) -> tuple[list[MetricPoint], str | None]:
    from steelyard.sources.exposition import read_exposition
    from steelyard.sources.scrape import text_of

    if fetched.error is not None:
        return [], fetched.error
    try:
        text = text_of(fetched.body, fetched.encoding, fetched.content_type, text_bytes_max)
    except SourceUnavailable as error:
        return [], str(error)
    more = {**setting.labels, "instance": fetched.target.instance}
    bound = ReadBound(setting.timeout / SECOND_US, "to read what it sends")
    found = read_exposition(text, ReadContext(file=fetched.target.url[:300], settings=reading), bound=bound)
    points: list[MetricPoint] = []
    try:
        for each in found:
            if not isinstance(each, MetricPoint):
                continue
            if len(points) >= setting.samples_max:
                raise SourceUnavailable(f"more than {setting.samples_max} samples")
            points.append(MetricPoint(each.name, {**more, **each.labels}, each.value, each.at, each.declared))
    except SourceUnavailable as error:
        return [], str(error)
    return points, None if points else "an answer without a single sample"


def probe_prometheus(
    setting: PrometheusSetting,
    now: Callable[[], Instant],
    deadline: Deadline,
    opened: Opened = lambda close: None,
) -> PrometheusSeen:
    """Its version, retention and clock; which metrics it has; and of those of DCGM the last samples, for what their labels show."""
    from steelyard.sources.prometheus import PrometheusApi

    length = min(setting.timeout, round(deadline.seconds_left * SECOND_US))
    try:
        with PrometheusApi(replace(endpoint_of(setting), timeout_seconds=length / SECOND_US)) as api:
            opened(api.close)
            found = api.condition()
            seen = PrometheusSeen(
                setting.name,
                version=found.version,
                retention=found.retention,
                retention_us=retention_us(found.retention),
                skew_us=skew_us(found.date, now()),
            )
            names = api.names(Window(now() - LOOK_BACK_US, now()))
            if deadline.is_over:
                return replace(seen, names_known=names is not None)
            spellings = {name for number in SUMMED_UP for name in field_names(number)}
            asked = spellings if names is None else spellings & set(names)
            return replace(seen, names_known=names is not None, metrics=_metrics(api, names, asked, now()))
    except SteelyardError as error:
        return PrometheusSeen(setting.name, error=str(error))


def _metrics(api: PrometheusApi, names: list[str] | None, asked: set[str], now: Instant) -> MetricsSeen:
    survey = MetricSurvey()
    survey.take_names(names or ())
    if asked:
        found = api.latest(sorted(asked), Window(now - LOOK_BACK_US, now), ReadContext(observed_at=now))
        survey.take([each for each in found if isinstance(each, MetricPoint)])
    return survey.seen(SUMMED_UP)


def probe_audit_log(setting: AuditLogSetting, reading: ReadSettings) -> AuditLogSeen:
    """The last lines of the file: which stages and levels they have, and whether they are audit events at all."""
    import msgspec

    from steelyard.sources.audit_log.read import CHANGES, VERSION

    try:
        with setting.path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - TAIL_BYTES))
            lines = stream.read(TAIL_BYTES).split(b"\n")
    except OSError as error:
        return AuditLogSeen(setting.name, error=f"{setting.path}: {error.strerror or 'cannot be read'}")
    if size > TAIL_BYTES:
        del lines[:1]
    whole = [line for line in lines[:-1] if line.strip()][-TAIL_LINES_MAX:]
    stages, levels = set(), set()
    events = refused = changes = 0
    for line in whole:
        try:
            event = msgspec.json.decode(line, type=dict[str, object]) if len(line) <= reading.line_bytes_max else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = {}
        if not str(event.get("apiVersion", "")).startswith(VERSION):
            refused += 1
            continue
        events += 1
        stages.add(str(event.get("stage"))[:40])
        levels.add(str(event.get("level"))[:40])
        changes += event.get("verb") in CHANGES
    return AuditLogSeen(setting.name, None, events, refused, frozenset(stages), frozenset(levels), changes)
