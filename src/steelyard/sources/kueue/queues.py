"""Kueue's queues and what they are made of: ClusterQueue, LocalQueue, Cohort, ResourceFlavor, AdmissionCheck, WorkloadPriorityClass, Topology.

``app`` calls ``read_queue`` per object, from files and from a watch alike. The trick to know: a status is a claim. Kueue freezes the counters of a
queue that is being deleted and keeps the usage of a local queue whose cluster queue is gone; such claims are kept as said, with a finding.

Sceptic's command: ``kubectl get clusterqueue QUEUE -o jsonpath='{.spec.resourceGroups}{.status}'``.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, format_instant
from steelyard.sources.kueue.workload_view import SOURCE, Condition, conditions_of, name_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of
from steelyard.sources.shared.resource_amounts import amount_of, summed

QUEUE_KINDS: Final[Mapping[str, str]] = {
    "ClusterQueue": "cluster_queue",
    "LocalQueue": "local_queue",
    "Cohort": "cohort",
    "ResourceFlavor": "flavor",
    "AdmissionCheck": "admission_check",
    "WorkloadPriorityClass": "priority_class",
    "Topology": "topology",
}
ROWS_MAX: Final = 512
POLICY_BYTES_MAX: Final = 32 << 10
_POLICY_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "ClusterQueue": (
        "preemption",
        "flavorFungibility",
        "namespaceSelector",
        "admissionChecks",
        "admissionChecksStrategy",
        "admissionScope",
        "fairSharing",
    ),
    "LocalQueue": ("fairSharing",),
    "Cohort": ("fairSharing",),
    "ResourceFlavor": ("nodeLabels", "nodeTaints", "tolerations", "topologyName"),
    "AdmissionCheck": ("controllerName", "parameters"),
    "Topology": ("levels",),
}
"""What of a spec a rule audit needs."""

_LIMITS: Final = (
    ("nominal", "nominalQuota"),
    ("borrowing_limit", "borrowingLimit"),
    ("lending_limit", "lendingLimit"),
)
_MISSING_FLAVORS: Final = re.compile(r"missing ResourceFlavor\(s\): ([^.;\n]{1,2048})")
_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode


@dataclass(slots=True)
class _Amounts:
    """What is said of one resource under one flavor."""

    nominal_milli: int | None = None
    borrowing_limit_milli: int | None = None
    lending_limit_milli: int | None = None
    reserved_milli: int | None = None
    used_milli: int | None = None
    borrowed_milli: int | None = None
    refused: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Object:
    """One queue object, parsed."""

    kind: str
    key: str
    name: str
    namespace: str | None
    parent: str | None
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    created_at: Instant | None
    deletion_at: Instant | None
    active: Condition | None
    problems: list[str] = field(default_factory=list)

    @property
    def subject(self) -> str:
        """How findings name it."""
        return f"{self.kind.lower()} {self.namespace + '/' if self.namespace else ''}{self.name}"


def read_queue(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One Queue, one Quota per flavor and resource that its spec or its status names, and findings.

    Unknown: a limit that is not set is None, as is a quantity that cannot be read (finding ``queue_malformed``; a
    limit is then among ``refused``). Codes beside it:
    ``inactive_cluster_queue``, ``flavor_message_mismatch``, ``stale_cluster_queue_status``, ``stale_local_queue_status``. Raises
    SourceMalformed where the object has no name.
    """
    found = _parse(payload, kind)
    yield _queue(found, payload, ctx)
    amounts = _amounts(found)
    for (flavor, resource), each in amounts.items():
        yield _quota(found, flavor, resource, each, ctx)
    yield from _contradictions(found, amounts, ctx)
    if found.problems:
        text = "; ".join(found.problems[:3])
        evidence = {"problems": found.problems[:20], "count": len(found.problems)}
        yield ctx.finding(SOURCE, "queue_malformed", found.subject, text, evidence=evidence)


def _parse(payload: Mapping[str, Any], kind: str) -> _Object:
    metadata, spec, status = (mapping_of(payload.get(key)) for key in ("metadata", "spec", "status"))
    name = name_of(metadata.get("name"))
    if name is None:
        raise SourceMalformed(f"expected metadata.name in a {kind[:80]}, found none", excerpt=reprlib.repr(metadata))
    namespace = (name_of(metadata.get("namespace")) or "default") if kind == "LocalQueue" else None
    problems: list[str] = []
    return _Object(
        kind=kind,
        key=name_of(metadata.get("uid")) or f"name:{kind}/{namespace or ''}/{name}",
        name=name,
        namespace=namespace,
        parent=_parent(kind, spec),
        spec=spec,
        status=status,
        created_at=instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp"),
        deletion_at=instant_of(metadata.get("deletionTimestamp"), problems, "metadata.deletionTimestamp"),
        active=next((each for each in conditions_of(status) if each.type == "Active"), None),
        problems=problems,
    )


