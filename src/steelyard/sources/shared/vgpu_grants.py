"""From an allocation annotation of a soft-partition layer to Grant facts: the part that HAMi and Volcano vGPU share.

A ``Dialect`` names the keys, resources and units of one annotation; ``read_grants`` does the rest. The trick to know: nothing is
believed and nothing is dropped. A record that cannot be read is a grant ``unreadable`` with a finding, one that contradicts the
pod (another node, slots that fit no container, no request at all) is ``suspect``, one of a pod that never started is ``rejected``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.definitions.mig import MigSlices
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.mig_geometry import instance_of_suffix
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import APP, ContainerView, PodView
from steelyard.sources.shared.slots import Alignment, align_slots
from steelyard.sources.shared.vgpu_dialect import Dialect, VgpuRequest, request_of
from steelyard.sources.shared.vgpu_records import BadRecord, DeviceRecord, Record, Slot, parse_slots
from steelyard.sources.shared.vgpu_stamps import parse_unix_seconds


@dataclass(frozen=True, slots=True)
class CardPart:
    """Which part of its card a record stands for. ``key``: what tells it from its neighbours in the grant's natural key."""

    unit_kind: str = "vgpu"
    unit_id: str | None = None
    key: str | None = None
    profile: str | None = None
    gi: int | None = None
    ci: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None
    slices: MigSlices | None = None
    realised: bool | None = None
    reason: str | None = None


@dataclass(slots=True)
class _Pod:
    """The state of one annotation being read."""

    view: PodView
    ctx: ReadContext
    dialect: Dialect
    node: str | None
    bind_phase: str | None
    reserved_at: Instant | None
    bound_at: Instant | None
    claim_state: str = "accepted"
    claim_reason: str | None = None
    used_keys: dict[str, int] = field(default_factory=dict)

    def finding(
        self,
        code: str,
        message: str,
        evidence: Mapping[str, object],
        excerpt: str | None = None,
        severity: str = "warning",
    ) -> Finding:
        return self.ctx.finding(
            self.dialect.source, code, self.view.subject, message, severity=severity, evidence=evidence, excerpt=excerpt
        )


def read_grants(
    view: PodView,
    ctx: ReadContext,
    dialect: Dialect,
    part_of: Callable[[DeviceRecord, ContainerView | None, int], CardPart | None] | None = None,
    cards: Mapping[str, Device] | None = None,
) -> Iterator[Fact]:
    """One Grant per container and device record of the annotation, with the findings about it. Nothing where it is absent or empty.

    part_of: says which part of the card a record stands for where the layer writes that elsewhere (record, its container, its
    ordinal in the slot); None falls back to the record's own suffix. cards: what is already known of the cards, by UUID.
    bound_at is set only for a pod that has a node: a bind that failed leaves its stamp on the pod.
    """
    text = plain(view.annotations.get(dialect.allocated_key, ""))
    if not text:
        return
    try:
        slots = parse_slots(text, terminated=dialect.terminated)
    except SourceMalformed as error:
        yield ctx.finding(
            dialect.source,
            "allocation_too_large",
            view.subject,
            error.message,
            severity="error",
            evidence={"key": dialect.allocated_key, "characters_count": len(text)},
            excerpt=error.excerpt,
        )
        return
    if not any(slots):
        return
    stamp_findings: list[Finding] = []
    pod = _open(view, ctx, dialect, stamp_findings)
    yield from stamp_findings
    requests = [request_of(container, dialect) for container in view.containers]
    yield from _judge_claim(pod, requests)
    alignment = align_slots(
        [len(slot) for slot in slots],
        view.containers,
        [request.count for request in requests],
        apps_only=_counts_apps_only(pod, len(slots)),
    )
    if alignment.method is None:
        yield pod.finding(
            "allocation_unaligned",
            f"the slots of {dialect.allocated_key} cannot be matched to containers: {alignment.reason}",
            {"slots_count": len(slots), "containers_count": len(view.containers)},
            text[:200],
        )
    yield from _grants(pod, slots, alignment, requests, part_of, cards or {})
    yield from _work_left(pod)


def _open(view: PodView, ctx: ReadContext, dialect: Dialect, findings: list[Finding]) -> _Pod:
    annotations, node_key = view.annotations, f"{dialect.prefix}/vgpu-node"
    pod = _Pod(
        view,
        ctx,
        dialect,
        node=plain(view.node or annotations.get(node_key) or view.labels.get(node_key) or "")[:253] or None,
        bind_phase=plain(annotations.get(f"{dialect.prefix}/bind-phase", ""))[:40] or None,
        reserved_at=None,
        bound_at=None,
    )
    stamps: dict[str, Instant | None] = {}
    for key in (f"{dialect.prefix}/vgpu-time", f"{dialect.prefix}/bind-time"):
        text = annotations.get(key)
        try:
            stamps[key] = parse_unix_seconds(text) if text else None
        except ValueError as error:
            stamps[key] = None
            findings.append(
                pod.finding("stamp_unreadable", plain(f"{key}: {error}"), {"key": key}, plain(str(text)[:200]))
            )
    pod.reserved_at = stamps[f"{dialect.prefix}/vgpu-time"]
    pod.bound_at = stamps[f"{dialect.prefix}/bind-time"] if view.node is not None else None
    return pod


