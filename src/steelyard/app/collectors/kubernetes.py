"""The Kubernetes collector: one cluster watched without gaps, drained once per round.

The trick to know: what a healthy watch proves is a stretch of time (``observed_from_at`` to ``observed_to_at``) within which every pod that was not
reported gone was there; only the first listing after a start is a listing as of a dump, so that what vanished while nobody watched is missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from steelyard.app.collectors.watched_objects import WatchedObjects
from steelyard.app.source_settings import KubernetesSetting
from steelyard.facts.base import Fact
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import AT_OBSERVATION, Instant
from steelyard.sources.kube_api.listing import SIGHTED, Listing, read_listing
from steelyard.sources.kube_api.watch import (
    FAILED,
    FORBIDDEN,
    NOT_INSTALLED,
    OK,
    STARTING,
    ClusterTarget,
    ClusterWatch,
    GoneObject,
    KindStatus,
    WatchRound,
)
from steelyard.sources.shared.context import ReadContext, ReadSettings

SOURCE: Final = "kube_api"
PODS: Final = "pods"
NODES: Final = "nodes"
SEEN_THROUGHOUT: Final = frozenset({
    *SIGHTED, "clusterqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io", "queues.scheduling.volcano.sh", "resourcequotas",
})  # fmt: skip
"""Kinds whose stretches are facts: within one an object that was not reported gone was there, and what it said held."""
FIRST_LISTING_SECONDS: Final = 90.0
"""So long the first round waits for the first listing of every kind."""


class KubernetesCollector:
    """Implements ``Collector`` for one ``[[kubernetes]]``. The watch goes on between rounds; it comes back by itself, so rounds are not put off."""

    def __init__(self, setting: KubernetesSetting, cluster: str, settings: ReadSettings) -> None:
        self.name = f"kubernetes/{setting.name}"
        self.source = SOURCE
        self.interval_us = self.backoff_us_max = setting.interval
        self._watch = ClusterWatch(target_of(setting))
        self._ctx = ReadContext(cluster=setting.name, file=self.name, settings=settings)
        self._objects = WatchedObjects()
        self._is_listed = False

    def collect(self, at: Instant) -> Iterator[Fact]:
        """What changed since the last round. Raises SourceUnavailable where the cluster's pods are not seen."""
        self._watch.start()
        rounds = [self._watch.drain(at)] if self._is_listed else self._watch.rounds_until_listed(FIRST_LISTING_SECONDS)
        trouble: KindStatus | None = None
        for each in rounds:
            yield from self._facts(each)
            while each.backlog:
                each = self._watch.drain(each.at)
                yield from self._facts(each)
            trouble = next((kind for kind in each.kinds if kind.word == PODS and kind.status != OK), None)
        self._is_listed = True
        if trouble is not None:
            reason = trouble.grant if trouble.status == FORBIDDEN else trouble.last_error
            if trouble.status == NOT_INSTALLED:
                reason = "this address serves no pods: is it the API server of a cluster?"
            raise SourceUnavailable(f"pods: {reason or f'not listed within {FIRST_LISTING_SECONDS:g} s'}")

    def close(self) -> None:
        """End the watch."""
        self._watch.stop()

    def _facts(self, found: WatchRound) -> Iterator[Fact]:
        ctx = replace(self._ctx, observed_at=found.at)
        yield from self._objects.read(found.changed, ctx)
        states = {kind.word: kind for kind in found.kinds}
        nodes = states.get(NODES)
        yield from self._objects.read_together(ctx, nodes_listed=nodes is None or nodes.status != STARTING)
        for kind in found.kinds:
            yield from self._listing(kind, ctx)
        for gone in found.gone:
            yield from _gone(gone, ctx)
        self._objects.forget(found.gone)
        if any(gone.object_kind == "Node" for gone in found.gone) and nodes is not None and nodes.status == OK:
            yield from self._listed(nodes, found.at, ctx)
        for kind in found.kinds:
            yield from _state(kind, ctx)

    def _listing(self, kind: KindStatus, ctx: ReadContext) -> Iterator[Fact]:
        """The first listing, as that of a dump: what it does not name does not exist."""
        if kind.first_listing_at is not None and kind.word in SIGHTED:
            yield from self._listed(kind, kind.first_listing_at, ctx)

    def _listed(self, kind: KindStatus, at: Instant, ctx: ReadContext) -> Iterator[Fact]:
        listing = Listing(kind.word, "cluster", kind.complete, None, "stamped")
        there = [uid for uid, seen_at in self._objects.uids.get(kind.word, {}).items() if seen_at <= at]
        yield from read_listing(listing, there, replace(ctx, observed_at=at))


def target_of(setting: KubernetesSetting) -> ClusterTarget:
    """The cluster as the watch takes it."""
    return ClusterTarget(
        cluster=setting.name,
        kubeconfig=setting.kubeconfig,
        context=setting.context,
        address=setting.address,
        token_file=setting.token_file,
        ca_file=setting.ca_file,
        insecure=setting.insecure,
    )


def _gone(gone: GoneObject, ctx: ReadContext) -> Iterator[Fact]:
    """Two sightings: that it was there, and that it was there no more."""
    kind = SIGHTED.get(gone.word)
    if kind is None:
        return
    for name, at in ((kind, gone.last_seen_at), (f"{kind}_gone", gone.gone_at)):
        yield Sighting(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=gone.uid,
            occurred_at=at,
            observed_at=ctx.observed_at,
            object_kind=name,
            object_uid=gone.uid,
        )


def _state(kind: KindStatus, ctx: ReadContext) -> Iterator[Fact]:
    """The stretches that were seen throughout; a failure as such; what is not installed as a remark."""
    stretches = list(kind.earlier)
    if kind.observed_from_at is not None and kind.observed_to_at is not None:
        stretches.append((kind.observed_from_at, kind.observed_to_at))
    for start, end in stretches if kind.word in SEEN_THROUGHOUT else ():
        yield SourceStatus(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{kind.word}/cluster",
            occurred_at=end,
            observed_at=AT_OBSERVATION,
            kind=kind.word,
            status="ok",
            complete=kind.word != NODES and kind.complete,
            objects_count=kind.objects_count,
            observed_from_at=start,
            observed_to_at=end,
        )
    if kind.status in (FAILED, FORBIDDEN):
        message = (kind.grant if kind.status == FORBIDDEN else kind.last_error) or kind.status
        yield SourceStatus(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{kind.word}/cluster",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            kind=kind.word,
            status="failed",
            message=message[:500],
        )
        yield ctx.finding(
            SOURCE,
            "source_forbidden" if kind.status == FORBIDDEN else "source_unavailable",
            f"kind {kind.word}",
            message[:500],
            severity="error",
        )
    elif kind.status == NOT_INSTALLED:
        yield ctx.finding(
            SOURCE, "kind_not_installed", f"kind {kind.word}", "the cluster does not serve this kind", severity="info"
        )
