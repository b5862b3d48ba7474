"""PodResources become grants, devices and units.

Called by ``app`` with the JSON of one or many kubelets. The kubelet knows no pod UID, so grants carry ``name:<namespace>/<pod>``, and it
lists pods in a terminal phase (before 1.34), so the ledger joins with the phase. The tricks to know: one resource comes once per NUMA
node, so ids are merged per container; allocatable is what is healthy, so a listed id that is missing there is unhealthy; and the
number of replicas is known only from the ids themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.definitions.mig import MigSlices, mig_slices
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.unknown import Unknown, known
from steelyard.sources.pod_resources.device_id import DeviceId, parse_device_id
from steelyard.sources.pod_resources.shape import ListedContainer, ListedDevice, NodeAnswer, decode_payload, nodes_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory
from steelyard.sources.shared.plain_text import decode_text
from steelyard.sources.shared.refusals import Refusals

SOURCE: Final = "pod_resources"
_PROFILE: Final = re.compile(r"nvidia\.com/mig-([0-9a-z.+-]{4,40}?)(?:\.shared)?\Z")
_IDS_SHOWN: Final = 20
_ACCELERATOR: Final = re.compile(
    r"(?:nvidia\.com|amd\.com|gpu\.intel\.com|huawei\.com|cambricon\.com|hygon\.com|metax-tech\.com|mthreads\.com|iluvatar\.\w{2,12}|"
    r"kunlunxin\.com|enflame\.com|volcano\.sh/vgpu.{0,40}|aws\.amazon\.com|google\.com/tpu|habana\.ai)(?:/|\Z)|.{0,60}/.{0,60}gpu",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Node:
    """One kubelet's answer while it is read."""

    answer: NodeAnswer
    offered: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    replicas: dict[str, set[int]] = field(default_factory=dict)
    profiles: set[str] = field(default_factory=set)
    holders: dict[str, dict[str, None]] = field(default_factory=dict)
    unlisted: dict[str, dict[str, str]] = field(default_factory=dict)


def sniff(head: bytes) -> str | None:
    """``pod_resources`` where this beginning of a file is such JSON, else None."""
    text = decode_text(head[:65_536]).lstrip()
    named = '"pod_resources"' in text or '"podResources"' in text
    offered = '"device_ids"' in text or '"deviceIds"' in text
    return SOURCE if text[:1] in ("{", "[") and (named or offered) else None


def read_pod_resources(
    payload: bytes | str | object, ctx: ReadContext, directory: DeviceDirectory | None = None
) -> Iterator[Fact]:
    """Grants, Devices, Units, findings, and a SourceStatus per node. ``payload``: JSON, or what it decodes to. Never raises on content."""
    refusals = Refusals(ctx, SOURCE)
    try:
        value = decode_payload(payload)
    except SourceMalformed as error:
        yield from refusals.refuse(error.message, error.line, error.excerpt)
        return
    for answer in nodes_of(value, ctx.node):
        if isinstance(answer, SourceMalformed):
            yield from refusals.refuse(answer.message, answer.line, answer.excerpt)
        else:
            yield from _Reading(ctx, refusals, directory or DeviceDirectory(), _survey(answer)).facts()
    yield from refusals.rest()


def _survey(answer: NodeAnswer) -> _Node:
    node = _Node(answer)
    listed = [device for container in answer.containers or () for device in container.devices]
    for device in (*(answer.allocatable or ()), *listed):
        profile = _PROFILE.match(device.resource)
        if profile is not None:
            node.profiles.add(profile.group(1))
    for device in answer.allocatable or ():
        for text in device.ids:
            node.offered.setdefault(text, (device.resource, device.numa))
    bases = {parse_device_id(text).base for text in node.offered if "::" in text or "/vgpu" in text}
    for text in (*node.offered, *(text for device in listed for text in device.ids)):
        parsed = parse_device_id(text)
        if parsed.replica is not None and parsed.base in bases:
            node.replicas.setdefault(parsed.base, set()).add(parsed.replica)
    return node


