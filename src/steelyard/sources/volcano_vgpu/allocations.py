"""What Volcano's scheduler wrote on a pod about vGPUs: HAMi's records, with slots joined by ``;`` instead of ended by it.

``app`` calls ``read_pod_allocations`` for every pod. The trick to know: the annotation stays on a finished pod, and old pods lack
the bind stamp, so their interval may be beyond recovery.

Sceptic's command: ``kubectl get pod P -o jsonpath='{.metadata.annotations.volcano\\.sh/vgpu-ids-new}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView
from steelyard.sources.shared.vgpu_dialect import Dialect
from steelyard.sources.shared.vgpu_grants import read_grants

DIALECT: Final = Dialect(
    source="volcano_vgpu",
    scheme="volcano_vgpu",
    prefix="volcano.sh",
    allocated_key="volcano.sh/vgpu-ids-new",
    work_key="volcano.sh/devices-to-allocate",
    terminated=False,
    count_resource="volcano.sh/vgpu-number",
    memory_resource="volcano.sh/vgpu-memory",
    percent_resource="volcano.sh/vgpu-memory-percentage",
    cores_resource="volcano.sh/vgpu-cores",
)


def read_pod_allocations(view: PodView, ctx: ReadContext, cards: Mapping[str, Device] | None = None) -> Iterator[Fact]:
    """Grants of scheme ``volcano_vgpu`` with findings about what contradicts itself; nothing for a pod without allocation.

    Memory is MiB per card, cores percent of one card. cards: what registers of the same import said, by UUID.
    """
    yield from read_grants(view, ctx, DIALECT, None, cards)
