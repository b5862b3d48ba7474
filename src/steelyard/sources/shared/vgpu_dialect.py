"""What sets one soft-partition layer's annotations apart from another's, and what a container asks of that layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from steelyard.sources.shared.pods import ContainerView
from steelyard.sources.shared.quantity import parse_count

MEMORY_REQUEST_MIB_MAX: Final = 2**20
"""1 TiB for one card: more is a byte count (``1Gi``) written where the layer counts MiB."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One allocation annotation. ``prefix``: of the keys for stamps and node. ``cores_are_percent``: False where cores count units.

    count, memory, percent and cores are the names of the extended resources, None where the layer has no such one (or its name
    is not known: then slots are matched by position alone).
    """

    source: str
    scheme: str
    prefix: str
    allocated_key: str
    work_key: str
    terminated: bool = True
    vendor: str = "nvidia"
    cores_are_percent: bool = True
    count_resource: str | None = None
    memory_resource: str | None = None
    percent_resource: str | None = None
    cores_resource: str | None = None

    @property
    def bind_basis(self) -> str:
        """What a start that rests on the bind stamp is said to rest on."""
        return f"{self.prefix}/bind-time"


@dataclass(frozen=True, slots=True)
class VgpuRequest:
    """What one container asks for, per card: MiB and percent are None where it does not say. ``overflow``: the memory as written
    where it is no amount that a card can have."""

    count: int
    memory_mib: int | None
    cores_percent: int | None
    overflow: str | None = None


def request_of(container: ContainerView, dialect: Dialect) -> VgpuRequest:
    """What a container asks for under this dialect. Suffixes count plainly (``5k`` is 5000 MiB); 0 memory means that none was named."""
    resources = container.resources
    memory = _amount(resources.get(dialect.memory_resource)) if dialect.memory_resource else None
    cores = _amount(resources.get(dialect.cores_resource)) if dialect.cores_resource else None
    percent = resources.get(dialect.percent_resource) if dialect.percent_resource else None
    count = container.count(dialect.count_resource) if dialect.count_resource else 0
    if count == 0 and dialect.count_resource not in resources and (memory or cores or percent is not None):
        count = 1  # the layers' webhook adds one card where only memory or cores are named
    overflow = (
        str(resources.get(dialect.memory_resource or ""))[:40] if memory and memory >= MEMORY_REQUEST_MIB_MAX else None
    )
    return VgpuRequest(count, memory if memory and not overflow else None, cores, overflow)


def _amount(value: object) -> int | None:
    if value is None:
        return None
    try:
        return parse_count(value)
    except ValueError:
        return None
