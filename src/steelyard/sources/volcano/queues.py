"""A Volcano queue: who feeds it, what it may use of each resource, and what its scheduler claims is allocated.

The trick to know: ``status.allocated`` of a parent contains its children's, up to ``root``, so only leaves add up; the counts of pod groups in a
queue's status are no longer written by new releases and stand at 0 or at their last value, so they are claims and never the truth.

Sceptic's command: ``kubectl get queues.scheduling.volcano.sh -o yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.sources.shared.accelerators import CARDS, MIG, meaning_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.object_identity import identity_of, short
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import integer_of, mapping_of
from steelyard.sources.shared.resource_amounts import NAME_CHARACTERS_MAX, RESOURCES_MAX, amounts_of, to_json
from steelyard.sources.volcano.gang_message import SOURCE

QUEUE_KIND: Final = "volcano_queue"
_STATES: Final = {"Open": "active", "Closed": "closed", "Closing": "closing"}
_WEIGHT_MAX: Final = 2**50


def read_queue(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Queue, and one Quota per resource that its spec or status names. Amounts that cannot be read: finding ``quantity_malformed``,
    and a limit among them is in ``refused``."""
    problems: list[str] = []
    who = identity_of(payload, "Queue", problems, namespaced=False)
    spec, status = mapping_of(payload.get("spec")), mapping_of(payload.get("status"))
    weight = integer_of(spec.get("weight"))
    yield Queue(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=who.uid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        queue_kind=QUEUE_KIND,
        queue=who.name,
        parent=short(spec.get("parent")),
        strategy=short(spec.get("dequeueStrategy")),
        weight_milli=weight * 1_000 if weight is not None and 0 <= weight < _WEIGHT_MAX else None,
        priority=integer_of(spec.get("priority")),
        state=_STATES.get(short(status.get("state")) or "", "unknown"),
        policies=_policies(spec),
        created_at=who.created_at,
        deletion_at=who.deletion_at,
        pending_claimed=integer_of(status.get("pending")),
        reserving_claimed=integer_of(status.get("inqueue")),
        admitted_claimed=integer_of(status.get("running")),
    )
    guarantee, reservation = mapping_of(spec.get("guarantee")), mapping_of(status.get("reservation"))
    capability = amounts_of(spec.get("capability"), problems, "spec.capability")
    deserved = amounts_of(spec.get("deserved"), problems, "spec.deserved")
    guaranteed = amounts_of(guarantee.get("resource"), problems, "spec.guarantee.resource")
    told = mapping_of(status.get("allocated"))
    used = amounts_of(told, problems, "status.allocated")
    reserved = amounts_of(reservation.get("resource"), problems, "status.reservation.resource")
    refused = {
        *_refused("capability", spec.get("capability"), capability),
        *_refused("deserved", spec.get("deserved"), deserved),
        *_refused("guarantee", guarantee.get("resource"), guaranteed),
    }
    for resource in sorted(
        {*capability, *deserved, *guaranteed, *used, *reserved, *(name for _limit, name in refused)}
    ):
        yield Quota(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{who.uid}/{resource}",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            queue_kind=QUEUE_KIND,
            queue=who.name,
            parent=short(spec.get("parent")),
            resource=resource,
            capability_milli=capability.get(resource),
            deserved_milli=deserved.get(resource),
            guarantee_milli=guaranteed.get(resource),
            reserved_milli=reserved.get(resource),
            used_milli=used.get(
                resource, 0 if used and resource not in told and _is_always_counted(resource) else None
            ),
            refused=",".join(sorted(limit for limit, name in refused if name == resource)) or None,
        )
    if problems:
        text = "; ".join(problems[:3])
        yield ctx.finding(SOURCE, "quantity_malformed", f"queue {who.name}", text, evidence={"problems": problems[:20]})


def _refused(limit: str, written: object, read: Mapping[str, int]) -> set[tuple[str, str]]:
    """(limit, resource) of each amount that was written and is not among those that could be read."""
    names = list(mapping_of(written))[:RESOURCES_MAX]
    named = {plain(name[:NAME_CHARACTERS_MAX]) for name in names if isinstance(name, str) and name}
    return {(limit, name) for name in named if name not in read}


def _is_always_counted(resource: str) -> bool:
    """Whether its absence from what is allocated means 0: what a sharing layer hands out beside its slots may be left out though it is used."""
    meaning = meaning_of(resource)
    return meaning is None or meaning.role in (CARDS, MIG)


def _policies(spec: Mapping[str, Any]) -> str:
    reclaimable = spec.get("reclaimable")
    found = {
        "reclaimable": reclaimable if isinstance(reclaimable, bool) else None,
        "type": short(spec.get("type")),
        "has_affinity": True if mapping_of(spec.get("affinity")) else None,
    }
    return to_json(found)