class _Reading:
    """Turns one kubelet's answer into facts."""

    def __init__(self, ctx: ReadContext, refusals: Refusals, directory: DeviceDirectory, node: _Node) -> None:
        self._ctx = ctx
        self._refusals = refusals
        self._directory = directory
        self._node = node
        self._name = node.answer.node
        self._where = f"node {self._name}" if self._name is not None else f"file {ctx.file}"

    def facts(self) -> Iterator[Fact]:
        """Grants first, then what they stand on."""
        for misshapen in self._node.answer.misshapen:
            yield from self._refusals.refuse(f"{self._where}: {misshapen}", 0, "")
        for container in self._node.answer.containers or ():
            yield from self._grants(container)
        yield from self._unlisted_replicas()
        yield from self._devices()
        yield from self._contradictions()
        yield self._status()

    def _unlisted_replicas(self) -> Iterator[Fact]:
        """Once for each resource, whoever holds of it: the words are those of every dump of the node, so that they are one finding."""
        for resource, held in self._node.unlisted.items():
            yield from self._refusals.find(
                "replicas_unknown",
                self._where,
                f"what pods hold of {resource or 'a resource without a name'} are replicas that allocatable does not list: no share is known",
                evidence={
                    "resource": resource,
                    "count": len(held),
                    "device_ids": sorted(held)[:_IDS_SHOWN],
                    "pods": sorted(set(held.values()))[:_IDS_SHOWN],
                    "node": self._name,
                },
            )

    def _grants(self, container: ListedContainer) -> Iterator[Fact]:
        seen: dict[str, str] = {}
        for device in container.devices:
            for text in device.ids:
                if text in seen:
                    continue
                seen[text] = device.resource
                yield from self._grant(container, device, text, len(seen) - 1)
        for claim, unit_id in dict.fromkeys(container.dynamic):
            yield self._dynamic_grant(container, claim, unit_id)

    def _grant(self, container: ListedContainer, device: ListedDevice, text: str, ordinal: int) -> Iterator[Fact]:
        parsed = parse_device_id(text)
        if not parsed.unit_kind and not _ACCELERATOR.match(device.resource):
            yield from self._refusals.find(
                "resource_not_read",
                f"{self._where}: {device.resource}",
                f"{device.resource or 'a resource without a name'} is no accelerator that is known; its ids are not read",
                severity="info",
                evidence={"resource": device.resource, "id": text[:100]},
            )
            return
        pod = f"{container.namespace}/{container.pod}"
        self._node.holders.setdefault(text, {}).setdefault(pod)
        uuid, reason = self._device_of(parsed)
        slices, profile = self._slices(device.resource)
        if parsed.unit_kind == "slice" and self._replicas(parsed) is None:
            self._node.unlisted.setdefault(device.resource, {}).setdefault(text, pod)
        yield Grant(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"name:{pod}/{container.container}/{uuid or ordinal}"
            + (f"/{parsed.unit_id}" if parsed.unit_id else ""),
            occurred_at=self._ctx.observed_at,
            observed_at=self._ctx.observed_at,
            pod_uid=f"name:{pod}",
            container=container.container,
            scheme=SOURCE,
            resource_name=device.resource or None,
            node=self._name,
            device_uuid=uuid,
            device_unknown_reason=reason,
            unit_kind=parsed.unit_kind or "gpu",
            unit_id=parsed.unit_id,
            profile=profile,
            gi=parsed.gi,
            ci=parsed.ci,
            compute_slices=slices.compute if slices else None,
            compute_slices_total=slices.compute_total if slices else None,
            memory_slices=slices.memory if slices else None,
            memory_slices_total=slices.memory_total if slices else None,
            replicas=self._replicas(parsed),
        )

    def _dynamic_grant(self, container: ListedContainer, claim: str, unit_id: str) -> Grant:
        pod = f"{container.namespace}/{container.pod}"
        return Grant(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"name:{pod}/{container.container}/{unit_id}",
            occurred_at=self._ctx.observed_at,
            observed_at=self._ctx.observed_at,
            pod_uid=f"name:{pod}",
            container=container.container,
            scheme=SOURCE,
            node=self._name,
            device_unknown_reason=f"a DRA device of claim {claim}: its resource slice tells the card",
            unit_kind="dra",
            unit_id=unit_id,
        )

    def _device_of(self, parsed: DeviceId) -> tuple[str | None, str | None]:
        if parsed.device_uuid is not None:
            return parsed.device_uuid, None
        if parsed.index is not None:
            found = self._directory.uuid_of(self._name, index=parsed.index)
            return known(found), f"{parsed.reason}; {found.reason}" if isinstance(found, Unknown) else None
        return None, parsed.reason

    def _slices(self, resource: str) -> tuple[MigSlices | None, str | None]:
        match = _PROFILE.match(resource)
        if match is None:
            return None, None
        return known(mig_slices(match.group(1), siblings=self._node.profiles)), match.group(1)

    def _replicas(self, parsed: DeviceId) -> int | None:
        numbers = self._node.replicas.get(parsed.base) if parsed.replica is not None else None
        return max(len(numbers), max(numbers) + 1) if numbers else None

    def _devices(self) -> Iterator[Fact]:
        """A Device per card and a Unit per part, of allocatable and of what is listed."""
        offered = self._node.offered
        listed = {
            text: (d.resource, d.numa) for c in self._node.answer.containers or () for d in c.devices for text in d.ids
        }
        cards: dict[str, dict[str, tuple[DeviceId, int | None]]] = {}
        for text, (resource, numa) in {**listed, **offered}.items():
            parsed = parse_device_id(text)
            if parsed.device_uuid is not None:
                cards.setdefault(parsed.device_uuid, {})[text] = (parsed, numa)
            if parsed.unit_kind in ("mig", "slice") and parsed.index is None and parsed.unit_id is not None:
                yield self._unit(parsed, resource)
        for uuid, ids in cards.items():
            yield self._card(uuid, ids)

    def _card(self, uuid: str, ids: Mapping[str, tuple[DeviceId, int | None]]) -> Device:
        asked = self._node.answer.allocatable is not None
        healthy = any(text in self._node.offered for text in ids) if asked else None
        parsed = [each for each, _ in ids.values()]
        numas = {numa for _, numa in ids.values() if numa is not None}
        has_mig = any(each.gi is not None for each in parsed)
        counts = [count for each in parsed if (count := self._replicas(each)) is not None and each.gi is None]
        return Device(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=uuid,
            occurred_at=self._ctx.observed_at,
            observed_at=self._ctx.observed_at,
            device_uuid=uuid,
            node=self._name,
            numa=numas.pop() if len(numas) == 1 else None,
            slots_count=max(counts, default=None),
            mode="mig" if has_mig else None,
            mig_enabled=True if has_mig else None,
            healthy=healthy,
            state_reason="the kubelet does not list it as allocatable" if healthy is False else None,
            encoding="pod_resources_v1",
        )

    def _unit(self, parsed: DeviceId, resource: str) -> Unit:
        profile = _PROFILE.match(resource)
        return Unit(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=str(parsed.unit_id),
            occurred_at=self._ctx.observed_at,
            observed_at=self._ctx.observed_at,
            unit_kind=parsed.unit_kind,
            unit_id=str(parsed.unit_id),
            device_uuid=parsed.device_uuid,
            node=self._name,
            gi=parsed.gi,
            ci=parsed.ci,
            profile=profile.group(1) if profile else None,
            replicas=self._replicas(parsed),
        )

    def _contradictions(self) -> Iterator[Fact]:
        for text, pods in self._node.holders.items():
            if len(pods) > 1:
                yield from self._refusals.find(
                    "device_listed_for_several_pods",
                    f"device {text}",
                    f"the kubelet lists {text} for {len(pods)} pods: {_some(pods)}; one of them may be in a terminal phase",
                    evidence={"device_id": text, "pods": list(pods)[:20], "node": self._name},
                )
            if self._node.answer.allocatable is not None and text not in self._node.offered:
                yield from self._refusals.find(
                    "device_not_allocatable",
                    f"device {text}",
                    f"{text} is given to {_some(pods)} but is not allocatable: the kubelet takes it for unhealthy or gone",
                    evidence={"device_id": text, "pods": list(pods)[:20], "node": self._name},
                )

    def _status(self) -> SourceStatus:
        scope = f"node/{self._name}" if self._name is not None else "cluster"
        asked = self._node.answer.containers is not None and self._node.answer.allocatable is not None
        asked = asked and not self._node.answer.misshapen
        return SourceStatus(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"{SOURCE}/{scope}",
            occurred_at=self._ctx.observed_at,
            observed_at=self._ctx.observed_at,
            kind=SOURCE,
            scope=scope,
            status="ok" if asked else "partial",
            complete=asked and self._name is not None,
            objects_count=self._node.answer.pods_count,
            as_of_basis="inferred",
        )


def _some(pods: Iterable[str]) -> str:
    names: Sequence[str] = list(pods)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
