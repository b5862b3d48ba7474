"""The kubelet's PodResources API, version 1, as it stands on the wire: the few messages that are read, field by field.

``kubelet`` decodes answers with it, into the shape that ``read`` takes as JSON. The trick to know: a message is taken apart by its own small
table of fields, so neither generated code nor a protobuf runtime is needed (5 MiB of memory), and fields that a later kubelet adds are passed over.
Method: ``k8s.io/kubelet/pkg/apis/podresources/v1/api.proto``.
Sceptic's command: ``grpcurl -plaintext -unix kubelet.sock v1.PodResourcesLister/List``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from steelyard.primitives.errors import SourceMalformed

LIST: Final = "/v1.PodResourcesLister/List"
ALLOCATABLE: Final = "/v1.PodResourcesLister/GetAllocatableResources"
_VARINT_BYTES_MAX: Final = 10
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, whether it may come repeatedly, and the table of its message (None: text; ``INTEGER``: an int64)."""

    name: str
    repeated: bool = False
    message: Mapping[int, Field] | None = None
    integer: bool = False


_NUMA_NODE: Final = {1: Field("ID", integer=True)}
_TOPOLOGY: Final = {1: Field("nodes", True, _NUMA_NODE)}
_DEVICES: Final = {1: Field("resource_name"), 2: Field("device_ids", True), 3: Field("topology", message=_TOPOLOGY)}
_CLAIM_RESOURCE: Final = {
    2: Field("driver_name"),
    3: Field("pool_name"),
    4: Field("device_name"),
    5: Field("share_id"),
}
_DYNAMIC: Final = {
    2: Field("claim_name"),
    3: Field("claim_namespace"),
    4: Field("claim_resources", True, _CLAIM_RESOURCE),
}
_CONTAINER: Final = {
    1: Field("name"),
    2: Field("devices", True, _DEVICES),
    5: Field("dynamic_resources", True, _DYNAMIC),
}
_POD: Final = {1: Field("name"), 2: Field("namespace"), 3: Field("containers", True, _CONTAINER)}
LIST_ANSWER: Final[Mapping[int, Field]] = {1: Field("pod_resources", True, _POD)}
ALLOCATABLE_ANSWER: Final[Mapping[int, Field]] = {1: Field("devices", True, _DEVICES)}


def message_of(wire: bytes, fields: Mapping[int, Field]) -> dict[str, Any]:
    """The message by these fields; repeated ones are always there, others where they were sent. Raises SourceMalformed."""
    return _message(memoryview(wire), fields)


def _message(wire: memoryview, fields: Mapping[int, Field]) -> dict[str, Any]:
    found: dict[str, Any] = {field.name: [] for field in fields.values() if field.repeated}
    at = 0
    while at < len(wire):
        key, at = _varint(wire, at)
        kind = key & 7
        field = fields.get(key >> 3)
        if kind == _VARINT:
            number, at = _varint(wire, at)
            if field is not None and field.integer:
                found[field.name] = number - (1 << 64) if number >> 63 else number
        elif kind == _BYTES:
            length, at = _varint(wire, at)
            if length > len(wire) - at:
                raise _malformed("a field is cut off")
            part, at = wire[at : at + length], at + length
            if field is not None and not field.integer:
                value: Any = str(part, "utf-8", "replace") if field.message is None else _message(part, field.message)
                if field.repeated:
                    found[field.name].append(value)
                else:
                    found[field.name] = value
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
            if at > len(wire):
                raise _malformed("a field is cut off")
        else:
            raise _malformed(f"wire type {kind}")
    return found


def _varint(wire: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for number in range(_VARINT_BYTES_MAX):
        if at + number >= len(wire):
            raise _malformed("a number is cut off")
        byte = wire[at + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value & ((1 << 64) - 1), at + number + 1
    raise _malformed("a number of more than 10 bytes")


def _malformed(found: str) -> SourceMalformed:
    return SourceMalformed(f"expected a message of PodResources v1, found {found}")
