"""Each sentence of Kueue's grammar, and what it means for a request."""

from __future__ import annotations

import pytest

from steelyard.sources.kueue.messages import (
    parse_eviction,
    parse_preemption,
    parse_rejection,
    parse_reservation,
    parse_waiting,
    shown,
)

ASSIGN = "couldn't assign flavors to pod set main: "
UNUSED = "insufficient unused quota for nvidia.com/gpu in flavor h100, 4 more needed"
MAXIMUM = (
    "insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets requests (8) + current podset "
    "request (24) > maximum capacity (16)"
)


@pytest.mark.parametrize(
    ("reason", "verdict", "cause"),
    [
        ("NoMatchingFlavor", "never_fits", "placement"),
        ("WaitingForQuota", "not_now", "quota"),
        ("ExceedsMaxQuota", "never_fits", "quota"),
        ("TopologyPlacementFailed", "not_now", "placement"),
        ("WaitingForPreemptedWorkloads", "not_now", "quota"),
        ("Misconfigured", "misconfigured", "other"),
        ("Suspended", "not_now", "policy"),
        ("PendingEvaluation", "not_now", None),
        ("WaitingForPodsReady", "not_now", "policy"),
        ("AdmissionGated", "not_now", "gate"),
        ("OnHold", "not_now", "policy"),
    ],
)
def test_a_reason_of_v0_19_settles_the_verdict_whatever_the_message(reason, verdict, cause):
    for message in ("", "words of a later release", ASSIGN + UNUSED, ASSIGN + MAXIMUM):
        words = parse_waiting(reason, message)
        assert (words.verdict, words.cause) == (verdict, cause)


@pytest.mark.parametrize(
    ("message", "verdict", "cause"),
    [
        (ASSIGN + UNUSED, "not_now", "quota"),
        (ASSIGN + MAXIMUM, "never_fits", "quota"),
        (ASSIGN + UNUSED + ", " + MAXIMUM, "not_now", "quota"),
        (ASSIGN + MAXIMUM + ", " + UNUSED, "not_now", "quota"),
        (ASSIGN + MAXIMUM + ", " + UNUSED.replace("h100", "a100"), "never_fits", "quota"),
        (ASSIGN + "flavor h100 doesn't match node affinity", "never_fits", "placement"),
        (ASSIGN + "flavor h100 doesn't match node affinity, " + UNUSED.replace("h100", "a100"), "not_now", "quota"),
        (ASSIGN + "untolerated taint {gpu present NoSchedule <nil>} in flavor h100", "never_fits", "placement"),
        (ASSIGN + "resource nvidia.com/gpu unavailable in ClusterQueue", "never_fits", "quota"),
        (ASSIGN + 'topology "dc" allows to fit only 2 out of 4 pod(s)', "not_now", "placement"),
        (ASSIGN + UNUSED + "; couldn't assign flavors to pod set b: " + MAXIMUM, "never_fits", "quota"),
        (ASSIGN + UNUSED + ". Pending the preemption of 3 workload(s)", "not_now", "quota"),
        (ASSIGN + UNUSED + ". Preempting 2 workload(s) failed, will retry.", "not_now", "quota"),
        (ASSIGN + UNUSED + ". Pending the migration of 1 workload(s)", "not_now", "quota"),
        ("LocalQueue x doesn't exist", "misconfigured", "other"),
        ("LocalQueue x is terminating or missing", "misconfigured", "other"),
        ("ClusterQueue x is terminating or missing", "misconfigured", "other"),
        ("LocalQueue x is inactive", "not_now", "policy"),
        ("ClusterQueue x is inactive", "not_now", "policy"),
        ("ClusterQueue x is stopped", "not_now", "policy"),
        ("The workload has failed admission checks", "rejected", "check"),
        ("Exceeded the PodsReady timeout a/w", "not_now", None),
        ("The workload is deactivated due to exceeding the maximum execution time", "not_now", None),
        ('Evicted due to AdmissionCheck in Retry state: "c" (m)', "not_now", None),
    ],
)
@pytest.mark.parametrize("reason", ["Pending", "Inadmissible"])
def test_before_v0_19_the_message_alone_tells_never_from_not_now(reason, message, verdict, cause):
    words = parse_waiting(reason, message)
    assert (words.verdict, words.cause, words.unread) == (verdict, cause, False)


