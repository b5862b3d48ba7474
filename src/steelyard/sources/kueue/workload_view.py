"""A Workload object parsed once, from v1beta1 and v1beta2 alike.

The trick to know: the versions differ in names (``priorityClassName`` or ``priorityClassRef``, a misspelt ``accumulatedPastExexcutionTimeSeconds``,
two encodings of a topology assignment), and nobody says which one a dump has, so each field is looked for under all its names.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.kueue.topology import Placement, placement_of
from steelyard.sources.shared.object_changes import safe
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of
from steelyard.sources.shared.resource_amounts import amounts_of, scaled, summed, template_amounts

GROUP: Final = "kueue.x-k8s.io"
SOURCE: Final = "kueue"
NAME_CHARACTERS_MAX: Final = 316
ROWS_MAX: Final = 64
OWNERS_MAX: Final = 1_024
COUNT_MAX: Final = 2**31
_SECOND_US: Final = 1_000_000
_PAST_RUN_MAX: Final = 2**40


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition as it stands."""

    type: str
    status: str
    reason: str | None
    message: str | None
    at: Instant | None

    @property
    def is_true(self) -> bool:
        """Whether its status is ``True``."""
        return self.status == "True"


@dataclass(frozen=True, slots=True)
class Check:
    """One admission check of a workload: state ``Pending``, ``Ready``, ``Retry`` or ``Rejected``."""

    name: str
    state: str
    message: str | None
    at: Instant | None


