"""What a level consists of: each capability, whether it is there now, was there once, or is missing, and whose answers rest on it.

``diagnosing`` asks ``judge_levels``. The trick to know: a file that was imported shows a site once, so it can reach L0; L1 and L2 are about
what comes by itself, so there only ``live`` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.app.doctor.metric_families import ENGINES, GATEWAYS
from steelyard.app.doctor.survey import Survey
from steelyard.primitives.i18n import _
from steelyard.surfaces.shared.doctor_ports import LEVELS, CapabilityReport, Level, LevelReport

LIVE: Final = "live"
STORED: Final = "stored"
MISSING: Final = "missing"
NOT_IN_THIS_VERSION: Final = "not_in_this_version"

BUSY_FIELDS: Final = frozenset({203, 1001})
PROFILING: Final = frozenset({1001, 1002, 1005})
CONDITION: Final = frozenset({100, 112, 155})

Seen = Callable[[Survey], Iterator[str]]
"""Yields by what a capability is there, as ``live: ...`` or ``stored: ...``."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One row of the table. ``title`` in the chosen language; ``applies``: whether a site like this one can have it at all."""

    id: str
    level: Level
    title: Callable[[], str]
    questions: tuple[int, ...]
    seen: Seen
    required: bool = False
    applies: Callable[[Survey], bool] = lambda survey: True
    built: bool = True


def _tables(survey: Survey, *tables: str, sources: Sequence[str] | None = None) -> Iterator[str]:
    for word, rows in ((LIVE, survey.stored.live), (STORED, survey.stored.rows)):
        for table, source in sorted(rows):
            if table in tables and (sources is None or source in sources):
                yield f"{word}: {source}"


def _kinds(survey: Survey, *words: str) -> Iterator[str]:
    for cluster in survey.clusters:
        if any(cluster.is_read(word) for word in words):
            yield f"{LIVE}: kubernetes/{cluster.name}"


def _pods(survey: Survey) -> Iterator[str]:
    yield from _kinds(survey, "pods")
    yield from _tables(survey, "request", "grant")


def _nodes(survey: Survey) -> Iterator[str]:
    yield from _kinds(survey, "nodes")
    yield from _tables(survey, "node")


def _inventory(survey: Survey) -> Iterator[str]:
    for cluster in survey.clusters:
        if cluster.hami or cluster.has("resourceslices.resource.k8s.io"):
            yield f"{LIVE}: kubernetes/{cluster.name}"
    yield from _ways(survey, lambda metrics_fields, families, devices: bool(devices))
    for each in _tables(survey, "device"):
        if not each.endswith(": kernel_log"):  # a log names the cards that it complains of, and no others
            yield each


def _ways(survey: Survey, has: Callable[[frozenset[int], frozenset[str], frozenset[str]], bool]) -> Iterator[str]:
    for name, metrics in survey.ways:
        if has(metrics.fields, metrics.families, metrics.devices):
            yield f"{LIVE}: {name}"


def _columns(survey: Survey, *columns: str) -> Iterator[str]:
    if set(columns) <= survey.stored.live_columns:
        yield f"{LIVE}: device_sample"
    if set(columns) <= survey.stored.columns:
        yield f"{STORED}: device_sample"


def _card_memory(survey: Survey) -> Iterator[str]:
    yield from _ways(survey, lambda fields, families, devices: 252 in fields)
    yield from _columns(survey, "memory_used_mib")


def _card_use(survey: Survey) -> Iterator[str]:
    yield from _ways(survey, lambda fields, families, devices: bool(fields & BUSY_FIELDS) and 252 in fields)
    yield from _dcgm_columns(survey, "util_gpu_ratio")
    yield from _dcgm_columns(survey, "gr_active_ratio")


def _dcgm_columns(survey: Survey, *columns: str) -> Iterator[str]:
    """Columns that came from an exporter: what nvidia-smi printed is of the level below."""
    exported = {word for word in ("dcgm", "hami") if ("device_sample", word) in survey.stored.rows}
    if exported:
        yield from _columns(survey, *columns)


