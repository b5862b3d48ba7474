"""What becomes of samples as they age: raw ones are reduced to one a minute, those are dropped in the end; and always exported before.

``thin_day`` does one day of one table in one transaction, ``plan`` says which days are due. What posting must know stands in
``store.thinned``: a day with level ``reduced`` or ``dropped`` can no longer be computed from facts as it was when it was posted (the days right
after one too, since a sample stands until the next one). The tricks to know: a minute with one row is left as it is, so reducing twice is
reducing once; and a few witnesses stay for ever (a card's first and last sample, the first and last process of a pod on a card each
day), since holdings and the known life of a card rest on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.facts.base import Fact, columns_of
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import DAY_US, HOUR_US, INSTANT_MAX, Instant
from steelyard.store.exports import MINUTE_MARK, DayExport, export_day, fingerprint, record_exported, unexported_count
from steelyard.store.statuses import merged_statuses_sql, steady_statuses_sql
from steelyard.store.store import Store

SAMPLES: Final[tuple[type[Fact], ...]] = (DeviceSample, ProcessSample, PartitionSample, MetricSample)
"""The tables whose rows age: reduced to one a minute, dropped in the end."""

THINNED: Final[tuple[type[Fact], ...]] = (*SAMPLES, SourceStatus)
"""The tables that retention thins; all other facts stay for ever. Of rounds that say the same again and again one an hour stays (``statuses``)."""

REDUCED: Final = "reduced"
DROPPED: Final = "dropped"
_LOOKED: Final = {REDUCED: "looked_at_for_reducing", DROPPED: "looked_at_for_dropping"}
"""Marks of days that hold nothing more to remove, as long as they hold as many rows as ``removed_count`` says."""
_DOOMED: Final = "steelyard_doomed"
_MINUTE_US: Final = 60_000_000

_MEAN: Final = "CAST(round(avg({0})) AS BIGINT)"
_MEASURES: Final[Mapping[type[Fact], Mapping[str, str]]] = {
    DeviceSample: {
        "memory_used_mib": _MEAN,
        "memory_total_mib": "max({0})",
        "memory_reserved_mib": _MEAN,
        "util_gpu_ratio": "avg({0})",
        "util_memory_ratio": "avg({0})",
        "gr_active_ratio": "avg({0})",
        "sm_active_ratio": "avg({0})",
        "dram_active_ratio": "avg({0})",
        "sm_occupancy_ratio": "avg({0})",
        "tensor_active_ratio": "avg({0})",
        "pcie_tx_bytes_per_second": _MEAN,
        "pcie_rx_bytes_per_second": _MEAN,
        "nvlink_tx_bytes_per_second": _MEAN,
        "nvlink_rx_bytes_per_second": _MEAN,
        "power_watts": "avg({0})",
        "power_limit_watts": "min({0})",
        "temperature_celsius": "max({0})",
        "sm_clock_mhz": _MEAN,
        "memory_clock_mhz": _MEAN,
        "throttle_reasons": "bit_or({0})",
        "ecc_uncorrected": "max({0})",
    },
    ProcessSample: {
        "memory_used_mib": _MEAN,
        "sm_ratio": "avg({0})",
        "memory_ratio": "avg({0})",
    },
}
"""Tables whose minutes become a row of their own, and how: means of gauges, the largest of limits, counters and temperatures, every reason
that was seen. In the other tables the last row of each minute stays as it was seen."""

_WITNESSES: Final[Mapping[type[Fact], str]] = {
    DeviceSample: "SELECT min_by(fact_id, occurred_at) FROM fact.device_sample GROUP BY cluster, device_uuid "
    "UNION ALL SELECT max_by(fact_id, occurred_at) FROM fact.device_sample GROUP BY cluster, device_uuid",
    ProcessSample: "SELECT min_by(fact_id, occurred_at) FROM fact.process_sample WHERE pod_uid IS NOT NULL AND {day} "
    "GROUP BY cluster, pod_uid, device_uuid UNION ALL SELECT max_by(fact_id, occurred_at) FROM fact.process_sample "
    "WHERE pod_uid IS NOT NULL AND {day} GROUP BY cluster, pod_uid, device_uuid",
}


@dataclass(frozen=True, slots=True)
class DueDay:
    """A day of a table that is due, for ``REDUCED`` or ``DROPPED``."""

    fact: type[Fact]
    day_at: Instant
    level: str


@dataclass(frozen=True, slots=True)
class Thinned:
    """What became of a day: raw rows removed, one-minute rows made, and what had to be exported before."""

    removed_count: int
    made_count: int
    export: DayExport | None


def plan(
    store: Store,
    raw_before: Instant,
    minute_before: Instant,
    filled_before: Instant = INSTANT_MAX,
    status_before: Instant | None = None,
) -> list[DueDay]:
    """The days that are due, the oldest first: before ``minute_before`` to be dropped, before ``raw_before`` (both midnights) to be reduced;
    statuses of rounds before ``status_before`` (None: ``raw_before``) to be reduced, never to be dropped.

    Days of which a back-fill took in anything at or after ``filled_before`` wait: what it still brings of them must find them as they were.
    """
    due: list[DueDay] = []
    status_before = raw_before if status_before is None else status_before
    levels: list[tuple[type[Fact], str, Instant | None, Instant]] = [(SourceStatus, REDUCED, None, status_before)]
    for sampled in SAMPLES:
        levels += [(sampled, DROPPED, None, minute_before), (sampled, REDUCED, minute_before, raw_before)]
    for fact, level, low, high in levels:
        rows = store.rows(
            f"SELECT epoch_us(found.day_at) FROM (SELECT date_trunc('day', occurred_at) AS day_at, count(*) AS rows_count "
            f"FROM fact.{fact.TABLE} WHERE ($low IS NULL OR occurred_at >= make_timestamp(CAST($low AS BIGINT))) "
            "AND occurred_at < make_timestamp(CAST($high AS BIGINT)) GROUP BY 1) AS found "
            "WHERE NOT EXISTS (SELECT 1 FROM store.thinned AS known WHERE known.fact_table = $table "
            "AND known.day_at = found.day_at AND known.level = $level AND known.removed_count = found.rows_count) "
            "AND NOT EXISTS (SELECT 1 FROM fact.source_status AS filled WHERE filled.kind = 'backfill' "
            "AND filled.observed_at >= make_timestamp(CAST($filled AS BIGINT)) "
            "AND filled.observed_from_at < found.day_at + INTERVAL 1 DAY AND filled.observed_to_at > found.day_at)",
            {"filled": filled_before, "low": low, "high": high, "table": fact.TABLE, "level": _LOOKED[level]},
        )
        due += [DueDay(fact, int(day), level) for (day,) in rows]
    return sorted(due, key=lambda each: (each.day_at, THINNED.index(each.fact)))


def due_count(store: Store, due: DueDay) -> int:
    """How many rows of the day would go, one-minute rows that would take their place not counted."""
    return int(store.rows(f"SELECT count(*) FROM ({_doomed_sql(due)}) AS doomed")[0][0])


def thin_day(store: Store, due: DueDay, folder: Path, now: Instant) -> Thinned:
    """Export what is not in a file yet, then remove; one transaction. The books must know all facts of the day before.

    Raises InvariantError where a fact would go that no file has.
    """
    with store.transaction():
        export = export_day(store, due.fact, due.day_at, folder, now)
        store.execute(f"CREATE OR REPLACE TEMP TABLE {_DOOMED} AS {_doomed_sql(due)}")
        if unexported_count(store, due.fact, due.day_at, folder):
            raise InvariantError(f"facts of {due.fact.TABLE} would go that are in no file")
        made = 0
        if due.fact is SourceStatus:
            made = int(store.rows(merged_statuses_sql(_DOOMED, MINUTE_MARK))[0][0])
        elif due.level == REDUCED and due.fact in _MEASURES:
            made = _make_minutes(store, due)
        _mark(store, due, now)
        removed = int(
            store.rows(
                f"DELETE FROM fact.{due.fact.TABLE} WHERE {_day(due.day_at)} AND fact_id IN (SELECT fact_id FROM {_DOOMED})"
            )[0][0]
        )
        record_exported(store, due.fact, due.day_at, fingerprint(store, due.fact, due.day_at))
        _mark_looked(store, due, now)
        store.execute(f"DROP TABLE {_DOOMED}")
    return Thinned(removed, made, export)


def was_thinned(store: Store, fact: type[Fact], day: Instant) -> bool:
    """Whether rows of the day went before: what comes now is late."""
    found = store.rows(
        "SELECT count(*) FROM store.thinned WHERE fact_table = ? AND day_at = make_timestamp(?::BIGINT) AND level IN (?, ?) "
        "AND removed_count > 0",
        [fact.TABLE, day, REDUCED, DROPPED],
    )
    return bool(found[0][0])


def _doomed_sql(due: DueDay) -> str:
    """The rows that go, with the minute they are in."""
    if due.fact is SourceStatus:
        return steady_statuses_sql(_day(due.day_at))
    table = f"fact.{due.fact.TABLE}"
    stays = [
        f"SELECT max_by(fact_id, occurred_at) FROM {table}",
        f"SELECT max_by(fact_id, observed_at) FROM {table}",
    ]
    if due.fact in _WITNESSES:
        stays.append(_WITNESSES[due.fact].format(day=_day(due.day_at)))
    rows = (
        f"SELECT *, date_trunc('minute', occurred_at) AS minute_at FROM {table} "
        f"WHERE {_day(due.day_at)} AND fact_id NOT IN ({' UNION ALL '.join(stays)})"
    )
    if due.level == DROPPED:
        return rows
    if due.fact in _MEASURES:
        made = f"fact_id LIKE '{MINUTE_MARK}%'"
        return (
            f"SELECT * FROM (SELECT *, count(*) OVER place AS rows_count, bool_or({made}) OVER place AS is_made "
            f"FROM ({rows} AND (interval_us IS NULL OR interval_us < {_MINUTE_US} OR {made})) AS raw "
            "WINDOW place AS (PARTITION BY cluster, source, natural_key, minute_at)) AS counted "
            f"WHERE rows_count > 1 AND NOT {made}"
        )
    key = ", ".join(_names(due.fact, ("occurred_at", "observed_at", *_VALUES[due.fact])))
    return f"{rows} QUALIFY row_number() OVER (PARTITION BY {key}, minute_at ORDER BY occurred_at DESC, fact_id) > 1"


_VALUES: Final[Mapping[type[Fact], Sequence[str]]] = {
    PartitionSample: (
        "memory_limit_mib",
        "memory_counted_mib",
        "memory_allocated_mib",
        "cores_allocated_percent",
        "sm_ratio",
        "last_kernel_seconds",
        "unknown",
    ),
    MetricSample: ("value",),
}
"""The columns that do not tell which series a row belongs to."""


def _make_minutes(store: Store, due: DueDay) -> int:
    """A row for every unit and minute of which rows go and which has none yet."""
    measures = _MEASURES[due.fact]
    key = _names(due.fact, ("occurred_at", "observed_at", "interval_us", *measures))
    grouped = ", ".join((*key, "import_id", "minute_at"))
    text = ", ".join(f"CAST({name} AS VARCHAR)" for name in (*key, "import_id", "minute_at"))
    names = ", ".join((*key, *measures, "occurred_at", "observed_at", "interval_us", "import_id", "fact_id"))
    means = ", ".join(how.format(name) for name, how in measures.items())
    return int(
        store.rows(
            f"INSERT INTO fact.{due.fact.TABLE} ({names}) SELECT {', '.join(key)}, {means}, minute_at, max(observed_at), {_MINUTE_US}, "
            f"import_id, '{MINUTE_MARK}' || md5(to_json([{text}])::VARCHAR) FROM {_DOOMED} WHERE NOT is_made GROUP BY {grouped}"
        )[0][0]
    )


def _mark(store: Store, due: DueDay, now: Instant) -> None:
    """Before the rows go: the clusters of which any go, on that day and as many days after as a sample may stand for."""
    gap = store.rows(
        "SELECT coalesce(max(gap_max_us), 0) FROM fact.source_status WHERE kind NOT IN ('pods', 'nodes', 'trace') AND status <> 'failed'"
    )[0][0]
    days_after = -(-max(HOUR_US, min(int(gap), 366 * DAY_US)) // DAY_US)
    store.execute(
        f"INSERT INTO store.thinned SELECT $table, gone.cluster, make_timestamp($day::BIGINT + step.number * {DAY_US}), $level, "
        "CASE WHEN step.number = 0 THEN gone.removed_count ELSE 0 END, make_timestamp($now::BIGINT) "
        f"FROM (SELECT cluster, count(*) AS removed_count FROM {_DOOMED} GROUP BY cluster) AS gone "
        f"CROSS JOIN (SELECT unnest(range({days_after} + 1)) AS number) AS step",
        {"table": due.fact.TABLE, "day": due.day_at, "level": due.level, "now": now},
    )


def _mark_looked(store: Store, due: DueDay, now: Instant) -> None:
    """Remember how many rows the day has now: as long as it has those, there is nothing more to reduce."""
    level = _LOOKED[due.level]
    store.execute(
        "DELETE FROM store.thinned WHERE fact_table = ? AND day_at = make_timestamp(?::BIGINT) AND level = ?",
        [due.fact.TABLE, due.day_at, level],
    )
    store.execute(
        f"INSERT INTO store.thinned SELECT ?, '', make_timestamp(?::BIGINT), ?, count(*), make_timestamp(?::BIGINT) "
        f"FROM fact.{due.fact.TABLE} WHERE {_day(due.day_at)}",
        [due.fact.TABLE, due.day_at, level, now],
    )


def _day(day: Instant) -> str:
    return f"occurred_at >= make_timestamp({day}) AND occurred_at < make_timestamp({day + DAY_US})"


def _names(fact: type[Fact], without: Sequence[str]) -> tuple[str, ...]:
    return tuple(column.name for column in columns_of(fact) if column.name not in without)
