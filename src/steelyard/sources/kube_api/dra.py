"""Dynamic resource allocation: resource claims as grants, on the devices of resource slices.

``app`` gathers all ResourceSlices and ResourceClaims of an import and calls ``read_dra`` once. The trick to know: a claim holds its
device from allocation to deallocation, whatever its pods do; it may have several consumers, and each gets a Grant that says how many
share it, so that the ledger splits the device once. ``resource.k8s.io`` v1, v1beta2 and v1beta1 have the same claim status.

Sceptic's command: ``kubectl get resourceclaims -A -o json``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from steelyard.definitions.mig import MigSlices, mig_slices
from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.unit import Unit
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.kube_api.dra_slices import (
    MIB,
    PPM,
    PoolDevice,
    PoolKey,
    devices_of,
    is_accelerator_driver,
    largest_ratio_ppm,
    pool_key,
    select_slices,
    slice_facts,
    whole_amounts,
)
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import instant_of, list_of, mapping_of, text_of

SOURCE: Final = "kube_api"
BASIS_ALLOCATION: Final = "allocationTimestamp"
BASIS_UNKNOWN: Final = "unknown: no allocationTimestamp"


@dataclass(frozen=True, slots=True)
class _Claim:
    """A claim taken apart. consumers: (pod uid or None where it is no pod, name); owner_pod: (uid, name) of the pod it was made for."""

    subject: str
    namespace: str
    name: str
    uid: str
    node: str | None
    allocated_at: Instant | None
    results: Sequence[Mapping[str, Any]]
    consumers: Sequence[tuple[str | None, str | None]]
    owner_pod: tuple[str, str | None] | None
    problems: Sequence[tuple[str, str]]


def read_dra(
    claims: Sequence[Mapping[str, Any]], slices: Sequence[Mapping[str, Any]], ctx: ReadContext
) -> Iterator[Fact]:
    """Devices, Units and Grants of all slices and claims of an import; an object that cannot be read is a finding, the others go on."""
    catalogue: dict[str, PoolDevice] = {}
    left_out: dict[PoolKey, str] = {}
    yield from _read_slices(slices, ctx, catalogue, left_out)
    for payload in claims:
        try:
            yield from _claim_facts(payload, ctx, catalogue, left_out)
        except SourceMalformed as error:
            yield ctx.finding(SOURCE, "source_malformed", f"file {ctx.file}", error.message, excerpt=error.excerpt)


def read_resource_slices(slices: Sequence[Mapping[str, Any]], ctx: ReadContext) -> Iterator[Fact]:
    """Device and Unit facts of the complete pools; ``dra_pool_incomplete`` for the others."""
    yield from _read_slices(slices, ctx, {}, {})


def read_resource_slice(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One slice by itself: facts only where it is its pool's only slice. Raises SourceMalformed where it names no driver or pool."""
    pool_key(payload)
    yield from _read_slices([payload], ctx, {}, {})


