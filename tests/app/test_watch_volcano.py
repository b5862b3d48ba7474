"""Volcano's pod groups, kubelets' events and pods over a watch: compared in each round, forgotten when they are gone."""

from __future__ import annotations

import json
from typing import Any

from steelyard.app.collectors.watched_objects import CHECKS_EVERY_US, WatchedObjects
from steelyard.facts.decision import Decision
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.facts.quota import Quota
from steelyard.sources.kube_api.watch_round import GoneObject, SeenObject
from steelyard.sources.shared.context import ReadContext
from tests.sources.volcano.volcano_objects import at, event, pod_group, queue, unschedulable

NOON = at("12:00:00")
WORDS = {
    "PodGroup": "podgroups.scheduling.volcano.sh",
    "Queue": "queues.scheduling.volcano.sh",
    "Pod": "pods",
    "Event": "events",
}


def member(phase: str = "Running", node: str = "n-1") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": "w-0", "namespace": "lab", "uid": "x-1", "annotations": {"scheduling.k8s.io/group-name": "j-job-1"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }  # fmt: skip


def told(objects: WatchedObjects, rounds: int, *payloads: dict[str, Any], listed: bool = True) -> list[Any]:
    now = NOON + rounds * CHECKS_EVERY_US
    ctx = ReadContext(observed_at=now)
    seen = [
        SeenObject(WORDS[each["kind"]], each["kind"], each.get("apiVersion", "v1"), json.dumps(each).encode(), now)
        for each in payloads
    ]
    return [*objects.read(seen, ctx), *objects.read_together(ctx, nodes_listed=True, pods_listed=listed)]


def codes(facts: list[Any]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding) and fact.source != "kube_api"]


def test_objects_of_volcano_give_their_facts_and_a_pod_group_without_a_pod_is_told_once_pods_are_listed() -> None:
    objects = WatchedObjects()
    facts = told(
        objects, 0, pod_group("Inqueue", unschedulable("09:00:00", "x")), queue(allocated={"cpu": 1}), listed=False
    )
    assert [type(fact) for fact in facts if isinstance(fact, (Gang, Decision, Quota))] == [Gang, Decision, Quota]
    assert codes(facts) == []
    assert codes(told(objects, 1, member("Pending"))) == []
    assert codes(told(objects, 2, member("Succeeded"))) == ["stale_inqueue_podgroup"]
    assert codes(told(objects, 3, member("Running"))) == []
    objects.forget([GoneObject("pods", "Pod", "x-1", NOON, NOON, "watch_deleted")])
    assert codes(told(objects, 4, queue())) == ["stale_inqueue_podgroup"]


def test_an_event_from_another_machine_is_told_once() -> None:
    objects = WatchedObjects()
    word = {**event("Pod", "Evicted", "x"), "kind": "Event", "source": {"component": "kubelet", "host": "n-2"}}
    assert codes(told(objects, 0, member(), word)) == ["event_host_mismatch"]
    assert codes(told(objects, 1, member())) == []
