"""A Pod as facts: what it asked for, when it was bound, ran and ended, whose it is, and what it holds by its object alone.

``app`` calls ``read_pod`` with a pod that is parsed once for all readers. The trick to know: a pod tells its whole life by stamps, so one
look at a finished pod dates its holding; what it does not tell (the end of a container on a lost node) is taken from its conditions
and said so in a finding, or left unknown.

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.status}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.container import Container
from steelyard.facts.request import Request
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant, format_instant
from steelyard.sources.kube_api.exposure import core_policy_of, exposure_of
from steelyard.sources.kube_api.grants import read_grants
from steelyard.sources.kube_api.outcomes import outcome_of
from steelyard.sources.kube_api.owners import read_owner
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.demand import Demand, demands_of, totals_of
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import (
    INIT,
    PodView,
    instant_of,
    integer_of,
    list_of,
    mapping_of,
    text_of,
)
from steelyard.sources.shared.resource_amounts import cpu_milli_of

SOURCE: Final = "kube_api"
TERMINAL: Final = frozenset({"Succeeded", "Failed"})
TOLERATION_DEFAULT_US: Final = 300 * SECOND_US
PROBLEMS_MAX: Final = 20
GATES_MAX: Final = 32
NAME_CHARACTERS_MAX: Final = 316

_REJECT_REASONS: Final = frozenset({
    "UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "NodeName", "NodePorts", "NodeShutdown", "TaintToleration",
    "InvalidNodeInfo", "UnexpectedPredicateFailureType", "SysctlForbidden", "AppArmor", "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch", "InitContainerRestartPolicyForbidden", "PodLevelResourcesNotAdmittedReason",
    "SupplementalGroupsPolicyNotSupported", "PodFeatureUnsupported",
})  # fmt: skip
_EVICTED_AT_ADMISSION: Final = ("Pod The node had condition", "The node had condition", "Pod was rejected")
_ENDING_CONDITIONS: Final = (("DisruptionTarget", "True"), ("Ready", "False"), ("ContainersReady", "False"))
_QUEUE_LABELS: Final = (
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/local-queue-name",
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
)
_QUEUE_ANNOTATIONS: Final = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name", "kueue.x-k8s.io/queue-name")
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_NOT_READY: Final = "node.kubernetes.io/not-ready"


@dataclass(slots=True)
class _Life:
    """The stamps of a pod's life; problems: (code, severity, message)."""

    scheduled_at: Instant | None
    started_at: Instant | None
    first_container_at: Instant | None
    init_done_at: Instant | None
    init_count: int
    last_container_end_at: Instant | None
    problems: list[tuple[str, str, str]]


def read_pod(view: PodView, ctx: ReadContext) -> Iterator[Fact]:
    """Request and Owner of the pod; Containers where it asks for an accelerator (by resource or claim); Grants where it is bound.

    Unknown: gpu_count is None where a count is unreadable, or where only a resource claim can tell it. Findings: ``stamp_malformed``,
    ``stamp_before_creation`` (the stamp is left out), ``pod_end_inferred``, ``pod_end_unknown``, ``quantity_malformed``,
    ``accelerator_resource_unlisted``, ``shared_request_uneven``, ``labels_too_many``, ``annotations_too_many``, ``gpu_served_by_dra``.
    """
    demands = demands_of(view.containers, ctx.settings)
    rejected = is_rejected(view)
    life = _life(view, rejected)
    claims = bool(list_of(mapping_of(view.raw.get("spec")).get("resourceClaims")))
    yield _request(view, demands, claims, rejected, life, ctx)
    yield from read_owner(view, ctx)
    if demands or claims:
        yield from _containers(view, demands, ctx)
        yield from read_grants(view, demands, rejected, ctx)
    if view.problems or life.problems or any(demand.problems for demand in demands):
        yield from _findings(view, demands, life, ctx)


def is_rejected(view: PodView) -> bool:
    """The kubelet refused the pod at admission: phase Failed for one of its reasons, and no container ever ran.

    A pod that had run before the kubelet restarted keeps its containers' statuses, so it is not rejected although the reason says so.
    """
    reason = view.status_reason
    if view.phase != "Failed" or reason is None or any(container.has_run for container in view.containers):
        return False
    if reason in _REJECT_REASONS or reason.startswith("OutOf"):
        return True
    message = mapping_of(view.raw.get("status")).get("message")
    return reason == "Evicted" and isinstance(message, str) and message.startswith(_EVICTED_AT_ADMISSION)