def never_started(view: PodView) -> bool:
    """No container of the pod has ever run, as far as the object says."""
    return all(container.started_at is None and container.restart_count == 0 for container in view.containers)


def refused_by_kubelet(view: PodView) -> bool:
    """The kubelet refused the pod at admission: it failed without a start, for a reason that only admission gives."""
    reason = view.status_reason or ""
    admission = reason in ("UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity") or reason.startswith(
        "OutOf"
    )
    return view.phase == "Failed" and admission and never_started(view)


def _judge_claim(pod: _Pod, requests: Sequence[VgpuRequest]) -> Iterator[Finding]:
    view, dialect = pod.view, pod.dialect
    for container, request in zip(view.containers, requests, strict=True):
        if request.overflow is not None:
            yield pod.finding(
                "memory_request_overflow",
                f"container {plain(container.name)} asks for {plain(request.overflow)} MiB on one card: the layer counts MiB, not bytes",
                {"container": plain(container.name), "resource": dialect.memory_resource},
            )
    written_node = view.annotations.get(f"{dialect.prefix}/vgpu-node")
    if refused_by_kubelet(view) or (pod.bind_phase == "failed" and view.phase != "Running" and never_started(view)):
        pod.claim_state = "rejected"
        pod.claim_reason = (
            f"bind-phase {pod.bind_phase}, phase {view.phase}, reason {view.status_reason}: it never started"
        )
    elif view.node and written_node and written_node != view.node:
        pod.claim_state, pod.claim_reason = (
            "suspect",
            f"allocated on node {plain(written_node)[:80]}, bound to node {pod.node}",
        )
        yield pod.finding(
            "grant_node_mismatch",
            "the allocation names another node than the one the pod is bound to",
            {"annotated_node": plain(written_node)[:120], "bound_node": pod.node},
        )
    elif dialect.count_resource and not any(_asks_for_a_device(container) for container in view.containers):
        pod.claim_state, pod.claim_reason = "suspect", "no container of the pod asks for any device"
        yield pod.finding(
            "grant_without_request",
            "the pod carries an allocation, but no container of it asks for a device",
            {"key": dialect.allocated_key},
        )


def _asks_for_a_device(container: ContainerView) -> bool:
    """It names an extended resource, ours or one that a site renamed."""
    return any("/" in name for name in container.resources)


def _counts_apps_only(pod: _Pod, slots_count: int) -> bool:
    """A finished work list of exactly as many slots: releases up to 2.8 leave it so, later ones append an empty tail."""
    work = pod.view.annotations.get(pod.dialect.work_key, "")
    return pod.bind_phase == "success" and len(work) == slots_count and not work.strip(";")


def _grants(
    pod: _Pod,
    slots: Sequence[Slot],
    alignment: Alignment,
    requests: Sequence[VgpuRequest],
    part_of: Callable[[DeviceRecord, ContainerView | None, int], CardPart | None] | None,
    cards: Mapping[str, Device],
) -> Iterator[Fact]:
    by_name = dict(zip((id(container) for container in pod.view.containers), requests, strict=True))
    askers = [container for container, request in zip(pod.view.containers, requests, strict=True) if request.count]
    for index, slot in enumerate(slots):
        owner = alignment.containers[index]
        if owner is None and len(askers) == 1:
            owner = askers[0]
        request = by_name[id(owner)] if owner is not None else VgpuRequest(0, None, None)
        for ordinal, record in enumerate(slot):
            if isinstance(record, BadRecord):
                yield _unreadable_finding(pod, record, owner, index)
                yield _grant(pod, record, owner, index, alignment, request, CardPart())
                continue
            part = part_of(record, owner, ordinal) if part_of is not None else None
            yield _grant(
                pod, record, owner, index, alignment, request, part or part_of_suffix(record, cards.get(record.uuid))
            )


