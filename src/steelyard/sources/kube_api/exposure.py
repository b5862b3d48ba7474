"""What of a Pod's own words opens cards to it beside any grant, and whether it asks for its cores to be enforced.

``read_pod`` puts both into the request. The trick to know: only what the object says counts. A variable that an image sets, or that comes from a
ConfigMap, is not seen, so its absence proves nothing; a value of another shape than the API's is no word.

Sceptic's command: ``kubectl get pod POD -o jsonpath='{.spec.containers[*].env}{.spec.containers[*].securityContext}{.spec.volumes}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from steelyard.sources.shared.demand import Demand
from steelyard.sources.shared.pods import PodView, list_of, mapping_of, text_of

VISIBLE: Final = "visible_all"
PRIVILEGED: Final = "privileged"
HOST_DEVICES: Final = "host_devices"
SHIM_OFF: Final = "shim_off"

POLICY_ANNOTATION: Final = "steelyard.io/gpu-core-policy"
_POLICY: Final = "GPU_CORE_UTILIZATION_POLICY"
_POLICIES: Final = frozenset({"force", "default", "disable"})
_LISTS: Final = ("initContainers", "containers")
_ALL_DEVICES: Final = frozenset({"all", "ALL"})
_TRUE: Final = frozenset({"true", "1"})
_WHOLE: Final = frozenset({"/", "/dev"})
_HOST_PATH: Final = "/dev/nvidia"


def exposure_of(view: PodView) -> str:
    """What opens cards to the pod, comma separated and sorted: a variable that makes all of them visible, a privileged container, a host path of
    devices, HAMi's library switched off. Empty where it says none of these."""
    found: set[str] = set()
    for container in _containers(view):
        for name, value in _variables(container):
            if name == "NVIDIA_VISIBLE_DEVICES" and value in _ALL_DEVICES:
                found.add(VISIBLE)
            elif name == "CUDA_DISABLE_CONTROL" and value.lower() in _TRUE:
                found.add(SHIM_OFF)
        if mapping_of(container.get("securityContext")).get("privileged") is True:
            found.add(PRIVILEGED)
    if any(_opens_devices(volume) for volume in list_of(mapping_of(view.raw.get("spec")).get("volumes"))):
        found.add(HOST_DEVICES)
    return ",".join(sorted(found))


def core_policy_of(view: PodView, demands: Sequence[Demand]) -> str | None:
    """``force`` where every container that asks for a device says so, or the pod's annotation does; another policy where one is named; None where
    none is."""
    asking = {demand.container.name for demand in demands}
    said = [
        next((value for name, value in _variables(container) if name == _POLICY and value.lower() in _POLICIES), None)
        for container in _containers(view)
        if text_of(container.get("name")) in asking
    ]
    named = {value.lower() for value in said if value is not None}
    if named == {"force"} and None not in said:
        return "force"
    annotated = view.annotations.get(POLICY_ANNOTATION, "").lower()
    if annotated in _POLICIES:
        return annotated
    return min(named - {"force"}, default="default") if named else None


def _containers(view: PodView) -> Iterator[Mapping[str, Any]]:
    spec = mapping_of(view.raw.get("spec"))
    for name in _LISTS:
        yield from list_of(spec.get(name))


def _variables(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for item in list_of(container.get("env")):
        name, value = text_of(item.get("name")), text_of(item.get("value"))
        if name is not None and value is not None:
            yield name, value


def _opens_devices(volume: Mapping[str, Any]) -> bool:
    path = text_of(mapping_of(volume.get("hostPath")).get("path"))
    if path is None:
        return False
    return ("/" + path.strip("/")) in _WHOLE or path.startswith(_HOST_PATH)
