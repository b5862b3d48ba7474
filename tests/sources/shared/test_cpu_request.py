"""What a pod's spec asks for of the CPU, as the scheduler reckons it."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.sources.shared.resource_amounts import cpu_milli_of


def container(requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


@pytest.mark.parametrize(
    ("spec", "milli"),
    [
        ({"containers": [container({"cpu": "500m"}), container({"cpu": 2})]}, 2_500),
        ({"containers": [container({"cpu": "1"}, {"cpu": "4"})]}, 1_000),
        ({"containers": [container(None, {"cpu": "4"})]}, 4_000),
        ({"containers": [container()]}, 0),
        ({"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"})]}, 3_000),
        ({"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"}, restartPolicy="Always")]}, 4_000),
        ({"containers": [container({"cpu": "much"})]}, None),
        ({"containers": [container({"cpu": float("nan")})]}, None),
        ({"containers": [container({"cpu": "1e30"})]}, None),
        ({"containers": [container({"cpu": -5})]}, None),
        ({"containers": "none"}, None),
        (None, None),
        ({"containers": [{"resources": []}]}, 0),
    ],
)  # fmt: skip
def test_the_cpu_of_a_pod_is_what_the_scheduler_would_reserve(spec: Any, milli: int | None) -> None:
    assert cpu_milli_of(spec) == milli
