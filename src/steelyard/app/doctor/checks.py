"""The checks: each a small pure function over a ``Survey`` that yields what it found, under its own id. What to do about it stands in ``remedies``.

``diagnosing`` runs them all. The trick to know: None in a survey is "could not be seen", so no check speaks of what it could not see, and a
site in good order yields nothing at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from steelyard.app.doctor.capabilities import queue_systems, uses_hami
from steelyard.app.doctor.metric_survey import PER_INSTANCE
from steelyard.app.doctor.survey import ExporterSeen, Survey
from steelyard.primitives.i18n import _, ngettext
from steelyard.primitives.instant import DAY_US, SECOND_US, DurationUs

SHOWN_MAX: Final = 5
SKEW_MAX_US: Final[DurationUs] = 5 * SECOND_US
FREE_BYTES_MIN: Final = 256 << 20
GROWTH_DAYS_MIN: Final = 1.0
BACKUP_MAX_US: Final[DurationUs] = 7 * DAY_US
XID: Final = 230
WANTED_FIELDS: Final = (
    1001,
    1002,
    1003,
    1004,
    1005,
    203,
    252,
    253,
    155,
    150,
    100,
    101,
    112,
    311,
    1009,
    1010,
    1011,
    1012,
)
"""Fields of DCGM that answers rest on, those first that most rest on. 230 is apart: without an Xid it has no row."""


@dataclass(frozen=True, slots=True)
class Found:
    """One result: ``subject`` is where, ``message`` what, ``values`` what the remedy's lines are made of."""

    subject: str
    message: str
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Check = Callable[[Survey], Iterable[Found]]


def shown(names: Iterable[str], most: int = SHOWN_MAX) -> str:
    """Some names, and how many more there are."""
    every = sorted(names)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" (+{more})" if more > 0 else "")


def source_unreachable(survey: Survey) -> Iterator[Found]:
    """A configured source that does not answer, or not with what it should."""
    for each in survey.clusters:
        if each.error is not None:
            yield Found(f"kubernetes/{each.name}", each.error)
    for job in survey.scrapes:
        if job.error is not None:
            yield Found(f"scrape/{job.name}", job.error)
        for reason, instances in _grouped(job.failed).items():
            message = _("{failed} of {count} targets: {reason}: {which}")
            yield Found(
                f"scrape/{job.name}",
                message.format(failed=len(instances), count=job.targets_count, reason=reason, which=shown(instances)),
            )
    for server in survey.prometheus:
        if server.error is not None:
            yield Found(f"prometheus/{server.name}", server.error)
    for log in survey.audit_logs:
        if log.error is not None:
            yield Found(f"audit_log/{log.name}", log.error)


def source_slow(survey: Survey) -> Iterator[Found]:
    """A source whose examination did not end in time."""
    for name in survey.unanswered:
        yield Found(name, _("no whole answer within the deadline"))


def probe_failed(survey: Survey) -> Iterator[Found]:
    """A mistake of this program while it looked at a source."""
    for name, fault in sorted(survey.faults.items()):
        yield Found(name, _("a mistake of this program ({fault})").format(fault=fault))


def kind_forbidden(survey: Survey) -> Iterator[Found]:
    """A kind that the account may not list or watch; one finding per cluster and API group."""
    for cluster in survey.clusters:
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for word, kind in sorted(cluster.kinds.items()):
            if kind.state == "forbidden":
                groups[kind.group].append((word, kind.plural))
        for group, kinds in groups.items():
            yield Found(
                f"kubernetes/{cluster.name}",
                _("may not be listed and watched: {kinds}").format(kinds=", ".join(word for word, _plural in kinds)),
                {"group": (group,), "resources": tuple(plural for _word, plural in kinds)},
            )


def kind_failed(survey: Survey) -> Iterator[Found]:
    """A kind that the cluster serves and that could not be read."""
    for cluster in survey.clusters:
        for word, kind in sorted(cluster.kinds.items()):
            if kind.state == "failed":
                yield Found(f"kubernetes/{cluster.name} {word}", kind.message or _("no answer"))


def no_cluster_there(survey: Survey) -> Iterator[Found]:
    """An address that answers and serves no pods."""
    for cluster in survey.clusters:
        kind = cluster.kinds.get("pods")
        if kind is not None and kind.state == "not_installed":
            yield Found(
                f"kubernetes/{cluster.name}", _("this address serves no pods: is it the API server of a cluster?")
            )


