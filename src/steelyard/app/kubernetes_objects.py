"""Kubernetes objects of one import: each parsed once and given to every reader of its kind.

``KubernetesObjects`` lives as long as one import. Its ``read`` takes one file's documents; ``read_across`` then runs the readers that
need several files at once (claims with slices; the registers, allocations and events of a sharing layer against each other).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import structs

from steelyard.app.json_documents import RawList, item_of
from steelyard.app.refusals import READER_FAULTS, SHOWN_MAX, SOURCE, fault, malformed, more
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import DurationUs
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, mapping_of, parse_pod, text_of

LISTED: Final[Mapping[str, str]] = {"Pod": "pods", "Node": "nodes", "Event": "events"}
"""Kinds whose listing is a fact of its own, with the word for it."""

WORKLOADS: Final = "workloads.kueue.x-k8s.io"
GANGS: Final[Mapping[tuple[str, str], str]] = {
    ("Workload", "kueue.x-k8s.io"): WORKLOADS,
    ("PodGroup", "scheduling.volcano.sh"): "podgroups.scheduling.volcano.sh",
    ("Job", "batch.volcano.sh"): "jobs.batch.volcano.sh",
}
"""What is asked for together, by kind and group: a listing that no longer names one says that it is gone. An empty list says nothing, for it
does not tell of what it is one."""
_GANG_KINDS: Final = frozenset(kind for kind, _group in GANGS)

PodReader = Callable[[PodView, ReadContext], Iterable[Fact]]
AllocationReader = Callable[[PodView, ReadContext, Mapping[str, Device]], Iterable[Fact]]
ObjectReader = Callable[[Mapping[str, Any], ReadContext], Iterable[Fact]]
ChangeReader = Callable[[Mapping[str, Any], str, ReadContext], Iterable[Fact]]


@dataclass(frozen=True, slots=True)
class Readers:
    """Which readers an object of a kind goes to. ``allocations`` run when the registers of all files are known; ``changes`` read objects of
    every kind that ``is_changing`` names (pods and nodes too); ``others`` are objects of all other kinds, each with what tells its own."""

    pods: Sequence[PodReader]
    allocations: Sequence[AllocationReader]
    nodes: Sequence[ObjectReader]
    events: Sequence[ObjectReader]
    changes: Sequence[ChangeReader] = ()
    is_changing: Callable[[str, Mapping[str, Any]], bool] = lambda _kind, _payload: False
    others: Sequence[tuple[Callable[[str, Mapping[str, Any]], bool], ChangeReader]] = ()


def all_readers() -> Readers:
    """Every reader of Kubernetes objects that there is."""
    from steelyard.sources import kubeflow, kueue, ray, volcano
    from steelyard.sources.hami import allocations as hami_allocations
    from steelyard.sources.hami import decisions as hami_decisions
    from steelyard.sources.hami import registers as hami_registers
    from steelyard.sources.kube_api.events import read_event
    from steelyard.sources.kube_api.jobs import is_job, read_job
    from steelyard.sources.kube_api.namespaces import is_namespace, read_namespace
    from steelyard.sources.kube_api.node_topology import is_node_topology, read_node_topology
    from steelyard.sources.kube_api.nodes import read_node
    from steelyard.sources.kube_api.ownership import has_ownership, read_ownership
    from steelyard.sources.kube_api.pods import read_pod
    from steelyard.sources.kube_api.resource_quotas import is_resource_quota, read_resource_quota
    from steelyard.sources.kube_api.transitions import has_transitions, read_transitions
    from steelyard.sources.kube_scheduler import read_pod_scheduling, read_scheduler_event
    from steelyard.sources.volcano_vgpu import allocations as volcano_allocations
    from steelyard.sources.volcano_vgpu import registers as volcano_registers

    return Readers(
        pods=(
            read_pod,
            read_pod_scheduling,
            kueue.read_kueue_pod,
            volcano.read_volcano_pod,
            hami_decisions.read_pod_decision,
        ),
        allocations=(hami_allocations.read_pod_allocations, volcano_allocations.read_pod_allocations),
        nodes=(read_node, hami_registers.read_node_register, volcano_registers.read_node_register),
        events=(
            read_event,
            kueue.read_event,
            read_scheduler_event,
            volcano.read_volcano_event,
            hami_decisions.read_hami_event,
        ),
        changes=(read_transitions,),
        is_changing=has_transitions,
        others=(
            (has_transitions, read_transitions),
            (has_ownership, read_ownership),
            (kueue.has_facts, kueue.read_object),
            (volcano.has_volcano, volcano.read_volcano),
            (is_job, read_job),
            (ray.is_ray, ray.read_ray),
            (kubeflow.is_training_job, kubeflow.read_training_job),
            (is_resource_quota, read_resource_quota),
            (is_namespace, read_namespace),
            (is_node_topology, read_node_topology),
        ),
    )


@dataclass(frozen=True, slots=True)
class PodListing:
    """A complete listing of pods: how far it reaches, how many it has, and a hash of which."""

    scope: str
    count: int
    content: int


@dataclass(slots=True)
class Later:
    """What of a file has to wait for the other files: its pods with allocations; whether it has claims or slices; whether it has nodes; and its
    listing of pods, where that is complete."""

    pods: list[PodView] = field(default_factory=list)
    has_claims: bool = False
    has_nodes: bool = False
    pod_listing: PodListing | None = None

    @property
    def is_compared(self) -> bool:
        """Whether the file has a part in contradictions between files."""
        return self.has_nodes or bool(self.pods)


@dataclass(slots=True)
class _Tally:
    """What one file's objects came to: names per listed kind, whether each kind's listing is complete, what was passed over or refused."""

    seen: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in LISTED})
    complete: dict[str, bool] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    refused_count: int = 0
    faults_count: int = 0
    replaced: bool = False
    namespaces: set[str] = field(default_factory=set)
    gang_namespaces: dict[str, set[str]] = field(default_factory=dict)
    all_namespaces: bool = False

    def member(self, kind: str, whole: bool) -> None:
        """Note an object (or an empty list) of a kind, and whether what holds it is a complete list."""
        self.complete[kind] = self.complete.get(kind, True) and whole

    def gang(self, kind: str, item: Mapping[str, Any], whole: bool) -> None:
        """Note an object that asks for several pods together; one without a uid cannot be missed."""
        if kind not in _GANG_KINDS:
            return
        metadata = mapping_of(item.get("metadata"))
        word = GANGS.get((kind, str(item.get("apiVersion")).partition("/")[0]))
        if word is not None:
            uid = text_of(metadata.get("uid"))
            self.member(word, whole and bool(uid))
            self.seen.setdefault(word, []).append(uid or "")
            self.gang_namespaces.setdefault(word, set()).add(text_of(metadata.get("namespace")) or "default")

    def refuse(self, ctx: ReadContext, error: SourceMalformed, line: int) -> Iterator[Fact]:
        """Count a refused object and say so, up to the bound."""
        self.refused_count += 1
        if self.refused_count <= SHOWN_MAX:
            yield malformed(ctx, SourceMalformed(error.message, error.line or line, error.excerpt))

    def fail(self, ctx: ReadContext, error: Exception, subject: str) -> Iterator[Fact]:
        """Count a reader's failure and say so, up to the bound."""
        self.faults_count += 1
        if self.faults_count <= SHOWN_MAX:
            yield fault(error, ctx, subject)

    def is_complete(self, kind: str) -> bool:
        """Whether absence from this file means absence. An object that was not read may have been of any kind."""
        if kind == "Pod" and not self.seen[kind] and not self.all_namespaces:  # no pods of which namespace?
            return False
        return self.complete[kind] and not self.refused_count and not self.faults_count

    def is_listed(self, kind: str) -> bool:
        """Whether objects of the kind are here, and all that there are."""
        return kind in self.complete and self.is_complete(kind)

    def scope(self, kind: str) -> str:
        """How far a listing reaches. Pods (or gangs) of one namespace alone are most likely ``kubectl get pods -n``: their absence says nothing
        of the others, while a listing of all namespaces names the cluster's own pods too. A List does not say what was asked for; a person may
        (``all_namespaces``)."""
        namespaces = self.namespaces if kind == "Pod" else self.gang_namespaces.get(kind, ())
        if len(namespaces) != 1 or self.all_namespaces:
            return "cluster"
        return f"namespace/{next(iter(namespaces))}"

    def remarks(self, ctx: ReadContext) -> Iterator[Fact]:
        """One finding per kind without a reader, and one for what the bounds kept back."""
        for name, count in self.passed_over.most_common(SHOWN_MAX):
            yield ctx.finding(
                SOURCE,
                "kind_not_supported",
                f"file {ctx.file}: {name}",
                ngettext(
                    "{count} object of kind {name} was passed over: there is no reader for this kind",
                    "{count} objects of kind {name} were passed over: there is no reader for this kind",
                    count,
                ).format(count=count, name=name),
                severity="info",
                evidence={"kind": name, "count": count},
            )
        for code, count in (("source_malformed", self.refused_count), ("reader_failed", self.faults_count)):
            if count > SHOWN_MAX:
                yield more(ctx, code, count)
        if self.replaced:
            yield ctx.finding(
                SOURCE,
                "invalid_utf8",
                f"file {ctx.file}",
                "bytes that are no UTF-8, or halves of a character, were replaced by U+FFFD",
            )


