"""What HAMi's scheduler wrote on a pod: which containers got which part of which card.

``app`` calls ``read_pod_allocations`` for every pod. HAMi writes the allocation at Filter, before it binds, and leaves it on the
pod for good. The trick to know: it proves neither that the pod runs nor that it was bound; states follow from the pod's own
stamps, in the ledger. Other vendors' cards come in the same grammar under keys of their own.

Sceptic's command: ``kubectl get pod P -o jsonpath='{.metadata.annotations.hami\\.io/vgpu-devices-allocated}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.sources.hami.mig_allocations import MIG_KEY, read_mig_allocations
from steelyard.sources.hami.vendors import NVIDIA, SOURCE, allocation_word, dialect_of, is_allocation_key
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import PodView
from steelyard.sources.shared.vgpu_grants import read_grants

VENDOR_KEYS_MAX = 64


def read_pod_allocations(view: PodView, ctx: ReadContext, cards: Mapping[str, Device] | None = None) -> Iterator[Fact]:
    """Grants of scheme ``hami`` (NVIDIA) and ``hami_vendor`` (everyone else), with findings about what contradicts itself.

    Memory is MiB per card as annotated, cores percent of one card (None for vendors that count otherwise). A MIG instance also
    carries profile and slices where they follow from the annotation, or from ``cards`` (what registers of the same import said,
    by UUID), which settle profiles that cards of different sizes share. A pod without allocation yields nothing.
    """
    keys = [key for key in view.annotations if key.startswith("hami.io/") and key.endswith("-allocated")]
    known = cards or {}
    if NVIDIA.allocated_key in view.annotations:
        if MIG_KEY in view.annotations:
            instances = read_mig_allocations(view, ctx, known)
            yield from read_grants(view, ctx, NVIDIA, instances.part_of, known)
            yield from instances.unused()
        else:
            yield from read_grants(view, ctx, NVIDIA, None, known)
    words = [word for key in sorted(keys) if (word := allocation_word(key)) is not None]
    for word in words[:VENDOR_KEYS_MAX]:
        yield from read_grants(view, ctx, dialect_of(word), None, known)
    unread = [plain(key)[:120] for key in keys if is_allocation_key(key) and allocation_word(key) is None]
    unread += [f"hami.io/{word}-devices-allocated" for word in words[VENDOR_KEYS_MAX:]]
    if unread:
        yield ctx.finding(
            SOURCE,
            "allocation_key_unread",
            view.subject,
            f"{len(unread)} allocation keys were not read: no legal name, or more than {VENDOR_KEYS_MAX} of them on one pod",
            severity="error",
            evidence={"keys_count": len(unread), "keys": unread[:16]},
        )
