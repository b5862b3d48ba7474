"""What Kueue's objects, events and pods say against each other, and what they do not."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.quota import Quota
from steelyard.facts.sighting import Sighting
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from tests.app.compared import compare as compared
from tests.app.compared import facts_of, status, told_by
from tests.sources.kueue.kueue_objects import (
    SEEN,
    admitted,
    assignment,
    cluster_queue,
    condition,
    each,
    event,
    local_queue,
    pod,
    pod_set,
    read,
    stamp,
    workload,
)


def compare(*payloads, listed=True):
    return compared(*payloads, at=SEEN, listed=listed)


VICTIM = "Preempted to accommodate a workload (UID: {}, JobUID: j) due to prioritization in the ClusterQueue"


def preempted(uid: str, clock: str = "09:00:00", *, past: bool = False):
    text = VICTIM.format(uid)
    return condition("Preempted", not past, clock, "InClusterQueue", f"Previously: {text}" if past else text)


def evidence(finding):
    return json.loads(finding.evidence)


def test_a_preemptor_whom_object_and_event_call_differently_is_told_with_who_exists():
    other = workload(name="x", uid="u-x")
    told = compare(workload(preempted("u-x")), other, event("Preempted", VICTIM.format("u-nobody")))
    (finding,) = told
    assert (finding.code, finding.subject) == ("preemptor_uid_conflict", "workload a/w")
    assert evidence(finding)["objects"] == {"u-nobody": None, "u-x": "a/x"}
    assert not compare(workload(preempted("u-x")), other, event("Preempted", VICTIM.format("u-x")))


def test_only_the_last_preemption_before_an_overwritten_condition_is_compared_with_it():
    events = [
        event("Preempted", VICTIM.format("u-1"), "08:30:00"),
        event("Preempted", VICTIM.format("u-2"), "09:00:00"),
    ]
    later = event("Preempted", VICTIM.format("u-3"), "10:00:00")
    assert not compare(workload(preempted("u-2", "09:30:00", past=True)), *events, later)
    assert len(compare(workload(preempted("u-1", "09:30:00", past=True)), *events, later)) == 1


@pytest.mark.parametrize(
    ("uid", "clock", "told"),
    [("u-w", "09:00:00", 0), ("u-other", "09:00:00", 1), ("u-other", "07:59:59", 0), ("u-x", "09:00:00", 0)],
)
def test_an_event_by_another_uid_is_a_mismatch_unless_it_is_of_an_earlier_object(uid, clock, told):
    about = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "namespace": "a", "name": "w", "uid": uid}
    found = compare(workload(), workload(name="x", uid="u-x"), event("Pending", "x", clock, involvedObject=about))
    assert [finding.code for finding in found] == ["event_uid_mismatch"] * told


HOST = {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["n1"], "count": 1}]}


def on_node(name: str, flavor: str, *conditions, topology=HOST):
    more = {"topologyAssignment": topology} if topology else {}
    return workload(*admitted(), *conditions, name=name, admission=[assignment(flavor=flavor, **more)])


def test_a_node_under_two_flavors_is_promised_twice():
    (finding,) = compare(on_node("x", "h100"), on_node("y", "a100"))
    assert (finding.code, finding.subject) == ("overlapping_nodes", "node n1")
    assert evidence(finding)["flavors"] == {"a100": ["a/y"], "h100": ["a/x"]}


def test_a_pod_tells_the_node_of_a_workload_without_a_placement():
    annotation = {"annotations": {"kueue.x-k8s.io/workload": "y"}}
    found = compare(on_node("x", "h100"), on_node("y", "a100", topology=None), pod("p", metadata=annotation))
    assert [evidence(each)["live_pods_by_workload"] for each in found] == [{"a/x": 0, "a/y": 1}]


@pytest.mark.parametrize("by", ["annotation", "controller", "own uid", "job label", "jobset label", "group"])
def test_a_pod_belongs_to_its_workload_by_any_of_its_links(by):
    kind = {"own uid": "Pod", "jobset label": "JobSet"}.get(by, "Job")
    uid = "u-p" if by == "own uid" else "u-owner"
    payload = workload(
        *admitted(), name="y", owner={"kind": kind, "name": "y", "uid": uid}, admission=[assignment(flavor="a100")]
    )
    labels = {"job label": {"batch.kubernetes.io/job-name": "y"}, "jobset label": {"jobset.sigs.k8s.io/jobset-name": "y"},
              "group": {"kueue.x-k8s.io/pod-group-name": "y"}}.get(by, {})  # fmt: skip
    metadata = {}
    if by == "annotation":
        metadata["annotations"] = {"kueue.x-k8s.io/workload": "y"}
    if by == "controller":
        metadata["ownerReferences"] = [{"kind": "Job", "uid": "u-owner", "controller": True}]
    assert [
        each.code for each in compare(on_node("x", "h100"), payload, pod("p", labels=labels, metadata=metadata))
    ] == ["overlapping_nodes"]


def test_finished_workloads_and_ended_pods_hold_no_node():
    end = condition("Finished", True, "10:00:00", "Succeeded")
    assert not compare(on_node("x", "h100"), on_node("y", "a100", end))
    annotation = {"annotations": {"kueue.x-k8s.io/workload": "y"}}
    assert not compare(
        on_node("x", "h100"), on_node("y", "a100", topology=None), pod("p", phase="Succeeded", metadata=annotation)
    )


def counters(pending, reserving, held):
    return cluster_queue(pendingWorkloads=pending, reservingWorkloads=reserving, admittedWorkloads=held)


def test_counters_that_agree_with_the_objects_are_no_finding():
    objects = [
        workload(name="waits"),
        workload(*admitted(), name="runs", admission=[assignment()]),
        workload(condition("QuotaReserved", True, "08:00:00"), name="checked", admission=[assignment()]),
        workload(name="off", spec={"active": False}),
        workload(*admitted(), condition("Finished", True, "10:00:00", "Failed"), name="done", admission=[assignment()]),
        workload(name="elsewhere", spec={"queueName": "another"}),
    ]
    assert not compare(*objects, local_queue(), counters(1, 2, 1))
    (finding,) = compare(*objects, local_queue(), counters(0, 2, 1))
    assert (finding.code, finding.subject) == ("queue_counters_mismatch", "clusterqueue cq")
    assert (evidence(finding)["pending_workloads_claimed_count"], evidence(finding)["pending_workloads_counted"]) == (
        0,
        1,
    )


def test_counters_of_a_queue_without_a_workload_are_told_apart():
    (finding,) = compare(workload(), counters(3, 1, 1))
    assert finding.code == "queue_counters_without_objects"
    assert (evidence(finding)["workload_objects_count"], evidence(finding)["usage_claimed"]) == (0, False)


def test_nothing_is_missing_where_not_all_workloads_were_listed():
    gated = pod("p", labels={"kueue.x-k8s.io/managed": "true"}, node=None, phase="Pending")
    assert not compare(workload(), counters(3, 1, 1), gated, listed=False)


GATES = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}


def test_a_pod_at_the_gate_without_a_workload_waits_for_nothing():
    gated = pod("p", labels={"kueue.x-k8s.io/managed": "true"}, node=None, phase="Pending", spec=GATES)
    found = compare(workload(), gated)
    assert [(each.code, each.subject) for each in found] == [
        ("workload_missing_for_kueue_pod", "pod a/p"),
        ("workload_object_missing", "pod a/p"),
    ]
    assert evidence(found[1]) == {"waiting_since_utc": stamp("09:00:00")}
    own = workload(name="p", uid="u-own", owner={"kind": "Pod", "name": "p", "uid": "u-p"})
    assert not compare(own, gated)


@pytest.mark.parametrize(("phase", "severity"), [("Running", "warning"), ("Failed", "info")])
def test_a_pod_that_ended_may_have_outlived_its_workload(phase, severity):
    (finding,) = compare(workload(), pod("p", labels={"kueue.x-k8s.io/managed": "true"}, phase=phase))
    assert (finding.code, finding.severity) == ("workload_missing_for_kueue_pod", severity)


def test_pods_of_a_job_are_not_judged_one_by_one():
    assert not compare(workload(), pod("p"))


def test_pods_and_facts_of_others_are_not_kept():
    plain = pod("p")
    plain["metadata"]["labels"] = {}
    assert not compare(plain)


def test_row_14609_pods_that_were_given_back_and_run_again_are_told_with_both_counts():
    spec = {"podSets": [pod_set(3, 1)]}
    given_back = [{"name": "main", "count": 2}]
    payload = workload(*admitted(), spec=spec, admission=[assignment(3, 3)], reclaimablePods=given_back)
    pods = [pod(f"p{i}", metadata={"annotations": {"kueue.x-k8s.io/workload": "w"}}) for i in range(3)]
    (finding,) = compare(payload, *pods)
    told = json.loads(finding.evidence)
    assert finding.code == "reclaimable_pods_stale"
    assert (told["running_pods_count"], told["counted_pods_count"], told["reclaimable_pods_count"]) == (3, 1, 2)
    assert not compare(payload, pods[0])


@pytest.mark.parametrize("state", ["Rejected", "Retry"])
def test_row_6035_a_check_that_said_no_while_the_quota_is_kept_is_told(state):
    check = {"name": "capacity", "state": state, "lastTransitionTime": stamp("08:10:00")}
    reserved = condition("QuotaReserved", True, "08:01:00")
    (finding,) = compare(workload(reserved, admission=[assignment(900, 900)], admissionChecks=[check]))
    told = json.loads(finding.evidence)
    assert finding.code == "reservation_kept_after_rejection"
    assert told == {"checks": {"capacity": state}, "held_milli": {"nvidia.com/gpu": 900_000}, "cluster_queue": "cq"}
    assert not compare(workload(condition("QuotaReserved", False, "08:11:00"), admissionChecks=[check]))


def test_row_1937_a_count_of_waiting_workloads_one_too_low_is_told():
    (finding,) = compare(workload(), workload(name="x"), local_queue(), cluster_queue(pendingWorkloads=1))
    assert finding.code == "queue_counters_mismatch"
    assert json.loads(finding.evidence)["pending_workloads_counted"] == 2


def test_row_6586_two_flavors_over_one_node_are_told_and_their_quotas_stay_apart():
    rows = [
        {"name": flavor, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]} for flavor in ("h100", "any")
    ]
    facts = read(cluster_queue(spec={"resourceGroups": [{"flavors": rows}]}))
    assert [(each.flavor, each.nominal_milli) for each in each(facts, Quota)] == [("h100", 8_000), ("any", 8_000)]
    host = {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["n1"], "count": 1}]}
    both = [
        workload(*admitted(), name=name, admission=[assignment(flavor=name, topologyAssignment=host)])
        for name in ("h100", "any")
    ]
    assert [each.code for each in compare(*both)] == ["overlapping_nodes"]


WORKLOADS = "workloads.kueue.x-k8s.io"


def watched(*facts, minutes):
    """The findings after a watch that began with these facts and goes on for so long."""
    to = SEEN + minutes * MINUTE_US
    stretches = [status(kind, to, observed_from_at=SEEN, observed_to_at=to) for kind in (WORKLOADS, "pods")]
    return [each.code for each in told_by([*facts, *stretches], to)]


def test_a_watch_believes_a_passing_contradiction_once_it_has_stood_for_five_minutes():
    behind = facts_of([workload(), local_queue(), cluster_queue(pendingWorkloads=5)], SEEN)
    assert [watched(*behind, minutes=each) for each in (4, 5)] == [[], ["queue_counters_mismatch"]]
    gated = pod("p", labels={"kueue.x-k8s.io/managed": "true"}, node=None, phase="Pending", spec=GATES)
    gated["metadata"]["creationTimestamp"] = stamp("12:00:00")
    lonely = facts_of([workload(), gated], SEEN)
    assert watched(*lonely, minutes=4) == []
    assert watched(*lonely, minutes=5) == ["workload_missing_for_kueue_pod", "workload_object_missing"]


def test_a_count_between_what_is_sure_and_what_just_changed_is_no_contradiction():
    settled = facts_of([workload(), local_queue(), cluster_queue(pendingWorkloads=1)], SEEN)
    fresh = facts_of([workload(name="x")], SEEN + 9 * MINUTE_US)
    assert watched(*settled, *fresh, minutes=10) == []
    assert watched(*settled, *fresh, minutes=14) == ["queue_counters_mismatch"]


def gone(uid, minutes):
    at = SEEN + minutes * MINUTE_US
    return [
        Sighting(source="kube_api", natural_key=uid, occurred_at=at, observed_at=at, object_kind=kind, object_uid=uid)
        for kind in ("workload", "workload_gone")
    ]


def test_what_is_gone_contradicts_nothing_any_more():
    both = facts_of([on_node("x", "h100"), on_node("y", "a100")], SEEN)
    assert watched(*both, minutes=10) == ["overlapping_nodes"]
    assert watched(*both, *gone("u-y", 3), minutes=10) == []


def test_a_status_from_long_before_the_objects_were_listed_is_no_word_about_them():
    old = facts_of([cluster_queue(pendingWorkloads=5), local_queue(), workload()], SEEN)
    day = 24 * HOUR_US
    later = [*facts_of([workload(), workload(name="x")], SEEN + day), status(WORKLOADS, SEEN + day)]
    assert told_by([*old, *later], SEEN + day) == []
    assert [each.code for each in told_by([*old, status(WORKLOADS, SEEN)], SEEN)] == ["queue_counters_mismatch"]


def test_a_key_of_a_flavor_with_any_character_is_no_fault():
    payload = on_node("x", "h100")
    payload["status"]["admission"]["podSetAssignments"][0]["flavors"] = {'a"/~b.com/gpu': "f", "nvidia.com/gpu": "h100"}
    assert [each.subject for each in compare(payload, on_node("y", "a100"))] == ["node n1"]