def _parent(kind: str, spec: Mapping[str, Any]) -> str | None:
    """What it draws on, under either version's name."""
    keys = {
        "ClusterQueue": ("cohortName", "cohort"),
        "LocalQueue": ("clusterQueue",),
        "Cohort": ("parentName", "parent"),
    }.get(kind, ())
    return next((name for key in keys if (name := name_of(spec.get(key)))), None)


def _queue(found: _Object, payload: Mapping[str, Any], ctx: ReadContext) -> Queue:
    spec, status, active = found.spec, found.status, found.active
    value = integer_of(payload.get("value")) if found.kind == "WorkloadPriorityClass" else None
    return Queue(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=found.key,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        queue_kind=QUEUE_KINDS[found.kind],
        queue=found.name,
        namespace=found.namespace,
        parent=found.parent,
        strategy=name_of(spec.get("queueingStrategy")),
        weight_milli=_amount(mapping_of(spec.get("fairSharing")), "weight", found.problems),
        priority=value,
        state=_state(found),
        state_reason=active.reason if active is not None else None,
        state_message=active.message[:4_096] if active is not None and active.message else None,
        stop_policy=name_of(spec.get("stopPolicy")),
        policies=_policies(found),
        created_at=found.created_at,
        deletion_at=found.deletion_at,
        pending_claimed=integer_of(status.get("pendingWorkloads")),
        reserving_claimed=integer_of(status.get("reservingWorkloads")),
        admitted_claimed=integer_of(status.get("admittedWorkloads")),
    )


def _state(found: _Object) -> str:
    if found.deletion_at is not None:
        return "closing"
    if found.active is None:
        return "unknown"
    return {"True": "active", "False": "inactive"}.get(found.active.status, "unknown")


def _policies(found: _Object) -> str:
    """The rules as written, and the order of flavors that assignment goes by; what is too large is left out and named."""
    kept: dict[str, Any] = {}
    cut: list[str] = []
    rules = {key: found.spec[key] for key in _POLICY_KEYS.get(found.kind, ()) if key in found.spec}
    share = mapping_of(found.status.get("fairSharing")).get("weightedShare")
    groups = [
        {"resources": _names(group.get("coveredResources")), "flavors": [name for name, _row in _flavors(group)]}
        for group in list_of(found.spec.get("resourceGroups"))[:ROWS_MAX]
    ]
    if integer_of(share) is not None:
        rules["weightedShare"] = share
    if groups:
        rules["groups"] = groups
    for key, value in rules.items():
        try:
            fits = len(_ENCODE(value)) <= POLICY_BYTES_MAX
        except (RecursionError, UnicodeEncodeError, OverflowError, TypeError, ValueError):
            fits = False
        if fits:
            kept[key] = value
        else:
            cut.append(key)
    if cut:
        kept["cut"] = cut
    return plain(_ENCODE(kept).decode()) if kept else "{}"


def _names(value: object) -> list[str]:
    return [name for each in value[:ROWS_MAX] if (name := name_of(each))] if isinstance(value, list) else []


