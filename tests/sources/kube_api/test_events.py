"""Kubernetes events in both encodings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.event import Event
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import parse_instant
from steelyard.sources.kube_api.events import read_event
from tests.sources.kube_api.kube_objects import CTX, at, codes, only, stamp

OLD = {
    "metadata": {"uid": "e-1", "name": "p.1", "namespace": "ns"},
    "involvedObject": {
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u-1",
        "fieldPath": "spec.containers{main}",
    },
    "reason": "BackOff",
    "message": "Back-off restarting failed container",
    "source": {"component": "kubelet", "host": "n-1"},
    "firstTimestamp": stamp("10:00:00"),
    "lastTimestamp": stamp("10:05:00"),
    "count": 7,
    "type": "Warning",
}
NEW = {
    "metadata": {"uid": "e-2", "name": "p.2", "namespace": "ns", "creationTimestamp": stamp("11:00:00")},
    "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u-1"},
    "reason": "Preempted",
    "message": "Preempted by pod u-9 on node n-1",
    "eventTime": "2027-03-05T11:00:00.123456Z",
    "firstTimestamp": None,
    "lastTimestamp": None,
    "series": {"count": 9, "lastObservedTime": "2027-03-05T11:30:00.654321Z"},
    "reportingComponent": "default-scheduler",
    "reportingInstance": "default-scheduler-0",
    "action": "Preempting",
    "related": {"kind": "Pod", "name": "hi", "uid": "u-9", "resourceVersion": 5},
    "source": {},
    "type": "Normal",
}
EVENTS_V1 = {
    "metadata": {"uid": "e-3"},
    "regarding": {"kind": "Node", "name": "n-2", "uid": "n-2"},
    "reason": "NodeNotReady",
    "note": "Node n-2 status is now: NodeNotReady",
    "reportingController": "node-controller",
    "deprecatedFirstTimestamp": stamp("09:00:00"),
    "deprecatedLastTimestamp": stamp("09:10:00"),
    "deprecatedCount": 2,
    "deprecatedSource": {"component": "node-controller"},
    "type": "Warning",
}


def _read(payload: dict[str, Any]) -> list[Any]:
    return list(read_event(payload, CTX))


def test_the_old_encoding_has_first_last_and_count():
    event = only(_read(OLD), Event)
    assert (event.first_at, event.occurred_at, event.count) == (at("10:00:00"), at("10:05:00"), 7)
    assert (event.component, event.node, event.severity, event.natural_key) == ("kubelet", "n-1", "Warning", "e-1")
    assert (event.subject_kind, event.subject_namespace, event.subject_name, event.subject_uid) == (
        "Pod",
        "ns",
        "p",
        "u-1",
    )
    assert json.loads(event.details)["field_path"] == "spec.containers{main}"


def test_the_new_encoding_has_event_time_and_series():
    event = only(_read(NEW), Event)
    assert event.first_at == parse_instant("2027-03-05T11:00:00.123456Z")
    assert event.occurred_at == parse_instant("2027-03-05T11:30:00.654321Z")
    assert (event.count, event.component, event.node) == (9, "default-scheduler", None)
    assert json.loads(event.details)["related"] == {"kind": "Pod", "name": "hi", "uid": "u-9"}


def test_the_events_group_has_regarding_note_and_deprecated_fields():
    event = only(_read(EVENTS_V1), Event)
    assert (event.first_at, event.occurred_at, event.count) == (at("09:00:00"), at("09:10:00"), 2)
    assert (event.message, event.component) == ("Node n-2 status is now: NodeNotReady", "node-controller")
    assert (event.subject_kind, event.node) == ("Node", "n-2")


def test_both_encodings_of_one_event_are_the_same_fact():
    renamed = {**OLD, "regarding": OLD["involvedObject"], "note": OLD["message"], "deprecatedSource": OLD["source"]}
    renamed |= {"deprecatedFirstTimestamp": OLD["firstTimestamp"], "deprecatedLastTimestamp": OLD["lastTimestamp"]}
    renamed |= {"deprecatedCount": OLD["count"]}
    for key in ("involvedObject", "message", "source", "firstTimestamp", "lastTimestamp", "count"):
        del renamed[key]
    assert _read(renamed) == _read(OLD)


def test_an_event_seen_once_counts_once_at_its_only_time():
    event = only(_read({**NEW, "series": None}), Event)
    assert (event.count, event.occurred_at) == (1, event.first_at)


def test_of_several_first_times_the_earliest_counts():
    event = only(_read({**OLD, "eventTime": stamp("10:00:30")}), Event)
    assert (event.first_at, event.occurred_at) == (at("10:00:00"), at("10:05:00"))


def test_the_kubelets_instance_is_its_node():
    payload = {**NEW, "reportingComponent": "kubelet", "reportingInstance": "n-7"}
    assert only(_read(payload), Event).node == "n-7"


def test_without_uid_the_key_is_made_of_the_events_own_fields():
    payload = {**OLD, "metadata": {"name": "p.1", "namespace": "ns"}}
    assert only(_read(payload), Event).natural_key == "ns/p.1/ns/Pod/p/BackOff"


@pytest.mark.parametrize("count", [0, -3, "7", 2**70, True, None])
def test_a_count_that_is_none_is_one(count):
    assert only(_read({**OLD, "count": count}), Event).count == 1


def test_an_event_without_any_time_is_refused():
    with pytest.raises(SourceMalformed):
        _read({**OLD, "firstTimestamp": None, "lastTimestamp": None})


def test_one_bad_stamp_of_two_is_said_and_the_other_used():
    facts = _read({**OLD, "lastTimestamp": "later"})
    assert only(facts, Event).occurred_at == at("10:00:00")
    assert codes(facts) == ["stamp_malformed"]
