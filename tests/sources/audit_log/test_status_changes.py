"""A workload's history, as its status was written: each change once, with the stamps that the object then had."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.app.audit import documents_of, read_audit
from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.transition import Transition
from steelyard.primitives.instant import format_instant, parse_instant
from steelyard.sources.kube_api.transitions import read_transitions
from steelyard.sources.shared.context import ReadContext

AT = parse_instant("2026-03-01T12:00:00Z")
CTX = ReadContext(cluster="c", file="audit.log", observed_at=AT)


def condition(status: str, at: str | None, **more: str) -> dict[str, Any]:
    stamp = {"lastTransitionTime": f"2026-03-01T{at}Z"} if at else {}
    return {"type": "QuotaReserved", "status": status, "reason": "r", "message": "m", **stamp, **more}


def write(*conditions: dict[str, Any], uid: str | None = "u-1", **more: Any) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "a", **({"uid": uid} if uid else {})}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/w/status?fieldManager=kueue-admission",
        "verb": "patch",
        "objectRef": {"resource": "workloads", "namespace": "a", "name": "w", "apiGroup": "kueue.x-k8s.io", "subresource": "status"},
        "responseStatus": {"code": 200},
        "requestObject": {"metadata": metadata, "status": {"conditions": list(conditions)}},
        "stageTimestamp": "2026-03-01T09:00:00.5Z",
        **more,
    }  # fmt: skip


def changes(*documents: dict[str, Any]) -> list[Transition]:
    return [fact for fact in read_audit(((0, each) for each in documents), CTX) if isinstance(fact, Transition)]


def test_a_change_that_the_log_and_the_object_both_tell_of_has_one_key() -> None:
    (told,) = changes(write(condition("True", "09:00:00")))
    status = {"conditions": [condition("True", "09:00:00")]}
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "metadata": {"name": "w", "namespace": "a", "uid": "u-1"},
        "status": status,
    }
    (seen,) = read_transitions(workload, "Workload", CTX)
    assert isinstance(seen, Transition)
    assert (told.source, seen.source) == ("audit_log", "kube_api")
    same = ("natural_key", "occurred_at", "object_uid", "object_kind", "object_group", "item", "value", "reason")
    assert [getattr(told, name) for name in same] == [getattr(seen, name) for name in same]


def test_a_write_of_a_workload_without_a_uid_is_of_its_name() -> None:
    (told,) = changes(write(condition("False", "09:00:00"), uid=None))
    assert (told.object_uid, told.namespace, told.object_name) == ("name:a/w", "a", "w")


def test_a_change_without_a_stamp_is_dated_at_the_write() -> None:
    (told,) = changes(write(condition("False", None)))
    assert (format_instant(told.occurred_at), told.time_basis) == ("2026-03-01T09:00:00.5Z", "inferred")


def test_the_checks_of_a_workload_are_changes_too() -> None:
    body = {"status": {"admissionChecks": [{"name": "capacity", "state": "Ready"}]}}
    (told,) = changes(write(requestObject=body))
    assert (told.aspect, told.item, told.value, told.object_uid) == ("admission_check", "capacity", "Ready", "name:a/w")


def test_what_the_server_answered_counts_before_what_was_asked() -> None:
    answer = {"metadata": {"uid": "u-9"}, "status": {"conditions": [condition("False", "08:00:00")]}}
    (told,) = changes(write(condition("True", "09:00:00"), responseObject=answer))
    assert (told.object_uid, told.value) == ("u-9", "False")


@pytest.mark.parametrize(
    "more",
    [
        {"responseStatus": {"code": 409}},
        {"stage": "RequestReceived"},
        {"verb": "delete"},
        {"requestURI": "/apis/x/status?dryRun=All&fieldManager=k"},
        {"requestObject": [{"op": "replace", "path": "/status"}]},
        {"requestObject": {"status": {"conditions": "none"}}},
        {"objectRef": {"resource": "workloads", "apiGroup": "kueue.x-k8s.io", "namespace": "a", "name": "w"}},
    ],
)
def test_a_write_that_set_nothing_changes_nothing(more: dict[str, Any]) -> None:
    found = list(read_audit([(0, write(condition("True", "09:00:00"), **more))], CTX))
    assert [type(fact) for fact in found] == [AuditEvent]


def test_the_second_preemption_of_the_case_is_recoverable_from_the_log_alone(shared) -> None:
    lines = (shared / "cases/queues/audit.jsonl").read_bytes().splitlines()
    told = [fact for fact in read_audit(documents_of(lines, CTX), CTX) if isinstance(fact, Transition)]
    assert len(told) == 6
    sweep = [
        (fact.value, format_instant(fact.occurred_at)[11:19])
        for fact in told
        if fact.object_name == "jobset-sweep-77c2d"
    ]
    assert sweep == [
        ("True", "08:10:30"),
        ("False", "08:41:00"),
        ("True", "09:00:00"),
        ("False", "10:01:00"),
        ("True", "10:31:00"),
    ]