def clock_skew(survey: Survey) -> Iterator[Found]:
    """Clocks of API servers, Prometheus servers, nodes and exporters that differ from what they are compared with."""
    for cluster in survey.clusters:
        if _is_skewed(cluster.skew_us):
            yield Found(f"kubernetes/{cluster.name}", _("the API server's clock and ours differ by more than 5 s"))
        ahead = [node for node, skew in cluster.node_skews_us.items() if _is_skewed(skew)]
        if ahead:
            yield Found(
                f"kubernetes/{cluster.name}",
                _("clocks of nodes are more than 5 s ahead of the API server's: {nodes}").format(nodes=shown(ahead)),
            )
    for server in survey.prometheus:
        if _is_skewed(server.skew_us):
            yield Found(f"prometheus/{server.name}", _("its clock and ours differ by more than 5 s"))
    for job in survey.scrapes:
        wrong = [instance for instance, skew in job.skews_us.items() if _is_skewed(skew)]
        if wrong:
            yield Found(
                f"scrape/{job.name}", _("clocks differ from ours by more than 5 s: {which}").format(which=shown(wrong))
            )


def register_old(survey: Survey) -> Iterator[Found]:
    """HAMi registers of releases that tell less."""
    for name, encodings in _registers(survey):
        old = {form: count for form, count in encodings.items() if form in ("csv7", "csv9")}
        for form, count in sorted(old.items()):
            release = _("2.4 or before") if form == "csv7" else _("2.5 to 2.7")
            yield Found(
                name,
                ngettext(
                    "{count} node has a register of HAMi {release}",
                    "{count} nodes have a register of HAMi {release}",
                    count,
                ).format(count=count, release=release),
            )


def register_unknown(survey: Survey) -> Iterator[Found]:
    """HAMi registers in a form that no release is known to write."""
    for name, encodings in _registers(survey):
        if encodings.get("unknown"):
            yield Found(
                name,
                ngettext(
                    "a register of HAMi in an unknown form on {count} node",
                    "registers of HAMi in an unknown form on {count} nodes",
                    encodings["unknown"],
                ).format(count=encodings["unknown"]),
            )


def monitor_missing(survey: Survey) -> Iterator[Found]:
    """HAMi shares cards, and nothing of its monitor comes."""
    comes = "hami_monitor" in survey.families or (
        "monitor" in survey.stored.origins and ("partition_sample", "hami") in survey.stored.live
    )
    if uses_hami(survey) and survey.is_configured and not comes:
        yield Found("hami", _("HAMi shares cards here, and no metric of its monitor comes"))


def queue_metrics_missing(survey: Survey) -> Iterator[Found]:
    """A queue system is there, and its metrics are not."""
    if not survey.is_configured:
        return
    for system in sorted(queue_systems(survey) - survey.families - survey.stored.live_families):
        yield Found(
            system, _("{system} is in use, and none of its metrics come").format(system=system), {"system": (system,)}
        )


def names_unknown(survey: Survey) -> Iterator[Found]:
    """A Prometheus that cannot list its metrics."""
    for each in survey.prometheus:
        if each.error is None and not each.names_known:
            yield Found(f"prometheus/{each.name}", _("it does not list its metrics, so what is missing cannot be told"))


def no_gpu_metrics(survey: Survey) -> Iterator[Found]:
    """A Prometheus without a metric of DCGM, where none come by another way."""
    for each in survey.prometheus:
        if each.error is None and each.names_known and "dcgm" not in survey.families:
            yield Found(f"prometheus/{each.name}", _("it has no metric of dcgm-exporter"))


def retention_short(survey: Survey) -> Iterator[Found]:
    """A Prometheus that keeps less than the raw days of the settings, so that a back-fill reaches less far."""
    for each in survey.prometheus:
        if each.retention_us is not None and each.retention_us < survey.directory.raw_days * DAY_US:
            yield Found(
                f"prometheus/{each.name}",
                _("it keeps samples for {kept}, less than the {days} days of our settings").format(
                    kept=each.retention, days=survey.directory.raw_days
                ),
            )


def field_missing(survey: Survey) -> Iterator[Found]:
    """Fields of DCGM that an exporter has no row of, by number, whatever it calls them."""
    for name, metrics in survey.ways:
        groups: dict[tuple[tuple[int, ...], bool], list[str]] = defaultdict(list)
        for exporter in metrics.exporters:
            groups[missing_fields(exporter), exporter.current_names].append(exporter.key)
        for (numbers, current), keys in sorted(groups.items()):
            if numbers:
                yield Found(
                    f"{name} {shown(keys)}",
                    _("dcgm-exporter does not export DCGM {numbers}").format(numbers=", ".join(map(str, numbers))),
                    {"numbers": tuple(map(str, numbers)), "current": ("yes",) if current else ()},
                )


