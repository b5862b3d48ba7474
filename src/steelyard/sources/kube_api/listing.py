"""What a listing proves: that its objects existed at one instant and, where it is complete, that no other did.

``app`` calls ``read_listing`` once per List (or per set of files that it takes for one). The trick to know: only a complete listing yields
sightings, because only from such a one does absence mean something.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import DurationUs
from steelyard.sources.shared.context import ReadContext

SOURCE: Final = "kube_api"
_OBJECT_KIND: Final = {"pods": "pod", "nodes": "node"}


def read_listing(
    kind: str, uids: Sequence[str], ctx: ReadContext, complete: bool, gap_max_us: DurationUs | None, as_of_basis: str
) -> Iterator[Fact]:
    """One SourceStatus for the listing of ``kind`` (``pods``, ``nodes``, ``events`` ...), then a Sighting per uid of a pod or node if complete.

    A listing that is not complete has status ``partial`` and no gap. An object that is listed twice is seen once.
    """
    unique = dict.fromkeys(uids)
    yield SourceStatus(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{kind}/cluster",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        kind=kind,
        scope="cluster",
        status="ok" if complete else "partial",
        complete=complete,
        objects_count=len(unique),
        as_of_basis=as_of_basis,
        gap_max_us=gap_max_us if complete else None,
    )
    object_kind = _OBJECT_KIND.get(kind)
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
