"""What a listing proves: that its objects existed at one instant and, where it is complete, that no other did.

``app`` calls ``read_listing`` once per List (or per set of files that it takes for one). The trick to know: only a complete listing yields
sightings, because only from such a one does absence mean something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import DurationUs
from steelyard.sources.shared.context import ReadContext

SOURCE: Final = "kube_api"
SIGHTED: Final[Mapping[str, str]] = {
    "pods": "pod",
    "nodes": "node",
    "workloads.kueue.x-k8s.io": "workload",
    "podgroups.scheduling.volcano.sh": "podgroup",
    "jobs.batch.volcano.sh": "job",
}
"""Kinds of which each object that a complete listing names is a sighting, with its word there."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What was listed: ``kind`` (``pods``, ``nodes``, ``events`` ...) in ``scope`` (``cluster`` or ``namespace/<name>``).

    complete: the list names every such object of its scope. gap_max_us: the longest gap to the next one across which the world counts as
    seen. as_of_basis: what its instant rests on.
    """

    kind: str
    scope: str
    complete: bool
    gap_max_us: DurationUs | None
    as_of_basis: str


def read_listing(listing: Listing, uids: Sequence[str], ctx: ReadContext) -> Iterator[Fact]:
    """One SourceStatus for the listing, then a Sighting per uid if it is complete and of a kind whose objects are sighted.

    A listing that is not complete has status ``partial`` and no gap. An object that is listed twice is seen once.
    """
    kind, complete = listing.kind, listing.complete
    unique = dict.fromkeys(uids)
    yield SourceStatus(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{kind}/{listing.scope}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        kind=kind,
        scope=listing.scope,
        status="ok" if complete else "partial",
        complete=complete,
        objects_count=len(unique),
        as_of_basis=listing.as_of_basis,
        gap_max_us=listing.gap_max_us if complete else None,
    )
    object_kind = SIGHTED.get(kind)
    if complete and object_kind is not None:
        for uid in unique:
            yield Sighting(
                cluster=ctx.cluster,
                source=SOURCE,
                natural_key=uid,
                occurred_at=ctx.observed_at,
                observed_at=ctx.observed_at,
                object_kind=object_kind,
                object_uid=uid,
            )
