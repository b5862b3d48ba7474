"""``survey_sources``: all probes side by side, each in a thread of its own, waited for no longer than the deadline.

The trick to know: a thread that hangs is a daemon and is left behind; what it would have said is "not in time", and nobody waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from steelyard.app.doctor.survey import AuditLogSeen, ClusterSeen, PrometheusSeen, ScrapeSeen
from steelyard.app.settings import Settings
from steelyard.app.source_settings import AuditLogSetting, KubernetesSetting, PrometheusSetting, ScrapeSetting
from steelyard.primitives.clock import Clock
from steelyard.primitives.instant import SECOND_US, DurationUs

GRACE_US: Final[DurationUs] = SECOND_US // 2
"""Beyond its own deadline, a probe has so long to say what it has."""

Opened = Callable[[Callable[[], None]], None]
Seen = ClusterSeen | ScrapeSeen | PrometheusSeen | AuditLogSeen


@dataclass(slots=True)
class Probed:
    """What came in time, by the collector's name, in the order of the settings; who did not; and whose probe made a mistake."""

    seen: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)

    def of(self, kind: type[Any]) -> tuple[Any, ...]:
        """What was seen of one kind of source."""
        return tuple(each for each in self.seen.values() if isinstance(each, kind))


class _Running:
    """One probe in its thread."""

    def __init__(self, name: str, probe: Callable[[Opened], Seen]) -> None:
        self.name = name
        self.result: Seen | None = None
        self.fault: Exception | None = None
        self._probe = probe
        self._closers: list[Callable[[], None]] = []
        self.thread = threading.Thread(target=self._run, name=f"doctor {name}", daemon=True)

    def _run(self) -> None:
        try:
            self.result = self._probe(self._closers.append)
        except Exception as error:  # a mistake of ours over one source must not hide the others: it is told as one
            self.fault = error

    def cut_short(self) -> None:
        """End its connections, so that its thread ends soon."""
        for close in self._closers:
            with suppress(Exception):  # it was given up already
                close()


def survey_sources(settings: Settings, clock: Clock, deadline_us: DurationUs) -> Probed:
    """What each configured source shows; returns when all have ended or the deadline has passed."""
    from steelyard.app.doctor.probes import Deadline

    running = [_Running(name, probe) for name, probe in _probes(settings, clock, deadline_us)]
    limit = Deadline.within(deadline_us + GRACE_US)
    for each in running:
        each.thread.start()
    found = Probed()
    for each in running:
        each.thread.join(limit.seconds_left)
        if each.thread.is_alive():
            each.cut_short()
            found.unanswered.append(each.name)
        elif each.fault is not None:
            found.faults[each.name] = type(each.fault).__name__
        else:
            found.seen[each.name] = each.result
    return found


def _probes(settings: Settings, clock: Clock, deadline_us: DurationUs) -> list[tuple[str, Callable[[Opened], Seen]]]:
    from steelyard.app.doctor.cluster_probe import probe_cluster
    from steelyard.app.doctor.probes import Deadline, probe_audit_log, probe_prometheus, probe_scrape

    reading, now = settings.to_read_settings(), clock.now

    def within() -> Deadline:
        return Deadline.within(deadline_us)

    def cluster(setting: KubernetesSetting, opened: Opened) -> Seen:
        return probe_cluster(setting, now, within(), opened)

    def job(setting: ScrapeSetting, opened: Opened) -> Seen:
        return probe_scrape(setting, reading, now, within(), opened)

    def server(setting: PrometheusSetting, opened: Opened) -> Seen:
        return probe_prometheus(setting, now, within(), opened)

    def log(setting: AuditLogSetting, opened: Opened) -> Seen:
        return probe_audit_log(setting, reading)

    return [
        *((f"kubernetes/{each.name}", partial(cluster, each)) for each in settings.kubernetes),
        *((f"scrape/{each.name}", partial(job, each)) for each in settings.scrape),
        *((f"prometheus/{each.name}", partial(server, each)) for each in settings.prometheus),
        *((f"audit_log/{each.name}", partial(log, each)) for each in settings.audit_log),
    ]
