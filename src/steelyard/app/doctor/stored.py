"""What the store and the data directory show: ``look_at_store`` over an open store, ``look_at_directory`` over the file system.

The trick to know: a fact without an import came by collecting or pushing; where that was lately, its source is live whatever the settings say.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from steelyard.app.backups import last_backup_at
from steelyard.app.demo_mark import is_demo
from steelyard.app.doctor.metric_families import families_of
from steelyard.app.doctor.survey import DirectorySeen, StoredSeen
from steelyard.primitives.errors import StoreFailed, UsageError
from steelyard.primitives.instant import DAY_US, MINUTE_US, DurationUs, Instant
from steelyard.store import Store
from steelyard.store.store import FILE_NAME

LIVE_US: Final[DurationUs] = 15 * MINUTE_US
TABLES: Final = (
    "request", "grant", "node", "device", "device_sample", "process_sample", "partition_sample", "metric_sample", "event",
    "transition", "audit_event", "source_status",
)  # fmt: skip
COLUMNS: Final = (
    "memory_used_mib", "util_gpu_ratio", "gr_active_ratio", "sm_active_ratio", "dram_active_ratio", "power_watts", "sm_clock_mhz",
    "throttle_reasons",
)  # fmt: skip
_NAMES_MAX: Final = 10_000


def look_at_store(store: Store, now: Instant) -> StoredSeen:
    """What the facts show; reads whole columns, writes nothing."""
    rows, live = _sources(store, now)
    columns, live_columns = _columns(store, now)
    live_at = now - LIVE_US
    names = _texts(store, "SELECT DISTINCT metric FROM fact.metric_sample")
    lately = _texts(
        store,
        "SELECT DISTINCT metric FROM fact.metric_sample WHERE import_id IS NULL AND observed_at >= make_timestamp(?::BIGINT)",
        live_at,
    )
    days = store.rows(
        "SELECT epoch_us(max(observed_at)) - epoch_us(min(observed_at)) FROM fact.source_status WHERE import_id IS NULL"
    )[0][0]
    return StoredSeen(
        has_data=bool(rows),
        posted=_is_posted(store),
        rows=rows,
        live=live,
        columns=columns,
        live_columns=live_columns,
        origins=_texts(store, "SELECT DISTINCT origin FROM fact.partition_sample"),
        families=families_of(names) | _systems(store),
        live_families=families_of(lately),
        audit_stages=_texts(store, "SELECT DISTINCT stage FROM fact.audit_event"),
        encodings=_encodings(store),
        mig_expected=_instances(store),
        observed_days=None if days is None else days / DAY_US,
        tokens_valid=store.rows("SELECT count(*) FROM store.token WHERE revoked_at IS NULL")[0][0],
    )


def look_at_file(directory: Path, now: Instant) -> StoredSeen:
    """The same of a directory that nobody serves; without a store: nothing. A store that cannot be read is an ``error``."""
    if not (directory / FILE_NAME).exists():
        return StoredSeen()
    try:
        with Store.open(directory, read_only=True) as store:
            return look_at_store(store, now)
    except (StoreFailed, UsageError) as error:
        return StoredSeen(has_data=True, error=str(error))


def look_at_directory(directory: Path, raw_days: int) -> DirectorySeen:
    """Space, size, and what is noted of backups."""
    file = directory / FILE_NAME
    place = directory if directory.is_dir() else directory.absolute().parent
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        free = None
    return DirectorySeen(
        is_demo=is_demo(directory),
        free_bytes=free,
        store_bytes=file.stat().st_size if file.is_file() else None,
        raw_days=raw_days,
        backup_at=last_backup_at(directory),
    )


def _sources(store: Store, now: Instant) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    rows, live = set(), set()
    for table in TABLES:
        for source, is_live in store.rows(
            f"SELECT source, bool_or(import_id IS NULL AND observed_at >= make_timestamp(?::BIGINT)) FROM fact.{table} GROUP BY source",
            [now - LIVE_US],
        ):
            rows.add((table, source))
            if is_live:
                live.add((table, source))
    return frozenset(rows), frozenset(live)


def _columns(store: Store, now: Instant) -> tuple[frozenset[str], frozenset[str]]:
    asked = ", ".join(
        f"bool_or({column} IS NOT NULL), "
        f"bool_or({column} IS NOT NULL AND import_id IS NULL AND observed_at >= make_timestamp($live::BIGINT))"
        for column in COLUMNS
    )
    found = store.rows(f"SELECT {asked} FROM fact.device_sample", {"live": now - LIVE_US})[0]
    pairs = list(zip(COLUMNS, found[::2], found[1::2], strict=True))
    return (
        frozenset(column for column, there, _live in pairs if there),
        frozenset(column for column, _there, live in pairs if live),
    )


def _texts(store: Store, sql: str, *parameters: object) -> frozenset[str]:
    return frozenset(
        str(text) for (text,) in store.rows(f"{sql} LIMIT {_NAMES_MAX}", list(parameters)) if text is not None
    )


def _systems(store: Store) -> frozenset[str]:
    """Queue systems whose objects were seen."""
    kinds = _texts(store, "SELECT DISTINCT object_kind FROM fact.transition")
    found = {"kueue"} if kinds & {"Workload", "ClusterQueue"} else set()
    return frozenset(found | ({"volcano"} if "PodGroup" in kinds else set()))


def _encodings(store: Store) -> dict[str, int]:
    """Nodes by the form of the register they had last."""
    return {
        str(encoding): int(count)
        for encoding, count in store.rows(
            "SELECT encoding, count(*) FROM (SELECT node, arg_max(encoding, occurred_at) AS encoding FROM fact.device "
            "WHERE source = 'hami' AND node IS NOT NULL AND encoding IS NOT NULL GROUP BY cluster, node) AS latest "
            "GROUP BY encoding ORDER BY encoding"
        )
    }


def _instances(store: Store) -> dict[str, int]:
    """GPU instances of each card at its latest sighting by anything but an exporter."""
    return {
        str(device): int(count)
        for device, count in store.rows(
            "SELECT device_uuid, count(DISTINCT gi) FROM fact.unit AS u JOIN (SELECT device_uuid AS of, source AS by, "
            "max(occurred_at) AS at FROM fact.unit WHERE unit_kind = 'mig' AND gi IS NOT NULL AND source NOT IN ('dcgm', 'hami') "
            "GROUP BY ALL) AS latest ON u.device_uuid = latest.of AND u.source = latest.by AND u.occurred_at = latest.at "
            "WHERE u.unit_kind = 'mig' GROUP BY device_uuid ORDER BY device_uuid"
        )
        if device is not None
    }


def _is_posted(store: Store) -> bool:
    return not store.has_unposted() and bool(
        store.rows(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = 'ledger' AND table_name = 'posting_run'"
        )
    )
