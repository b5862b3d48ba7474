"""Device ids as the kubelet knows them: what each spelling says about card, unit and replica.

``GPU-<uuid>`` a whole card; ``MIG-<uuid>`` an instance whose card the id does not tell; ``MIG-GPU-<uuid>/<gi>/<ci>`` (drivers before
R470) one that does; ``<id>::<n>`` a replica of either (time-slicing, MPS); ``nvidia0``, ``nvidia0/gi1``, ``nvidia0/vgpu1`` (GKE) an index;
``GPU-<uuid>-<n>`` a slot of a sharing layer (HAMi, Volcano), whose real card is written elsewhere. Sceptic's command:
``kubectl get --raw`` on the node's proxy does not show this API; ``podresources-cli`` or ``grpcurl`` on the kubelet's socket does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GPU: Final = re.compile(rf"GPU-({_UUID})\Z", re.IGNORECASE)
_MIG: Final = re.compile(rf"MIG-({_UUID})\Z", re.IGNORECASE)
_OLD_MIG: Final = re.compile(rf"MIG-GPU-({_UUID})/([0-9]{{1,4}})/([0-9]{{1,4}})\Z", re.IGNORECASE)
_REPLICA: Final = re.compile(r"(.{1,200})::([0-9]{1,6})\Z")
_SLOT: Final = re.compile(rf"GPU-({_UUID})-([0-9]{{1,6}})\Z", re.IGNORECASE)
_INDEXED: Final = re.compile(r"nvidia([0-9]{1,4})(?:/gi([0-9]{1,4}))?(?:/vgpu([0-9]{1,6}))?\Z")


@dataclass(frozen=True, slots=True)
class DeviceId:
    """An id taken apart. ``base``: the id without its replica number. ``index``: of the card on its node (GKE).

    unit_kind: ``gpu``, ``mig``, ``slice``, or ``""`` where the spelling is not known. device_uuid: None with ``reason``.
    """

    text: str
    base: str
    unit_kind: str
    device_uuid: str | None = None
    unit_id: str | None = None
    gi: int | None = None
    ci: int | None = None
    replica: int | None = None
    index: int | None = None
    reason: str | None = None


def parse_device_id(text: str) -> DeviceId:
    """The id taken apart; one of an unknown spelling comes back with ``unit_kind`` empty and the reason. Never raises."""
    if len(text) > 256:
        return DeviceId(text, text, "", reason="the device id is longer than any known spelling")
    replica = _REPLICA.match(text)
    if replica is not None:
        return _replica(text, _whole(replica.group(1)), int(replica.group(2)))
    return _whole(text)


def _replica(text: str, whole: DeviceId, number: int) -> DeviceId:
    if whole.unit_kind not in ("gpu", "mig"):
        return DeviceId(text, whole.base, "", reason=whole.reason or "a replica of an id of unknown spelling")
    parent = whole.unit_id or whole.device_uuid or whole.base
    return DeviceId(
        text,
        whole.base,
        "slice",
        whole.device_uuid,
        f"{parent}::{number}",
        whole.gi,
        whole.ci,
        number,
        reason=whole.reason,
    )


def _whole(text: str) -> DeviceId:
    gpu = _GPU.match(text)
    if gpu is not None:
        return DeviceId(text, text, "gpu", f"GPU-{gpu.group(1).lower()}")
    mig = _MIG.match(text)
    if mig is not None:
        return DeviceId(
            text,
            text,
            "mig",
            None,
            f"MIG-{mig.group(1).lower()}",
            reason="the UUID of a MIG instance does not tell its card",
        )
    old = _OLD_MIG.match(text)
    if old is not None:
        parent, gi, ci = f"GPU-{old.group(1).lower()}", int(old.group(2)), int(old.group(3))
        return DeviceId(text, text, "mig", parent, f"{parent}/gi{gi}/ci{ci}", gi, ci)
    if _SLOT.match(text) is not None:
        return DeviceId(
            text,
            text,
            "vgpu",
            reason="a slot of a sharing layer: the kubelet's choice of a slot does not tell the card",
        )
    indexed = _INDEXED.match(text)
    if indexed is not None:
        return _indexed(text, *(int(part) if part is not None else None for part in indexed.groups()))
    return DeviceId(text, text, "", reason="a device id of a spelling that is not known")


def _indexed(text: str, index: int | None, gi: int | None, replica: int | None) -> DeviceId:
    kind = "slice" if replica is not None else "mig" if gi is not None else "gpu"
    reason = f"the id names the card by its index {index} only"
    return DeviceId(
        text, text.split("/vgpu", 1)[0], kind, None, text if kind != "gpu" else None, gi, None, replica, index, reason
    )