@dataclass(frozen=True, slots=True)
class PodSet:
    """``count`` equal pods (None: not readable). per_pod: what each asks for, in thousandths; None where a quantity cannot be read."""

    name: str
    count: int | None
    min_count: int | None
    per_pod: Mapping[str, int] | None
    topology: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the admission gave one pod set: flavors by resource, the usage of all its pods before any was given back, and where they go."""

    name: str
    count: int | None
    flavors: Mapping[str, str]
    usage: Mapping[str, int]
    placement: Placement | None


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """One Workload. uid: ``name:<namespace>/<name>`` where it has none. cluster_queue, assignments: of its admission, which stays on the
    object after its end. reclaimable: pods given back, by pod set. problems: what cannot be read, in words."""

    uid: str
    namespace: str
    name: str
    has_uid: bool
    created_at: Instant | None
    deletion_at: Instant | None
    owners: Sequence[Mapping[str, str]]
    owners_count: int
    controller: Mapping[str, str]
    job_uid: str | None
    queue: str | None
    priority: int | None
    priority_class: str | None
    priority_class_kind: str | None
    active: bool
    run_seconds_max: int | None
    pod_sets: Sequence[PodSet]
    cluster_queue: str | None
    assignments: Sequence[Assignment]
    reclaimable: Mapping[str, int]
    conditions: Mapping[str, Condition]
    checks: Sequence[Check]
    requested: Mapping[str, int] | None
    requeue_count: int | None
    requeue_at: Instant | None
    evictions: Sequence[Mapping[str, Any]]
    past_run_us: int | None
    clusters: Mapping[str, Any]
    unhealthy_nodes: Sequence[str]
    gates: Sequence[str]
    problems: list[str] = field(default_factory=list)

    @property
    def subject(self) -> str:
        """How findings name it."""
        return f"workload {self.namespace}/{self.name}"

    def condition(self, name: str) -> Condition | None:
        """The condition of this type, where it is there."""
        return self.conditions.get(name)

    def is_true(self, name: str) -> bool:
        """Whether the condition of this type is there and ``True``."""
        condition = self.conditions.get(name)
        return condition is not None and condition.is_true

    @property
    def is_finished(self) -> bool:
        """Whether it has ended; its admission then holds nothing any more."""
        return self.is_true("Finished")


def parse_workload(payload: Mapping[str, Any]) -> WorkloadView:
    """A Workload as a view. Raises SourceMalformed where it has no name; every lesser trouble is in ``problems``."""
    metadata, spec, status = (mapping_of(payload.get(key)) for key in ("metadata", "spec", "status"))
    name = name_of(metadata.get("name"))
    if name is None:
        raise SourceMalformed("expected metadata.name in a Workload, found none", excerpt=reprlib.repr(metadata))
    problems: list[str] = []
    namespace, uid = name_of(metadata.get("namespace")) or "default", name_of(metadata.get("uid"))
    owners, owners_count, controller = _owners(metadata)
    admission, requeue = mapping_of(status.get("admission")), mapping_of(status.get("requeueState"))
    priority_class, kind = _priority_class(spec)
    return WorkloadView(
        uid=uid or f"name:{namespace}/{name}",
        namespace=namespace,
        name=name,
        has_uid=uid is not None,
        created_at=instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp"),
        deletion_at=instant_of(metadata.get("deletionTimestamp"), problems, "metadata.deletionTimestamp"),
        owners=owners,
        owners_count=owners_count,
        controller=controller,
        job_uid=name_of(mapping_of(metadata.get("labels")).get("kueue.x-k8s.io/job-uid")),
        queue=name_of(spec.get("queueName")),
        priority=integer_of(spec.get("priority")),
        priority_class=priority_class,
        priority_class_kind=kind,
        active=spec.get("active") is not False,
        run_seconds_max=integer_of(spec.get("maximumExecutionTimeSeconds")),
        pod_sets=[_pod_set(row, problems) for row in list_of(spec.get("podSets"))[:ROWS_MAX]],
        cluster_queue=name_of(admission.get("clusterQueue")),
        assignments=[_assignment(row, problems) for row in list_of(admission.get("podSetAssignments"))[:ROWS_MAX]],
        reclaimable=_reclaimable(status),
        conditions={each.type: each for each in conditions_of(status)},
        checks=list(_checks(status)),
        requested=_requested(status, problems),
        requeue_count=integer_of(requeue.get("count")),
        requeue_at=instant_of(requeue.get("requeueAt"), problems, "requeueState.requeueAt"),
        evictions=list(_evictions(status)),
        past_run_us=_past_run(status, problems),
        clusters=_clusters(status),
        unhealthy_nodes=_names(list_of(status.get("unhealthyNodes"))),
        gates=_names(list_of(spec.get("preemptionGates"))),
        problems=problems,
    )


def name_of(value: object) -> str | None:
    """A name that a column can hold; None where it is none."""
    return safe(value) if isinstance(value, str) and value else None


def conditions_of(status: Mapping[str, Any]) -> Iterator[Condition]:
    """The conditions of a status; an unreadable stamp is None (the reader of changes reports it)."""
    ignored: list[str] = []
    for row in list_of(status.get("conditions"))[:ROWS_MAX]:
        name, value = name_of(row.get("type")), name_of(row.get("status"))
        if name is not None and value is not None:
            at = instant_of(row.get("lastTransitionTime"), ignored, name)
            message = text_of(row.get("message"))
            yield Condition(name, value, name_of(row.get("reason")), plain(message[:8_192]) if message else None, at)


def count_of(value: object) -> int | None:
    """A number of pods between 0 and 2^31; None where it is none."""
    count = integer_of(value)
    return count if count is not None and 0 <= count <= COUNT_MAX else None


def _owners(metadata: Mapping[str, Any]) -> tuple[list[Mapping[str, str]], int, Mapping[str, str]]:
    """The owners, how many there are, and the one that controls it: a pod group's are its pods, and the first stands for them."""
    rows = list_of(metadata.get("ownerReferences"))
    controlling = next((row for row in rows if row.get("controller") is True), rows[0] if rows else {})
    return [_owner(row) for row in rows[:OWNERS_MAX]], len(rows), _owner(controlling)


def _owner(row: Mapping[str, Any]) -> Mapping[str, str]:
    return {key: text for key in ("kind", "name", "uid") if (text := name_of(row.get(key)))}


