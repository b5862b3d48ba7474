"""The daily run that exports facts and lets samples age: as a command, and as a collector within ``serve``.

What to call: ``run_retention``, or ``RetentionCollector`` where rounds are run. The order is the point: post, export, reduce or drop day by day,
then give the space back; so it may be cut off anywhere, and the next run goes on.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from steelyard.app.backups import EXPORTS
from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.registry import FACTS
from steelyard.primitives.clock import Clock
from steelyard.primitives.instant import DAY_US, Instant, format_instant
from steelyard.store import Store
from steelyard.store.exports import (
    DayExport,
    changed_days,
    day_start,
    export_day,
    fingerprint,
    record_exported,
    unexported_count,
)
from steelyard.store.retention import DROPPED, REDUCED, THINNED, DueDay, due_count, plan, thin_day, was_thinned
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.upkeep_ports import RetentionReport, RetentionRow

FILLED_US: Final = DAY_US
"""A day of which a back-fill took in something waits so long: the rest of it must come before its samples are reduced."""

LATE: Final = "samples_after_their_day_was_reduced"
_BOOKED: Final = frozenset({"device_sample", "process_sample"})
_ONE_AT_A_TIME: Final = threading.Lock()


class _Tally:
    """Counts by table while a run goes on."""

    def __init__(self) -> None:
        self.exported: Counter[str] = Counter()
        self.reduced: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.late = 0

    def rows(self, dry_run: bool) -> list[RetentionRow]:
        """One row for every table of which anything was exported or removed, and for all that are thinned."""
        samples = {fact.TABLE for fact in THINNED}
        return [
            RetentionRow(
                name, self.exported[name], self.reduced[name], None if dry_run else self.made[name], self.dropped[name]
            )
            for name in (fact.TABLE for fact in FACTS)
            if name in samples or self.exported[name]
        ]


def run_retention(
    store: Store, directory: Path, settings: Settings, clock: Clock, *, dry_run: bool = False
) -> RetentionReport:
    """Do what is due by the settings. ``dry_run``: only say what would go; nothing is written.

    Raises StoreFailed where there is no space, StoreDamaged where an export of before cannot be read; what was done until then stands.
    """
    with _ONE_AT_A_TIME:
        now = clock.now()
        today = day_start(now)
        raw_before = today - settings.retention.raw_days * DAY_US
        minute_before = today - settings.retention.minute_days * DAY_US
        status_before = today - settings.retention.status_days * DAY_US
        folder = settings.retention.export_directory or directory / EXPORTS
        file = directory / FILE_NAME
        before = _size(file)
        tally, compacted = _Tally(), False
        if dry_run:
            with store.reader() as reader:
                _look(
                    reader,
                    folder,
                    today,
                    plan(reader, raw_before, minute_before, now - FILLED_US, status_before),
                    tally,
                )
        else:
            _export(store, folder, today, now, tally)
            for day, seen in _due_and_booked(store, settings, clock, raw_before, minute_before, status_before):
                _thin(store, day, seen, folder, now, tally)
            compacted = store.compact(settings.retention.free_ratio_min)
        return RetentionReport(
            dry_run, raw_before, minute_before, tally.rows(dry_run), tally.late, compacted, before, _size(file)
        )


class RetentionCollector:
    """Implements ``collectors.contract.Collector``: a retention run a day, which yields no facts of its own."""

    name = "maintenance/retention"
    source = "steelyard"
    interval_us = DAY_US
    is_upkeep = True

    def __init__(self, store: Store, directory: Path, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._directory = directory
        self._settings = settings
        self._clock = clock

    def collect(self, at: Instant) -> Iterable[Fact]:
        """Run; see ``run_retention``."""
        run_retention(self._store, self._directory, self._settings, self._clock)
        return ()

    def close(self) -> None:
        """Nothing is held."""


def _export(store: Store, folder: Path, today: Instant, now: Instant, tally: _Tally) -> None:
    for fact in FACTS:
        with store.reader() as reader:
            days = changed_days(reader, fact, today)
        for day in days:
            with store.reader() as reader:
                seen = fingerprint(reader, fact, day)
                is_late = fact.TABLE in _BOOKED and was_thinned(reader, fact, day)
                written = export_day(reader, fact, day, folder, now)
            record_exported(store, fact, day, seen)
            if written is None:
                continue
            tally.exported[fact.TABLE] += written.rows_count
            if is_late:
                tally.late += written.rows_count
                store.append([_late(written, now)])


def _due_and_booked(
    store: Store,
    settings: Settings,
    clock: Clock,
    raw_before: Instant,
    minute_before: Instant,
    status_before: Instant,
) -> list[tuple[DueDay, tuple[int, str]]]:
    """The days that are due, with their facts' fingerprint as they are in the books."""
    with store.reader() as reader:
        due = plan(reader, raw_before, minute_before, clock.now() - FILLED_US, status_before)
    if not due:
        return []
    with store.transaction():
        if store.has_unposted() or store.has_collected():
            post(store, settings, clock)
        return [(day, fingerprint(store, day.fact, day.day_at)) for day in due]


def _thin(store: Store, due: DueDay, seen: tuple[int, str], folder: Path, now: Instant, tally: _Tally) -> None:
    table = due.fact.TABLE
    with store.transaction():
        if (
            fingerprint(store, due.fact, due.day_at) != seen
        ):  # facts came that are not booked yet: the next run takes the day
            return
        done = thin_day(store, due, folder, now)
    tally.exported[table] += done.export.rows_count if done.export else 0
    tally.made[table] += done.made_count
    (tally.dropped if due.level == DROPPED else tally.reduced)[table] += done.removed_count


def _late(late: DayExport, now: Instant) -> Finding:
    day = format_instant(late.day_at)[:10]
    return Finding(
        source="steelyard",
        natural_key=f"{LATE}/{late.table}/{day}",
        occurred_at=now,
        observed_at=now,
        code=LATE,
        severity="warning",
        subject=f"day {day}",
        message=f"samples came after the raw ones of their day had been reduced: they are exported and in no ledger ({late.table})",
        evidence=json.dumps({"table": late.table, "rows": late.rows_count}),
    )


def _look(reader: Store, folder: Path, today: Instant, due: Iterable[DueDay], tally: _Tally) -> None:
    for fact in FACTS:
        for day in changed_days(reader, fact, today):
            tally.exported[fact.TABLE] += unexported_count(reader, fact, day, folder)
    for each in due:
        counts = tally.reduced if each.level == REDUCED else tally.dropped
        counts[each.fact.TABLE] += due_count(reader, each)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0
