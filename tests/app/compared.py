"""Objects read by all readers and posted: what they say against each other, whatever they came in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from steelyard.app.kubernetes_objects import KubernetesObjects, Later, all_readers
from steelyard.facts.base import Fact
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.store import Store

LISTED = ("pods", "workloads.kueue.x-k8s.io")
SYSTEMS = ("kueue", "volcano", "kube_scheduler")


class Told(NamedTuple):
    """A finding."""

    code: str
    subject: str
    severity: str
    evidence: str


def status(kind: str, at: Instant, **more: Any) -> SourceStatus:
    """All objects of a kind were listed, or watched from ``observed_from_at``."""
    return SourceStatus(
        source="kube_api", natural_key=f"{kind}/cluster", occurred_at=at, observed_at=at, kind=kind, status="ok",
        complete=True, scope="cluster", **more,
    )  # fmt: skip


def facts_of(payloads: Iterable[dict[str, Any]], at: Instant) -> list[Fact]:
    """What all readers say of the objects, seen at one instant."""
    ctx = ReadContext(file="x", observed_at=at)
    objects = KubernetesObjects(all_readers, None, "stamped")
    found = objects.read([(0, payload) for payload in payloads], ctx, Later(), listing=False)
    return [fact for fact in found if not isinstance(fact, SourceStatus)]


def told_by(facts: Sequence[Fact], now: Instant) -> list[Told]:
    """The findings of the queueing systems, of facts and of ledgers, after all of them were posted."""
    with Store.open_memory() as store:
        store.append(facts)
        post_ledgers(store, PostingParameters(), clock=FixedClock(now))
        names = ", ".join(f"'{name}'" for name in SYSTEMS)
        sql = f"SELECT code, subject, severity, evidence FROM {{}}.finding WHERE source IN ({names}) ORDER BY code, subject"
        return [Told(*row) for schema in ("fact", "ledger") for row in store.rows(sql.format(schema))]


def compare(*payloads: dict[str, Any], at: Instant, listed: bool = True) -> list[Told]:
    """What the objects say against each other where all were seen at one instant."""
    statuses = [status(kind, at) for kind in LISTED] if listed else [status("events", at)]
    return told_by([*facts_of(payloads, at), *statuses], at)