def _priority_class(spec: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(name, kind) under either version's names."""
    ref = mapping_of(spec.get("priorityClassRef"))
    if ref:
        return name_of(ref.get("name")), name_of(ref.get("kind"))
    source = text_of(spec.get("priorityClassSource"))
    kinds = {
        "kueue.x-k8s.io/workloadpriorityclass": "WorkloadPriorityClass",
        "scheduling.k8s.io/priorityclass": "PriorityClass",
    }
    return name_of(spec.get("priorityClassName")), kinds.get(source or "")


def _pod_set(row: Mapping[str, Any], problems: list[str]) -> PodSet:
    name = name_of(row.get("name")) or "main"
    count = count_of(row.get("count"))
    if count is None:
        problems.append(f"podSets.{name}: expected a count of pods; found {reprlib.repr(row.get('count'))}")
    before = len(problems)
    per_pod = template_amounts(mapping_of(row.get("template")).get("spec"), problems, f"podSets.{name}")
    request = mapping_of(row.get("topologyRequest"))
    topology = {key: text for key in ("required", "preferred") if (text := name_of(request.get(key)))}
    if request.get("unconstrained") is True:
        topology["unconstrained"] = "true"
    return PodSet(name, count, count_of(row.get("minCount")), per_pod if len(problems) == before else None, topology)


def _assignment(row: Mapping[str, Any], problems: list[str]) -> Assignment:
    name = name_of(row.get("name")) or "main"
    flavors = {
        plain(resource[:NAME_CHARACTERS_MAX]): flavor
        for resource, value in list(mapping_of(row.get("flavors")).items())[:ROWS_MAX]
        if isinstance(resource, str) and (flavor := name_of(value))
    }
    usage = amounts_of(row.get("resourceUsage"), problems, f"podSetAssignments.{name}.resourceUsage")
    placement = placement_of(mapping_of(row.get("topologyAssignment")), problems, name)
    return Assignment(name, count_of(row.get("count")), flavors, usage, placement)


def _reclaimable(status: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in list_of(status.get("reclaimablePods"))[:ROWS_MAX]:
        count = count_of(row.get("count"))
        if count is not None:
            found[name_of(row.get("name")) or "main"] = count
    return found


def _checks(status: Mapping[str, Any]) -> Iterator[Check]:
    ignored: list[str] = []
    for row in list_of(status.get("admissionChecks"))[:ROWS_MAX]:
        name, state = name_of(row.get("name")), name_of(row.get("state"))
        if name is not None and state is not None:
            message = text_of(row.get("message"))
            at = instant_of(row.get("lastTransitionTime"), ignored, name)
            yield Check(name, state, plain(message[:4_096]) if message else None, at)


def _requested(status: Mapping[str, Any], problems: list[str]) -> dict[str, int] | None:
    """What Kueue itself reckons the workload asks for, while it is not admitted; None where the status does not say."""
    rows = list_of(status.get("resourceRequests"))[:ROWS_MAX]
    parts = [amounts_of(row.get("resources"), problems, "resourceRequests") for row in rows]
    return summed(parts, problems, "resourceRequests") if rows else None


def _evictions(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for row in list_of(mapping_of(status.get("schedulingStats")).get("evictions"))[:ROWS_MAX]:
        reason, count = name_of(row.get("reason")), integer_of(row.get("count"))
        if reason is not None and count is not None:
            yield {"reason": reason, "cause": name_of(row.get("underlyingCause")), "count": count}


def _past_run(status: Mapping[str, Any], problems: list[str]) -> int | None:
    """Run time of earlier admissions in microseconds; v1beta1 misspells the field."""
    for key in ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"):
        if key in status:
            seconds = integer_of(status[key])
            if seconds is not None and 0 <= seconds < _PAST_RUN_MAX:
                return seconds * _SECOND_US
            problems.append(f"{key}: expected whole seconds; found {reprlib.repr(status[key])}")
    return None


def _clusters(status: Mapping[str, Any]) -> dict[str, Any]:
    """Of MultiKueue: the cluster that it runs in and those that it may run in."""
    found: dict[str, Any] = {}
    if cluster := name_of(status.get("clusterName")):
        found["cluster"] = cluster
    nominated = status.get("nominatedClusterNames")
    if isinstance(nominated, list) and nominated:
        found["nominated_clusters"] = [name for each in nominated[:ROWS_MAX] if (name := name_of(each))]
    return found


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for row in rows[:ROWS_MAX] if (name := name_of(row.get("name")))]


def after_reclaim(view: WorkloadView, assignment: Assignment, problems: list[str]) -> Mapping[str, int]:
    """What an assignment holds after pods were given back: usage / count x (count - reclaimable). More given back than there were is a
    problem, and nothing is then held."""
    given_back = view.reclaimable.get(assignment.name, 0)
    if not given_back or not assignment.count:
        return assignment.usage
    left = assignment.count - given_back
    if left < 0:
        problems.append(f"reclaimablePods.{assignment.name}: {given_back} of {assignment.count} pods")
        left = 0
    count = assignment.count
    return {resource: milli * left // count for resource, milli in assignment.usage.items()}


def asked_for(view: WorkloadView) -> Mapping[str, int] | None:
    """What all its pods ask for by their templates; None where a count or a quantity cannot be read, or 64 bits do not hold the sum."""
    before = len(view.problems)
    parts: list[Mapping[str, int]] = []
    for pod_set in view.pod_sets:
        if pod_set.count is None or pod_set.per_pod is None:
            return None
        parts.append(scaled(pod_set.per_pod, pod_set.count, view.problems, f"podSets.{pod_set.name}"))
    total = summed(parts, view.problems, "podSets")
    return total if len(view.problems) == before else None
