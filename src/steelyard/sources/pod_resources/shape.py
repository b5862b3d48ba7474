"""The JSON of PodResources, whichever client wrote it: snake case or camel case, one node or many, List, allocatable or both.

Hostile shapes read as absent: nothing here raises on what a payload holds. Depth, nodes, pods and ids are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import msgspec

from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.plain_text import decode_text, plain

NAME_CHARACTERS_MAX: Final = 512
IDS_MAX: Final = 1_000_000
MISSHAPEN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One entry of ``devices``: a resource with its ids, and the NUMA node where exactly one is named."""

    resource: str
    ids: Sequence[str]
    numa: int | None


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """One container of a pod; ``dynamic``: (claim, ``driver/pool/device[/share]``) of each DRA device."""

    namespace: str
    pod: str
    container: str
    devices: Sequence[ListedDevice]
    dynamic: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What one kubelet said. ``containers`` None: List was not asked; ``allocatable`` None: GetAllocatableResources was not asked.
    ``misshapen``: what was found in place of what is always there (bounded)."""

    node: str | None
    pods_count: int
    containers: Sequence[ListedContainer] | None
    allocatable: Sequence[ListedDevice] | None
    misshapen: Sequence[str] = ()


def decode_payload(payload: bytes | str | object) -> object:
    """The JSON value. Raises SourceMalformed where the bytes are no JSON or nest too deep."""
    if not isinstance(payload, bytes | str):
        return payload
    try:
        return msgspec.json.decode(decode_text(payload))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SourceMalformed(f"expected JSON of PodResources: {error}", 0, decode_text(payload[:200])) from None


def nodes_of(value: object, node: str | None) -> Iterator[NodeAnswer | SourceMalformed]:
    """Each kubelet's answer in the payload; an object of another shape as SourceMalformed."""
    for item in value if isinstance(value, list) else [value]:
        answer = _answer(item, node) if isinstance(item, dict) else None
        expected = "expected an answer of PodResources (pod_resources, devices, or list and allocatable)"
        yield answer or SourceMalformed(f"{expected}, found {type(item).__name__}")


def _answer(item: Mapping[str, Any], node: str | None) -> NodeAnswer | None:
    named = _name(item.get("node")) or _name(item.get("nodeName")) or node
    listed = item.get("list", item if _has(item, "pod_resources", "podResources") else None)
    allocatable = item.get("allocatable", item if "devices" in item else None)
    listed = listed if isinstance(listed, dict) else None
    allocatable = allocatable if isinstance(allocatable, dict) else None
    if listed is None and allocatable is None:
        return None
    pods = _objects(_get(listed or {}, "pod_resources", "podResources"))
    containers = [container for pod in pods for container in _containers(pod)] if listed is not None else None
    offered = _devices(allocatable.get("devices")) if allocatable is not None else None
    misshapen = islice(chain(_misshapen_pods(listed), _misshapen_devices(allocatable, "allocatable")), MISSHAPEN_MAX)
    return NodeAnswer(named, len(pods), containers, offered, tuple(misshapen))


def _misshapen_pods(listed: Mapping[str, Any] | None) -> Iterator[str]:
    """What of a List has another shape than the kubelet gives it. Fields that are absent or null are empty ones."""
    pods = _get(listed or {}, "pod_resources", "podResources")
    if pods is not None and not isinstance(pods, list):
        yield _expected("pod_resources: a list", pods)
    for pod in pods if isinstance(pods, list) else ():
        if not isinstance(pod, dict) or _name(pod.get("name")) is None:
            yield _expected("a pod with a name", pod)
            continue
        where = f"pod {_name(pod.get('namespace')) or 'default'}/{_name(pod.get('name'))}"
        containers = pod.get("containers")
        if containers is not None and not isinstance(containers, list):
            yield _expected(f"{where}: containers: a list", containers)
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict):
                yield from _misshapen_devices(container, where)
            else:
                yield _expected(f"{where}: a container", container)


def _misshapen_devices(holder: Mapping[str, Any] | None, where: str) -> Iterator[str]:
    devices = (holder or {}).get("devices")
    if devices is not None and not isinstance(devices, list):
        yield _expected(f"{where}: devices: a list", devices)
    for entry in devices if isinstance(devices, list) else ():
        ids = _get(entry, "device_ids", "deviceIds") if isinstance(entry, dict) else None
        if not isinstance(entry, dict):
            yield _expected(f"{where}: an entry of devices", entry)
        elif ids is not None and not (isinstance(ids, list) and all(isinstance(each, str) for each in ids)):
            yield _expected(f"{where}: device_ids: a list of texts", ids)


def _expected(what: str, found: object) -> str:
    return f"expected {what}; found {type(found).__name__}"


def _containers(pod: Mapping[str, Any]) -> Iterator[ListedContainer]:
    name, namespace = _name(pod.get("name")), _name(pod.get("namespace")) or "default"
    if name is None:
        return
    for at, container in enumerate(_objects(pod.get("containers"))):
        yield ListedContainer(
            namespace,
            name,
            _name(container.get("name")) or f"#{at}",
            _devices(container.get("devices")),
            list(_dynamic(_get(container, "dynamic_resources", "dynamicResources"))),
        )


def _devices(value: object) -> Sequence[ListedDevice]:
    devices = []
    for entry in _objects(value):
        ids = _get(entry, "device_ids", "deviceIds")
        texts = (
            [plain(each) for each in ids[:IDS_MAX] if isinstance(each, str) and each] if isinstance(ids, list) else []
        )
        resource = _name(_get(entry, "resource_name", "resourceName")) or ""
        devices.append(ListedDevice(resource, texts, _numa(entry.get("topology"))))
    return devices


def _numa(topology: object) -> int | None:
    nodes = _objects(topology.get("nodes")) if isinstance(topology, dict) else []
    numbers = {number for node in nodes if type(number := _get(node, "ID", "id")) is int and 0 <= number < 65_536}
    return numbers.pop() if len(numbers) == 1 else None


def _dynamic(value: object) -> Iterator[tuple[str, str]]:
    for entry in _objects(value):
        claim_name = _name(_get(entry, "claim_name", "claimName")) or "?"
        namespace = _name(_get(entry, "claim_namespace", "claimNamespace")) or "default"
        for resource in _objects(_get(entry, "claim_resources", "claimResources")):
            parts = [_name(_get(resource, f"{part}_name", f"{part}Name")) for part in ("driver", "pool", "device")]
            share = _name(_get(resource, "share_id", "shareId"))
            if all(parts):
                yield f"{namespace}/{claim_name}", "/".join(part for part in (*parts, share) if part)


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _get(item: Mapping[str, Any], *names: str) -> Any:
    return next((item[name] for name in names if name in item), None)


def _has(item: Mapping[str, Any], *names: str) -> bool:
    return any(name in item for name in names)


def _name(value: object) -> str | None:
    return plain(value[:NAME_CHARACTERS_MAX]) if isinstance(value, str) and value else None
