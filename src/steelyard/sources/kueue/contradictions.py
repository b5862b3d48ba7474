"""Where Kueue's objects, its events and the pods contradict each other.

``app`` gives ``KueueWords`` each fact that the other readers of this folder made, and each pod; ``findings`` then says what does not agree. Kept is
the little that the comparisons need, by uid, so that a watch can forget what is gone. The trick to know: that an object is missing can only be
said where all objects of its kind were listed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.facts.preemption import Preemption
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.primitives.instant import Instant, format_instant
from steelyard.sources.kueue.conditions import BEFORE, CONDITION, SECOND_US
from steelyard.sources.kueue.events import VICTIM_EVENT
from steelyard.sources.kueue.workload_view import SOURCE, name_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, list_of, mapping_of
from steelyard.sources.shared.resource_amounts import is_accelerator

PASSING: Final = frozenset(
    {
        "overlapping_nodes",
        "queue_counters_mismatch",
        "queue_counters_without_objects",
        "reclaimable_pods_stale",
        "reservation_kept_after_rejection",
        "workload_missing_for_kueue_pod",
        "workload_object_missing",
    }
)
"""Codes that a cluster in motion shows for a moment, while its status catches up: a watch believes them when it finds them twice."""

KEPT_MAX: Final = 200_000
SHOWN_MAX: Final = 16
_LABEL: Final = "kueue.x-k8s.io/"
_WORKLOAD: Final = f"{_LABEL}workload"
_GATE: Final = f"{_LABEL}admission"
_ENDED: Final = frozenset({"Succeeded", "Failed"})

Name = tuple[str, str]


class _Workload(NamedTuple):
    """Of a Gang what the comparisons need. pods_held: by its assignments, after reclaim; None where none or no count. refused: checks that say
    no, with their state."""

    uid: str
    name: Name
    created_at: Instant | None
    local_queue: str | None
    cluster_queue: str | None
    is_finished: bool
    is_active: bool
    is_admitted: bool
    owners: tuple[str, ...]
    owner: tuple[str | None, str | None]
    nodes: tuple[str, ...]
    flavors: tuple[str, ...]
    pods_held: int | None
    reclaimable: int
    refused: tuple[tuple[str, str], ...]
    is_reserved: bool
    held: str


class _Pod(NamedTuple):
    """Of a pod that Kueue has to do with."""

    uid: str
    name: Name
    phase: str
    node: str | None
    workload: str | None
    group: str | None
    owner: str | None
    job: tuple[tuple[str, str], ...]
    is_managed: bool
    is_gated: bool
    created_at: Instant | None
    is_leaving: bool


class _Queue(NamedTuple):
    """Of a Queue and its Quotas. used: whether any use is claimed; None where no quota was told."""

    kind: str
    name: str
    namespace: str | None
    parent: str | None
    pending: int | None
    reserving: int | None
    admitted: int | None


@dataclass(slots=True)
class KueueWords:
    """What was seen of Kueue's words so far. All by uid, the latest sighting of each."""

    _workloads: dict[str, _Workload] = field(default_factory=dict)
    _queues: dict[str, _Queue] = field(default_factory=dict)
    _used: Counter[str] = field(default_factory=Counter)
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _preemptions: dict[str, Preemption] = field(default_factory=dict)
    _addressed: dict[tuple[Name, str], Instant] = field(default_factory=dict)

    def note(self, fact: Fact) -> bool:
        """Keep of a fact of Kueue's what the comparisons need; False where it is none of Kueue's."""
        if fact.source != SOURCE:
            return False
        if isinstance(fact, Gang):
            self._keep(self._workloads, fact.object_uid, _workload(fact))
        elif isinstance(fact, Queue):
            row = _Queue(
                fact.queue_kind,
                fact.queue,
                fact.namespace,
                fact.parent,
                fact.pending_claimed,
                fact.reserving_claimed,
                fact.admitted_claimed,
            )
            self._keep(self._queues, fact.natural_key, row)
            self._used.pop(fact.natural_key, None)
        elif (
            isinstance(fact, Quota) and fact.queue_kind == "cluster_queue" and (fact.used_milli or fact.reserved_milli)
        ):
            self._used[fact.natural_key.partition("/")[0]] += 1
        elif isinstance(fact, Preemption) and fact.victim_kind == "Workload":
            is_latest = fact.evidence == CONDITION and fact.victim_uid is not None
            self._keep(self._preemptions, fact.victim_uid or "" if is_latest else fact.natural_key, fact)
        elif isinstance(fact, Decision) and fact.evidence == "event" and fact.subject_kind == "Workload":
            self._note_address(fact)
        return True

    def _note_address(self, fact: Decision) -> None:
        if fact.subject_uid and fact.subject_name:
            key = ((fact.namespace or "default", fact.subject_name), fact.subject_uid)
            first = fact.first_at if fact.first_at is not None else fact.occurred_at
            if key in self._addressed or len(self._addressed) < KEPT_MAX:
                self._addressed[key] = min(first, self._addressed.get(key, first))

    def note_pod(self, view: PodView) -> bool:
        """Keep a pod, where Kueue has to do with it; False where it has not."""
        workload = view.annotations.get(_WORKLOAD)
        is_gated = view.phase == "Pending" and _is_gated(view)
        if workload is None and not is_gated and not _has_label(view):
            return False
        jobs = (("Job", "batch.kubernetes.io/job-name"), ("JobSet", "jobset.sigs.k8s.io/jobset-name"))
        controller = next((row for row in view.owner_references if row.get("controller") is True), {})
        pod = _Pod(
            view.uid,
            (view.namespace, view.name),
            view.phase,
            view.node,
            workload,
            view.labels.get(f"{_LABEL}pod-group-name"),
            name_of(controller.get("uid")),
            tuple((kind, view.labels[label]) for kind, label in jobs if label in view.labels),
            view.labels.get(f"{_LABEL}managed") == "true",
            is_gated,
            view.created_at,
            view.deletion_at is not None,
        )
        self._keep(self._pods, view.uid, pod)
        return True

    def forget(self, uid: str) -> None:
        """An object that is gone."""
        self._workloads.pop(uid, None)
        self._queues.pop(uid, None)
        self._pods.pop(uid, None)
        self._preemptions.pop(uid, None)
        self._used.pop(uid, None)

    def forget_events(self) -> None:
        """Drop what was kept of events: a watch compares each once."""
        self._addressed.clear()
        self._preemptions = {key: each for key, each in self._preemptions.items() if each.evidence == CONDITION}

    def findings(self, ctx: ReadContext, *, workloads_listed: bool) -> Iterator[Finding]:
        """What does not agree. workloads_listed: all Workloads of the cluster were seen, so that one can be missing.

        Codes: ``preemptor_uid_conflict``, ``event_uid_mismatch``, ``overlapping_nodes``, ``reclaimable_pods_stale``,
        ``reservation_kept_after_rejection``; where all Workloads are there also ``queue_counters_without_objects``,
        ``queue_counters_mismatch``, ``workload_missing_for_kueue_pod``, ``workload_object_missing``.
        """
        by_name = {each.name: each for each in self._workloads.values()}
        pods = self._pods_by_workload(by_name)
        yield from self._preemptor_conflicts(by_name, ctx)
        yield from self._event_mismatches(by_name, ctx)
        yield from self._overlaps(pods, ctx)
        yield from self._stale_reclaims(pods, ctx)
        yield from self._kept_after_rejection(ctx)
        if workloads_listed:
            yield from self._counters(ctx)
            found = {pod.uid for each in pods.values() for pod in each}
            yield from self._missing(found, ctx)

    def _keep(self, into: dict[str, Any], key: str, row: object) -> None:
        if key in into or len(into) < KEPT_MAX:
            into[key] = row

    def _pods_by_workload(self, by_name: Mapping[Name, _Workload]) -> dict[str, list[_Pod]]:
        """The pods of each workload: by the annotation, the group's name, the pod's own uid, its controller's uid, the job's name."""
        by_owner: dict[str, _Workload] = {}
        by_job: dict[tuple[str, str | None, str | None], _Workload] = {}
        for each in self._workloads.values():
            by_owner.update(dict.fromkeys(each.owners, each))
            by_job[(each.name[0], *each.owner)] = each
        found: dict[str, list[_Pod]] = defaultdict(list)
        for pod in self._pods.values():
            namespace = pod.name[0]
            keys: list[_Workload | None] = [
                by_name.get((namespace, name)) for name in (pod.workload, pod.group) if name
            ]
            keys += [by_owner.get(uid) for uid in (pod.uid, pod.owner) if uid]
            keys += [by_job.get((namespace, kind, name)) for kind, name in pod.job]
            workload = next((each for each in keys if each is not None), None)
            if workload is not None:
                found[workload.uid].append(pod)
        return found

    def _preemptor_conflicts(self, by_name: Mapping[Name, _Workload], ctx: ReadContext) -> Iterator[Finding]:
        """The object and the events name different preemptors of the last preemption that the object tells of."""
        events: dict[Name, list[Preemption]] = defaultdict(list)
        for each in self._preemptions.values():
            if each.evidence == VICTIM_EVENT and each.victim_name and each.preemptor_uid:
                events[(each.victim_namespace or "default", each.victim_name)].append(each)
        for told in self._preemptions.values():
            if told.evidence != CONDITION or not told.preemptor_uid or not told.victim_name:
                continue
            name = (told.victim_namespace or "default", told.victim_name)
            slack = 0 if told.time_basis == BEFORE else SECOND_US
            earlier = [each for each in events.get(name, ()) if each.occurred_at <= told.occurred_at + slack]
            last = max(earlier, key=lambda each: each.occurred_at, default=None)
            if last is None or last.preemptor_uid == told.preemptor_uid:
                continue
            uids = {told.preemptor_uid, *(each.preemptor_uid for each in events[name] if each.preemptor_uid)}
            yield ctx.finding(
                SOURCE,
                "preemptor_uid_conflict",
                f"workload {name[0]}/{name[1]}",
                "the workload's condition and the event name different preemptors of its last preemption",
                evidence={
                    "condition_uid": told.preemptor_uid,
                    "event_uid": last.preemptor_uid,
                    "preempted_utc": format_instant(last.occurred_at),
                    "objects": {
                        uid: "/".join(self._workloads[uid].name) if uid in self._workloads else None
                        for uid in sorted(uids)[:SHOWN_MAX]
                    },
                },
            )

    def _event_mismatches(self, by_name: Mapping[Name, _Workload], ctx: ReadContext) -> Iterator[Finding]:
        """An event names an object by a uid that it does not have, although the object was there by then (else it is an earlier one)."""
        for (name, uid), first in self._addressed.items():
            workload = by_name.get(name)
            if workload is None or workload.uid == uid or workload.uid.startswith("name:") or uid in self._workloads:
                continue
            if workload.created_at is None or first < workload.created_at:
                continue
            yield ctx.finding(
                SOURCE,
                "event_uid_mismatch",
                f"workload {name[0]}/{name[1]}",
                "an event names this workload by a uid that it does not have",
                evidence={"event_uid": uid, "object_uid": workload.uid, "event_first_utc": format_instant(first)},
            )

    def _overlaps(self, pods: Mapping[str, list[_Pod]], ctx: ReadContext) -> Iterator[Finding]:
        """One node under two flavors: its cards are promised twice."""
        by_node: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for each in self._workloads.values():
            if each.is_finished or each.cluster_queue is None or len(each.flavors) != 1:
                continue
            live = [pod for pod in pods.get(each.uid, ()) if pod.phase not in _ENDED and pod.node]
            for node in {*each.nodes, *(pod.node for pod in live if pod.node)}:
                by_node[node][each.flavors[0]].add("/".join(each.name))
        for node, flavors in sorted(by_node.items()):
            if len(flavors) > 1:
                names = {flavor: sorted(found)[:SHOWN_MAX] for flavor, found in sorted(flavors.items())}
                counts = self._live_counts(pods, {name for found in names.values() for name in found})
                yield ctx.finding(
                    SOURCE,
                    "overlapping_nodes",
                    f"node {node}",
                    f"workloads of the flavors {' and '.join(names)} are assigned to this node: its cards are promised under each of them",
                    evidence={"flavors": names, "live_pods_by_workload": counts},
                )

    def _live_counts(self, pods: Mapping[str, list[_Pod]], names: set[str]) -> dict[str, int]:
        return {
            name: sum(pod.phase not in _ENDED for pod in pods.get(each.uid, ()))
            for each in self._workloads.values()
            if (name := "/".join(each.name)) in names
        }

    def _stale_reclaims(self, pods: Mapping[str, list[_Pod]], ctx: ReadContext) -> Iterator[Finding]:
        """More pods of a workload run than its reservation is said to be for, after pods were given back."""
        for each in self._workloads.values():
            running = sum(pod.phase == "Running" and not pod.is_leaving for pod in pods.get(each.uid, ()))
            if each.is_finished or not each.reclaimable or each.pods_held is None or running <= each.pods_held:
                continue
            yield ctx.finding(
                SOURCE,
                "reclaimable_pods_stale",
                f"workload {each.name[0]}/{each.name[1]}",
                f"{running} of its pods run, and its queue counts {each.pods_held}: pods that were given back run again, and quota is promised twice",
                evidence={
                    "running_pods_count": running,
                    "counted_pods_count": each.pods_held,
                    "reclaimable_pods_count": each.reclaimable,
                    "cluster_queue": each.cluster_queue,
                },
            )

    def _kept_after_rejection(self, ctx: ReadContext) -> Iterator[Finding]:
        """A check said no, and the quota is held all the same."""
        for each in self._workloads.values():
            if each.refused and each.is_reserved and not each.is_finished:
                yield ctx.finding(
                    SOURCE,
                    "reservation_kept_after_rejection",
                    f"workload {each.name[0]}/{each.name[1]}",
                    f"the admission check {each.refused[0][0]} said no, and the quota is still reserved",
                    evidence={
                        "checks": dict(each.refused),
                        "held_milli": _json(each.held),
                        "cluster_queue": each.cluster_queue,
                    },
                )

    def _counters(self, ctx: ReadContext) -> Iterator[Finding]:
        """What a cluster queue's status counts, against the objects."""
        homes = {(row.namespace, row.name): row.parent for row in self._queues.values() if row.kind == "local_queue"}
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for each in self._workloads.values():
            if each.is_finished:
                continue
            queue = each.cluster_queue or homes.get((each.name[0], each.local_queue or ""))
            if queue is not None:
                counted[queue]["objects"] += 1
                counted[queue]["reserving"] += each.cluster_queue is not None
                counted[queue]["admitted"] += each.is_admitted
                counted[queue]["pending"] += each.cluster_queue is None and each.is_active
        for key, row in self._queues.items():
            if row.kind != "cluster_queue":
                continue
            claims = {"pending": row.pending, "reserving": row.reserving, "admitted": row.admitted}
            own = counted[row.name]
            wrong = {name: count for name, count in claims.items() if count is not None and count != own[name]}
            if not wrong:
                continue
            nothing = not own["objects"]
            evidence = {f"{name}_workloads_claimed_count": count for name, count in claims.items()}
            evidence |= {f"{name}_workloads_counted": own[name] for name in claims}
            evidence |= {"workload_objects_count": own["objects"], "usage_claimed": bool(self._used.get(key))}
            text = ", ".join(f"{count} {name} (the objects: {own[name]})" for name, count in wrong.items())
            yield ctx.finding(
                SOURCE,
                "queue_counters_without_objects" if nothing else "queue_counters_mismatch",
                f"clusterqueue {row.name}",
                f"its status counts {text}",
                evidence=evidence,
            )

    def _missing(self, found: set[str], ctx: ReadContext) -> Iterator[Finding]:
        """Pods that Kueue manages one by one, and no Workload stands for them."""
        for pod in self._pods.values():
            if pod.uid in found or not (pod.is_managed or pod.is_gated):
                continue
            subject = f"pod {pod.name[0]}/{pod.name[1]}"
            evidence = {
                "phase": pod.phase,
                "created_utc": format_instant(pod.created_at) if pod.created_at is not None else None,
            }
            text = "Kueue manages this pod, and there is no Workload for it"
            severity = "info" if pod.phase in _ENDED else "warning"
            yield ctx.finding(
                SOURCE, "workload_missing_for_kueue_pod", subject, text, severity=severity, evidence=evidence
            )
            if pod.is_gated:
                text = "this pod waits at Kueue's gate, and there is no Workload that could be admitted for it"
                evidence = {"waiting_since_utc": evidence["created_utc"]}
                yield ctx.finding(SOURCE, "workload_object_missing", subject, text, evidence=evidence)


