"""The symptoms that people reported of Kueue, row by row of the fact sheet: what is read of each.

A row is a shape of input and the answer that is right. What needs sums over time (ages, leaks in GPU-seconds, stages) is tested where the ledgers
are; here is what the reader must keep so that they can.
"""

from __future__ import annotations

import json

import pytest

from steelyard.facts.decision import Decision
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.facts.preemption import Preemption
from steelyard.facts.queue import Queue
from steelyard.facts.transition import Transition
from steelyard.sources.kube_api.transitions import read_transitions
from tests.sources.kueue.kueue_objects import (
    CTX,
    admitted,
    assignment,
    at,
    cluster_queue,
    codes,
    condition,
    each,
    event,
    local_queue,
    only,
    pod_set,
    read,
    stamp,
    workload,
)

USED = [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "4"}]}]


def test_row_14811_an_eviction_that_never_released_is_evicted_and_still_holds_its_quota():
    evicted = condition("Evicted", True, "09:45:00", "PodsReadyTimeout", "Exceeded the PodsReady timeout a/w")
    requeue = {"count": 1, "requeueAt": stamp("09:46:00")}
    gang = only(read(workload(*admitted(), evicted, admission=[assignment(4, 4)], requeueState=requeue)), Gang)
    assert (gang.phase, json.loads(gang.admitted), gang.requeue_at) == (
        "evicted",
        {"nvidia.com/gpu": 4_000},
        at("09:46:00"),
    )
    assert json.loads(gang.details)["conditions"]["QuotaReserved"][0] == "True"


def test_row_13676_counters_of_a_queue_that_is_being_deleted_are_stale_although_it_says_active():
    payload = cluster_queue(condition("Active", True, "08:00:00", "Ready"), pendingWorkloads=3, admittedWorkloads=1)
    payload["metadata"]["deletionTimestamp"] = stamp("09:00:00")
    facts = read(payload)
    assert codes(facts) == ["stale_cluster_queue_status"]
    assert (only(facts, Queue).state, only(facts, Queue).deletion_at) == ("closing", at("09:00:00"))
    assert not codes(read(cluster_queue(condition("Active", True, "08:00:00", "Ready"), pendingWorkloads=3)))


def test_row_13708_usage_of_a_local_queue_whose_cluster_queue_is_gone_is_stale_and_truly_nothing():
    gone = condition("Active", False, "08:00:00", "ClusterQueueDoesNotExist")
    facts = read(local_queue(gone, parent="deleted", flavorsUsage=USED, flavorsReservation=USED))
    assert codes(facts) == ["stale_local_queue_status"]
    (finding,) = each(read(local_queue(gone, flavorsUsage=USED)), Finding)
    told = json.loads(finding.evidence)
    assert (told["claimed_milli"], told["true_milli"]) == ({"nvidia.com/gpu": 4_000}, {"nvidia.com/gpu": 0})
    assert not codes(read(local_queue(gone)))
    assert not codes(read(local_queue(condition("Active", True, "08:00:00", "Ready"), flavorsUsage=USED)))


def test_row_10407_workloads_whose_owner_is_gone_keep_its_uid_and_end_as_neither_success_nor_failure():
    live = workload(*admitted(), admission=[assignment()], owner={"kind": "Pod", "uid": "u-gone"})
    orphan = workload(
        *admitted(), condition("Finished", True, "10:00:00", "OwnerNotFound"), name="x", admission=[assignment()]
    )
    first, second = (only(read(payload), Gang) for payload in (live, orphan))
    assert (first.owner_uid, first.outcome) == ("u-gone", None)
    assert (second.outcome, second.admitted) == ("owner_not_found", "{}")


def test_row_10124_a_workload_that_waits_for_hours_is_there_with_its_age_and_its_cause():
    facts = read(workload(condition("QuotaReserved", False, "08:00:01", "Pending", "LocalQueue lq is inactive")))
    gang, decision = only(facts, Gang), only(facts, Decision)
    assert (gang.phase, gang.created_at) == ("pending", at("08:00:00"))
    assert (decision.verdict, decision.cause, decision.first_at) == ("not_now", "policy", at("08:00:01"))


def test_row_14623_a_recovered_readiness_is_no_first_one():
    facts = [
        fact
        for reason, clock in (("Started", "08:10:00"), ("Recovered", "20:00:00"))
        for fact in read_transitions(workload(condition("PodsReady", True, clock, reason)), "Workload", CTX)
        if isinstance(fact, Transition)
    ]
    assert [(fact.value, fact.reason) for fact in facts] == [("True", "Started"), ("True", "Recovered")]
    assert not each(read(workload(condition("PodsReady", True, "20:00:00", "Recovered"))), Decision)


def test_row_11170_an_admission_is_kueue_s_decision_with_a_stamp_of_its_own():
    rows = [condition("QuotaReserved", True, "08:01:00"), condition("Admitted", True, "08:05:00", "Admitted")]
    told = [(each.verdict, each.occurred_at, each.decided_by) for each in each(read(workload(*rows)), Decision)]
    assert told == [("reserved", at("08:01:00"), "kueue"), ("admitted", at("08:05:00"), "kueue")]


