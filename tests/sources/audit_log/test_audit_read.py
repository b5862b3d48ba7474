"""Audit events as facts: what changed, by whom, what was said; and nothing that a hostile body can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.audit import documents_of, read_audit
from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.finding import Finding
from steelyard.primitives.instant import parse_instant
from steelyard.sources.shared.context import ReadContext

AT = parse_instant("2026-03-01T12:00:00Z")
CTX = ReadContext(cluster="c", file="audit.log", observed_at=AT)


def event(**more: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/team-a/pods/x/binding?fieldManager=scheduler",
        "verb": "create",
        "user": {"username": "system:kube-scheduler", "groups": ["system:authenticated"]},
        "objectRef": {"resource": "pods", "namespace": "team-a", "name": "x", "apiVersion": "v1", "subresource": "binding"},
        "responseStatus": {"code": 201},
        "requestObject": {"kind": "Binding", "target": {"kind": "Node", "name": "n7"}},
        "requestReceivedTimestamp": "2026-03-01T11:59:58.000001Z",
        "stageTimestamp": "2026-03-01T11:59:58.250000Z",
        "annotations": {"authorization.k8s.io/decision": "allow"},
        **more,
    }  # fmt: skip


def read(*documents: Any) -> list[Any]:
    return list(read_audit(((0, each) for each in documents), CTX))


def only(*documents: Any) -> AuditEvent:
    (found,) = (fact for fact in read(*documents) if isinstance(fact, AuditEvent))
    return found


def test_a_binding_says_who_bound_which_pod_to_which_node_and_when() -> None:
    found = only(event())
    assert (found.natural_key, found.occurred_at) == ("id-1/ResponseComplete", parse_instant("2026-03-01T11:59:58.25Z"))
    assert (found.user, found.namespace, found.name, found.subresource) == (
        "system:kube-scheduler", "team-a", "x", "binding")  # fmt: skip
    assert (found.response_code, found.decision, found.field_manager) == (201, "allow", "scheduler")
    assert json.loads(found.details) == {"node": "n7"}


def test_what_a_queue_allows_is_kept_as_asked_and_as_answered() -> None:
    ref = {"resource": "clusterqueues", "name": "q", "apiGroup": "kueue.x-k8s.io", "apiVersion": "v1beta2"}
    asked, answered = {"spec": {"quota": 8}, "metadata": {"secret": 1}}, {"spec": {"quota": 8, "cohortName": "c"}}
    found = only(event(verb="patch", objectRef=ref, requestObject=asked, responseObject=answered))
    assert json.loads(found.details) == {"spec": {"quota": 8}, "spec_after": {"quota": 8, "cohortName": "c"}}
    assert only(event(requestObject={"spec": {"x": 1}}, objectRef={"resource": "pods"})).details == "{}"


def test_conditions_of_a_status_are_kept_and_nothing_else_of_it() -> None:
    ref = {"resource": "workloads", "name": "w", "apiGroup": "kueue.x-k8s.io", "subresource": "status"}
    condition = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-03-01T11:00:00Z", "more": 1}
    body = {"status": {"conditions": [condition, 7], "admission": {"big": "x"}}}
    found, _change = read(event(verb="patch", objectRef=ref, requestObject=body))
    assert json.loads(found.details) == {"conditions": [{k: v for k, v in condition.items() if k != "more"}]}


def test_a_refusal_keeps_its_reason_wherever_it_stands() -> None:
    quota = only(event(responseStatus={"code": 403, "reason": "Forbidden", "message": "exceeded quota: q"}))
    assert (quota.response_code, quota.response_reason, quota.response_message) == (
        403,
        "Forbidden",
        "exceeded quota: q",
    )
    body = {"kind": "Status", "message": "Cannot evict pod as it would violate the pod's disruption budget."}
    budget = only(event(responseStatus={"code": 429}, responseObject=body))
    assert budget.response_message == body["message"]


def test_a_name_that_was_generated_is_taken_from_the_answer() -> None:
    body = {"metadata": {"name": "web-1x", "uid": "u-1"}}
    found = only(event(objectRef={"resource": "pods", "namespace": "a"}, responseObject=body))
    assert (found.name, found.uid) == ("web-1x", "u-1")


def test_reads_and_what_is_not_weighed_are_one_count() -> None:
    lease = event(verb="update", objectRef={"resource": "leases", "apiGroup": "coordination.k8s.io"})
    (found,) = read(event(verb="get"), event(verb="list"), lease, event(verb="list"))
    assert isinstance(found, Finding)
    assert (found.code, found.severity) == ("audit_events_passed_over", "info")
    assert json.loads(found.evidence)["count"] == 4


def test_lists_of_events_are_read_item_by_item() -> None:
    listed = {
        "kind": "EventList",
        "apiVersion": "audit.k8s.io/v1",
        "items": [event(auditID="a"), 7, event(auditID="b")],
    }
    found = list(read_audit(documents_of([json.dumps(listed).encode()], CTX), CTX))
    assert [each.audit_id for each in found if isinstance(each, AuditEvent)] == ["a", "b"]
    assert [each.code for each in found if isinstance(each, Finding)] == ["source_malformed"]


HOSTILE: list[Any] = [
    None, 7, "x", [], [[]], {}, {"apiVersion": "v1", "kind": "Pod"}, event(auditID=None), event(auditID=""), event(stage="Odd"),
    event(stageTimestamp="yesterday"), event(stageTimestamp=7), event(stageTimestamp=None, requestReceivedTimestamp=None),
    event(stageTimestamp="0000-00-00T00:00:00Z"), event(stageTimestamp=["x"]),
]  # fmt: skip


@pytest.mark.parametrize("document", HOSTILE)
def test_what_is_no_event_is_a_finding_and_stops_nothing(document: Any) -> None:
    found = read(document, event())
    assert [type(each).__name__ for each in found if isinstance(each, AuditEvent)] == ["AuditEvent"]
    assert all(each.code == "source_malformed" for each in found if isinstance(each, Finding))


ODD: list[dict[str, Any]] = [
    {"user": "x"}, {"user": {"username": 7, "groups": {"a": 1}}}, {"objectRef": {"resource": "pods", "name": ["x"]}}, {"responseStatus": []},
    {"responseStatus": {"code": 2**70}}, {"responseStatus": {"code": True}}, {"requestObject": "x"}, {"responseObject": [1]},
    {"requestURI": "/?" + "a=1&" * 5000 + "fieldManager=x"}, {"requestURI": 7}, {"annotations": 7}, {"userAgent": "\ud800\0"},
]  # fmt: skip


@pytest.mark.parametrize("more", ODD)
def test_odd_fields_are_not_known_and_the_event_stays(more: dict[str, Any]) -> None:
    assert only(event(**more)).audit_id == "id-1"


def test_a_body_too_large_to_keep_is_left_out_and_named() -> None:
    ref = {"resource": "clusterqueues", "name": "q", "apiGroup": "kueue.x-k8s.io"}
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    found = only(
        event(verb="update", objectRef=ref, requestObject={"spec": {"x": "y" * 50_000}}, responseObject={"spec": deep})
    )
    kept = json.loads(found.details)
    assert kept["cut"] == ["spec"]
    assert kept["spec_after"] == deep


def test_lines_that_are_no_json_are_findings_within_bounds() -> None:
    lines = [b"{" * 5000, b"\xff\xfe", b'{"a":', b"", *[b"x"] * 1000]
    found = list(read_audit(documents_of(lines, CTX), CTX))
    assert len(found) < 250
    assert found[-1].code == "more_findings"


def test_the_decisions_of_the_recorded_log_are_all_there(shared: Path) -> None:
    lines = (shared / "cases/queues/audit.jsonl").read_bytes().splitlines()
    found = [each for each in read_audit(documents_of(lines, CTX), CTX) if isinstance(each, AuditEvent)]
    assert len(found) == len(lines)
    assert {each.subresource for each in found if each.resource == "pods"} >= {"binding", "eviction", "status"}
    codes = [json.loads(text).get("responseStatus", {}).get("code", 0) for text in lines]
    refused = sorted(each.response_code for each in found if each.response_code and each.response_code >= 400)
    assert refused == sorted(code for code in codes if code >= 400)
    waits = [json.loads(each.details)["conditions"] for each in found if each.resource == "workloads"]
    assert all(conditions and conditions[0]["lastTransitionTime"] for conditions in waits)
