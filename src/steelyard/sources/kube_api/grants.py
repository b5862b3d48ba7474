"""Grants that follow from a pod object alone: the scheduler bound it, so it holds what it asked for, on a card that nobody names.

``pods`` calls ``read_grants``. The trick to know: these rows are the weakest evidence there is. HAMi, Volcano, DRA and PodResources
name the card and win over them in the ledger; where nothing stronger exists they are posted at the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from steelyard.definitions.mig import MigSlices, mig_slices
from steelyard.facts.base import Fact
from steelyard.facts.grant import Grant
from steelyard.sources.shared.accelerators import MIG, SLOTS
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.demand import Ask, Demand, SharedAsk
from steelyard.sources.shared.pods import PodView, list_of, mapping_of, text_of

SOURCE: Final = "kube_api"
DEVICE_UNKNOWN: Final = "the pod object does not name the card"


def read_grants(view: PodView, demands: Sequence[Demand], rejected: bool, ctx: ReadContext) -> Iterator[Fact]:
    """One Grant per container and resource (per container and scheme for the settings' shared schemes) of a bound pod.

    scheme: ``device_plugin``, ``mig_plugin`` or ``shared_scheme``. claim_state: ``rejected`` where the kubelet refused the pod;
    ``unreadable`` for slots of a sharing layer (a vGPU whose size and card only the layer's annotation tells).
    A resource that a DRA claim serves makes no Grant here (the claim does) but the finding ``gpu_served_by_dra``.
    """
    if view.node is None:
        return
    served = _served_by_dra(view)
    for demand in demands:
        for ask in demand.asks:
            claim = served.get((demand.container.name, ask.resource))
            if claim is not None:
                text = f"{demand.container.name}: {ask.resource} is served by the resource claim {claim}"
                yield ctx.finding(SOURCE, "gpu_served_by_dra", view.subject, text, severity="info")
                continue
            yield _plain(view, demand, ask, rejected, ctx)
        for shared in demand.shared:
            yield _shared(view, demand, shared, rejected, ctx)


def _plain(view: PodView, demand: Demand, ask: Ask, rejected: bool, ctx: ReadContext) -> Grant:
    meaning = ask.meaning
    slices = _slices(meaning.profile) if meaning.role == MIG and meaning.profile else None
    state, reason = _claim(view, rejected, meaning.role == SLOTS)
    return Grant(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{view.uid}/{demand.container.name}/{ask.resource}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        pod_uid=view.uid,
        container=demand.container.name,
        container_kind=demand.container.kind,
        scheme="mig_plugin" if meaning.role == MIG else "device_plugin",
        resource_name=ask.resource,
        node=view.node,
        device_unknown_reason=DEVICE_UNKNOWN,
        unit_kind=meaning.unit_kind,
        quantity=ask.count,
        profile=meaning.profile,
        compute_slices=slices.compute if slices else None,
        compute_slices_total=slices.compute_total if slices else None,
        memory_slices=slices.memory if slices else None,
        memory_slices_total=slices.memory_total if slices else None,
        requested_memory_mib=demand.memory_mib,
        requested_cores_percent=demand.cores_percent,
        claim_state=state,
        claim_reason=reason,
    )


def _shared(view: PodView, demand: Demand, ask: SharedAsk, rejected: bool, ctx: ReadContext) -> Grant:
    state, reason = _claim(view, rejected, False)
    return Grant(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{view.uid}/{demand.container.name}/{ask.resource}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        pod_uid=view.uid,
        container=demand.container.name,
        container_kind=demand.container.kind,
        scheme="shared_scheme",
        resource_name=ask.resource,
        node=view.node,
        device_unknown_reason=DEVICE_UNKNOWN,
        unit_kind="vgpu",
        quantity=ask.quantity,
        memory_mib=ask.memory_mib,
        cores_percent=ask.cores_percent,
        share_ppm=ask.share_ppm,
        requested_memory_mib=ask.memory_mib,
        requested_cores_percent=ask.cores_percent,
        claim_state=state,
        claim_reason=reason,
    )


def _claim(view: PodView, rejected: bool, slots: bool) -> tuple[str, str | None]:
    if rejected:
        return "rejected", view.status_reason
    if slots:
        return "unreadable", "the size and the card of a vGPU stand only in the sharing layer's annotation"
    return "accepted", None


def _served_by_dra(view: PodView) -> Mapping[tuple[str, str], str]:
    """(container, resource) -> claim name, where the scheduler turned an extended resource into a claim."""
    status = mapping_of(view.raw.get("status"))
    served: Any = status.get("extendedResourceClaimStatus")
    if not isinstance(served, dict):
        return {}
    claim = text_of(served.get("resourceClaimName")) or "(unnamed)"
    mappings = list_of(served.get("requestMappings"))
    return {
        (container, resource): claim
        for container, resource in (
            (text_of(row.get("containerName")), text_of(row.get("resourceName"))) for row in mappings
        )
        if container and resource
    }


@lru_cache(maxsize=512)
def _slices(profile: str) -> MigSlices | None:
    """The profile's slices where its name alone settles them; None leaves them to the ledger, which knows the node's cards."""
    slices = mig_slices(profile)
    return slices if isinstance(slices, MigSlices) else None
