"""Each change of a condition or phase is told once, whichever and however many versions of its object were seen."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.transition import Transition
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import AT_OBSERVATION, parse_instant
from steelyard.sources.kube_api.transitions import CHANGES_MAX, has_transitions, read_transitions
from steelyard.sources.shared.context import ReadContext
from tests.sources.kube_api.kube_objects import CTX, at, codes, of, pod, stamp, status_of


def changes(payload: dict[str, Any], kind: str, ctx: ReadContext = CTX) -> list[Transition]:
    return of(list(read_transitions(payload, kind, ctx)), Transition)


def condition(kind: str, value: str, clock: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": value, "lastTransitionTime": stamp(clock), "reason": reason, "message": message}


def workload(*conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "uid": "u-w", "creationTimestamp": stamp("09:00:00")},
        "status": {"conditions": list(conditions), **status},
    }


def told(found: list[Transition]) -> list[tuple[str, str | None, str, int, str]]:
    return [(each.aspect, each.item, each.value, each.occurred_at, each.time_basis) for each in found]


def test_conditions_are_dated_by_their_own_stamps_with_reason_and_message() -> None:
    found = changes(workload(condition("Evicted", "True", "10:00:00", "Preempted", "to accommodate")), "Workload")
    assert told(found) == [("condition", "Evicted", "True", at("10:00:00"), "stated")]
    (change,) = found
    assert (change.reason, change.message) == ("Preempted", "to accommodate")
    assert (change.object_kind, change.object_group, change.object_uid) == ("Workload", "kueue.x-k8s.io", "u-w")
    assert (change.namespace, change.object_name) == ("ns", "w")


def test_the_waits_of_a_workload_are_the_union_over_its_versions() -> None:
    reserved, evicted = (
        condition("QuotaReserved", "True", "10:00:00"),
        condition("Evicted", "True", "11:00:00", "Preempted"),
    )
    lost = condition("QuotaReserved", "False", "11:00:05", "WaitingForQuota")
    again = condition("QuotaReserved", "True", "12:00:00")
    versions = [workload(reserved), workload(reserved, evicted), workload(lost, evicted), workload(again, evicted)]
    keys = {each.natural_key: each for version in versions for each in changes(version, "Workload")}
    quota = sorted((each.occurred_at, each.value) for each in keys.values() if each.item == "QuotaReserved")
    assert quota == [(at("10:00:00"), "True"), (at("11:00:05"), "False"), (at("12:00:00"), "True")]
    assert len(keys) == 4, "what was seen in several versions is one change"


def test_a_message_that_changes_under_an_old_stamp_is_a_change_of_its_own() -> None:
    first = workload(condition("QuotaReserved", "False", "10:00:00", "Pending", "insufficient unused quota"))
    second = workload(condition("QuotaReserved", "False", "10:00:00", "Pending", "maximum capacity"))
    assert changes(first, "Workload")[0].natural_key != changes(second, "Workload")[0].natural_key


def test_the_same_change_seen_at_another_time_in_a_dump_or_over_a_watch_is_the_same_fact() -> None:
    payload = pod(status={"containerStatuses": [status_of(running="10:00:09")]})
    later = copy.deepcopy(payload)
    later["status"]["containerStatuses"][0]["restartCount"] = 3
    dump = changes(payload, "Pod", ReadContext(file="a.json"))
    live = changes(later, "Pod", ReadContext(file="watch", observed_at=at("18:00:00")))
    assert [each.natural_key for each in dump] == [each.natural_key for each in live]
    assert Transition.IDENTITY == ("cluster", "source", "natural_key")


@pytest.mark.parametrize(
    ("phase", "status", "expected", "basis"),
    [
        ("Pending", {}, at("10:00:00"), "inferred"),
        ("Running", {"containerStatuses": [status_of(running="10:00:09")]}, at("10:00:09"), "inferred"),
        (
            "Succeeded",
            {"containerStatuses": [status_of(terminated=("10:00:09", "11:00:00", 0))]},
            at("11:00:00"),
            "inferred",
        ),
        ("Failed", {}, AT_OBSERVATION, "observed"),
        ("Running", {"containerStatuses": [{"name": "main", "state": "odd"}]}, AT_OBSERVATION, "observed"),
    ],
)
def test_a_pods_phase_is_dated_by_what_else_it_tells(
    phase: str, status: dict[str, Any], expected: int, basis: str
) -> None:
    found = [each for each in changes(pod(status={"phase": phase, **status}), "Pod") if each.aspect == "phase"]
    assert told(found) == [("phase", None, phase, expected, basis)]


def test_a_volcano_job_tells_its_present_phase_with_its_reason_and_the_last_time_of_each_other_once() -> None:
    state = {"phase": "Running", "reason": "Started", "lastTransitionTime": stamp("10:05:00")}
    rows = [
        {"status": "Pending", "lastTransitionTime": stamp("10:00:00")},
        {"status": "Running", "lastTransitionTime": stamp("10:05:00")},
    ]
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": {"name": "j", "uid": "u-j"},
        "status": {"state": state, "conditions": rows},
    }
    found = changes(job, "Job")
    assert told(found) == [
        ("phase", None, "Running", at("10:05:00"), "stated"),
        ("phase", None, "Pending", at("10:00:00"), "stated"),
    ]
    assert found[0].reason == "Started"
    later = {
        **job,
        "status": {"state": {"phase": "Completed", "lastTransitionTime": stamp("11:00:00")}, "conditions": rows},
    }
    assert found[0].natural_key in {each.natural_key for each in changes(later, "Job")}


def test_a_pod_group_that_falls_back_and_recovers_tells_both_times() -> None:
    def group(phase: str, clock: str) -> dict[str, Any]:
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "metadata": {"name": "g", "uid": "u-g"},
            "status": {"phase": phase, "conditions": [condition("Scheduled", "True", clock)]},
        }

    versions = [group("Running", "10:00:00"), group("Unknown", "11:00:00"), group("Running", "12:00:00")]
    keys = [each.natural_key for version in versions for each in changes(version, "PodGroup") if each.aspect == "phase"]
    assert len(set(keys)) == 3


def test_admission_checks_and_requeues_of_a_workload_are_changes() -> None:
    check = {"name": "prov", "state": "Retry", "lastTransitionTime": stamp("10:00:00"), "message": "no nodes"}
    found = changes(
        workload(admissionChecks=[check], requeueState={"count": 2, "requeueAt": stamp("10:20:00")}), "Workload"
    )
    assert told(found) == [
        ("admission_check", "prov", "Retry", at("10:00:00"), "stated"),
        ("requeue", None, "2", AT_OBSERVATION, "observed"),
    ]
    assert found[1].message == "until 2027-03-05T10:20:00Z"


def test_a_job_of_another_group_and_objects_of_other_kinds_have_none() -> None:
    assert has_transitions("Job", {"apiVersion": "batch/v1"})
    assert has_transitions("Pod", {}), "an item of a list does not say its version"
    assert not has_transitions("Job", {"apiVersion": "example.com/v1"})
    assert not has_transitions("ConfigMap", {"apiVersion": "v1"})


def test_an_unreadable_stamp_is_a_finding_and_the_change_is_kept() -> None:
    payload = workload({"type": "Admitted", "status": "True", "lastTransitionTime": "yesterday"})
    facts = list(read_transitions(payload, "Workload", CTX))
    assert codes(facts) == ["stamp_malformed"]
    assert told(of(facts, Transition)) == [("condition", "Admitted", "True", AT_OBSERVATION, "observed")]


def test_more_conditions_than_anybody_writes_are_cut_and_counted() -> None:
    payload = workload(*[condition(f"C{number}", "True", "10:00:00") for number in range(CHANGES_MAX + 5)])
    facts = list(read_transitions(payload, "Workload", CTX))
    assert len(of(facts, Transition)) == CHANGES_MAX
    assert codes(facts) == ["conditions_too_many"]


def test_an_object_of_nobody_is_refused() -> None:
    with pytest.raises(SourceMalformed, match=r"metadata\.name"):
        list(read_transitions({"status": {}}, "Workload", CTX))


@pytest.mark.parametrize(
    "name",
    [
        "kueue-workloads-v1beta2",
        "kueue-legacy-v1beta1-list",
        "kueue-queues-v1beta2-list",
        "volcano-jobs",
        "volcano-podgroups-queues-list",
        "pods",
    ],
)
def test_each_condition_of_the_handed_queue_cases_is_told_with_its_own_stamp(shared: Path, name: str) -> None:
    document = json.loads((shared / "cases" / "queues" / f"{name}.json").read_text(encoding="utf-8"))
    found = 0
    for item in document["items"]:
        kind = item.get("kind") or document["kind"].removesuffix("List")
        if not has_transitions(kind, {"apiVersion": document["apiVersion"], **item}):
            continue
        facts = list(read_transitions({"apiVersion": document["apiVersion"], **item}, kind, CTX))
        typed = [each for each in item.get("status", {}).get("conditions", []) if "type" in each]
        told = {
            (each.item, each.value, each.occurred_at) for each in of(facts, Transition) if each.aspect == "condition"
        }
        expected = {
            (each["type"], each["status"], parse_instant(each["lastTransitionTime"]))
            for each in typed
            if each.get("lastTransitionTime")
        }
        assert expected <= told
        assert "source_malformed" not in codes(facts)
        found += len(of(facts, Transition))
    assert found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "conditions",
    "phase",
    "state",
    "admissionChecks",
    "requeueState",
    "containerStatuses",
    "stateTransitionTimes",
    "jobDeploymentStatus",
    "endTime",
    "failed",
)


@given(
    st.dictionaries(
        st.sampled_from(FIELDS),
        JSON
        | st.lists(
            st.dictionaries(st.sampled_from(["type", "status", "name", "state", "lastTransitionTime", "reason"]), JSON),
            max_size=3,
        ),
    ),
    st.sampled_from(["Pod", "Node", "Job", "Workload", "PodGroup", "Queue", "RayJob", "RayCluster"]),
    st.sampled_from(["v1", "batch/v1", "batch.volcano.sh/v1alpha1", 7, None]),
)
def test_whatever_a_status_holds_no_reader_falls_over_and_all_text_can_be_kept(
    status: dict[str, Any], kind: str, version: Any
) -> None:
    payload = {"apiVersion": version, "metadata": {"name": "n\ud800", "uid": "u"}, "status": status}
    for fact in read_transitions(payload, kind, CTX):
        if isinstance(fact, Transition):
            f"{fact.natural_key}{fact.value}{fact.reason}{fact.message}{fact.object_name}".encode()
