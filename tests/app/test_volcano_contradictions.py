"""What Volcano's pod groups, its queues, kubelets' events and pods say against each other, and what they do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.primitives.instant import MINUTE_US, Instant
from tests.app.compared import Told, compare, facts_of, status, told_by
from tests.sources.volcano.volcano_objects import at, event, pod_group, queue, unschedulable

THREE = at("15:00:00")
POD_GROUPS = "podgroups.scheduling.volcano.sh"


def member(phase: str = "Running", node: str | None = "n-1") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": "w-0", "namespace": "lab", "uid": "x-1", "annotations": {"scheduling.k8s.io/group-name": "j-job-1"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }  # fmt: skip


def told(*payloads: dict[str, Any], now: Instant = THREE, listed: bool = True) -> list[Told]:
    return [each for each in compare(*payloads, at=now, listed=listed) if each.code != "podgroup_name_mismatch"]


def test_row_29_a_pod_group_in_its_queue_without_a_pod_is_stale_with_its_cards_and_age() -> None:
    (found,) = told(pod_group("Inqueue"))
    evidence = json.loads(found.evidence)
    assert (found.code, found.subject) == ("stale_inqueue_podgroup", "podgroup lab/j-job-1")
    assert (evidence["gpu_milli"], evidence["age_seconds"], evidence["pods_count"]) == (2_000, 7 * 3_600, 0)
    assert (evidence["queue"], evidence["reserved_milli"]) == ("q", {"nvidia.com/gpu": 2_000})


@pytest.mark.parametrize(
    ("phase", "pods", "listed", "minutes"),
    [
        ("Inqueue", [member("Pending", None)], True, 60),
        ("Inqueue", [], False, 60),
        ("Inqueue", [], True, 9),
        ("Running", [], True, 60),
        ("Pending", [], True, 60),
    ],
)
def test_a_pod_group_is_not_stale_with_a_pod_or_unlisted_pods_or_within_the_grace_or_in_another_phase(
    phase: str, pods: list[dict[str, Any]], listed: bool, minutes: int
) -> None:
    now = at("08:00:00") + minutes * MINUTE_US
    assert told(pod_group(phase), *pods, now=now, listed=listed) == []


def test_a_pod_that_ended_keeps_no_pod_group_alive() -> None:
    assert [each.code for each in told(pod_group("Inqueue"), member("Succeeded"))] == ["stale_inqueue_podgroup"]


def test_what_its_controller_said_of_it_last_begins_the_grace() -> None:
    spoken = pod_group("Inqueue", unschedulable("14:55:00", "x"))
    assert told(spoken) == []
    assert len(told(spoken, now=at("15:05:00"))) == 1


def test_pods_that_were_listed_before_the_group_was_let_in_say_nothing_of_it() -> None:
    group = facts_of([pod_group("Inqueue", unschedulable("14:00:00", "x"))], THREE)
    early, late = (told_by([*group, status("pods", at(clock))], THREE) for clock in ("13:00:00", "14:00:00"))
    assert ([each.code for each in early], [each.code for each in late]) == ([], ["stale_inqueue_podgroup"])


def test_row_23_a_queue_that_counts_no_pod_groups_while_some_run_is_not_believed() -> None:
    (found,) = told(pod_group("Running"), queue(running=0, pending=0), listed=False)
    assert (found.code, json.loads(found.evidence)) == (
        "volcano_queue_counters_stale",
        {"running": {"claimed": 0, "counted": 1}},
    )
    assert told(pod_group("Running"), queue(), listed=False) == []
    assert told(pod_group("Running"), queue(running=3), listed=False) == []


def test_a_watch_waits_until_a_count_has_stood_for_five_minutes() -> None:
    facts = facts_of([pod_group("Running"), queue(running=0)], THREE)
    for minutes, codes in ((4, []), (5, ["volcano_queue_counters_stale"])):
        to = THREE + minutes * MINUTE_US
        watched = status(POD_GROUPS, to, observed_from_at=THREE, observed_to_at=to)
        assert [each.code for each in told_by([*facts, watched], to)] == codes


def kubelet(host: str) -> dict[str, Any]:
    word = event("Pod", "Evicted", "x", uid=None)
    return {**word, "apiVersion": "v1", "kind": "Event", "source": {"component": "kubelet", "host": host}}


def test_an_event_from_another_machine_than_the_pods_node_is_said() -> None:
    (found,) = told(member(node="n-3"), kubelet("n-4"))
    assert (found.code, found.subject) == ("event_host_mismatch", "pod lab/w-0")
    evidence = json.loads(found.evidence)
    assert (evidence["event_host"], evidence["node_name"], evidence["event_reason"]) == ("n-4", "n-3", "Evicted")
    assert told(member(node="n-3"), kubelet("n-3")) == []
    assert told(member(node=None), kubelet("n-3")) == []
