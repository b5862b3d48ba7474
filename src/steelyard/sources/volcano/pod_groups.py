"""A Volcano pod group: what must run at once, how far it has come, and what its scheduler last said of it.

The trick to know: an old ``Unschedulable=True`` is never set to False, so the newer of the two conditions speaks, and the phase says how far it is:
``Pending`` has no quota of its queue yet, ``Inqueue`` has it and waits for nodes, ``Unknown`` runs in part and is no whole gang.

Sceptic's command: ``kubectl get podgroups.scheduling.volcano.sh -A -o yaml``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.decision import Decision
from steelyard.facts.gang import Gang
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.object_identity import Identity, identity_of, short
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of
from steelyard.sources.shared.resource_amounts import amounts_of, gpu_milli_of, to_json
from steelyard.sources.volcano.gang_message import SOURCE, parse_gang_message

POD_GROUP_GROUP: Final = "scheduling.volcano.sh"
QUEUE_DEFAULT: Final = "default"
TEXT_MAX: Final = 4_096
_PREFIX: Final = "podgroup-"
_HOLDING: Final = frozenset({"Inqueue", "Running", "Unknown"})
_STANDING: Final = {
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Unknown": "running_degraded",
    "Completed": "completed",
}


def read_pod_group(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Gang, one Decision per condition; finding ``podgroup_name_mismatch`` where its name tells another owner than its reference.

    gpu_milli: of ``minResources``, what it cannot start without. admitted: the same once its queue let it in. details: ``standing``
    (``pending``, ``inqueue``, ``running``, ``running_degraded``, ``completed``), ``min_task_member``.
    """
    problems: list[str] = []
    who = identity_of(payload, "PodGroup", problems)
    spec, status = mapping_of(payload.get("spec")), mapping_of(payload.get("status"))
    queue = short(spec.get("queue")) or QUEUE_DEFAULT
    demand = amounts_of(spec.get("minResources"), problems, "spec.minResources")
    conditions = list(_conditions(status, problems))
    latest = max(conditions, key=lambda each: each[0] if each[0] is not None else -(2**63), default=(None, {}))[1]
    phase = short(status.get("phase")) or "Pending"
    minimum, running = integer_of(spec.get("minMember")), integer_of(status.get("running"))
    yield Gang(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=who.uid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        object_kind="PodGroup",
        object_group=POD_GROUP_GROUP,
        object_uid=who.uid,
        namespace=who.namespace or "default",
        object_name=who.name,
        owner_kind=who.owner_kind,
        owner_name=who.owner_name,
        owner_uid=who.owner_uid,
        queue=queue,
        cluster_queue=None if phase == "Pending" else queue,
        priority_class=short(spec.get("priorityClassName")),
        created_at=who.created_at,
        deletion_at=who.deletion_at,
        min_count=minimum,
        gpu_milli=gpu_milli_of(demand) if "minResources" in spec else None,
        demand=to_json(demand),
        admitted=to_json(demand) if phase in _HOLDING else "{}",
        phase=phase,
        phase_reason=short(latest.get("reason")),
        phase_message=_words(latest),
        running_count=running,
        succeeded_count=integer_of(status.get("succeeded")),
        failed_count=integer_of(status.get("failed")),
        details=to_json({"standing": _standing(phase, running, minimum), "min_task_member": _task_minima(spec)}),
    )
    for at, condition in conditions:
        yield _decision(who, queue, at, condition, ctx)
    yield from _findings(who, problems, ctx)


def _standing(phase: str, running: int | None, minimum: int | None) -> str | None:
    if phase == "Running" and running is not None and minimum is not None and running < minimum:
        return "running_degraded"
    return _STANDING.get(phase)


def _task_minima(spec: Mapping[str, Any]) -> dict[str, int] | None:
    tasks = list(mapping_of(spec.get("minTaskMember")).items())[:256]
    return {plain(str(name)[:316]): count for name, value in tasks if (count := integer_of(value)) is not None} or None


def _conditions(status: Mapping[str, Any], problems: list[str]) -> Iterator[tuple[Instant | None, Mapping[str, Any]]]:
    for condition in list_of(status.get("conditions"))[:64]:
        if condition.get("status") == "True" and condition.get("type") in ("Unschedulable", "Scheduled"):
            yield instant_of(condition.get("lastTransitionTime"), problems, "condition.lastTransitionTime"), condition


def _words(condition: Mapping[str, Any]) -> str | None:
    message = text_of(condition.get("message"))
    return plain(message[:TEXT_MAX]) if message else None


def _decision(
    who: Identity, queue: str, at: Instant | None, condition: Mapping[str, Any], ctx: ReadContext
) -> Decision:
    kind, reason, words = str(condition.get("type")), short(condition.get("reason")), _words(condition)
    refused = kind == "Unschedulable"
    read = parse_gang_message(words or "") if refused else None
    digest = hashlib.sha256(f"{reason}\0{words}".encode()).hexdigest()[:12]
    return Decision(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{who.uid}/{kind}/{'-' if at is None else at}/{digest}",
        occurred_at=ctx.observed_at if at is None else at,
        observed_at=ctx.observed_at,
        subject_kind="PodGroup",
        subject_uid=who.uid,
        namespace=who.namespace,
        subject_name=who.name,
        decided_by="volcano",
        verdict="not_now" if refused else "scheduled",
        cause=read.cause(reason) if read is not None and (not read.unread or reason) else None,
        rule=(read.rule or reason) if read is not None else None,
        queue=queue,
        resource=read.resource if read is not None else None,
        nodes_count=read.nodes_count if read is not None else None,
        reason=reason,
        message=words,
        evidence="condition",
        details=to_json(read.details() if read is not None else {}),
    )


def _findings(who: Identity, problems: list[str], ctx: ReadContext) -> Iterator[Fact]:
    subject = f"podgroup {who.namespace}/{who.name}"
    named = who.name.removeprefix(_PREFIX)
    if who.name.startswith(_PREFIX) and len(named) == 36 and who.owner_uid and named != who.owner_uid:
        yield ctx.finding(
            SOURCE,
            "podgroup_name_mismatch",
            subject,
            "the pod group is named after another owner than the one it belongs to",
            evidence={"owner_uid": who.owner_uid, "named_uid": named, "owner_name": who.owner_name},
        )
    if problems:
        text = "; ".join(problems[:3])
        yield ctx.finding(SOURCE, "quantity_malformed", subject, text, evidence={"problems": problems[:20]})