def _profiling(survey: Survey) -> Iterator[str]:
    yield from _ways(survey, lambda fields, families, devices: fields >= PROFILING)
    yield from _dcgm_columns(survey, "gr_active_ratio", "sm_active_ratio", "dram_active_ratio")


def _condition(survey: Survey) -> Iterator[str]:
    yield from _ways(survey, lambda fields, families, devices: fields >= CONDITION)
    yield from _dcgm_columns(survey, "sm_clock_mhz", "throttle_reasons", "power_watts")


def _watch(survey: Survey) -> Iterator[str]:
    yield from _kinds(survey, "pods")
    yield from (f"{LIVE}: {source}" for table, source in sorted(survey.stored.live) if table == "request")


def _family(survey: Survey, words: frozenset[str]) -> Iterator[str]:
    yield from _ways(survey, lambda fields, families, devices: bool(families & words))
    for word, families in ((LIVE, survey.stored.live_families), (STORED, survey.stored.families)):
        yield from (f"{word}: {family}" for family in sorted(families & words))


def _monitor(survey: Survey) -> Iterator[str]:
    yield from _ways(survey, lambda fields, families, devices: "hami_monitor" in families)
    if "monitor" in survey.stored.origins:
        live = ("partition_sample", "hami") in survey.stored.live
        yield f"{LIVE if live else STORED}: hami"


def _audit(survey: Survey) -> Iterator[str]:
    yield from (
        f"{LIVE}: audit_log/{each.name}" for each in survey.audit_logs if each.error is None and each.events_count
    )
    yield from _tables(survey, "audit_event")


def _books(survey: Survey) -> Iterator[str]:
    if survey.stored.posted:
        yield f"{LIVE}: ledger"


def _history(survey: Survey) -> Iterator[str]:
    for each in survey.prometheus:
        if {"dcgm", "kube_state_metrics"} <= each.metrics.families:
            yield f"{LIVE}: prometheus/{each.name}"


def _events(survey: Survey) -> Iterator[str]:
    yield from _kinds(survey, "events")
    yield from _tables(survey, "event", sources=("kube_api",))


def _none(survey: Survey) -> Iterator[str]:
    return iter(())


def uses_hami(survey: Survey) -> bool:
    """Whether the site shares cards with HAMi, by anything that was seen."""
    return (
        any(each.hami for each in survey.clusters)
        or bool(survey.families & {"hami_scheduler", "hami_monitor"})
        or any(source == "hami" for _table, source in survey.stored.rows)
    )


def queue_systems(survey: Survey) -> frozenset[str]:
    """``kueue`` and ``volcano``, where the site has objects or facts of them."""
    found = set()
    words = {
        "kueue": ("clusterqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"),
        "volcano": ("podgroups.scheduling.volcano.sh", "jobs.batch.volcano.sh"),
    }
    for system, kinds in words.items():
        if any(cluster.has(kind) for cluster in survey.clusters for kind in kinds):
            found.add(system)
        if system in survey.stored.families:
            found.add(system)
    return frozenset(found)


