"""A kubelet's PodResources service on a real Unix socket: gRPC's own server, messages by protobuf's own runtime.

Nothing of the product is used to write what the product reads: the messages come from a descriptor that is built here after the published
``api.proto`` of v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

# message -> (number, name, type, repeated)
MESSAGES: dict[str, list[tuple[int, str, str, bool]]] = {
    "NUMANode": [(1, "ID", "int64", False)],
    "TopologyInfo": [(1, "nodes", "NUMANode", True)],
    "ContainerMemory": [
        (1, "memory_type", "string", False),
        (2, "size", "uint64", False),
        (3, "topology", "TopologyInfo", False),
    ],
    "ContainerDevices": [
        (1, "resource_name", "string", False),
        (2, "device_ids", "string", True),
        (3, "topology", "TopologyInfo", False),
    ],
    "CDIDevice": [(1, "name", "string", False)],
    "ClaimResource": [
        (1, "cdi_devices", "CDIDevice", True),
        (2, "driver_name", "string", False),
        (3, "pool_name", "string", False),
        (4, "device_name", "string", False),
        (5, "share_id", "string", False),
    ],
    "DynamicResource": [
        (2, "claim_name", "string", False),
        (3, "claim_namespace", "string", False),
        (4, "claim_resources", "ClaimResource", True),
    ],
    "ContainerResources": [
        (1, "name", "string", False),
        (2, "devices", "ContainerDevices", True),
        (3, "cpu_ids", "int64", True),
        (4, "memory", "ContainerMemory", True),
        (5, "dynamic_resources", "DynamicResource", True),
    ],
    "PodResources": [
        (1, "name", "string", False),
        (2, "namespace", "string", False),
        (3, "containers", "ContainerResources", True),
        (4, "cpu_ids", "int64", True),
    ],
    "ListPodResourcesResponse": [(1, "pod_resources", "PodResources", True)],
    "AllocatableResourcesResponse": [
        (1, "devices", "ContainerDevices", True),
        (2, "cpu_ids", "int64", True),
        (3, "memory", "ContainerMemory", True),
    ],
}
_TYPES = {"string": 9, "int64": 3, "uint64": 4}


@cache
def messages() -> dict[str, Any]:
    """The message classes by name."""
    file = descriptor_pb2.FileDescriptorProto(name="podresources_v1_test.proto", package="v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, label, kind, repeated in fields:
            added = message.field.add(name=label, number=number, label=3 if repeated else 1)
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type, added.type_name = 11, f".v1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in MESSAGES}


def wire(name: str, document: dict[str, Any]) -> bytes:
    """The message of a JSON document, on the wire."""
    found: bytes = json_format.ParseDict(document, messages()[name]()).SerializeToString()
    return found


@dataclass
class Kubelet:
    """What it says: JSON documents, bytes as they are, or a status to fail with."""

    listed: Any = field(default_factory=dict)
    allocatable: Any = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, method: str, context: Any) -> bytes:
        name, said = (
            ("ListPodResourcesResponse", self.listed)
            if method == "List"
            else ("AllocatableResourcesResponse", self.allocatable)
        )
        self.asked.append(method)
        if isinstance(said, grpc.StatusCode):
            context.abort(said, "as the test wants it")
        return said if isinstance(said, bytes) else wire(name, said)


@contextmanager
def kubelet(path: Path, listed: Any = None, allocatable: Any = None) -> Iterator[Kubelet]:
    """A kubelet that listens at ``path`` until the end."""
    found = Kubelet({} if listed is None else listed, {} if allocatable is None else allocatable)
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            lambda _request, context, method=method: found.answer(method, context)
        )
        for method in ("List", "GetAllocatableResources")
    }
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
    server.add_insecure_port(f"unix://{path}")
    server.start()
    try:
        yield found
    finally:
        server.stop(None).wait()
