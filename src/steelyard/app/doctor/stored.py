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
from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.node import Node
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.transition import Transition
from steelyard.primitives.errors import StoreFailed, UsageError
from steelyard.primitives.instant import DAY_US, MINUTE_US, DurationUs, Instant
from steelyard.store import Store, contents
from steelyard.store.store import FILE_NAME

LIVE_US: Final[DurationUs] = 15 * MINUTE_US
TABLES: Final[tuple[type[Fact], ...]] = (
    Request, Grant, Node, Device, DeviceSample, ProcessSample, PartitionSample, MetricSample, Event, Transition, AuditEvent, SourceStatus,
)  # fmt: skip
COLUMNS: Final = (
    "memory_used_mib", "util_gpu_ratio", "gr_active_ratio", "sm_active_ratio", "dram_active_ratio", "power_watts", "sm_clock_mhz",
    "throttle_reasons",
)  # fmt: skip


def look_at_store(store: Store, now: Instant) -> StoredSeen:
    """What the facts show; reads whole columns, writes nothing."""
    since = now - LIVE_US
    sources = {fact.TABLE: contents.sources_of(store, fact, since) for fact in TABLES}
    columns = contents.sample_columns(store, COLUMNS, since)
    names = contents.metric_names_of(store, since)
    span = contents.collected_span_us(store)
    rows = frozenset((table, source) for table, found in sources.items() for source in found.all)
    return StoredSeen(
        has_data=bool(rows),
        posted=_is_posted(store),
        rows=rows,
        live=frozenset((table, source) for table, found in sources.items() for source in found.live),
        columns=columns.all,
        live_columns=columns.live,
        origins=contents.words_of(store, PartitionSample, "origin"),
        families=families_of(names.all) | _systems(store),
        live_families=families_of(names.live),
        audit_stages=contents.words_of(store, AuditEvent, "stage"),
        encodings=contents.register_forms(store),
        mig_expected=contents.instances_by_card(store),
        observed_days=None if span is None else span / DAY_US,
        tokens_valid=contents.valid_tokens_count(store),
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


def _systems(store: Store) -> frozenset[str]:
    """Queue systems whose objects were seen."""
    kinds = contents.words_of(store, Transition, "object_kind")
    found = {"kueue"} if kinds & {"Workload", "ClusterQueue"} else set()
    return frozenset(found | ({"volcano"} if "PodGroup" in kinds else set()))


def _is_posted(store: Store) -> bool:
    return not store.has_unposted() and bool(
        store.rows(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = 'ledger' AND table_name = 'posting_run'"
        )
    )