def toleration_us(tolerations: Sequence[Mapping[str, Any]]) -> DurationUs | None:
    """How long an unreachable node is tolerated: the shortest ``tolerationSeconds`` that applies; None where it is without end.

    A pod without any toleration of the kind has the API server's default, 300 s. Negative seconds are 0.
    """
    for key in (_UNREACHABLE, _NOT_READY):
        found = [row for row in tolerations if _tolerates(row, key)]
        if found:
            seconds = [
                integer_of(row["tolerationSeconds"]) for row in found if row.get("tolerationSeconds") is not None
            ]
            stated = [second for second in seconds if second is not None and second < 2**63 // SECOND_US]
            return max(0, min(stated)) * SECOND_US if stated else None
    return TOLERATION_DEFAULT_US


def _tolerates(row: Mapping[str, Any], key: str) -> bool:
    named = row.get("key") == key or (not row.get("key") and row.get("operator") == "Exists")
    return named and row.get("effect") in (None, "", "NoExecute")


def _life(view: PodView, rejected: bool) -> _Life:
    problems: list[tuple[str, str, str]] = []
    created = view.created_at
    containers = view.containers
    starts = [at for item in containers for at in (item.started_at, item.previous_started_at) if at is not None]
    inits = [item for item in containers if item.kind == INIT]
    done = bool(inits) and all(item.state == "terminated" and item.exit_code in (0, None) for item in inits)
    end = None
    if view.phase in TERMINAL and not rejected:
        end = _last_end(view, problems)

    def after_creation(at: Instant | None, what: str) -> Instant | None:
        if at is None or created is None or at >= created:
            return at
        text = f"{what} {format_instant(at)} lies before the creation {format_instant(created)}: it is left out"
        problems.append(("stamp_before_creation", "warning", text))
        return None

    return _Life(
        scheduled_at=after_creation(view.scheduled_at, "PodScheduled"),
        started_at=after_creation(view.started_at, "status.startTime"),
        first_container_at=after_creation(min(starts, default=None), "the first container's start"),
        init_done_at=max((item.ended_at for item in inits if item.ended_at is not None), default=None)
        if done
        else None,
        init_count=len(inits),
        last_container_end_at=after_creation(end, "the last container's end"),
        problems=problems,
    )


def _last_end(view: PodView, problems: list[tuple[str, str, str]]) -> Instant | None:
    """The latest finishedAt of a finished pod; where a container that ran has none, the pod's ending conditions stand in."""
    ends = [at for item in view.containers for at in (item.ended_at, item.previous_ended_at) if at is not None]
    if ends and not any(item.ended_at is None and item.state in ("running", "terminated") for item in view.containers):
        return max(ends)
    ignored: list[str] = []
    stamps = [
        at
        for condition in list_of(mapping_of(view.raw.get("status")).get("conditions"))
        if (condition.get("type"), condition.get("status")) in _ENDING_CONDITIONS
        and (at := instant_of(condition.get("lastTransitionTime"), ignored, "condition")) is not None
    ]
    if not stamps and not ends:
        problems.append(
            ("pod_end_unknown", "warning", f"phase {view.phase} without any container's end or ending condition")
        )
        return None
    end = max(stamps + ends)
    basis = "conditions" if stamps else "the other containers"
    text = f"phase {view.phase} without the end of every container: {format_instant(end)} is taken from {basis}"
    problems.append(("pod_end_inferred", "info", text))
    return end


def _request(
    view: PodView, demands: Sequence[Demand], claims: bool, rejected: bool, life: _Life, ctx: ReadContext
) -> Request:
    totals = totals_of(demands) if demands else None
    names = sorted({name for demand in demands for name in demand.names}) if demands else ()
    end = outcome_of(view, rejected)
    return Request(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=view.uid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        pod_uid=view.uid,
        namespace=view.namespace,
        pod=view.name,
        node=view.node,
        phase=view.phase,
        created_at=view.created_at,
        scheduled_at=life.scheduled_at,
        started_at=life.started_at,
        first_container_at=life.first_container_at,
        init_done_at=life.init_done_at,
        init_count=life.init_count,
        last_container_end_at=life.last_container_end_at,
        deletion_at=view.deletion_at,
        status_reason=view.status_reason,
        rejected=rejected,
        scheduler=view.scheduler,
        queue=_queue(view),
        priority=view.priority,
        gpu_count=(None if claims and not totals.count else totals.count) if totals else None if claims else 0,
        memory_mib=totals.memory_mib if totals else None,
        cores_percent=totals.cores_percent if totals else None,
        gpu_milli=totals.milli if totals else None,
        gpu_model=_gpu_model(view) if demands or claims else None,
        resource_names=",".join(names),
        unreachable_toleration_us=toleration_us(view.tolerations),
        qos=view.qos,
        outcome=end.outcome,
        outcome_by=end.by,
        outcome_cause=end.cause,
        outcome_evidence=end.evidence,
        failure_class=end.failure_class,
        failure_owner=end.failure_owner,
        exit_code=end.exit_code,
        scheduling_gates=_gates(view),
        cpu_milli=cpu_milli_of(view.raw.get("spec")),
        gpu_exposure=exposure_of(view),
        core_policy=core_policy_of(view, demands) if demands else None,
    )


def _gates(view: PodView) -> str:
    gates = list_of(mapping_of(view.raw.get("spec")).get("schedulingGates"))[:GATES_MAX]
    return ",".join(
        sorted({plain(name[:NAME_CHARACTERS_MAX]) for gate in gates if (name := text_of(gate.get("name")))})
    )


def _queue(view: PodView) -> str | None:
    labels, annotations = view.labels, view.annotations
    if labels:
        for key in _QUEUE_LABELS:
            if key in labels:
                return labels[key] or None
    if annotations:
        for key in _QUEUE_ANNOTATIONS:
            if key in annotations:
                return annotations[key] or None
    return None


def _gpu_model(view: PodView) -> str | None:
    selector = mapping_of(mapping_of(view.raw.get("spec")).get("nodeSelector"))
    return text_of(selector.get("nvidia.com/gpu.product")) or text_of(view.annotations.get("nvidia.com/use-gputype"))


def _containers(view: PodView, demands: Sequence[Demand], ctx: ReadContext) -> Iterator[Container]:
    demand_of = {(demand.container.kind == INIT, demand.container.name): demand for demand in demands}
    for item in view.containers:
        demand = demand_of.get((item.kind == INIT, item.name))
        shared = demand.shared[0] if demand and len(demand.shared) == 1 and not demand.asks else None
        yield Container(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{view.uid}/{item.name}",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            pod_uid=view.uid,
            container=item.name,
            kind=item.kind,
            position=item.position,
            resource_name=_resource_name(demand) if demand else None,
            gpu_count=demand.count if demand else 0,
            memory_mib_per_gpu=shared.memory_mib if shared else demand.memory_mib if demand else None,
            memory_percent_per_gpu=demand.memory_percent if demand else None,
            cores_percent_per_gpu=shared.cores_percent if shared else demand.cores_percent if demand else None,
            state=item.state,
            started_at=item.started_at,
            ended_at=item.ended_at,
            exit_code=item.exit_code,
            reason=item.reason,
            restart_count=item.restart_count,
            container_id=item.container_id,
            image=item.image,
        )


def _resource_name(demand: Demand) -> str | None:
    """The resource that counts devices, the first by name where there are several."""
    counting = [ask.resource for ask in demand.asks] + [ask.resource for ask in demand.shared]
    return min(counting, default=None)


def _findings(view: PodView, demands: Sequence[Demand], life: _Life, ctx: ReadContext) -> Iterator[Fact]:
    found = [("stamp_malformed", "warning", text) for text in view.problems]
    found += life.problems
    found += [(code, "warning", text) for demand in demands for code, text in demand.problems]
    by_code: dict[str, list[tuple[str, str]]] = {}
    for code, severity, text in found:
        by_code.setdefault(code, []).append((severity, text))
    for code, rows in by_code.items():
        texts = [text for _, text in rows[:PROBLEMS_MAX]]
        message = "; ".join(texts[:3]) + (f" (and {len(rows) - 3} more)" if len(rows) > 3 else "")
        yield ctx.finding(
            SOURCE, code, view.subject, message, severity=rows[0][0], evidence={"problems": texts, "count": len(rows)}
        )