CAPABILITIES: Final[tuple[Capability, ...]] = (
    Capability("pods", "L0", lambda: _("pods: what was asked for and granted"), (1, 2, 6, 7, 8, 9, 10), _pods, True),
    Capability("inventory", "L0", lambda: _("an inventory of cards by UUID"), (1, 2, 3, 7, 8, 9, 10), _inventory, True),
    Capability("nodes", "L0", lambda: _("nodes: labels, sharing, readiness"), (1, 2, 3, 8, 10), _nodes),
    Capability("events", "L0", lambda: _("events of the cluster"), (3, 6, 8), _events),
    Capability("card_memory", "L0", lambda: _("memory used on each card"), (2, 7), _card_memory),
    Capability(
        "process_memory",
        "L0",
        lambda: _("memory of each process on a card"),
        (2, 7),
        lambda s: _tables(s, "process_sample"),
    ),
    Capability(
        "kernel_log",
        "L0",
        lambda: _("kernel logs of the nodes (Xid, lost cards)"),
        (8,),
        lambda s: _tables(s, "event", sources=("kernel_log",)),
    ),
    Capability(
        "container_logs",
        "L0",
        lambda: _("logs of containers (out of memory, collectives, tracebacks)"),
        (8,),
        _none,
        built=False,
    ),
    Capability("cluster_watch", "L1", lambda: _("the cluster watched without gaps"), (1, 2, 3, 4, 6, 8), _watch, True),
    Capability("card_use", "L1", lambda: _("cards at work: DCGM 203 or 1001, and 252"), (2, 3, 4, 7), _card_use, True),
    Capability(
        "profiling", "L1", lambda: _("the utilisation triple: DCGM 1001, 1002, 1005"), (2, 3, 4, 7, 9), _profiling, True
    ),
    Capability(
        "card_condition", "L1", lambda: _("clocks, throttling, power: DCGM 100, 112, 155"), (3, 4, 8), _condition
    ),
    Capability(
        "sharing_monitor",
        "L1",
        lambda: _("what the sharing layer enforces and counts (HAMi monitor)"),
        (2, 4, 7),
        _monitor,
        applies=uses_hami,
    ),
    Capability(
        "queue_metrics",
        "L1",
        lambda: _("metrics of the queues (Kueue, Volcano)"),
        (6, 10),
        lambda s: _family(s, queue_systems(s)),
        applies=lambda s: bool(queue_systems(s)),
    ),
    Capability(
        "scheduler_metrics",
        "L1",
        lambda: _("metrics of kube-scheduler"),
        (6,),
        lambda s: _family(s, frozenset({"kube_scheduler"})),
    ),
    Capability(
        "engine_metrics", "L1", lambda: _("metrics of inference engines"), (4, 5, 9, 10), lambda s: _family(s, ENGINES)
    ),
    Capability(
        "gateway_metrics", "L1", lambda: _("metrics of gateways before them"), (5,), lambda s: _family(s, GATEWAYS)
    ),
    Capability("history", "L1", lambda: _("history in a Prometheus (DCGM and kube-state-metrics)"), (1, 2), _history),
    Capability("audit", "L2", lambda: _("the audit log of the API server"), (6, 7, 8), _audit, True),
    Capability(
        "node_agents",
        "L2",
        lambda: _("an agent on each node: processes, PodResources, kernel log, all the time"),
        (2, 4, 7, 8),
        lambda s: _tables(s, "source_status", sources=("agent",)),
        True,
    ),
    Capability("books", "L2", lambda: _("ledgers that were posted"), (1, 2, 9), _books, True),
    Capability("prices", "L2", lambda: _("a price book"), (9,), lambda s: _tables(s, "price_book")),
)
"""Every capability, by level, those that the level needs first."""


def judge_levels(survey: Survey) -> list[LevelReport]:
    """Each level with its capabilities; reached where it and all below have what they require."""
    found, so_far = [], True
    for level in LEVELS:
        reports = [judge(each, survey) for each in CAPABILITIES if each.level == level and each.applies(survey)]
        enough = {LIVE, STORED} if level == "L0" else {LIVE}
        so_far = so_far and all(report.state in enough for report in reports if report.required)
        found.append(LevelReport(level, so_far, reports))
    return found


def judge(capability: Capability, survey: Survey) -> CapabilityReport:
    """One capability, with what shows it."""
    seen = sorted(set(capability.seen(survey)))
    live = [each for each in seen if each.startswith(f"{LIVE}: ")]
    state = LIVE if live else STORED if seen else MISSING if capability.built else NOT_IN_THIS_VERSION
    by = sorted({each.partition(": ")[2] for each in (live or seen)})
    return CapabilityReport(capability.id, capability.title(), state, capability.required, by, capability.questions)
