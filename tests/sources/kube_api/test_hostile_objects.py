"""Objects of any shape end in facts, findings or SourceMalformed, never in another error, and every fact fits its table."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact, columns_of
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX, INSTANT_MIN
from steelyard.sources.kube_api.dra import read_dra
from steelyard.sources.kube_api.objects import OBJECT_READERS
from steelyard.sources.kube_api.pods import read_pod
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import parse_pod
from tests.sources.kube_api.kube_objects import CTX, gpus, pod, stamp, status_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "True", stamp("10:00:00"), "GPU-a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)

POD = pod(
    gpus("1"),
    init=(gpus(1, "i"),),
    metadata={
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
    },
    spec={
        "tolerations": [{"key": "k", "tolerationSeconds": 5}],
        "resourceClaims": [{"name": "c"}],
        "priority": 1,
        "nodeSelector": {},
    },
    status={
        "phase": "Failed",
        "reason": "Evicted",
        "message": "m",
        "startTime": stamp("10:00:03"),
        "containerStatuses": [
            status_of(terminated=("10:01:00", None, 1)) | {"lastState": {"terminated": {"startedAt": "x"}}}
        ],
        "extendedResourceClaimStatus": {
            "resourceClaimName": "c",
            "requestMappings": [{"containerName": "i", "resourceName": "r"}],
        },
    },
)
NODE = {
    "metadata": {"name": "n", "labels": {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.product": "X"}},
    "spec": {"unschedulable": True},
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"nvidia.com/gpu": "1"}},
}
EVENT = {
    "metadata": {"uid": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "series": {"count": 3, "lastObservedTime": stamp("10:00:00")},
    "related": {"kind": "Pod"},
    "source": {"host": "n"},
    "eventTime": stamp("10:00:00"),
}
SLICE = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "sharedCounters": [{"name": "c", "counters": {"memory": {"value": "1"}}}],
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {"uuid": {"string": "GPU-a"}, "type": {"string": "gpu"}},
                "capacity": {"memory": {"value": "1Gi"}},
                "consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": "1"}}}],
                "taints": [{"effect": "NoSchedule"}],
            }
        ],
    },
}
CLAIM = {
    "metadata": {"name": "c", "creationTimestamp": stamp("10:00:00"), "ownerReferences": [{"kind": "Pod", "uid": "u"}]},
    "status": {
        "allocation": {
            "allocationTimestamp": stamp("10:00:01"),
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
            },
            "devices": {
                "results": [
                    {
                        "driver": "gpu.nvidia.com",
                        "pool": "n",
                        "device": "gpu-0",
                        "shareID": "s",
                        "consumedCapacity": {"memory": "1Mi"},
                    }
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    },
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _paths(child, (*path, key))


def _with(value: Any, path: tuple[Any, ...], replacement: Any) -> Any:
    if not path:
        return replacement
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = replacement
    return changed


def _check(fact: Fact) -> None:
    """Each value has its column's type and a whole number fits 64 bits."""
    for column in columns_of(type(fact)):
        value = getattr(fact, column.name)
        if value is None:
            assert column.nullable, column.name
        elif column.sql_type == "VARCHAR":
            assert type(value) is str, column.name
        elif column.sql_type == "BOOLEAN":
            assert type(value) is bool, column.name
        else:
            assert type(value) is int, column.name
            assert -(2**63) <= value < 2**63, column.name
            if column.sql_type == "TIMESTAMP":
                assert value == AT_OBSERVATION or INSTANT_MIN - 10**12 <= value <= INSTANT_MAX + 10**12, column.name


def _pods(payload: Any, ctx: ReadContext) -> Iterator[Fact]:
    yield from read_pod(parse_pod(payload), ctx)


def _dra(payload: Any, ctx: ReadContext) -> Iterator[Fact]:
    yield from read_dra([CLAIM, payload], [SLICE], ctx)


def _slices(payload: Any, ctx: ReadContext) -> Iterator[Fact]:
    yield from read_dra([CLAIM], [SLICE, payload], ctx)


READERS: list[tuple[str, Callable[[Any, ReadContext], Iterator[Fact]], dict[str, Any]]] = [
    ("Pod", _pods, POD),
    ("Node", OBJECT_READERS["Node"], NODE),
    ("Event", OBJECT_READERS["Event"], EVENT),
    ("ResourceSlice", OBJECT_READERS["ResourceSlice"], SLICE),
    ("ResourceClaim", OBJECT_READERS["ResourceClaim"], CLAIM),
    ("claims in a batch", _dra, CLAIM),
    ("slices in a batch", _slices, SLICE),
]


@pytest.mark.parametrize(("name", "reader", "template"), READERS, ids=[name for name, _, _ in READERS])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_in_any_place_is_read_or_refused(name, reader, template, data):
    payload = template
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([path for path in _paths(payload) if path]))
        payload = _with(payload, path, data.draw(JSON))
    try:
        for fact in reader(payload, CTX):
            _check(fact)
    except SourceMalformed as error:
        assert len(error.excerpt) <= 200


@pytest.mark.parametrize(("name", "reader", "template"), READERS, ids=[name for name, _, _ in READERS])
@pytest.mark.parametrize(
    "value", [None, True, 0, 2**80, -1, 1.5, float("nan"), "", "x" * 300, [], {}, [[]], [{}], {"a": []}], ids=repr
)
def test_each_place_takes_each_wrong_type(name, reader, template, value):
    for path in list(_paths(template))[1:]:
        try:
            for fact in reader(_with(template, path, value), CTX):
                _check(fact)
        except SourceMalformed:
            continue


@pytest.mark.parametrize(("name", "reader", "template"), READERS, ids=[name for name, _, _ in READERS])
def test_the_templates_themselves_are_read(name, reader, template):
    assert list(reader(template, CTX))
