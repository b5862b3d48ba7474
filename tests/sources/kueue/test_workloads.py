"""A Workload as a Gang: both versions, what it asks for, what it holds, how it stands."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.decision import Decision
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.facts.preemption import Preemption
from steelyard.facts.refusal import Refusal
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kueue import read_object
from tests.sources.kueue.kueue_objects import (
    CTX,
    V1,
    V2,
    admitted,
    assignment,
    at,
    codes,
    condition,
    each,
    only,
    pod_set,
    read,
    stamp,
    workload,
)


def test_both_versions_of_one_workload_are_one_gang():
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    new = workload(spec={"priorityClassRef": ref}, accumulatedPastExecutionTimeSeconds=90)
    spec = {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}
    old = workload(spec=spec, accumulatedPastExexcutionTimeSeconds=90, version=V1)
    assert only(read(new), Gang) == only(read(old), Gang)
    gang = only(read(old), Gang)
    assert (gang.priority_class, gang.past_run_us) == ("high", 90_000_000)
    assert json.loads(gang.details)["priority_class_kind"] == "WorkloadPriorityClass"


def test_a_pod_s_priority_class_is_told_from_a_workload_s():
    gang = only(
        read(workload(spec={"priorityClassName": "p", "priorityClassSource": "scheduling.k8s.io/priorityclass"})), Gang
    )
    assert json.loads(gang.details)["priority_class_kind"] == "PriorityClass"


def test_what_it_asks_for_is_that_of_all_its_pods_in_thousandths():
    gang = only(read(workload(spec={"podSets": [pod_set(4, 2, cpu="500m"), pod_set(1, 1, "driver")]})), Gang)
    assert (gang.pods_count, gang.gpu_milli) == (5, 9_000)
    assert json.loads(gang.demand) == {"nvidia.com/gpu": 9_000, "cpu": 2_000}


def test_kueue_s_own_reckoning_of_the_demand_counts_where_it_is_told():
    rows = [{"name": "main", "resources": {"example.com/gpu-hour": "3"}}]
    gang = only(read(workload(resourceRequests=rows)), Gang)
    assert (json.loads(gang.demand), gang.gpu_milli) == ({"example.com/gpu-hour": 3_000}, 1_000)


def test_what_it_holds_shrinks_with_the_pods_that_it_gave_back():
    rows = [assignment(4, 8), assignment(2, 2, "other", "a100")]
    gang = only(read(workload(*admitted(), admission=rows, reclaimablePods=[{"name": "main", "count": 3}])), Gang)
    assert (gang.phase, gang.cluster_queue) == ("admitted", "cq")
    assert json.loads(gang.admitted) == {"nvidia.com/gpu": 4_000}
    assert json.loads(gang.flavors) == {"nvidia.com/gpu": "a100,h100"}
    assert json.loads(gang.details)["assigned"] == {"nvidia.com/gpu": 10_000}


def test_more_pods_given_back_than_there_were_hold_nothing_and_are_told():
    facts = read(workload(*admitted(), admission=[assignment(2, 4)], reclaimablePods=[{"name": "main", "count": 3}]))
    assert json.loads(only(facts, Gang).admitted) == {"nvidia.com/gpu": 0}
    assert codes(facts) == ["workload_malformed"]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("Succeeded", "succeeded"),
        ("Failed", "failed"),
        ("OutOfSync", "out_of_sync"),
        ("OwnerNotFound", "owner_not_found"),
        ("WorkloadSliceReplaced", "replaced"),
    ],
)
def test_a_finished_workload_has_its_outcome_and_holds_nothing_although_its_admission_stays(reason, outcome):
    end = condition("Finished", True, "10:00:00", reason)
    gang = only(read(workload(*admitted(), end, admission=[assignment()])), Gang)
    assert (gang.phase, gang.outcome, gang.finished_at) == ("finished", outcome, at("10:00:00"))
    assert (gang.admitted, gang.cluster_queue) == ("{}", "cq")


def test_an_end_for_an_unknown_reason_is_no_success():
    facts = read(workload(condition("Finished", True, "10:00:00", "Vanished")))
    assert (only(facts, Gang).outcome, codes(facts)) == (None, ["finished_reason_unknown"])


@pytest.mark.parametrize(
    ("conditions", "phase"),
    [
        ([], "pending"),
        ([condition("QuotaReserved", False, "08:00:00", "WaitingForQuota")], "pending"),
        ([condition("QuotaReserved", True, "08:00:00")], "reserved"),
        (admitted(), "admitted"),
        ([*admitted(), condition("Evicted", True, "09:00:00", "Preempted")], "evicted"),
        ([*admitted(), condition("Evicted", False, "09:00:00", "QuotaReserved")], "admitted"),
        (
            [*admitted(), condition("Evicted", True, "09:00:00"), condition("Finished", True, "10:00:00", "Failed")],
            "finished",
        ),
    ],
)
def test_the_phase_is_the_last_word_that_holds(conditions, phase):
    assert only(read(workload(*conditions)), Gang).phase == phase


def test_partial_admission_has_a_least_number_of_pods():
    sets = [{**pod_set(8), "minCount": 2}, pod_set(1, name="driver")]
    assert only(read(workload(spec={"podSets": sets})), Gang).min_count == 3
    assert only(read(workload()), Gang).min_count is None


def test_a_pod_group_has_all_its_pods_as_members():
    payload = workload()
    payload["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": f"p{i}", "uid": f"u-p{i}"} for i in range(3)]
    gang = only(read(payload), Gang)
    assert (gang.owner_kind, gang.owner_name) == ("Pod", "p0")
    assert [row["uid"] for row in json.loads(gang.members)] == ["u-p0", "u-p1", "u-p2"]


def test_a_quantity_that_cannot_be_read_makes_the_cards_unknown_and_not_fewer():
    facts = read(workload(spec={"podSets": [pod_set(2), pod_set(1, name="b", cpu="many")]}))
    assert (only(facts, Gang).gpu_milli, codes(facts)) == (None, ["workload_malformed"])
    facts = read(workload(spec={"podSets": [{**pod_set(), "count": True}]}))
    assert (only(facts, Gang).gpu_milli, only(facts, Gang).pods_count) == (None, None)


def test_an_amount_that_no_column_holds_is_unknown_and_told():
    facts = read(workload(spec={"podSets": [pod_set(2**31, 10**9)]}))
    assert (only(facts, Gang).gpu_milli, codes(facts)) == (None, ["workload_malformed"])


def test_a_workload_without_a_uid_is_known_by_its_name():
    payload = workload(condition("Evicted", True, "09:00:00", "Preempted"))
    del payload["metadata"]["uid"]
    gang, decision = only(read(payload), Gang), only(read(payload), Decision)
    assert (gang.natural_key, gang.object_uid) == ("name:Workload/a/w", "name:a/w")
    assert (decision.subject_uid, decision.natural_key[:9]) == (None, "name:a/w/")


def test_a_workload_without_a_name_is_refused():
    with pytest.raises(SourceMalformed, match=r"metadata\.name"):
        list(read_object({"apiVersion": V2, "kind": "Workload"}, "Workload", CTX))


def test_each_condition_that_decides_is_a_decision_at_its_own_stamp():
    facts = read(
        workload(*admitted("08:05:00"), condition("PodsReady", True, "08:06:00", "Started"), admission=[assignment()])
    )
    told = [(each.verdict, each.occurred_at, each.queue, each.evidence) for each in each(facts, Decision)]
    assert told == [
        ("reserved", at("08:05:00"), "cq", "condition"),
        ("admitted", at("08:05:00"), "cq", "condition"),
    ]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("NoReservation", []),
        ("UnsatisfiedAdmissionChecks", [("not_now", "check")]),
        ("UnsatisfiedChecks", [("not_now", "check")]),
        ("NoReservationUnsatisfiedChecks", [("not_now", "check")]),
        ("PendingDelayedTopologyRequests", [("not_now", "placement")]),
    ],
)
def test_why_a_reserved_workload_is_not_admitted(reason, told):
    facts = read(workload(condition("Admitted", False, "08:05:00", reason)))
    assert [(each.verdict, each.cause) for each in each(facts, Decision)] == told


def test_requeueing_and_gates_are_decisions():
    facts = read(
        workload(
            condition("Requeued", True, "08:05:00", "BackoffFinished"),
            condition("BlockedOnPreemptionGates", True, "08:06:00", "PreemptionGated"),
        )
    )
    assert [(each.verdict, each.rule) for each in each(facts, Decision)] == [
        ("requeued", "BackoffFinished"),
        ("not_now", "PreemptionGated"),
    ]
    assert not each(read(workload(condition("Requeued", False, "08:05:00", "PodsReadyTimeout"))), Decision)


def test_a_preemption_that_was_overwritten_is_told_as_having_been_before():
    text = "Preempted to accommodate a workload (UID: u-1, JobUID: j-1) due to prioritization in the ClusterQueue"
    now = condition("Preempted", True, "09:00:00", "InClusterQueue", text)
    past = condition("Preempted", False, "09:30:00", "QuotaReserved", f"Previously: {text}")
    told = [
        only(read(workload(each, condition("Evicted", True, "09:00:00", "Preempted", text))), Preemption)
        for each in (now, past)
    ]
    assert [(each.occurred_at, each.time_basis, each.preemptor_uid, each.cause) for each in told] == [
        (at("09:00:00"), "stated", "u-1", "priority"),
        (at("09:30:00"), "before", "u-1", "priority"),
    ]


def test_an_eviction_of_another_kind_is_no_preemption():
    facts = read(
        workload(condition("Evicted", True, "09:00:00", "PodsReadyTimeout", "Exceeded the PodsReady timeout a/w"))
    )
    assert not each(facts, Preemption)


def test_a_workload_that_no_queue_takes_is_refused_once():
    facts = read(workload(condition("QuotaReserved", False, "08:00:00", "Inadmissible", "LocalQueue x doesn't exist")))
    refusal = only(facts, Refusal)
    assert (refusal.refused_by, refusal.natural_key, refusal.owner) == ("misconfigured", "u-w/misconfigured", "Job w")


def test_a_check_that_rejected_is_a_refusal_also_after_it_was_reset():
    check = {"name": "capacity", "state": "Rejected", "message": "none", "lastTransitionTime": stamp("08:10:00")}
    now = read(workload(admissionChecks=[check]))
    text = 'The workload is deactivated due to AdmissionCheck in Rejected state: "capacity" (none)'
    reset = read(workload(condition("Evicted", True, "08:10:01", "DeactivatedDueToAdmissionCheck", text)))
    told = [only(facts, Refusal) for facts in (now, reset)]
    assert [(each.refused_by, each.rule, each.natural_key) for each in told] == [
        ("admission_check", "capacity", "u-w/admission_check")
    ] * 2
    assert [each.verdict for each in each(now, Decision)] == ["rejected"]


def test_an_unreadable_stamp_leaves_the_decision_at_the_sighting():
    row = {**condition("Evicted", True, "09:00:00", "Preempted"), "lastTransitionTime": "soon"}
    decision = only(read(workload(row)), Decision)
    assert (decision.occurred_at, decision.first_at) == (CTX.observed_at, None)


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [None, 7], {"x": None}, True, 1e400])
@pytest.mark.parametrize("key", ["podSets", "priority", "queueName", "priorityClassRef", "active", "preemptionGates"])
def test_a_spec_of_a_wrong_shape_ends_no_reading(key, value):
    assert each(read(workload(spec={key: value})), Gang)


@pytest.mark.parametrize(
    "value", [None, 7, "x", [], {}, [None, 7], [{"name": 7, "count": "x"}], [{}], {"x": None}, True, 2**70]
)
@pytest.mark.parametrize(
    "key",
    ["conditions", "admission", "requeueState", "reclaimablePods", "admissionChecks", "resourceRequests", "schedulingStats",
     "accumulatedPastExecutionTimeSeconds", "unhealthyNodes", "nominatedClusterNames", "clusterName"],
)  # fmt: skip
def test_a_status_of_a_wrong_shape_ends_no_reading(key, value):
    payload = workload(*admitted(), admission=[assignment()])
    payload["status"][key] = value
    assert each(read(payload), Gang)


def test_words_that_no_column_holds_are_replaced():
    payload = workload(condition("QuotaReserved", False, "08:00:00", "a\ud800", "b\0\udfff"), name="w\0", uid="\ud800")
    payload["spec"]["queueName"] = "q\udc00"
    facts = read(payload)
    for fact in facts:
        for value in (getattr(fact, name) for name in fact.__struct_fields__):
            if isinstance(value, str):
                assert "\0" not in value
                value.encode()
    assert not each(facts, Finding)
