"""What a kubelet says when it turns a pod away that was already bound to its node.

The trick to know: such a pod has a start and never ran; the fault is the node's or its device plugin's, not the user's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from steelyard.sources.shared.scheduling_message import CAPACITY, OTHER, PLACEMENT

REJECTIONS: Final = frozenset(
    {"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "NodeShutdown", "TaintToleration", "NodeName"}
)
"""Reasons of a refusal at admission; those for a lack of something are ``OutOf<resource>``."""

_DEVICES: Final = re.compile(
    r"devices unavailable for ([A-Za-z0-9./_-]{1,316})\. Requested: (\d{1,9}), Available: (\d{1,9})"
)
_UNHEALTHY: Final = re.compile(r"cannot allocate unhealthy devices ([A-Za-z0-9./_-]{1,316})")
_NODE_LACKS: Final = re.compile(r"requested: (\d{1,18}), used: (\d{1,18}), capacity: (\d{1,18})")


@dataclass(frozen=True, slots=True)
class Rejection:
    """cause: ``capacity``, ``placement`` or ``other``. resource: what was missing; asked_milli, available_milli: as it says, in thousandths."""

    cause: str
    resource: str | None = None
    asked_milli: int | None = None
    available_milli: int | None = None


def parse_rejection(reason: str, message: str) -> Rejection:
    """A kubelet's refusal; amounts None where it does not tell them."""
    if (devices := _DEVICES.search(message)) is not None:
        asked, available = int(devices.group(2)) * 1_000, int(devices.group(3)) * 1_000
        return Rejection(CAPACITY, devices.group(1), asked, available)
    if (unhealthy := _UNHEALTHY.search(message)) is not None:
        return Rejection(CAPACITY, unhealthy.group(1))
    if reason.startswith("OutOf"):
        lacks = _NODE_LACKS.search(message)
        resource = reason.removeprefix("OutOf") or None
        if lacks is None:
            return Rejection(CAPACITY, resource)
        asked, used, capacity = (int(lacks.group(index)) for index in (1, 2, 3))
        return Rejection(CAPACITY, resource, _milli(asked), _milli(max(0, capacity - used)))
    if reason in ("TopologyAffinityError", "NodeAffinity", "TaintToleration", "NodeName"):
        return Rejection(PLACEMENT)
    return Rejection(OTHER)


def _milli(amount: int) -> int | None:
    return amount * 1_000 if amount * 1_000 < 2**63 else None
