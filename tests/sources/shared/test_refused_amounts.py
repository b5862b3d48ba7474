"""An amount that no object can have is refused with a finding, wherever it is a limit: what was said is not known, and never taken as real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.quota import Quota
from steelyard.sources.kube_api.resource_quotas import read_resource_quota
from steelyard.sources.kueue import read_object
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.resource_amounts import amount_of, milli_of
from steelyard.sources.volcano import read_volcano

CTX = ReadContext(file="x", observed_at=1)
GPU = "nvidia.com/gpu"
ABSURD = [-4, "-4", "-1m", "1e17", 2_000_000, "NaN", float("nan"), float("inf"), "9" * 40, True, {}]


@pytest.mark.parametrize("value", ABSURD, ids=repr)
def test_an_amount_of_cards_below_nothing_or_beyond_any_cluster_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        amount_of(GPU, value)


def test_a_million_cards_and_a_petabyte_are_amounts() -> None:
    assert (amount_of(GPU, 1_000_000), amount_of("memory", "1Pi")) == (10**9, 2**50 * 1_000)
    with pytest.raises(ValueError, match="not negative"):
        milli_of("-1")


def _kueue(key: str, value: object) -> Iterator[Fact]:
    resource = {"name": GPU, "nominalQuota": "8", key: value}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "f", "resources": [resource]}]}]
    payload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q", "uid": "u"},
        "spec": {"resourceGroups": groups},
    }  # fmt: skip
    return read_object(payload, "ClusterQueue", CTX)


def _volcano(key: str, value: object) -> Iterator[Fact]:
    limits = {GPU: value, "cpu": "1"}
    spec = {"guarantee": {"resource": limits}} if key == "guarantee" else {key: limits}
    payload: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q", "uid": "u"},
        "spec": {} if key == "allocated" else spec,
        "status": {"allocated": limits if key == "allocated" else {GPU: "1", "cpu": "1"}},
    }  # fmt: skip
    return read_volcano(payload, "Queue", CTX)


def _resource_quota(key: str, value: object) -> Iterator[Fact]:
    amounts = {f"requests.{GPU}": value}
    payload = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a", "uid": "u"},
        "spec": {"hard": amounts if key == "hard" else {f"requests.{GPU}": "8"}},
        "status": {"used": amounts if key == "used" else {f"requests.{GPU}": "1"}},
    }  # fmt: skip
    return read_resource_quota(payload, "ResourceQuota", CTX)


@pytest.mark.parametrize("value", ABSURD[:5], ids=repr)
@pytest.mark.parametrize(
    ("read", "key", "column"),
    [
        (_kueue, "nominalQuota", "nominal_milli"),
        (_kueue, "borrowingLimit", "borrowing_limit_milli"),
        (_kueue, "lendingLimit", "lending_limit_milli"),
        (_volcano, "capability", "capability_milli"),
        (_volcano, "deserved", "deserved_milli"),
        (_volcano, "guarantee", "guarantee_milli"),
        (_volcano, "allocated", "used_milli"),
        (_resource_quota, "hard", "nominal_milli"),
        (_resource_quota, "used", "used_milli"),
    ],
)
def test_a_limit_or_use_that_cannot_be_is_not_known_and_a_finding(
    read: Any, key: str, column: str, value: object
) -> None:
    facts = list(read(key, value))
    told = [getattr(each, column) for each in facts if isinstance(each, Quota) and GPU in each.resource]
    assert set(told) <= {None}
    (finding,) = [each for each in facts if isinstance(each, Finding)]
    assert finding.code in ("queue_malformed", "quantity_malformed")
    assert str(value).strip("-") in finding.message
