"""Kubernetes objects of one import: each parsed once and given to every reader of its kind.

``KubernetesObjects`` lives as long as one import. Its ``read`` takes one file's documents; ``read_across`` then runs the readers that
need several files at once (claims with slices; the registers, allocations and events of a sharing layer against each other).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.app.refusals import READER_FAULTS, SHOWN_MAX, SOURCE, fault, malformed, more
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import DurationUs
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, mapping_of, parse_pod, text_of

LISTED: Final[Mapping[str, str]] = {"Pod": "pods", "Node": "nodes", "Event": "events"}
"""Kinds whose listing is a fact of its own, with the word for it."""

PodReader = Callable[[PodView, ReadContext], Iterable[Fact]]
AllocationReader = Callable[[PodView, ReadContext, Mapping[str, Device]], Iterable[Fact]]
ObjectReader = Callable[[Mapping[str, Any], ReadContext], Iterable[Fact]]


@dataclass(frozen=True, slots=True)
class Readers:
    """Which readers an object of a kind goes to. ``allocations`` run when the registers of all files are known."""

    pods: Sequence[PodReader]
    allocations: Sequence[AllocationReader]
    nodes: Sequence[ObjectReader]
    events: Sequence[ObjectReader]


def all_readers() -> Readers:
    """Every reader of Kubernetes objects that there is."""
    from steelyard.sources.hami import allocations as hami_allocations
    from steelyard.sources.hami import registers as hami_registers
    from steelyard.sources.kube_api.events import read_event
    from steelyard.sources.kube_api.nodes import read_node
    from steelyard.sources.kube_api.pods import read_pod
    from steelyard.sources.volcano_vgpu import allocations as volcano_allocations
    from steelyard.sources.volcano_vgpu import registers as volcano_registers

    return Readers(
        pods=(read_pod,),
        allocations=(hami_allocations.read_pod_allocations, volcano_allocations.read_pod_allocations),
        nodes=(read_node, hami_registers.read_node_register, volcano_registers.read_node_register),
        events=(read_event,),
    )


@dataclass(slots=True)
class KubernetesObjects:
    """The objects of one import that several files have to be seen together for."""

    readers: Callable[[], Readers]
    gap_max_us: DurationUs | None
    as_of_basis: str
    claims: list[Mapping[str, Any]] = field(default_factory=list)
    slices: list[Mapping[str, Any]] = field(default_factory=list)
    pods: list[PodView] = field(default_factory=list)
    nodes: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)

    def read(
        self, documents: Iterable[tuple[int, Any]], ctx: ReadContext, allocated: list[PodView], *, listing: bool
    ) -> Iterator[Fact]:
        """The facts of one file. ``documents``: (line, document or SourceMalformed). ``listing``: a List in it is complete, because the
        file is one document; lines of single objects never are. Pods that carry allocations are put into ``allocated`` for later."""
        readers = self.readers()
        seen: dict[str, list[str]] = {kind: [] for kind in LISTED}
        strange: Counter[str] = Counter()
        complete: dict[str, bool] = {}
        refused = 0
        for line, document in documents:
            if isinstance(document, SourceMalformed):
                refused += 1
                if refused <= SHOWN_MAX:
                    yield malformed(ctx, document)
                continue
            for item, kind, whole in self._items(document, complete, listing):
                if not isinstance(item, dict):
                    strange["(no object)"] += 1
                    continue
                try:
                    if kind == "Pod":
                        view = parse_pod(item)
                        seen[kind].append(view.uid)
                        for read_pod in readers.pods:
                            yield from read_pod(view, ctx)
                        if _is_allocated(view.annotations):
                            allocated.append(view)
                    else:
                        yield from self._object(kind, item, ctx, readers, seen, strange)
                except SourceMalformed as error:
                    refused += 1
                    whole = False
                    if refused <= SHOWN_MAX:
                        yield malformed(ctx, SourceMalformed(error.message, error.line or line, error.excerpt))
                except READER_FAULTS as error:
                    whole = False
                    yield fault(error, ctx, subject_of(kind, item))
                complete[kind] = complete.get(kind, True) and whole
        yield from self._listings(seen, complete, ctx)
        yield from self._remarks(strange, refused, ctx)

    def _items(self, document: Any, complete: dict[str, bool], listing: bool) -> Iterator[tuple[Any, str, bool]]:
        """(object, kind, whether it is a member of a complete list) for each object of a document; the list is emptied on the way."""
        pending = document if isinstance(document, list) else [document]
        for each in pending:
            kind = each.get("kind") if isinstance(each, dict) else None
            if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(each.get("items"), list):
                yield each, kind if isinstance(kind, str) else "", False
                continue
            metadata = mapping_of(each.get("metadata"))
            whole = listing and not metadata.get("continue") and not metadata.get("remainingItemCount")
            implied = kind.removesuffix("List")
            if implied in LISTED:
                complete[implied] = complete.get(implied, True) and whole
            items = each["items"]
            items.reverse()
            while items:
                item = items.pop()
                own = item.get("kind") if isinstance(item, dict) else None
                yield item, own if isinstance(own, str) else implied, whole

    def _object(
        self,
        kind: str,
        item: Mapping[str, Any],
        ctx: ReadContext,
        readers: Readers,
        seen: dict[str, list[str]],
        strange: Counter[str],
    ) -> Iterator[Fact]:
        """The facts of an object that is no Pod."""
        version = item.get("apiVersion")
        metadata = mapping_of(item.get("metadata"))
        if isinstance(version, str) and version.startswith("audit.k8s.io/"):
            strange["audit.k8s.io Event"] += 1
        elif kind == "Node":
            if name := text_of(metadata.get("name")):
                seen[kind].append(name)
            for read_node in readers.nodes:
                yield from read_node(item, ctx)
            self.nodes.append(item)
        elif kind == "Event":
            seen[kind].append(text_of(metadata.get("uid")) or str(len(seen[kind])))
            for read_event in readers.events:
                yield from read_event(item, ctx)
            self.events.append(item)
        elif kind == "ResourceClaim":
            self.claims.append(item)
        elif kind == "ResourceSlice":
            self.slices.append(item)
        else:
            strange[f"{version} {kind}" if isinstance(version, str) else kind or "(no kind)"] += 1

    def _listings(
        self, seen: Mapping[str, list[str]], complete: Mapping[str, bool], ctx: ReadContext
    ) -> Iterator[Fact]:
        from steelyard.sources.kube_api.listing import read_listing

        for kind, word in LISTED.items():
            if kind in complete:
                yield from read_listing(word, seen[kind], ctx, complete[kind], self.gap_max_us, self.as_of_basis)

    def _remarks(self, strange: Counter[str], refused: int, ctx: ReadContext) -> Iterator[Fact]:
        for name, count in strange.most_common(SHOWN_MAX):
            yield ctx.finding(
                SOURCE,
                "kind_not_supported",
                f"file {ctx.file}: {name[:200]}",
                f"{count} objects of kind {name[:200]} were passed over: there is no reader for this kind",
                severity="info",
                evidence={"kind": name[:200], "count": count},
            )
        if refused > SHOWN_MAX:
            yield more(ctx, "source_malformed", refused)

    def read_allocations(
        self, views: Sequence[PodView], ctx: ReadContext, cards: Mapping[str, Device]
    ) -> Iterator[Fact]:
        """The grants of one file's pods. ``cards``: what the registers of all files say of each card."""
        readers = self.readers()
        refused = 0
        for view in views:
            try:
                for read_pod_allocations in readers.allocations:
                    yield from read_pod_allocations(view, ctx, cards)
            except SourceMalformed as error:
                refused += 1
                if refused <= SHOWN_MAX:
                    yield malformed(ctx, error)
            except READER_FAULTS as error:
                yield fault(error, ctx, view.subject[:300])
        self.pods.extend(views)
        yield from self._remarks(Counter(), refused, ctx)

    def read_across(self, ctx: ReadContext) -> Iterator[Fact]:
        """The facts that only all files of the import tell together."""
        from steelyard.sources.hami import check_inconsistencies
        from steelyard.sources.kube_api.dra import read_dra

        if self.claims or self.slices:
            yield from read_dra(self.claims, self.slices, ctx)
        if self.pods or self.nodes:
            yield from check_inconsistencies(self.nodes, self.pods, self.events, ctx)


def _is_allocated(annotations: Mapping[str, str]) -> bool:
    return any(key.startswith(("hami.io/", "volcano.sh/")) for key in annotations)


def subject_of(kind: str, item: Mapping[str, Any]) -> str:
    """How a finding names an object that has no view."""
    metadata = mapping_of(item.get("metadata"))
    name = "/".join(text for key in ("namespace", "name") if (text := text_of(metadata.get(key))))
    return f"{kind.lower()} {name}"[:300]
