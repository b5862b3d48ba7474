"""Kueue's events in both encodings: whose they are, what they decide, who had to go."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.decision import Decision
from steelyard.facts.preemption import Preemption
from steelyard.facts.refusal import Refusal
from tests.sources.kueue.kueue_objects import at, each, event, only, read, stamp

WAITS = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 4 more needed"


def test_both_encodings_tell_when_it_was_decided_last_and_how_often():
    new = event("Pending", WAITS, series={"count": 14, "lastObservedTime": stamp("10:30:00")})
    old = event(
        "Pending",
        WAITS,
        eventTime=None,
        firstTimestamp=stamp("09:00:00"),
        lastTimestamp=stamp("10:30:00"),
        count=14,
        reportingComponent="",
        source={"component": "kueue-admission"},
    )
    first, second = only(read(new), Decision), only(read(old), Decision)
    assert first == second
    assert (first.occurred_at, first.first_at, first.count) == (at("10:30:00"), at("09:00:00"), 14)
    assert (first.decided_by, first.verdict, first.missing_milli, first.evidence) == (
        "kueue-admission",
        "not_now",
        4_000,
        "event",
    )


@pytest.mark.parametrize(
    ("reason", "message", "verdict", "cause", "rule"),
    [
        (
            "QuotaReserved",
            "Quota reserved in ClusterQueue q, wait time since queued was 9s",
            "reserved",
            None,
            "QuotaReserved",
        ),
        ("Admitted", "Admitted by ClusterQueue q, wait time since reservation was 0s", "admitted", None, "Admitted"),
        ("Pending", WAITS, "not_now", "quota", "Pending"),
        ("ExceedsMaxQuota", "", "never_fits", "quota", "ExceedsMaxQuota"),
        ("SecondPassFailed", "x", "not_now", "placement", "SecondPassFailed"),
        ("EvictedDueToPodsReadyTimeout", "Exceeded the PodsReady timeout a/w", "evicted", None, "PodsReadyTimeout"),
        ("EvictedDueToDeactivatedDueToAdmissionCheck", "x", "deactivated", "check", "DeactivatedDueToAdmissionCheck"),
        (
            "AdmissionCheckRejected",
            'x AdmissionCheck in Rejected state: "c" (m)',
            "rejected",
            "check",
            "AdmissionCheckRejected",
        ),
        ("MaximumExecutionTimeExceeded", "x", "deactivated", "policy", "MaximumExecutionTimeExceeded"),
        ("AdmissionGated", "x", "not_now", "gate", "AdmissionGated"),
        ("ErrWorkloadCompose", "x", "misconfigured", "other", "ErrWorkloadCompose"),
    ],
)
def test_what_an_event_decides(reason, message, verdict, cause, rule):
    decision = only(read(event(reason, message)), Decision)
    assert (decision.verdict, decision.cause, decision.rule) == (verdict, cause, rule)


JOB = {"involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "a", "name": "j", "uid": "u-j"}}


@pytest.mark.parametrize("about", [{}, JOB])
@pytest.mark.parametrize(
    "reason", ["CreatedWorkload", "Started", "Stopped", "Deleted", "FinishedWorkload", "AdmissionGateCleared"]
)
def test_events_that_decide_nothing_are_no_decisions(reason, about):
    assert not read(event(reason, "x", **about))


def test_a_suspended_job_is_no_wait_and_a_suspended_workload_is():
    assert not read(event("Suspended", "Kueue managed suspended job", **JOB))
    assert only(read(event("Suspended", "")), Decision).cause == "policy"


@pytest.mark.parametrize(
    ("more", "ours"),
    [
        ({}, True),
        (
            {"reportingComponent": "job-kueue-controller", "involvedObject": {"kind": "Job", "apiVersion": "batch/v1"}},
            True,
        ),
        ({"reportingComponent": "elsewhere"}, True),
        ({"reportingComponent": "elsewhere", "involvedObject": {"kind": "Node", "apiVersion": "v1"}}, False),
        ({"reportingComponent": "", "source": {"component": "volcano"}, "involvedObject": {"kind": "PodGroup"}}, False),
        (
            {
                "involvedObject": None,
                "regarding": {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"},
                "reportingComponent": None,
            },
            True,
        ),
        ({"involvedObject": 7, "source": 7, "reportingComponent": 7}, False),
    ],
)
def test_an_event_is_kueue_s_by_component_or_subject(more, ours):
    assert bool(read(event("ErrWorkloadCompose", "x", **more))) is ours


PATHS = "preemptor path: /o/b; preemptee path: /o/a"
VICTIM = f"Preempted to accommodate a workload (UID: u-x, JobUID: j-x) due to reclamation within the cohort; {PATHS}"


def test_a_preemption_is_told_by_the_victim_the_eviction_and_the_preemptor():
    ranks = "; preemptor effective priority: 9 (base: 9, boost: 0); preemptee effective priority: 1 (base: 1, boost: 0)"
    about = {
        "involvedObject": {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "namespace": "b",
            "name": "x",
            "uid": "u-x",
        }
    }
    facts = read(
        event("Preempted", VICTIM + ranks),
        event("EvictedDueToPreempted", VICTIM),
        event("PreemptedWorkload", "Preempted workload a/w (UID: u-w) in ClusterQueue a" + ranks, **about),
    )
    told = each(facts, Preemption)
    assert [each.evidence for each in told] == ["victim_event", "eviction_event", "preemptor_event"]
    assert {(each.victim_uid, each.preemptor_uid, each.victim_queue, each.occurred_at) for each in told} == {
        ("u-w", "u-x", "a", at("09:00:00"))
    }
    assert [(each.preemptor_priority, each.victim_priority) for each in told] == [(9, 1), (None, None), (9, 1)]
    assert (told[2].preemptor_namespace, told[2].preemptor_name) == ("b", "x")
    assert [each.verdict for each in each(facts, Decision)] == ["evicted"]


def test_a_victim_s_event_in_unknown_words_is_still_a_preemption():
    told = only(read(event("Preempted", "new words")), Preemption)
    assert (told.victim_uid, told.cause, told.preemptor_uid) == ("u-w", "unknown", None)


def test_a_rejection_is_one_refusal_by_event_and_by_object():
    refusal = only(read(event("AdmissionCheckRejected", 'AdmissionCheck in Rejected state: "c" (m)')), Refusal)
    assert (refusal.natural_key, refusal.rule) == ("u-w/admission_check", "c")


def test_a_job_that_makes_no_workload_is_refused_as_what_it_is():
    refusal = only(read(event("ErrWorkloadCompose", "x", **JOB)), Refusal)
    assert (refusal.subject_kind, refusal.subject_name, refusal.refused_by, refusal.rule) == (
        "Job",
        "j",
        "misconfigured",
        "ErrWorkloadCompose",
    )


def test_what_only_events_tell_is_kept():
    text = "Quota reserved in ClusterQueue q, wait time since queued was 300s; Flavors considered: main: h100(Fit)"
    decision = only(read(event("QuotaReserved", text)), Decision)
    assert decision.queue == "q"
    assert json.loads(decision.details) == {"waited_claimed_seconds": 300, "flavors_considered": "main: h100(Fit)"}