def part_of_suffix(record: DeviceRecord, card: Device | None) -> CardPart:
    """The part of its card that a record's own suffix names: a MIG instance, or a vGPU where there is none."""
    if record.suffix is None:
        return CardPart()
    suffix = f"[{record.suffix}]"
    unknown = "gpu_instance_id unknown: the suffix is no GPU instance id"
    if record.geometry_index is None or record.slot_index is None:
        return CardPart(
            "mig",
            f"{record.uuid}{suffix[:40]}",
            suffix[:40],
            reason=f"mig suffix {suffix[:40]} is no pair of numbers; {unknown}",
        )
    found = instance_of_suffix(
        record.geometry_index, record.slot_index, record.memory_mib, card.memory_mib if card else None
    )
    reason = (
        f"mig geometry_index={record.geometry_index} slot_index={record.slot_index} "
        f"position_ambiguous={str(found.position_ambiguous).lower()}; {unknown}"
    )
    return CardPart(
        "mig",
        f"{record.uuid}{suffix}",
        suffix,
        profile=found.profile,
        slices=found.slices,
        reason=f"{reason}; {found.reason}" if found.reason else reason,
    )


def _unreadable_finding(pod: _Pod, record: BadRecord, owner: ContainerView | None, index: int) -> Finding:
    return pod.finding(
        "device_record_malformed",
        f"{pod.dialect.allocated_key}: {record.reason}",
        {
            "container": plain(owner.name) if owner is not None else None,
            "slot": index,
            "fields_count": record.fields_count,
            "parse_error": f"device_record_fields_count={record.fields_count}",
            "readable_device_uuid": record.uuid,
        },
        record.excerpt,
    )


def _grant(
    pod: _Pod,
    record: Record,
    owner: ContainerView | None,
    index: int,
    alignment: Alignment,
    request: VgpuRequest,
    part: CardPart,
) -> Grant:
    dialect, ctx, view = pod.dialect, pod.ctx, pod.view
    name = plain(owner.name) if owner is not None else f"slot-{index}"
    device = record if isinstance(record, DeviceRecord) else None
    unread = record.reason if isinstance(record, BadRecord) else None
    state, reason = pod.claim_state, pod.claim_reason or part.reason
    if unread is not None:
        state, reason = "unreadable", unread
    elif state == "accepted" and alignment.method is None:
        state, reason = "suspect", alignment.reason
    slices = part.slices
    return Grant(
        cluster=ctx.cluster,
        source=dialect.source,
        natural_key=_natural_key(pod, name, device.uuid if device else f"unreadable-{index}", part.key),
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        pod_uid=view.uid,
        container=name,
        container_kind=owner.kind if owner is not None else APP,
        scheme=dialect.scheme,
        resource_name=dialect.count_resource,
        node=pod.node,
        device_uuid=device.uuid if device else None,
        device_unknown_reason=unread,
        unit_kind=part.unit_kind,
        unit_id=part.unit_id,
        memory_mib=device.memory_mib if device else None,
        cores_percent=device.cores if device and dialect.cores_are_percent else None,
        profile=part.profile,
        gi=part.gi,
        ci=part.ci,
        placement_start=part.placement_start,
        placement_size=part.placement_size,
        compute_slices=slices.compute if slices else None,
        compute_slices_total=slices.compute_total if slices else None,
        memory_slices=slices.memory if slices else None,
        memory_slices_total=slices.memory_total if slices else None,
        requested_memory_mib=request.memory_mib,
        requested_cores_percent=request.cores_percent if dialect.cores_are_percent else None,
        reserved_at=pod.reserved_at,
        bound_at=pod.bound_at,
        bind_basis=dialect.bind_basis if pod.bound_at is not None else None,
        bind_phase=pod.bind_phase,
        claim_state=state,
        claim_reason=reason,
        alignment=alignment.method,
        realised=part.realised,
    )


def _natural_key(pod: _Pod, container: str, device: str, part: str | None) -> str:
    key = f"{pod.view.uid}/{container}/{device}" + (f"/{part}" if part else "")
    seen = pod.used_keys.get(key, 0)
    pod.used_keys[key] = seen + 1
    return key if seen == 0 else f"{key}/#{seen + 1}"


def _work_left(pod: _Pod) -> Iterator[Finding]:
    """Devices still on the work list of a bind that is reported as done: the plugin may have served other cards than written."""
    text = pod.view.annotations.get(pod.dialect.work_key, "")
    if pod.bind_phase != "success" or not text.strip(";"):
        return
    try:
        slots = parse_slots(plain(text), terminated=pod.dialect.terminated)
    except SourceMalformed as error:
        yield pod.finding(
            "allocation_too_large", error.message, {"key": pod.dialect.work_key}, plain(error.excerpt), "error"
        )
        return
    left = [record.uuid for slot in slots for record in slot]
    if left:
        yield pod.finding(
            "allocation_work_left",
            f"the bind is reported as done, but {pod.dialect.work_key} still names devices: what the container was given is not certain",
            {"key": pod.dialect.work_key, "records_count": len(left), "device_uuids": left[:16]},
            plain(text[:200]),
        )