def test_row_6122_an_eviction_and_the_release_of_its_quota_are_two_instants():
    text = "Preempted to accommodate a workload (UID: u, JobUID: j) due to prioritization in the ClusterQueue"
    rows = [
        condition("Evicted", True, "09:00:00", "Preempted", text),
        condition("QuotaReserved", False, "09:04:00", "Pending", text),
    ]
    told = [(each.verdict, each.occurred_at, each.cause) for each in each(read(workload(*rows)), Decision)]
    assert told == [("evicted", at("09:00:00"), "quota"), ("not_now", at("09:04:00"), None)]


@pytest.mark.parametrize("reason", ["LocalQueueStopped", "NodeFailures"])
def test_row_6332_every_eviction_counts_and_a_failed_preemption_does_not(reason):
    facts = read(event(f"EvictedDueTo{reason}", "x"))
    assert [(each.verdict, each.rule) for each in each(facts, Decision)] == [("evicted", reason)]
    short = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 1 more needed"
    text = f"{short}. Preempting 2 workload(s) failed, will retry."
    facts = read(event("Pending", text))
    assert not each(facts, Preemption)
    assert json.loads(only(facts, Decision).details)["failed_preemptions_count"] == 2


def test_row_11171_preemptions_are_counted_by_workload():
    stats = {
        "evictions": [
            {"reason": "Preempted", "underlyingCause": "", "count": 2},
            {"reason": "NodeFailures", "count": 1},
        ]
    }
    gang = only(read(workload(schedulingStats=stats)), Gang)
    assert json.loads(gang.evictions) == [
        {"cause": None, "count": 2, "reason": "Preempted"},
        {"cause": None, "count": 1, "reason": "NodeFailures"},
    ]


@pytest.mark.parametrize("uid", ["u-preemptor", "UNKNOWN"])
def test_row_7067_a_preemptor_s_uid_is_kept_and_unknown_is_no_uid(uid):
    text = f"Preempted to accommodate a workload (UID: {uid}, JobUID: UNKNOWN) due to reclamation within the cohort"
    told = only(read(event("Preempted", text)), Preemption)
    assert (told.preemptor_uid, told.preemptor_job_uid) == (None if uid == "UNKNOWN" else uid, None)


def test_row_9338_an_admission_on_a_manager_names_the_cluster_where_it_truly_runs():
    gang = only(
        read(
            workload(
                *admitted(),
                admission=[assignment()],
                clusterName="worker-1",
                nominatedClusterNames=["worker-1", "worker-2"],
            )
        ),
        Gang,
    )
    details = json.loads(gang.details)
    assert (details["cluster"], details["nominated_clusters"]) == ("worker-1", ["worker-1", "worker-2"])
    told = only(read(event("EvictedDueToEvictedOnManagerCluster", "x")), Decision)
    assert (told.verdict, told.rule) == ("evicted", "EvictedOnManagerCluster")


def test_row_5243_an_admitted_pod_that_fits_on_no_node_shows_what_it_holds_per_pod():
    gang = only(read(workload(*admitted(), spec={"podSets": [pod_set(1, 8)]}, admission=[assignment(1, 8)])), Gang)
    assert (gang.phase, json.loads(gang.admitted)) == ("admitted", {"nvidia.com/gpu": 8_000})
    assert json.loads(gang.details)["pod_sets"][0]["per_pod"] == {"nvidia.com/gpu": 8_000}


def test_row_9741_each_waiting_workload_has_its_own_shortage():
    words = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, {} more needed"
    facts = read(
        *(
            workload(condition("QuotaReserved", False, "08:00:01", "WaitingForQuota", words.format(n)), name=f"w{n}")
            for n in (1, 64)
        )
    )
    assert [(each.subject_name, each.missing_milli) for each in each(facts, Decision)] == [
        ("w1", 1_000),
        ("w64", 64_000),
    ]


def test_row_2291_a_requeue_or_eviction_that_stands_still_is_shown_with_its_stamp():
    rows = [
        condition("Requeued", True, "08:05:00", "AdmissionCheck"),
        condition("Evicted", True, "08:04:00", "AdmissionCheck"),
    ]
    facts = read(workload(*rows))
    assert [(each.verdict, each.occurred_at) for each in each(facts, Decision)] == [
        ("requeued", at("08:05:00")),
        ("evicted", at("08:04:00")),
    ]
    assert json.loads(only(facts, Gang).details)["conditions"] == {
        "Requeued": ["True", stamp("08:05:00")],
        "Evicted": ["True", stamp("08:04:00")],
    }


def test_row_10108_instances_of_different_size_are_not_counted_as_cards():
    per_pod = {
        "template": {
            "spec": {
                "containers": [
                    {"resources": {"requests": {"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-7g.80gb": "1"}}}
                ]
            }
        }
    }
    gang = only(read(workload(spec={"podSets": [{"name": "main", "count": 2, **per_pod}]})), Gang)
    assert gang.gpu_milli is None
    assert json.loads(gang.demand) == {"nvidia.com/mig-1g.10gb": 2_000, "nvidia.com/mig-7g.80gb": 2_000}


def test_row_2012_an_eviction_without_an_event_is_read_from_the_condition():
    facts = read(
        workload(condition("Evicted", True, "09:00:00", "PodsReadyTimeout", "Exceeded the PodsReady timeout a/w"))
    )
    told = only(facts, Decision)
    assert (told.verdict, told.rule, told.evidence, told.occurred_at) == (
        "evicted",
        "PodsReadyTimeout",
        "condition",
        at("09:00:00"),
    )