@dataclass(slots=True)
class KubernetesObjects:
    """The objects of one import that several files have to be seen together for."""

    readers: Callable[[], Readers]
    gap_max_us: DurationUs | None
    as_of_basis: str
    all_namespaces: bool = False
    claims: list[Mapping[str, Any]] = field(default_factory=list)
    slices: list[Mapping[str, Any]] = field(default_factory=list)
    pods: list[PodView] = field(default_factory=list)
    nodes: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)

    def read(
        self, documents: Iterable[tuple[int, Any]], ctx: ReadContext, later: Later, *, listing: bool
    ) -> Iterator[Fact]:
        """The facts of one file. ``documents``: (line, document or SourceMalformed). ``listing``: a List in it is complete, because the
        file is one document; lines of single objects never are. What has to wait for other files is left in ``later``."""
        readers = self.readers()
        tally = _Tally(all_namespaces=self.all_namespaces)
        before = len(self.claims) + len(self.slices), len(self.nodes)
        for line, document in documents:
            for item, kind, whole in _items(document, listing, tally):
                if isinstance(item, SourceMalformed):
                    yield from tally.refuse(ctx, item, line)
                    continue
                try:
                    if kind == "Pod":
                        view = parse_pod(item)
                        tally.seen[kind].append(view.uid)
                        tally.namespaces.add(view.namespace)
                        for read_pod in readers.pods:
                            yield from read_pod(view, ctx)
                        yield from _changes(readers, kind, item, ctx)
                        if _is_allocated(view.annotations):
                            later.pods.append(structs.replace(view, raw={}, conditions=()))
                    else:
                        yield from self._object(kind, item, ctx, readers, tally)
                except SourceMalformed as error:
                    yield from tally.refuse(ctx, error, line)
                except READER_FAULTS as error:
                    yield from tally.fail(ctx, error, _subject_of(kind, item))
                tally.member(kind, whole)
                tally.gang(kind, item, whole)
        later.has_claims = len(self.claims) + len(self.slices) > before[0]
        later.has_nodes = len(self.nodes) > before[1]
        yield from self._listings(tally, ctx)
        if "Pod" in tally.complete and tally.is_complete("Pod"):
            uids = tally.seen["Pod"]
            later.pod_listing = PodListing(tally.scope("Pod"), len(uids), hash(frozenset(uids)))
        yield from tally.remarks(ctx)

    def _object(
        self, kind: str, item: Mapping[str, Any], ctx: ReadContext, readers: Readers, tally: _Tally
    ) -> Iterator[Fact]:
        """The facts of an object that is no Pod."""
        version = item.get("apiVersion")
        metadata = mapping_of(item.get("metadata"))
        if isinstance(version, str) and version.startswith("audit.k8s.io/"):
            tally.passed_over["audit.k8s.io Event"] += 1
        elif kind == "Node":
            if name := text_of(metadata.get("name")):
                tally.seen[kind].append(name)
            for read_node in readers.nodes:
                yield from read_node(item, ctx)
            yield from _changes(readers, kind, item, ctx)
            self.nodes.append(item)
        elif kind == "Event":
            tally.seen[kind].append(text_of(metadata.get("uid")) or f"#{len(tally.seen[kind])}")
            for read_event in readers.events:
                yield from read_event(item, ctx)
            self.events.append(item)
        elif kind == "ResourceClaim":
            self.claims.append(item)
        elif kind == "ResourceSlice":
            self.slices.append(item)
        elif reading := [reader for is_its_own, reader in readers.others if is_its_own(kind, item)]:
            for read_other in reading:
                yield from read_other(item, kind, ctx)
        else:
            name = f"{version} {kind}" if isinstance(version, str) else kind or "(none)"
            tally.passed_over[name[:200]] += 1

    def _listings(self, tally: _Tally, ctx: ReadContext) -> Iterator[Fact]:
        from steelyard.sources.kube_api.listing import Listing, read_listing

        for kind, word in LISTED.items():
            if kind in tally.complete:
                complete = tally.is_complete(kind)
                listed = Listing(word, tally.scope(kind), complete, self.gap_max_us, self.as_of_basis)
                yield from read_listing(listed, tally.seen[kind], ctx)
        for word in GANGS.values():
            if tally.is_listed(word):
                listed = Listing(word, tally.scope(word), True, None, self.as_of_basis)
                yield from read_listing(listed, tally.seen[word], ctx)

    def read_allocations(
        self, views: Sequence[PodView], ctx: ReadContext, cards: Mapping[str, Device]
    ) -> Iterator[Fact]:
        """The grants of one file's pods. ``cards``: what the registers of all files say of each card."""
        readers = self.readers()
        tally = _Tally()
        for view in views:
            try:
                for read_pod_allocations in readers.allocations:
                    yield from read_pod_allocations(view, ctx, cards)
            except SourceMalformed as error:
                yield from tally.refuse(ctx, error, 0)
            except READER_FAULTS as error:
                yield from tally.fail(ctx, error, view.subject[:300])
        self.pods.extend(views)
        yield from tally.remarks(ctx)

    def read_claims(self, ctx: ReadContext) -> Iterator[Fact]:
        """The facts of all resource claims on all resource slices."""
        from steelyard.sources.kube_api.dra import read_dra

        yield from read_dra(self.claims, self.slices, ctx)

    def read_contradictions(self, ctx: ReadContext) -> Iterator[Fact]:
        """What the nodes, allocated pods and events of all files say against each other."""
        from steelyard.sources.hami.checks import check_inconsistencies

        yield from check_inconsistencies(self.nodes, self.pods, self.events, ctx)