def _flavors(row: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for flavor in list_of(row.get("flavors"))[:ROWS_MAX]:
        if name := name_of(flavor.get("name")):
            yield name, flavor


def _amounts(found: _Object) -> dict[tuple[str, str], _Amounts]:
    """Per flavor and resource: the spec's limits, and what the status claims. ``flavorUsage`` is a local queue's ``flavorsUsage`` in v1beta1."""
    amounts: dict[tuple[str, str], _Amounts] = {}

    def of(flavor: str, row: Mapping[str, Any]) -> _Amounts | None:
        resource = name_of(row.get("name"))
        if resource is None or (len(amounts) >= ROWS_MAX and (flavor, resource) not in amounts):
            return None
        return amounts.setdefault((flavor, resource), _Amounts())

    problems = found.problems
    for group in list_of(found.spec.get("resourceGroups"))[:ROWS_MAX]:
        for flavor, rows in _flavors(group):
            for row in list_of(rows.get("resources"))[:ROWS_MAX]:
                if (each := of(flavor, row)) is not None:
                    for name, key in _LIMITS:
                        milli = _amount(row, key, problems)
                        setattr(each, f"{name}_milli", milli)
                        if milli is None and row.get(key) is not None:
                            each.refused.add(name)
    usage = found.status.get("flavorsUsage") or found.status.get("flavorUsage")
    for listed, is_usage in ((found.status.get("flavorsReservation"), False), (usage, True)):
        for flavor, rows in _flavors({"flavors": listed}):
            for row in list_of(rows.get("resources"))[:ROWS_MAX]:
                if (each := of(flavor, row)) is not None:
                    if is_usage:
                        each.used_milli = _amount(row, "total", problems)
                        each.borrowed_milli = _amount(row, "borrowed", problems)
                    else:
                        each.reserved_milli = _amount(row, "total", problems)
    return amounts


def _amount(row: Mapping[str, Any], key: str, problems: list[str]) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        return amount_of(str(row.get("name")), value)
    except ValueError as error:
        problems.append(f"{key}: {error}")
        return None


def _quota(found: _Object, flavor: str, resource: str, amounts: _Amounts, ctx: ReadContext) -> Quota:
    return Quota(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{found.key}/{flavor}/{resource}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        queue_kind=QUEUE_KINDS[found.kind],
        queue=found.name,
        namespace=found.namespace,
        parent=found.parent,
        flavor=flavor,
        resource=resource,
        nominal_milli=amounts.nominal_milli,
        borrowing_limit_milli=amounts.borrowing_limit_milli,
        lending_limit_milli=amounts.lending_limit_milli,
        reserved_milli=amounts.reserved_milli,
        used_milli=amounts.used_milli,
        borrowed_milli=amounts.borrowed_milli,
        refused=",".join(sorted(amounts.refused)) or None,
    )


def _contradictions(found: _Object, amounts: Mapping[tuple[str, str], _Amounts], ctx: ReadContext) -> Iterator[Fact]:
    if found.kind == "ClusterQueue":
        yield from _cluster_queue_contradictions(found, ctx)
    elif found.kind == "LocalQueue":
        yield from _local_queue_contradictions(found, amounts, ctx)


def _cluster_queue_contradictions(found: _Object, ctx: ReadContext) -> Iterator[Fact]:
    active, status = found.active, found.status
    claims = {
        key: count
        for key, field_name in (
            ("pending_workloads_claimed_count", "pendingWorkloads"),
            ("reserving_workloads_claimed_count", "reservingWorkloads"),
            ("admitted_workloads_claimed_count", "admittedWorkloads"),
        )
        if (count := integer_of(status.get(field_name))) is not None
    }
    if found.deletion_at is not None and any(claims.values()):
        deleted = format_instant(found.deletion_at)
        text = "the queue is being deleted, and its status still counts workloads: the counters stopped then"
        evidence: dict[str, Any] = {"deletion_utc": deleted, "active": active.status if active else None, **claims}
        yield ctx.finding(SOURCE, "stale_cluster_queue_status", found.subject, text, evidence=evidence)
    if active is None or active.status != "False" or active.reason == "Terminating":
        return
    since = format_instant(active.at) if active.at is not None else None
    text = f"the queue admits nothing: {active.reason}"
    evidence = {
        "reason": active.reason,
        "message": active.message,
        "since_utc": since,
        "stop_policy": text_of(found.spec.get("stopPolicy")),
    }
    yield ctx.finding(SOURCE, "inactive_cluster_queue", found.subject, text, evidence=evidence)
    named = _MISSING_FLAVORS.search(active.message or "")
    if named is not None:
        missing = sorted({name.strip() for name in named.group(1).split(",") if name.strip()})
        groups = list_of(found.spec.get("resourceGroups"))[:ROWS_MAX]
        referred = sorted({name for group in groups for name, _row in _flavors(group)})
        strangers = [name for name in missing if name not in referred]
        if strangers:
            text = f"its status misses the flavor {strangers[0]}, which its spec does not name"
            evidence = {"missing_by_message": missing, "referred_by_spec": referred}
            yield ctx.finding(SOURCE, "flavor_message_mismatch", found.subject, text, evidence=evidence)


def _local_queue_contradictions(
    found: _Object, amounts: Mapping[tuple[str, str], _Amounts], ctx: ReadContext
) -> Iterator[Fact]:
    active = found.active
    claims = (
        (resource, max(each.used_milli or 0, each.reserved_milli or 0)) for (_flavor, resource), each in amounts.items()
    )
    claimed = summed([{resource: milli} for resource, milli in claims if milli], found.problems, "status")
    if active is None or active.status != "False" or active.reason != "ClusterQueueDoesNotExist" or not claimed:
        return
    gone = found.parent or "?"
    yield ctx.finding(
        SOURCE,
        "stale_local_queue_status",
        found.subject,
        f"its cluster queue {gone} does not exist, and its status still claims usage: nothing can be used of a queue that is gone",
        evidence={
            "reason": active.reason,
            "cluster_queue": found.parent,
            "claimed_milli": claimed,
            "true_milli": dict.fromkeys(claimed, 0),
            "since_utc": format_instant(active.at) if active.at is not None else None,
        },
    )