def missing_fields(exporter: ExporterSeen) -> tuple[int, ...]:
    """The wanted fields that it has no row of. Under MIG 203 does not exist, and 1001 stands for it."""
    has = set(exporter.fields)
    if exporter.instances and 1001 in has:
        has.add(203)
    return tuple(number for number in WANTED_FIELDS if number not in has)


def xid_not_seen(survey: Survey) -> Iterator[Found]:
    """No row of field 230, which newer exporters print only once an Xid was."""
    for name, metrics in survey.ways:
        without = [each.key for each in metrics.exporters if XID not in each.fields]
        if without:
            yield Found(
                f"{name} {shown(without)}",
                _("no row of DCGM 230 (Xid): it is not exported, or no Xid occurred yet; the two look alike"),
                {"numbers": (str(XID),)},
            )


def tenant_hidden(survey: Survey) -> Iterator[Found]:
    """The label ``pod`` of cards at work is the exporter's own pod, and no ``exported_pod`` says whose the card is."""
    for name, metrics in survey.ways:
        hidden = [each.key for each in metrics.exporters if each.shadowed and not each.named]
        if hidden:
            yield Found(
                f"{name} {shown(hidden)}",
                _("the label pod of cards at work is the exporter's own pod, and no exported_pod says whose they are"),
            )


def pod_labels_missing(survey: Survey) -> Iterator[Found]:
    """Cards at work whose rows name no pod at all."""
    for name, metrics in survey.ways:
        for each in metrics.exporters:
            unnamed = each.working - each.named
            if unnamed > 0 and not (each.shadowed and not each.named):
                message = ngettext(
                    "{count} of {working} cards at work names no pod",
                    "{count} of {working} cards at work name no pod",
                    unnamed,
                )
                yield Found(f"{name} {each.key}", message.format(count=unnamed, working=each.working))


def host_is_pod(survey: Survey) -> Iterator[Found]:
    """An exporter that gives its own pod's name as the host."""
    for name, metrics in survey.ways:
        wrong = [each.key for each in metrics.exporters if each.host_is_pod]
        if wrong:
            yield Found(f"{name} {shown(wrong)}", _("the host that dcgm-exporter names is its own pod, not the node"))


def exporters_doubled(survey: Survey) -> Iterator[Found]:
    """Two exporters that print the same cards, so that every sum over their series is double."""
    for name, metrics in survey.ways:
        for one, two, count in metrics.doubled:
            message = ngettext(
                "{count} card is exported by {other} too", "{count} cards are exported by {other} too", count
            )
            yield Found(f"{name} {one}", message.format(count=count, other=two))


def two_ways(survey: Survey) -> Iterator[Found]:
    """One card by two collectors."""
    ways = survey.ways
    for index, (name, metrics) in enumerate(ways):
        for other, others in ways[index + 1 :]:
            count = len(metrics.devices & others.devices)
            if count:
                message = ngettext(
                    "{count} card comes through {other} too", "{count} cards come through {other} too", count
                )
                yield Found(name, message.format(count=count, other=other))


def instances_missing(survey: Survey) -> Iterator[Found]:
    """GPU instances that are there and have no row: against what the store, the nodes and the exporter's other fields say."""
    for name, metrics in survey.ways:
        short: dict[str, tuple[int, int]] = {}
        by_node: dict[str, int] = defaultdict(int)
        for exporter in metrics.exporters:
            for (node, uuid), fields in exporter.instances.items():
                every = frozenset().union(*fields.values())
                seen = min(len(fields.get(number, ())) for number in PER_INSTANCE & fields.keys())
                expected = max(len(every), survey.stored.mig_expected.get(uuid, 0))
                if node is not None:
                    by_node[node] += len(every)
                if seen < expected:
                    short[uuid] = (expected, seen)
        for node, count in _nodes_with_instances(survey).items():
            if node in by_node and by_node[node] < count:
                short.setdefault(f"node {node}", (count, by_node[node]))
        for subject, (expected, seen) in sorted(short.items()):
            yield Found(
                f"{name} {subject}",
                _("GPU instances expected {expected}, seen {seen}").format(expected=expected, seen=seen),
            )


def audit_not_events(survey: Survey) -> Iterator[Found]:
    """A configured log that holds something else."""
    for each in survey.audit_logs:
        if each.error is None and each.refused_count and each.refused_count >= each.events_count:
            yield Found(f"audit_log/{each.name}", _("its lines are no audit events (audit.k8s.io) as JSON"))


def audit_empty(survey: Survey) -> Iterator[Found]:
    """A log without a single event."""
    for each in survey.audit_logs:
        if each.error is None and not each.events_count and not each.refused_count:
            yield Found(f"audit_log/{each.name}", _("there is no event in it"))


