"""Another shape than the kubelet's is said, costs only what has it, and proves no absence."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.source_status import SourceStatus
from steelyard.sources.pod_resources import read_pod_resources
from steelyard.sources.shared.context import ReadContext

CARD = "GPU-11111111-0000-4000-8000-000000000001"
GOOD = {
    "name": "good",
    "namespace": "a",
    "containers": [{"name": "main", "devices": [{"resource_name": "nvidia.com/gpu", "device_ids": [CARD]}]}],
}
OFFERED = {"devices": [{"resource_name": "nvidia.com/gpu", "device_ids": [CARD]}]}


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"name": "odd", "containers": "x"}, "pod default/odd: containers: a list; found str"),
        ({"name": "odd", "containers": ["x"]}, "a container; found str"),
        ({"name": "odd", "containers": [{"devices": {}}]}, "devices: a list; found dict"),
        ({"name": "odd", "containers": [{"devices": [7]}]}, "an entry of devices; found int"),
        ({"name": "odd", "containers": [{"devices": [{"device_ids": "x"}]}]}, "device_ids: a list of texts; found str"),
        ({"name": "odd", "containers": [{"devices": [{"device_ids": [7]}]}]}, "device_ids: a list of texts"),
        ({"containers": []}, "a pod with a name; found dict"),
        ("odd", "a pod with a name; found str"),
    ],
)
def test_a_misshapen_part_is_a_finding_and_the_listing_is_not_complete(odd: Any, words: str) -> None:
    payload = {"node": "n1", "list": {"pod_resources": [GOOD, odd]}, "allocatable": OFFERED}
    facts = list(read_pod_resources(payload, ReadContext()))
    assert [fact.device_uuid for fact in facts if isinstance(fact, Grant)] == [CARD]
    (message,) = [fact.message for fact in facts if isinstance(fact, Finding) and fact.code == "source_malformed"]
    assert words in message
    (status,) = [fact for fact in facts if isinstance(fact, SourceStatus)]
    assert (status.status, status.complete) == ("partial", False)


def test_what_is_null_or_absent_is_empty_and_no_finding() -> None:
    idle = [{"name": "x", "containers": None}, {"name": "y"}, {"name": "z", "containers": [{"devices": None}]}]
    payload = {"node": "n1", "list": {"pod_resources": [GOOD, *idle]}, "allocatable": OFFERED}
    facts = list(read_pod_resources(payload, ReadContext()))
    assert not [fact for fact in facts if isinstance(fact, Finding)]
    assert [fact.complete for fact in facts if isinstance(fact, SourceStatus)] == [True]
