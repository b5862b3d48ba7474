"""Rows of dcgm-exporter as they were labelled: which card and instance, whose pod, from which target. Nothing is judged here.

Labels changed over the releases (``Hostname``, ``UUID`` and ``pod_name`` to ``hostname``, ``uuid`` and ``pod``); they meet in one ``Row``.
Empty strings are absent labels: old exporters print them for free cards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.gpu_uuid import metric_gpu_uuid
from steelyard.sources.shared.metric_labels import Resolved, Target
from steelyard.sources.shared.pci import pci_or_none

GI_MAX: Final = 4_096
TEXT_MAX: Final = 1_024
_EXPORTER_POD: Final = re.compile(r"(?:nvidia-)?dcgm-exporter-[a-z0-9-]{1,60}\Z")
_NOT_A_CARD: Final = frozenset({"nvlink", "nvswitch", "cpu", "cpucore"})


class Holder(NamedTuple):
    """Whose row it is; what the labels do not say is None."""

    namespace: str | None
    pod: str | None
    container: str | None
    pod_uid: str | None


@dataclass(frozen=True, slots=True)
class Attributes:
    """What the labels say of the card itself."""

    node: str | None
    index: int | None
    pci_address: str | None
    model: str | None
    serial: str | None
    driver_version: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """What one set of labels stands for; rows with equal labels share one. ``vgpu``: the row is of one replica (virtual GPU) of the card.
    ``exporter``: which target printed it, in one word."""

    uuid: str
    gi: int | None
    profile: str | None
    holder: Holder | None
    vgpu: bool
    exporter: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Row:
    """One sample. ``number``: the field of DCGM. ``declared``: the type that the exporter's text declares."""

    number: int
    name: str
    value: float
    at: Instant
    place: Place
    labels: Mapping[str, str]
    declared: str | None = None


def is_of_card(labels: Mapping[str, str]) -> bool:
    """Whether the row is about a card: not a link, a switch or a CPU."""
    return _NOT_A_CARD.isdisjoint(labels)


def place_of(resolved: Resolved, ctx: ReadContext) -> Place | None:
    """The card, instance and holder that the labels name; None where they name no card."""
    labels, target = resolved.labels, resolved.target
    uuid = metric_gpu_uuid(labels.get("UUID") or labels.get("uuid") or labels.get("gpu_uuid"))
    if uuid is None:
        return None
    gi_text = labels.get("GPU_I_ID", "")
    gi = int(gi_text) if gi_text.isdecimal() and len(gi_text) <= 4 and int(gi_text) <= GI_MAX else None
    holder = Holder(
        labels.get("namespace") or labels.get("pod_namespace"),
        labels.get("pod") or labels.get("pod_name"),
        labels.get("container") or labels.get("container_name"),
        labels.get("pod_uid") or labels.get("UID"),
    )
    return Place(
        uuid=uuid,
        gi=gi,
        profile=labels.get("GPU_I_PROFILE") if gi is not None else None,
        holder=holder if holder.pod or holder.pod_uid else None,
        vgpu="vgpu" in labels,
        exporter=target.key,
        attributes=_attributes(labels, target, ctx),
    )


def _attributes(labels: Mapping[str, str], target: Target, ctx: ReadContext) -> Attributes:
    index = labels.get("gpu", "")
    model = labels.get("modelName") or labels.get("model_name")
    serial = labels.get("DCGM_FI_DEV_SERIAL") or labels.get("DCGM_FI_DEV_BOARD_SERIAL")
    driver = labels.get("DCGM_FI_DRIVER_VERSION") or labels.get("DCGM_FI_SYSTEM_DRIVER_VERSION")
    return Attributes(
        node=ctx.node or target.node or labels.get("node") or host_of(labels, target),
        index=int(index) if index.isdecimal() and len(index) <= 5 else None,
        pci_address=pci_or_none(labels.get("pci_bus_id")),
        model=model[:TEXT_MAX] if model else None,
        serial=serial[:TEXT_MAX] if serial and serial.strip("0") else None,
        driver_version=driver[:TEXT_MAX] if driver else None,
    )


def host_of(labels: Mapping[str, str], target: Target) -> str | None:
    """The host name where it can be a node's: not the exporter's own pod name, which it is where NODE_NAME is not set."""
    host = labels.get("hostname") or labels.get("Hostname")
    if not host or host == target.pod or _EXPORTER_POD.match(host):
        return None
    return host[:TEXT_MAX]
