"""A site in good order, as the doctor sees it, and small changes to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from steelyard.app.doctor.checks import WANTED_FIELDS
from steelyard.app.doctor.survey import (
    AuditLogSeen,
    ClusterSeen,
    DirectorySeen,
    ExporterSeen,
    KindSeen,
    MetricsSeen,
    PrometheusSeen,
    ScrapeSeen,
    StoredSeen,
    Survey,
)
from steelyard.primitives.instant import DAY_US, parse_instant
from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS

NOW = parse_instant("2026-03-10T12:00:00Z")
CARD = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
EXPORTER = ExporterSeen(
    "n1:9400", fields=frozenset({*WANTED_FIELDS, 230}), devices=frozenset({CARD}), working=1, named=1
)
FAMILIES = frozenset({"dcgm", "hami_scheduler", "hami_monitor", "kueue", "kube_scheduler", "vllm", "envoy"})
JOB = ScrapeSeen("dcgm", 1, skews_us={"n1:9400": 0}, metrics=MetricsSeen(FAMILIES, (EXPORTER,)))
CLUSTER = ClusterSeen(
    "east",
    version="v1.33.1",
    skew_us=0,
    kinds={kind.word: KindSeen("ok", kind.group, kind.plural, count=0) for kind in RESOURCE_KINDS},
    hami=True,
    encodings={"json": 3},
    node_skews_us={"n1": 0},
)
SERVER = PrometheusSeen(
    "main",
    version="3.1.0",
    retention="30d",
    retention_us=30 * DAY_US,
    skew_us=0,
    names_known=True,
    metrics=MetricsSeen(frozenset({"kube_state_metrics", "kueue"})),
)
LOG = AuditLogSeen(
    "audit", None, 10, 0, frozenset({"RequestReceived", "ResponseComplete"}), frozenset({"Request"}), changes_count=10
)
STORED = StoredSeen(
    has_data=True,
    posted=True,
    rows=frozenset({("request", "kube_api"), ("device", "dcgm"), ("process_sample", "agent")}),
    live=frozenset({("request", "kube_api"), ("device", "dcgm"), ("process_sample", "agent")}),
    observed_days=20.0,
    tokens_valid=1,
)
DIRECTORY = DirectorySeen(free_bytes=1 << 40, store_bytes=1 << 30, raw_days=14, backup_at=NOW - DAY_US)
WELL = Survey(NOW, DIRECTORY, STORED, (CLUSTER,), (JOB,), (SERVER,), (LOG,))
NOTHING = Survey(NOW)


def cluster(**changes: Any) -> Survey:
    return replace(WELL, clusters=(replace(CLUSTER, **changes),))


def kind(word: str, **changes: Any) -> Survey:
    return cluster(kinds={**CLUSTER.kinds, word: replace(CLUSTER.kinds[word], **changes)})


def job(**changes: Any) -> Survey:
    return replace(WELL, scrapes=(replace(JOB, **changes),))


def exporter(**changes: Any) -> Survey:
    return job(metrics=replace(JOB.metrics, exporters=(replace(EXPORTER, **changes),)))


def server(**changes: Any) -> Survey:
    return replace(WELL, prometheus=(replace(SERVER, **changes),))


def log(**changes: Any) -> Survey:
    return replace(WELL, audit_logs=(replace(LOG, **changes),))


def stored(**changes: Any) -> Survey:
    return replace(WELL, stored=replace(STORED, **changes))


def directory(**changes: Any) -> Survey:
    return replace(WELL, directory=replace(DIRECTORY, **changes))


def without(family: str) -> Survey:
    """No metric of the family comes by any way."""
    return replace(
        WELL,
        scrapes=(replace(JOB, metrics=replace(JOB.metrics, families=JOB.metrics.families - {family})),),
        prometheus=(replace(SERVER, metrics=replace(SERVER.metrics, families=SERVER.metrics.families - {family})),),
    )