def test_a_shortage_says_what_is_missing_of_what_in_thousandths():
    missing = parse_waiting("WaitingForQuota", ASSIGN + UNUSED).shortage
    assert missing is not None
    assert (missing.resource, missing.flavor, missing.missing_milli) == ("nvidia.com/gpu", "h100", 4_000)
    most = parse_waiting("ExceedsMaxQuota", ASSIGN + MAXIMUM).shortage
    assert most is not None
    assert (most.asked_milli, most.limit_milli, most.missing_milli) == (32_000, 16_000, 16_000)


def test_the_shortage_shown_is_one_that_bears_the_verdict():
    words = parse_waiting("ExceedsMaxQuota", ASSIGN + UNUSED + ", " + MAXIMUM)
    assert words.shortage is not None and words.shortage.flavor == "a100"
    words = parse_waiting("WaitingForQuota", ASSIGN + MAXIMUM + ", " + UNUSED)
    assert words.shortage is not None and words.shortage.flavor == "h100"


def test_fractions_of_cores_and_bytes_stay_whole():
    text = ASSIGN + "insufficient unused quota for cpu in flavor h100, 1500m more needed, " + (
        "insufficient unused quota for memory in flavor h100, 2Gi more needed"
    )  # fmt: skip
    words = parse_waiting("Pending", text)
    assert words.shortage is not None and words.shortage.missing_milli == 1_500
    assert shown(words)["pod_sets"]["main"][1].endswith("2Gi more needed")


def test_the_counts_at_the_end_are_details():
    text = ASSIGN + UNUSED + ". Pending the preemption of 3 workload(s)"
    assert shown(parse_waiting("Pending", text))["pending_preemptions_count"] == 3


@pytest.mark.parametrize("text", [ASSIGN + "a new reason, " + UNUSED, "x" + ASSIGN + UNUSED, ASSIGN + UNUSED + ", new"])
def test_a_message_that_is_only_partly_known_is_unread_and_keeps_its_verdict(text):
    words = parse_waiting("Pending", text)
    assert (words.verdict, words.cause, words.unread) == ("not_now", "quota", True)
    assert shown(words)["unread"] is True


def test_a_message_of_no_known_form_waits_for_no_known_cause():
    words = parse_waiting("Pending", "something new")
    assert (words.verdict, words.cause, words.unread) == ("not_now", None, True)


VICTIM = "Preempted to accommodate a workload (UID: u-1, JobUID: j-1) due to "
PATHS = "; preemptor path: /org/team-b; preemptee path: /org/team-a"


@pytest.mark.parametrize(
    ("why", "cause"),
    [
        ("prioritization in the ClusterQueue", "priority"),
        ("reclamation within the cohort", "reclaim"),
        ("Fair Sharing within the cohort", "fair_sharing"),
        ("reclamation within the cohort while borrowing", "reclaim_while_borrowing"),
        ("a reason of a later release", "unknown"),
    ],
)
@pytest.mark.parametrize("tail", ["", PATHS])
@pytest.mark.parametrize("before", ["", "Previously: "])
def test_a_victim_is_told_for_whom_and_by_which_rule(why, cause, tail, before):
    words = parse_preemption(before + VICTIM + why + tail)
    assert words is not None
    assert (words.cause, words.preemptor_uid, words.preemptor_job_uid) == (cause, "u-1", "j-1")
    assert (words.preemptor_queue, words.victim_queue) == (("team-b", "team-a") if tail else (None, None))


def test_the_condition_s_reason_helps_where_the_words_do_not():
    words = parse_preemption(VICTIM + "new words", "InCohortFairSharing")
    assert words is not None and words.cause == "fair_sharing"


