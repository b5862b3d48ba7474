"""What audit events refused, bound, evicted and preempted."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.facts.refusal import Refusal
from steelyard.primitives.instant import parse_instant
from steelyard.sources.audit_log import AuditReader
from steelyard.sources.audit_log.decisions import AuditDecisions
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.refusal_message import parse_refusal

CTX = ReadContext(file="audit.log")
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
QUOTA = (
    'pods "web-6f-x2b4z" is forbidden: exceeded quota: gpu-quota, requested: limits.cpu=8,requests.nvidia.com/gpu=4, '
    "used: limits.cpu=1,requests.nvidia.com/gpu=6, limited: limits.cpu=4,requests.nvidia.com/gpu=8"
)


def event(verb: str = "create", code: int = 201, message: str = "", **more: Any) -> dict[str, Any]:
    ref = {"resource": "pods", "namespace": "ns", "name": "p", "apiVersion": "v1"} | more.pop("ref", {})
    return {
        "apiVersion": "audit.k8s.io/v1",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": more.pop("user", "bob@example.com")},
        "userAgent": more.pop("agent", "kubectl/v1.34.1"),
        "objectRef": {key: value for key, value in ref.items() if value is not None},
        "responseStatus": {"code": code, "message": message},
        "stageTimestamp": "2026-03-01T12:00:00.25Z",
        "annotations": {"authorization.k8s.io/decision": more.pop("decision", "allow")},
        **more,
    }


def told(*events: dict[str, Any]) -> list[Any]:
    reader = AuditReader(CTX)
    facts = [fact for each in events for fact in reader.read(each)]
    return [fact for fact in facts if isinstance(fact, (Refusal, Decision, Preemption))]


@pytest.mark.parametrize(
    ("code", "message", "refused_by", "rule"),
    [
        (403, QUOTA, "quota", "gpu-quota"),
        (403, 'pods "p" is forbidden: failed quota: q1: must specify requests.nvidia.com/gpu for: main', "quota_must_specify", "q1"),
        (400, 'admission webhook "validatejob.volcano.sh" denied the request: minAvailable', "webhook", "validatejob.volcano.sh"),
        (
            400,
            'admission webhook "v.volcano.sh" denied the request: can only submit PodGroup to queue with state `Open`, queue `a` status is `Closed`.',
            "queue_closed", "v.volcano.sh",
        ),
        (403, 'admission webhook "vgpu.hami.io" denied the request: exceeding resource quota', "quota", "vgpu.hami.io"),
        (422, "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'no-gpu' with binding 'b' denied request: no", "webhook", "no-gpu"),
        (403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest"', "admission", None),
    ],
)  # fmt: skip
def test_a_refusal_says_who_refused_and_by_which_rule(
    code: int, message: str, refused_by: str, rule: str | None
) -> None:
    (found,) = told(event(code=code, message=message))
    assert isinstance(found, Refusal)
    assert (found.refused_by, found.rule, found.response_code, found.natural_key) == (refused_by, rule, code, "id-1")
    assert (found.subject_kind, found.subject_name, found.user, found.owner) == ("Pod", "p", "bob@example.com", None)
    assert found.occurred_at == parse_instant("2026-03-01T12:00:00.25Z")


@pytest.mark.parametrize(("as_whom", "user"), [("eve@example.com", "eve@example.com"), (None, "bob@example.com")])
def test_a_refusal_is_of_whom_the_request_was_made_as(as_whom: str | None, user: str) -> None:
    more = {"impersonatedUser": {"username": as_whom}} if as_whom else {}
    (found,) = told(event(code=403, message=QUOTA, **more))
    assert isinstance(found, Refusal) and found.user == user


def test_a_refusal_by_quota_has_the_amounts_of_the_accelerator_that_blocks() -> None:
    (found,) = told(event(code=403, message=QUOTA))
    assert (found.resource, found.asked_milli, found.used_milli, found.limit_milli) == (
        "nvidia.com/gpu", 4_000, 6_000, 8_000)  # fmt: skip
    read = parse_refusal(QUOTA.replace("=6", "=many"))
    assert read is not None
    assert (read.unread_amounts, read.used) == (1, {"limits.cpu": 1_000})


def test_a_permission_that_is_missing_is_told_by_the_authorization_and_not_by_the_code() -> None:
    message = 'pods is forbidden: User "m" cannot create resource "pods" in API group ""'
    assert told(event(code=403, message=message, decision="forbid"))[0].refused_by == "rbac"
    assert told(event(code=403, message=message))[0].refused_by == "rbac"
    assert told(event(code=403, message=QUOTA))[0].refused_by == "quota"


@pytest.mark.parametrize(
    ("name", "body", "user", "owner", "subject"),
    [
        ("web-6f-", {}, REPLICA_SETS, "ReplicaSet web-6f", None),
        ("web-6f-x2b4z", {}, REPLICA_SETS, "ReplicaSet web-6f", "web-6f-x2b4z"),
        (None, {}, REPLICA_SETS, "ReplicaSet web-6f", None),
        ("web-0", {}, "system:serviceaccount:kube-system:statefulset-controller", "StatefulSet web", "web-0"),
        ("j-0-x2b4z", {}, "system:serviceaccount:kube-system:job-controller", "Job j-0", "j-0-x2b4z"),
        ("x", {"metadata": {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}}, REPLICA_SETS, "Job j", "x"),
        ("w-x2b4z", {}, "system:serviceaccount:volcano-system:volcano-controllers", "volcano-controllers w", "w-x2b4z"),
        ("mine-x2b4z", {}, "bob@example.com", None, "mine-x2b4z"),
    ],
)  # fmt: skip
def test_retries_of_a_controller_are_one_demand_of_its_object(
    name: str | None, body: dict[str, Any], user: str, owner: str | None, subject: str | None
) -> None:
    (found,) = told(event(code=403, message=QUOTA, ref={"name": name}, requestObject=body, user=user))
    assert (found.owner, found.subject_name) == (owner, subject)


BUDGET = {
    "kind": "Status",
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "details": {"causes": [{"message": "The disruption budget slow needs 1 healthy pods and has 1 currently"}]},
}
EVICTION = {"subresource": "eviction"}


def test_row_38_a_budgets_429_is_a_refusal_although_its_words_stand_in_the_body_alone() -> None:
    (found,) = told(event(code=429, ref=EVICTION, responseObject=BUDGET))
    assert (found.refused_by, found.verb, found.rule, found.subject_name) == (
        "disruption_budget", "evict", "slow", "p")  # fmt: skip
    assert told(event(code=429, message="too many requests, please try again later")) == []
    assert told(event(code=429, message=QUOTA)) == []


def test_a_binding_and_an_allowed_eviction_are_decisions() -> None:
    binding = {"target": {"kind": "Node", "name": "n-7"}}
    bound, evicted = told(
        event(ref={"subresource": "binding", "uid": "u-1"}, requestObject=binding, user="system:kube-scheduler"),
        event(ref=EVICTION),
    )
    assert (bound.verdict, bound.node, bound.subject_uid, bound.decided_by) == (
        "bound", "n-7", "u-1", "system:kube-scheduler")  # fmt: skip
    assert (evicted.verdict, evicted.rule, evicted.decided_by) == (
        "evicted", "EvictionByEvictionAPI", "bob@example.com")  # fmt: skip
    assert told(event(code=409, ref={"subresource": "binding"}, requestObject=binding)) == []


DISRUPTED = {
    "status": {
        "conditions": [
            {
                "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": "default-scheduler: preempting", "lastTransitionTime": "2026-03-01T11:59:59Z",
            }
        ]
    }
}  # fmt: skip
STATUS = {"subresource": "status"}
SCHEDULER = "system:kube-scheduler"
VOLCANO = "system:serviceaccount:volcano-system:volcano-scheduler"


def test_row_39_a_preemption_outlives_its_pod_and_is_counted_once() -> None:
    (found,) = told(
        event("patch", 200, ref=STATUS, requestObject=DISRUPTED, user=SCHEDULER),
        event("delete", 200, user=SCHEDULER),
    )
    assert (found.decided_by, found.cause, found.victim_name, found.evidence) == (
        "kube-scheduler", "priority", "p", "audit")  # fmt: skip
    assert found.occurred_at == parse_instant("2026-03-01T11:59:59Z")
    (bare,) = told(event("patch", 200, ref=STATUS, user=SCHEDULER), event("delete", 200, user=SCHEDULER))
    assert bare.occurred_at == parse_instant("2026-03-01T12:00:00.25Z"), "a log without bodies tells it by the deletion"


@pytest.mark.parametrize(
    ("user", "agent", "by"),
    [
        (VOLCANO, "vc-scheduler/v1.15.1", "volcano"),
        ("system:serviceaccount:x:y", "vc-scheduler/v1.15.1", "volcano"),
        ("system:serviceaccount:x:hami", "kube-scheduler/v1.34.1 (linux)", "kube-scheduler"),
    ],
)
def test_a_deletion_by_a_scheduler_is_a_preemption(user: str, agent: str, by: str) -> None:
    (found,) = told(event("delete", 200, user=user, agent=agent))
    assert isinstance(found, Preemption)
    assert found.decided_by == by


@pytest.mark.parametrize(
    "payload",
    [
        event("delete", 200),
        event("delete", 403, user=VOLCANO),
        event("delete", 200, user=VOLCANO, stage="RequestReceived"),
        event("update", 200, ref=STATUS, user=VOLCANO),
        event(
            "patch", 200, ref=STATUS, requestObject={"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        ),
        event("create", 201),
        event("create", 500, "etcdserver: request timed out"),
        event("patch", 200, ref=STATUS, requestObject={"status": {"conditions": "x"}}),
        event("create", 403, QUOTA, stage="RequestReceived"),
    ],
)
def test_what_decides_nothing_yields_nothing(payload: dict[str, Any]) -> None:
    assert told(payload) == []


def test_memory_for_victims_is_bounded() -> None:
    decisions = AuditDecisions()
    reader = AuditReader(CTX)
    reader._decisions = decisions
    for number in range(10_010):
        list(
            reader.read(
                event("patch", 200, ref=STATUS | {"name": f"p{number}"}, requestObject=DISRUPTED, user=SCHEDULER)
            )
        )
    assert len(decisions._told) == 10_000
