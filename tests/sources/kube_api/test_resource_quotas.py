"""Resource quotas of namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.resource_quotas import is_resource_quota, read_resource_quota
from tests.sources.kube_api.kube_objects import CTX, of, only


def quota(hard: Any, used: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu-quota", "namespace": "adhoc", "uid": "q-1"},
        "spec": {"hard": hard, **spec},
        "status": {"used": used},
    }


def read(payload: dict[str, Any]) -> list[Any]:
    assert is_resource_quota(payload["kind"], payload)
    return list(read_resource_quota(payload, payload["kind"], CTX))


def test_a_quota_is_told_per_key_with_its_bare_resource_in_thousandths() -> None:
    facts = read(
        quota({"requests.nvidia.com/gpu": "8", "limits.nvidia.com/gpumem": "16k"}, {"requests.nvidia.com/gpu": "6"})
    )
    found = only(facts, Queue)
    assert (found.queue_kind, found.queue, found.namespace, found.state) == (
        "resource_quota", "gpu-quota", "adhoc", "active")  # fmt: skip
    rows = {row.natural_key: row for row in of(facts, Quota)}
    gpu, memory = rows["q-1/requests.nvidia.com/gpu"], rows["q-1/limits.nvidia.com/gpumem"]
    assert (gpu.resource, gpu.flavor, gpu.nominal_milli, gpu.used_milli) == ("nvidia.com/gpu", None, 8_000, 6_000)
    assert (memory.resource, memory.flavor, memory.nominal_milli, memory.used_milli) == (
        "nvidia.com/gpumem", "limits", 16_000_000, None)  # fmt: skip


def test_row_40_the_count_of_pods_is_a_quota_apart_from_what_they_request() -> None:
    rows = of(
        read(
            quota(
                {"count/pods": "10", "requests.nvidia.com/gpu": "8"},
                {"count/pods": "9", "requests.nvidia.com/gpu": "1"},
            )
        ),
        Quota,
    )
    assert {row.resource: row.used_milli for row in rows} == {"count/pods": 9_000, "nvidia.com/gpu": 1_000}


def test_what_a_quota_is_limited_to_is_kept() -> None:
    found = only(read(quota({}, {}, scopes=["NotTerminating", 7], scopeSelector={"matchExpressions": []})), Queue)
    assert found.policies == '{"has_scope_selector":true,"scopes":["NotTerminating"]}'


def test_an_amount_that_cannot_be_read_is_left_out_and_said() -> None:
    facts = read(quota({"cpu": "lots", "memory": "1Gi"}, "x"))
    assert [row.resource for row in of(facts, Quota)] == ["memory"]
    assert only(facts, Finding).code == "quantity_malformed"


def test_a_quota_without_a_name_is_refused() -> None:
    payload = quota({}, {})
    payload["metadata"] = []
    with pytest.raises(SourceMalformed):
        read(payload)
    assert not is_resource_quota("ResourceQuota", {"apiVersion": "example.com/v1"})