def _changes(readers: Readers, kind: str, item: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    if readers.is_changing(kind, item):
        for read_changes in readers.changes:
            yield from read_changes(item, kind, ctx)


def _items(document: Any, listing: bool, tally: _Tally) -> Iterator[tuple[Any, str, bool]]:
    """(object or SourceMalformed, kind, whether it is a member of a complete list) for each object of a document."""
    if isinstance(document, RawList):
        yield from _listed(document, listing, tally)
    elif isinstance(document, list):
        for each in document:
            yield from _items(each, False, tally) if isinstance(each, dict) else [(_no_object(each), "", False)]
    elif isinstance(document, SourceMalformed):
        yield document, "", False
    elif not isinstance(document, dict):
        yield _no_object(document), "", False
    elif isinstance(document.get("items"), list) and str(document.get("kind")).endswith("List"):
        implied = str(document["kind"]).removesuffix("List")
        for each in document["items"]:
            yield (each, _kind_of(each, implied), False) if isinstance(each, dict) else (_no_object(each), "", False)
    else:
        yield document, _kind_of(document, ""), False


def _listed(document: RawList, listing: bool, tally: _Tally) -> Iterator[tuple[Any, str, bool]]:
    """The items of a List, each parsed when it is its turn."""
    metadata = document.metadata or {}
    whole = listing and not metadata.get("continue") and not metadata.get("remainingItemCount")
    implied = document.kind.removesuffix("List")
    if implied in LISTED:
        tally.member(implied, whole)
    for raw in document.items:
        try:
            item, replaced = item_of(raw)
        except SourceMalformed as error:
            yield error, implied, False
            continue
        tally.replaced = tally.replaced or replaced
        yield (item, _kind_of(item, implied), whole) if isinstance(item, dict) else (_no_object(item), implied, False)


def _kind_of(item: Mapping[str, Any], implied: str) -> str:
    kind = item.get("kind")
    return kind if isinstance(kind, str) else implied


def _no_object(value: object) -> SourceMalformed:
    return SourceMalformed(f"expected a Kubernetes object, found {type(value).__name__}", excerpt=str(value)[:200])


def _is_allocated(annotations: Mapping[str, str]) -> bool:
    return any(key.startswith(("hami.io/", "volcano.sh/")) for key in annotations)


def _subject_of(kind: str, item: Mapping[str, Any]) -> str:
    """How a finding names an object that has no view."""
    metadata = mapping_of(item.get("metadata"))
    name = "/".join(text for key in ("namespace", "name") if (text := text_of(metadata.get(key))))
    return f"{kind.lower()} {name}"[:300]
