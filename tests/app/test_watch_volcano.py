"""Volcano's pod groups and queues over a watch: read by the same readers as a file's."""

from __future__ import annotations

import json

from steelyard.app.collectors.watched_objects import WatchedObjects
from steelyard.facts.decision import Decision
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.facts.quota import Quota
from steelyard.sources.kube_api.watch_round import SeenObject
from steelyard.sources.shared.context import ReadContext
from tests.sources.volcano.volcano_objects import at, pod_group, queue, unschedulable

NOON = at("12:00:00")
WORDS = {"PodGroup": "podgroups.scheduling.volcano.sh", "Queue": "queues.scheduling.volcano.sh"}


def test_objects_of_volcano_give_their_facts_as_of_when_they_were_seen() -> None:
    payloads = [pod_group("Inqueue", unschedulable("09:00:00", "x")), queue(allocated={"cpu": 1})]
    seen = [
        SeenObject(WORDS[each["kind"]], each["kind"], each["apiVersion"], json.dumps(each).encode(), NOON)
        for each in payloads
    ]
    facts = [
        fact
        for fact in WatchedObjects().read(seen, ReadContext(observed_at=NOON))
        if isinstance(fact, (Gang, Decision, Quota, Finding))
    ]
    assert [type(fact) for fact in facts] == [Gang, Decision, Quota]
    assert {fact.observed_at for fact in facts} == {NOON}