def test_priorities_are_the_effective_ones():
    ranks = "; preemptor effective priority: 1000 (base: 900, boost: 100); preemptee effective priority: -5 (base: -5, boost: 0)"
    words = parse_preemption(VICTIM + "prioritization in the ClusterQueue" + ranks)
    assert words is not None and (words.preemptor_priority, words.victim_priority) == (1000, -5)
    words = parse_preemption("Preempted workload ns/name.1 (UID: u-2) in ClusterQueue team-a" + ranks)
    assert words is not None
    assert (words.victim_namespace, words.victim_name, words.victim_uid, words.victim_queue) == (
        "ns",
        "name.1",
        "u-2",
        "team-a",
    )
    assert (words.preemptor_priority, words.victim_priority) == (1000, -5)


def test_an_unknown_uid_is_none_and_an_older_form_without_a_job_is_read():
    words = parse_preemption("Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to x")
    assert words is not None and (words.preemptor_uid, words.preemptor_job_uid) == (None, None)
    words = parse_preemption("Preempted to accommodate a workload (UID: u-1) due to x")
    assert words is not None and words.preemptor_uid == "u-1"
    assert parse_preemption("Preempted by somebody") is None


@pytest.mark.parametrize(
    ("reason", "verdict", "cause"),
    [
        ("Preempted", "evicted", "quota"),
        ("PodsReadyTimeout", "evicted", None),
        ("AdmissionCheck", "evicted", "check"),
        ("ClusterQueueStopped", "evicted", "policy"),
        ("LocalQueueStopped", "evicted", "policy"),
        ("NodeFailures", "evicted", "capacity"),
        ("Deactivated", "deactivated", None),
        ("DeactivatedDueToAdmissionCheck", "deactivated", "check"),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", "deactivated", "policy"),
        ("DeactivatedDueToRequeuingLimitExceeded", "deactivated", "policy"),
    ],
)
def test_an_eviction_is_told_from_a_deactivation(reason, verdict, cause):
    words = parse_eviction(reason, "")
    assert (words.verdict, words.cause) == (verdict, cause)


def test_every_check_that_said_no_is_named_with_its_words():
    text = 'Deactivated due to AdmissionCheck in Rejected state: "a" (no room (zone z1)), "b" (too dear)'
    assert parse_rejection(text).details["checks"] == [
        {"name": "a", "state": "Rejected", "message": "no room (zone z1)"},
        {"name": "b", "state": "Rejected", "message": "too dear"},
    ]


def test_the_wait_that_kueue_counts_is_a_claim_with_its_queue():
    assert parse_reservation(
        "Quota reserved in ClusterQueue q, wait time since queued was 300s; Flavors considered: x"
    ) == ("q", 300)
    assert parse_reservation("Admitted by ClusterQueue q, wait time since reservation was 0s") == ("q", 0)
    assert parse_reservation("Quota reserved in ClusterQueue q") == ("q", None)
    assert parse_reservation("words") == (None, None)


@pytest.mark.parametrize(
    "unit",
    [
        ASSIGN,
        "insufficient unused quota for ",
        "untolerated taint ",
        'AdmissionCheck in Retry state: "a" (',
        '"a" (',
        "; ",
        "Preempted workload a/",
        "topology \"",
        "resource x unavailable",
        "(", "flavor ",
    ],
)  # fmt: skip
def test_long_hostile_words_are_cut_and_read_once(unit):
    text = unit * (100_000 // len(unit))
    words = parse_waiting("Pending", ASSIGN + text)
    assert len(shown(words).get("pod_sets", {})) <= 64
    parse_eviction("AdmissionCheck", text)
    parse_rejection(f"AdmissionCheck in Rejected state{text}")
    parse_preemption(text)
    parse_preemption(VICTIM + text)
    parse_reservation(text)


def test_amounts_that_no_column_holds_are_not_said():
    huge = MAXIMUM.replace("(24)", "(9000000000000000)").replace("(8)", "(9000000000000000)")
    shortage = parse_waiting("Pending", ASSIGN + huge).shortage
    assert shortage is not None and (shortage.asked_milli, shortage.missing_milli, shortage.limit_milli) == (
        None,
        None,
        16_000,
    )