def audit_stage_missing(survey: Survey) -> Iterator[Found]:
    """A policy that leaves out the stage at which a request has its answer, or the one at which it came."""
    for each in survey.audit_logs:
        missing = [stage for stage in ("RequestReceived", "ResponseComplete") if stage not in each.stages]
        if each.events_count and missing:
            yield Found(f"audit_log/{each.name}", _("no event of stage {stages}").format(stages=", ".join(missing)))


def audit_level_low(survey: Survey) -> Iterator[Found]:
    """Only metadata: what a binding or a change of quota said is not in it."""
    for each in survey.audit_logs:
        if each.events_count and each.levels <= {"Metadata", "None"}:
            yield Found(
                f"audit_log/{each.name}", _("all events are of level Metadata: what was changed stands in none")
            )


def tokens_none(survey: Survey) -> Iterator[Found]:
    """Nobody can push or ask from another machine."""
    if survey.stored.tokens_valid == 0 and survey.is_configured:
        yield Found("tokens", _("there is no valid token: nobody but the owner on this machine can ask or push"))


def disk_full(survey: Survey) -> Iterator[Found]:
    """No space for another round."""
    free = survey.directory.free_bytes
    if free is not None and free < FREE_BYTES_MIN:
        yield Found("data", _("less than {mib} MiB are free").format(mib=FREE_BYTES_MIN >> 20))


def disk_short(survey: Survey) -> Iterator[Found]:
    """Less space than raw samples will take until retention reduces them, at the pace of the days so far."""
    seen, days = survey.directory, survey.stored.observed_days
    if seen.free_bytes is None or not seen.store_bytes or days is None or days < GROWTH_DAYS_MIN:
        return
    needed = seen.store_bytes / days * max(0.0, seen.raw_days - days)
    if FREE_BYTES_MIN <= seen.free_bytes < needed:
        yield Found(
            "data", _("at the pace so far, the {days} days of raw samples will not fit").format(days=seen.raw_days)
        )


def backup_missing(survey: Survey) -> Iterator[Found]:
    """Collected facts that no backup holds, or only one of more than a week ago."""
    if survey.directory.is_demo or survey.stored.observed_days is None:
        return
    at = survey.directory.backup_at
    if at is None:
        yield Found("data", _("no backup of it is known"))
    elif survey.now - at > BACKUP_MAX_US:
        yield Found("data", _("the last backup is more than 7 days old"))


def store_unreadable(survey: Survey) -> Iterator[Found]:
    """A store that could not be looked at."""
    if survey.stored.error is not None:
        yield Found("data", survey.stored.error)


def demo_directory(survey: Survey) -> Iterator[Found]:
    """A simulated estate, which no real source may be collected into."""
    if survey.directory.is_demo:
        yield Found("data", _("a simulated estate: nothing real is collected into it"))


def not_posted(survey: Survey) -> Iterator[Found]:
    """Facts without ledgers."""
    if survey.stored.has_data and not survey.stored.posted and survey.stored.error is None:
        yield Found("data", _("facts are there, and the ledgers do not follow them"))


def nothing_there(survey: Survey) -> Iterator[Found]:
    """Neither data nor a source."""
    if not survey.stored.has_data and not survey.is_configured:
        yield Found("data", _("there is no data, and no source is configured"))


CHECKS: Final[Mapping[str, Check]] = {
    check.__name__: check
    for check in (
        store_unreadable, source_unreachable, source_slow, probe_failed, no_cluster_there, kind_forbidden, kind_failed, audit_not_events, disk_full,
        nothing_there, demo_directory, not_posted, clock_skew, tenant_hidden, pod_labels_missing, exporters_doubled, two_ways,
        instances_missing, host_is_pod,
        field_missing, xid_not_seen, no_gpu_metrics, names_unknown, retention_short, monitor_missing, queue_metrics_missing, register_old,
        register_unknown, audit_empty, audit_stage_missing, audit_level_low, tokens_none, disk_short, backup_missing,
    )
}  # fmt: skip
"""Every check by its id."""


def _is_skewed(skew_us: DurationUs | None) -> bool:
    return skew_us is not None and abs(skew_us) > SKEW_MAX_US


def _grouped(failed: Mapping[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for instance, reason in sorted(failed.items()):
        groups[reason].append(instance)
    return dict(sorted(groups.items()))


def _registers(survey: Survey) -> Iterator[tuple[str, Mapping[str, int]]]:
    live = [(f"kubernetes/{each.name}", each.encodings) for each in survey.clusters if each.hami is not None]
    yield from live or [("stored", survey.stored.encodings)]


def _nodes_with_instances(survey: Survey) -> Mapping[str, int]:
    return {node: count for cluster in survey.clusters for node, count in cluster.mig_by_node.items()}
