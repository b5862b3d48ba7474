"""The annotations that HAMi's plugin and scheduler would have written, in the form of each of its versions."""

from __future__ import annotations

import json
from typing import Any, Final

from steelyard.primitives.instant import SECOND_US, Instant, to_datetime
from steelyard.simulation.truth import Device, Node, Pod

_CSV_VERSION: Final = "v2.7.1"
_INIT_SLOTS_VERSION: Final = "v2.9.0"


def node_annotations(node: Node, at: Instant) -> dict[str, str]:
    """The register (nine comma-separated fields up to v2.7, JSON that leaves out zeros later) and the handshake."""
    moment = to_datetime(at - 7 * SECOND_US)
    if node.hami_version == _CSV_VERSION:
        register = "".join(_csv9(device) for device in node.devices)
        handshake = f"Reported {moment:%Y-%m-%d %H:%M:%S}.000000001 +0000 UTC m=+{at // SECOND_US % 10**6}.5"
    else:
        register = json.dumps([_entry(device) for device in reversed(node.devices)], separators=(",", ":"))
        handshake = f"Requesting_{moment:%Y-%m-%d %H:%M:%S}"
    return {"hami.io/node-nvidia-register": register, "hami.io/node-handshake": handshake}


def pod_annotations(pod: Pod, node: Node, bound: bool) -> dict[str, str]:
    """The allocation as written at Filter, and once bound the bind stamps. Slots by version: v2.7 has one per app container,
    v2.9 counts init containers first, v2.10 leaves empty slots out."""
    record = "".join(f"{grant.device_uuid},NVIDIA,{grant.memory_mib},{grant.cores_percent}:" for grant in pod.grants)
    before = ["" for _ in range(min(1, pod.sidecar_containers))]
    after = ["" for _ in range(max(0, pod.sidecar_containers - 1))]
    slots = [*before, record, *after]
    if pod.init_container and node.hami_version == _INIT_SLOTS_VERSION:
        slots = ["", *slots]
    if node.hami_version not in (_CSV_VERSION, _INIT_SLOTS_VERSION):
        slots = [record]
    allocated = "".join(f"{slot};" for slot in slots)
    found = {
        "hami.io/vgpu-node": node.name,
        "hami.io/vgpu-time": str((pod.filtered_at or 0) // SECOND_US),
        "hami.io/vgpu-devices-allocated": allocated,
        "hami.io/vgpu-devices-to-allocate": allocated,
    }
    if bound:
        found["hami.io/bind-phase"] = "success"
        found["hami.io/bind-time"] = str((pod.bound_at or 0) // SECOND_US)
        found["hami.io/vgpu-devices-to-allocate"] = ";" * len(slots)
    return found


def _csv9(device: Device) -> str:
    model = device.model if device.model.startswith("Tesla") else f"NVIDIA-{device.model}"
    return f"{device.uuid},10,{device.memory_mib},100,{model},{device.numa},true,{device.index},hami-core:"


def _entry(device: Device) -> dict[str, Any]:
    entry = {
        "id": device.uuid,
        "index": device.index,
        "count": 10,
        "devmem": device.memory_mib,
        "devcore": 100,
        "type": device.model,
        "numa": device.numa,
        "mode": "hami-core",
        "health": True,
    }
    return {key: value for key, value in entry.items() if value != 0}
