"""Objects of a watched cluster, turned to facts as they change, by the same readers as an import's.

Called by the Kubernetes collector, once per round. The trick to know: what several objects must be seen together for (claims with slices,
allocations with registers) is kept here between rounds in the form that the readers want, and read again only where a part of it changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import structs

from steelyard.app.json_documents import item_of
from steelyard.app.kubernetes_objects import KubernetesObjects, Later, all_readers
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.node_zone import NodeZone
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import MINUTE_US, Instant
from steelyard.sources.kube_api.watch_round import GoneObject, SeenObject
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import directory_of
from steelyard.sources.shared.pods import PodView

CHECKS_EVERY_US: Final = 5 * MINUTE_US
"""Contradictions between objects are looked for this often."""

METADATA: Final = "PartialObjectMetadata"
ALLOCATED_MAX: Final = 50_000
EVENTS_MAX: Final = 10_000
_TOGETHER: Final[Mapping[str, str]] = {"ResourceClaim": "claims", "ResourceSlice": "slices", "Node": "nodes"}

Object = Mapping[str, Any]


class WatchedObjects:
    """The present objects of one cluster that later rounds need. ``uids``: by kind's word, of every object that is there,
    and when it was first seen."""

    def __init__(self) -> None:
        self.uids: dict[str, dict[str, Instant]] = {}
        self._kept: dict[str, dict[str, Object]] = {kind: {} for kind in _TOGETHER}
        self._allocated: dict[str, PodView] = {}
        self._waiting: dict[str, tuple[PodView, Instant]] = {}
        self._events: dict[str, Object] = {}
        self._devices: dict[str, tuple[str | None, Device]] = {}
        self._claims_changed: set[str] | None = set()
        self._checked_at: Instant | None = None
        self._is_changed = False
        self._zones: dict[str, dict[str, NodeZone]] = {}

    def read(self, changed: Sequence[SeenObject], ctx: ReadContext) -> Iterator[Fact]:
        """The facts of the objects that changed, each as of when it was seen."""
        for seen_at, group in groupby(changed, attrgetter("seen_at")):
            at = replace(ctx, observed_at=seen_at)
            objects = KubernetesObjects(all_readers, None, "stamped")
            later = Later()
            zones: dict[str, dict[str, NodeZone]] = {}
            documents = [(0, self._document(each)) for each in group]
            for fact in objects.read(documents, at, later, listing=False):
                if isinstance(fact, NodeZone):
                    zones.setdefault(fact.node, {})[fact.natural_key] = fact
                elif not _is_of_a_listing(fact):
                    yield self._noted(fact)
            yield from self._changed_zones(zones)
            for view in later.pods:
                self._waiting[view.uid] = (view, seen_at)

    def _changed_zones(self, zones: Mapping[str, Mapping[str, NodeZone]]) -> Iterator[Fact]:
        """All zones of the nodes whose topology says other than before: its object changes with every pod's processors, its accelerators do not."""
        for node, found in zones.items():
            undated = {key: structs.replace(zone, occurred_at=0, observed_at=0) for key, zone in found.items()}
            if self._zones.get(node) != undated:
                self._zones[node] = undated
                yield from found.values()

    def read_together(self, ctx: ReadContext, *, nodes_listed: bool) -> Iterator[Fact]:
        """What needs several objects at once: allocations, as soon as the registers are there; claims; contradictions."""
        if nodes_listed:
            yield from self._allocations(ctx)
        yield from self._claims(ctx)
        due = self._checked_at is None or ctx.observed_at - self._checked_at >= CHECKS_EVERY_US
        if nodes_listed and self._is_changed and due:
            self._checked_at, self._is_changed = ctx.observed_at, False
            yield from self._gathered().read_contradictions(ctx)
            self._events.clear()

    def forget(self, gone: Sequence[GoneObject]) -> None:
        """Objects that are no more."""
        for each in gone:
            self.uids.get(each.word, {}).pop(each.uid, None)
            self._kept.get(each.object_kind, {}).pop(each.uid, None)
            if each.object_kind == "ResourceSlice":
                self._claims_changed = None
            self._allocated.pop(each.uid, None)
            self._waiting.pop(each.uid, None)
            self._events.pop(each.uid, None)
            if each.object_kind == "NodeResourceTopology":
                self._zones.clear()  # named by node, not by uid; each is told once more when it changes next

    def _document(self, seen: SeenObject) -> Any:
        """The object, with the kind that an item of a list leaves out or metadata alone hides; and what has to be kept of it."""
        try:
            found, _replaced = item_of(msgspec.Raw(seen.raw))
        except SourceMalformed as error:
            return error
        if not isinstance(found, dict):
            return found
        if found.get("kind", METADATA) == METADATA:  # an item of a list says none, metadata alone not its object's
            found.update(kind=seen.object_kind, apiVersion=seen.api_version)
        found.setdefault("apiVersion", seen.api_version)
        metadata = found.get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        if not isinstance(uid, str) or not uid:
            return found
        if seen.object_kind != "Event":
            self.uids.setdefault(seen.word, {}).setdefault(uid, seen.seen_at)
        if seen.object_kind in self._kept:
            self._kept[seen.object_kind][uid] = found
        if seen.object_kind == "ResourceSlice":
            self._claims_changed = None
        elif seen.object_kind == "ResourceClaim" and self._claims_changed is not None:
            self._claims_changed.add(uid)
        elif seen.object_kind == "Event" and len(self._events) < EVENTS_MAX:
            self._events[uid] = found
        self._is_changed = True
        return found

    def _noted(self, fact: Fact) -> Fact:
        """Remember cards, and which pods must be read again because a card of their node is new."""
        if isinstance(fact, Device):
            if fact.device_uuid not in self._devices:
                for uid, view in self._allocated.items():
                    if view.node == fact.node:
                        self._waiting.setdefault(uid, (view, fact.observed_at))
            self._devices[fact.device_uuid] = (fact.node, fact)
        return fact

    def _allocations(self, ctx: ReadContext) -> Iterator[Fact]:
        if not self._waiting:
            return
        cards = directory_of(device for _node, device in self._devices.values()).devices
        waiting, self._waiting = self._waiting, {}
        for seen_at, group in groupby(waiting.values(), lambda each: each[1]):
            views = [view for view, _seen_at in group]
            objects = KubernetesObjects(all_readers, None, "stamped")
            yield from objects.read_allocations(views, replace(ctx, observed_at=seen_at), cards)
        for uid, (view, _seen_at) in waiting.items():
            if uid in self._allocated or len(self._allocated) < ALLOCATED_MAX:
                self._allocated[uid] = view

    def _claims(self, ctx: ReadContext) -> Iterator[Fact]:
        """The claims that changed, on all slices; all of them where a slice did."""
        claims, slices = self._kept["ResourceClaim"], self._kept["ResourceSlice"]
        changed = claims.keys() if self._claims_changed is None else self._claims_changed & claims.keys()
        if changed or self._claims_changed is None:
            objects = KubernetesObjects(all_readers, None, "stamped")
            objects.claims = [claims[uid] for uid in sorted(changed)]
            objects.slices = list(slices.values())
            yield from objects.read_claims(ctx)
        self._claims_changed = set()

    def _gathered(self) -> KubernetesObjects:
        objects = KubernetesObjects(all_readers, None, "stamped")
        objects.nodes = list(self._kept["Node"].values())
        objects.pods = list(self._allocated.values())
        objects.events = list(self._events.values())
        return objects


def _is_of_a_listing(fact: Fact) -> bool:
    """What a reader of files says about a file as a whole, which says nothing of a watch."""
    return isinstance(fact, SourceStatus) or (isinstance(fact, Finding) and fact.code == "kind_not_supported")
