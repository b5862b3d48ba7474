"""What a pod's own words open of cards beside any grant, and whether its cores are enforced."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.sources.kube_api.exposure import POLICY_ANNOTATION, core_policy_of, exposure_of
from steelyard.sources.shared.context import ReadSettings
from steelyard.sources.shared.demand import demands_of
from steelyard.sources.shared.pods import parse_pod


def pod(*containers: Any, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    named = [
        {"name": f"c{number}", **each} if isinstance(each, dict) else each for number, each in enumerate(containers)
    ]
    return {
        "metadata": {"uid": "u1", "namespace": "team-a", "name": "p1", "creationTimestamp": "2026-11-30T00:00:00Z", "annotations": annotations or {}},
        "spec": {"containers": named, **spec},
        "status": {"phase": "Running"},
    }  # fmt: skip


def env(name: str, value: Any) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value}]}


def gpu(**more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"}}, **more}


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (pod({}), ""),
        (pod(env("NVIDIA_VISIBLE_DEVICES", "all")), "visible_all"),
        (pod(env("NVIDIA_VISIBLE_DEVICES", "none")), ""),
        (pod(env("NVIDIA_VISIBLE_DEVICES", "GPU-1")), ""),
        (
            pod(
                {
                    "env": [
                        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}
                    ]
                }
            ),
            "",
        ),
        (pod({}, initContainers=[{"name": "i", **env("NVIDIA_VISIBLE_DEVICES", "all")}]), "visible_all"),
        (pod(env("CUDA_DISABLE_CONTROL", "True")), "shim_off"),
        (pod(env("CUDA_DISABLE_CONTROL", "false")), ""),
        (pod({"securityContext": {"privileged": True}}), "privileged"),
        (pod({"securityContext": {"privileged": "true"}}), ""),
        (pod({}, volumes=[{"hostPath": {"path": "/dev/nvidia0"}}]), "host_devices"),
        (pod({}, volumes=[{"hostPath": {"path": "/dev/"}}, {"hostPath": {"path": "/"}}]), "host_devices"),
        (pod({}, volumes=[{"hostPath": {"path": "/var/lib"}}, {"emptyDir": {}}]), ""),
        (
            pod({**env("NVIDIA_VISIBLE_DEVICES", "all"), "securityContext": {"privileged": True}}),
            "privileged,visible_all",
        ),
        (
            pod(
                env("NVIDIA_VISIBLE_DEVICES", ["all"]),
                7,
                {"env": "x"},
                {"env": [None, {"name": {}}]},
                {"securityContext": []},
            ),
            "",
        ),
        (pod({}, volumes={"hostPath": {"path": "/dev"}}), ""),
    ],
)
def test_what_opens_cards_is_read_from_the_spec(payload: dict[str, Any], found: str) -> None:
    assert exposure_of(parse_pod(payload)) == found


@pytest.mark.parametrize(
    ("payload", "policy"),
    [
        (pod(gpu()), None),
        (pod(gpu(**env("GPU_CORE_UTILIZATION_POLICY", "force"))), "force"),
        (pod(gpu(**env("GPU_CORE_UTILIZATION_POLICY", "FORCE"))), "force"),
        (pod(gpu(**env("GPU_CORE_UTILIZATION_POLICY", "disable"))), "disable"),
        (pod(gpu(**env("GPU_CORE_UTILIZATION_POLICY", "nonsense"))), None),
        (pod(gpu(**env("GPU_CORE_UTILIZATION_POLICY", "force")), gpu()), "default"),
        (pod(gpu(), env("GPU_CORE_UTILIZATION_POLICY", "force")), None),
        (pod(gpu(), annotations={POLICY_ANNOTATION: "force"}), "force"),
        (pod({"name": ["x"], **gpu()}), None),
    ],
)
def test_cores_are_enforced_where_every_container_that_asks_says_so(
    payload: dict[str, Any], policy: str | None
) -> None:
    view = parse_pod(payload)
    assert core_policy_of(view, demands_of(view.containers, ReadSettings())) == policy