def read_resource_claim(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One claim by itself: Grants whose device is to be found by unit_id. Raises SourceMalformed where it has no name."""
    yield from _claim_facts(payload, ctx, {}, {})


def _read_slices(
    slices: Sequence[Mapping[str, Any]],
    ctx: ReadContext,
    catalogue: dict[str, PoolDevice],
    left_out: dict[PoolKey, str],
) -> Iterator[Fact]:
    readable: list[Mapping[str, Any]] = []
    foreign: set[str] = set()
    for payload in slices:
        try:
            driver, _ = pool_key(payload)
        except SourceMalformed as error:
            yield ctx.finding(SOURCE, "source_malformed", f"file {ctx.file}", error.message, excerpt=error.excerpt)
            continue
        if is_accelerator_driver(driver):
            readable.append(payload)
        else:
            foreign.add(driver)
    chosen, incomplete = select_slices(readable)
    left_out.update(incomplete)
    for (driver, pool), reason in incomplete.items():
        yield ctx.finding(SOURCE, "dra_pool_incomplete", f"pool {driver}/{pool}", f"{reason}: its devices are not used")
    for key, payloads in chosen.items():
        devices = list(devices_of(key, payloads))
        catalogue.update((device.unit_id, device) for device in devices)
        yield from slice_facts(devices, ctx)
    for driver in sorted(foreign):
        yield _foreign(driver, ctx)


def _foreign(driver: str, ctx: ReadContext) -> Finding:
    text = f"driver {driver} offers no accelerators by its name: its slices and claims are not read"
    return ctx.finding(SOURCE, "dra_driver_not_read", f"driver {driver}", text, severity="info")


def _claim_facts(
    payload: Mapping[str, Any], ctx: ReadContext, catalogue: Mapping[str, PoolDevice], left_out: Mapping[PoolKey, str]
) -> Iterator[Fact]:
    claim = _parse_claim(payload)
    for code, text in claim.problems:
        yield ctx.finding(SOURCE, code, claim.subject, text)
    seen: set[str] = set()
    for result in claim.results:
        driver, pool, name = (text_of(result.get(key)) for key in ("driver", "pool", "device"))
        if driver is None or pool is None or name is None:
            text = "an allocation result without driver, pool and device"
            yield ctx.finding(SOURCE, "dra_result_malformed", claim.subject, text, excerpt=reprlib.repr(result))
            continue
        share = text_of(result.get("shareID"))
        unit_id = f"{driver}/{pool}/{name}" + (f"/{share}" if share else "")
        if not is_accelerator_driver(driver):
            yield _foreign(driver, ctx)
            continue
        if unit_id in seen:
            continue
        seen.add(unit_id)
        device = catalogue.get(f"{driver}/{pool}/{name}")
        reason = None if device else _why_unlisted((driver, pool), catalogue, left_out)
        yield from _grants(claim, result, unit_id, device, reason, ctx)


def _grants(
    claim: _Claim,
    result: Mapping[str, Any],
    unit_id: str,
    device: PoolDevice | None,
    reason: str | None,
    ctx: ReadContext,
) -> Iterator[Fact]:
    pods: list[tuple[str, str | None]] = [(uid, name) for uid, name in claim.consumers if uid is not None]
    consumers = max(1, len(claim.consumers))
    state, claim_reason = "accepted", None
    if not claim.consumers:
        pods = [claim.owner_pod or (f"claim:{claim.uid}", f"claim:{claim.name}")]
        state, claim_reason = "suspect", "allocated, and reserved for nobody"
        yield ctx.finding(SOURCE, "dra_claim_without_consumer", claim.subject, f"{unit_id} is {claim_reason}")
    shared = text_of(result.get("shareID")) is not None or bool(mapping_of(result.get("consumedCapacity")))
    admin = result.get("adminAccess") is True
    part = _part(result, device)
    slices = _mig_slices(device)
    if device is not None and shared:
        yield _share_unit(unit_id, device, part, ctx)
    for pod_uid, pod in pods:
        yield Grant(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{pod_uid}/*/{unit_id}",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            pod_uid=pod_uid,
            container="*",
            scheme="dra",
            resource_name=text_of(result.get("driver")),
            node=(device.node if device else None) or claim.node,
            device_uuid=device.card_uuid if device else None,
            device_unknown_reason=_unknown_reason(device, reason),
            unit_kind="dra" if shared or device is None else device.kind,
            unit_id=unit_id,
            memory_mib=part.memory_mib,
            profile=device.profile if device else None,
            placement_start=device.placement_start if device else None,
            compute_slices=slices.compute if slices else None,
            compute_slices_total=slices.compute_total if slices else None,
            memory_slices=slices.memory if slices else None,
            memory_slices_total=slices.memory_total if slices else None,
            share_ppm=part.share_ppm,
            valid_from_at=claim.allocated_at,
            bind_basis=BASIS_ALLOCATION if claim.allocated_at is not None else BASIS_UNKNOWN,
            claim_state=state,
            claim_reason=claim_reason,
            consumers=consumers,
            admin_access=admin,
            realised=(device.instance_uuid is not None) if device and device.kind == "mig" else None,
            namespace=claim.namespace,
            pod=pod,
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """What a result takes of its card, before its consumers share it. None: not stated."""

    share_ppm: int | None
    memory_mib: int | None


def _part(result: Mapping[str, Any], device: PoolDevice | None) -> _Part:
    """The largest ratio of a consumed capacity or counter; a whole card is one; a partition without counters is left to its slices."""
    consumed = whole_amounts(result.get("consumedCapacity"))
    memory = next((amount for name, amount in consumed.items() if name.rpartition("/")[2] == "memory"), None)
    if device is None:
        return _Part(None, None if memory is None else memory // 1_000 // MIB)
    base = device.share_ppm if device.share_ppm is not None else PPM if device.whole else None
    if consumed:
        ratio = largest_ratio_ppm(consumed, device.capacity)
        share = None if ratio is None or base is None else ratio * base // PPM
        return _Part(share, None if memory is None else memory // 1_000 // MIB)
    if text_of(result.get("shareID")) is not None:
        return _Part(None, None)
    return _Part(base, device.memory_mib if device.kind == "mig" else None)


def _mig_slices(device: PoolDevice | None) -> MigSlices | None:
    if device is None or device.profile is None:
        return None
    slices = mig_slices(device.profile, device.model)
    return slices if isinstance(slices, MigSlices) else None


def _share_unit(unit_id: str, device: PoolDevice, part: _Part, ctx: ReadContext) -> Unit:
    return Unit(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=unit_id,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        unit_kind="dra",
        unit_id=unit_id,
        device_uuid=device.card_uuid,
        node=device.node,
        profile=device.profile,
        memory_mib=part.memory_mib,
        instance_uuid=device.instance_uuid,
    )


def _unknown_reason(device: PoolDevice | None, reason: str | None) -> str | None:
    if device is None:
        return reason
    return None if device.card_uuid is not None else "the resource slice does not name the card"


def _why_unlisted(key: PoolKey, catalogue: Mapping[str, PoolDevice], left_out: Mapping[PoolKey, str]) -> str:
    if key in left_out:
        return f"the pool's resource slices are not complete: {left_out[key]}"
    return "no resource slice names the device" if catalogue else "no resource slice was read with the claim"


def _parse_claim(payload: Mapping[str, Any]) -> _Claim:
    metadata, status = mapping_of(payload.get("metadata")), mapping_of(payload.get("status"))
    name = text_of(metadata.get("name"))
    if name is None:
        raise SourceMalformed("expected metadata.name in a ResourceClaim, found none", excerpt=reprlib.repr(payload))
    namespace = text_of(metadata.get("namespace")) or "default"
    allocation = mapping_of(status.get("allocation"))
    bad: list[str] = []
    created = instant_of(metadata.get("creationTimestamp"), bad, "metadata.creationTimestamp")
    allocated = instant_of(allocation.get("allocationTimestamp"), bad, "allocationTimestamp")
    problems = [("stamp_malformed", text) for text in bad]
    if allocated is not None and created is not None and allocated < created:
        problems.append(
            ("stamp_before_creation", "allocationTimestamp lies before the claim's creation: it is left out")
        )
        allocated = None
    consumers = _consumers(list_of(status.get("reservedFor")), namespace)
    others = sum(1 for uid, _ in consumers if uid is None)
    if others:
        problems.append(
            ("dra_consumer_not_pod", f"{others} of {len(consumers)} consumers are no pods: their part stays free")
        )
    return _Claim(
        subject=f"resourceclaim {namespace}/{name}",
        namespace=namespace,
        name=name,
        uid=text_of(metadata.get("uid")) or f"{namespace}/{name}",
        node=_selected_node(allocation),
        allocated_at=allocated,
        results=list_of(mapping_of(allocation.get("devices")).get("results")),
        consumers=consumers,
        owner_pod=next(
            (
                (uid, text_of(row.get("name")))
                for row in list_of(metadata.get("ownerReferences"))
                if row.get("kind") == "Pod" and (uid := text_of(row.get("uid")))
            ),
            None,
        ),
        problems=problems,
    )


def _consumers(rows: Sequence[Mapping[str, Any]], namespace: str) -> list[tuple[str | None, str | None]]:
    """(uid, name) of each consumer, once; a pod without a uid is known by its name; uid None = it is no pod."""
    found: dict[tuple[bool, str], tuple[str | None, str | None]] = {}
    for row in rows:
        uid, kind, name = text_of(row.get("uid")), row.get("resource"), text_of(row.get("name"))
        if kind in ("pods", None) and not row.get("apiGroup"):
            uid = uid or f"name:{namespace}/{name or '?'}"
            found.setdefault((True, uid), (uid, name))
        else:
            found[False, f"{kind}/{name}"] = (None, name)
    return list(found.values())


def _selected_node(allocation: Mapping[str, Any]) -> str | None:
    """The one node that the allocation's selector names, where it names exactly one."""
    names = {
        value
        for term in list_of(mapping_of(allocation.get("nodeSelector")).get("nodeSelectorTerms"))
        for row in (*list_of(term.get("matchFields")), *list_of(term.get("matchExpressions")))
        if row.get("key") in ("metadata.name", "kubernetes.io/hostname") and row.get("operator") == "In"
        for value in (row["values"] if isinstance(row.get("values"), list) else ())
        if isinstance(value, str) and value
    }
    return names.pop() if len(names) == 1 else None