def _is_gated(view: PodView) -> bool:
    return any(gate.get("name") == _GATE for gate in list_of(mapping_of(view.raw.get("spec")).get("schedulingGates")))


def _has_label(view: PodView) -> bool:
    return any(key.startswith(_LABEL) for key in view.labels)


def _workload(fact: Gang) -> _Workload:
    details = _json(fact.details)
    members = [row for row in _rows(fact.members) if isinstance(row.get("uid"), str)]
    owners = [row["uid"] for row in members] or ([fact.owner_uid] if fact.owner_uid else [])
    flavors = _json(fact.flavors)
    named = {flavor for resource, flavor in flavors.items() if is_accelerator(resource)}
    pod_sets = [row for row in details.get("pod_sets", ()) if isinstance(row, dict)]
    assigned = [row.get("assigned_count") for row in pod_sets]
    given_back = sum(row.get("reclaimable") or 0 for row in pod_sets)
    held = sum(count for count in assigned if count is not None) if assigned and None not in assigned else None
    conditions = details.get("conditions", {})
    checks = [row for row in details.get("checks", ()) if row["state"] in ("Rejected", "Retry")]
    return _Workload(
        fact.object_uid,
        (fact.namespace, fact.object_name),
        fact.created_at,
        fact.queue,
        fact.cluster_queue,
        fact.phase == "finished",
        fact.active,
        conditions.get("Admitted", [""])[0] == "True",
        tuple(owners),
        (fact.owner_kind, fact.owner_name),
        tuple(details.get("nodes", ())),
        tuple(sorted(named)),
        None if held is None else max(0, held - given_back),
        given_back,
        tuple((row["name"], row["state"]) for row in checks),
        conditions.get("QuotaReserved", [""])[0] == "True",
        fact.admitted,
    )


def _json(text: str) -> dict[str, Any]:
    found = msgspec.json.decode(text)
    return found if isinstance(found, dict) else {}


def _rows(text: str) -> Iterable[dict[str, Any]]:
    found = msgspec.json.decode(text)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else ()
