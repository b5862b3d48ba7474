"""``hami.io/vgpu-mig-allocations``: which MIG instance stands behind a device record (HAMi 2.10 on).

The entries name container (init containers first) and device by index. The trick to know: the three runtime fields come together
or not at all; without them the instance is reserved on the card but not made yet, and the pod holds it all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.sources.hami.vendors import SOURCE
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.mig_geometry import slices_of_profile
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import ContainerView, PodView, mapping_of
from steelyard.sources.shared.vgpu_grants import CardPart
from steelyard.sources.shared.vgpu_records import DeviceRecord

MIG_KEY: Final = "hami.io/vgpu-mig-allocations"
ENTRIES_MAX: Final = 1_024
CHARACTERS_MAX: Final = 1_048_576
_SMALL_INT_MAX: Final = 10_000


@dataclass(slots=True)
class MigAllocations:
    """The readable entries of one pod by (container name, device ordinal), and what was wrong with the others."""

    view: PodView
    ctx: ReadContext
    cards: Mapping[str, Device]
    entries: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    used: set[tuple[str, int]] = field(default_factory=set)

    def part_of(self, record: DeviceRecord, owner: ContainerView | None, ordinal: int) -> CardPart | None:
        """The instance behind a record; None where the annotation has no entry for it or the entry names another card."""
        key = (_slot_name(owner), ordinal) if owner is not None else None
        entry = self.entries.get(key) if key is not None else None
        if key is None or entry is None:
            return None
        self.used.add(key)
        if entry.get("gpuUUID") != record.uuid:
            self._note(
                "mig_allocation_mismatch",
                "a MIG allocation names another card than the device record",
                {"record_uuid": record.uuid, "mig_gpu_uuid": plain(str(entry.get("gpuUUID")))[:160]},
            )
            return None
        return self._part(entry, record)

    def unused(self) -> Iterator[Finding]:
        """Findings about entries that no device record answers to, and all that was noted on the way."""
        left = [key for key in self.entries if key not in self.used]
        if left:
            self._note(
                "mig_allocation_mismatch",
                "MIG allocations stand there without a device record",
                {"entries": [list(key) for key in left[:16]], "entries_count": len(left)},
            )
        yield from self.findings

    def _part(self, entry: Mapping[str, Any], record: DeviceRecord) -> CardPart:
        placement = mapping_of(entry.get("placement"))
        start, size = _small(placement.get("start", 0 if placement else None)), _small(placement.get("size"))
        profile = entry.get("profile") if isinstance(entry.get("profile"), str) else None
        mig_uuid, gi, ci = (
            entry.get("migUUID"),
            _small(entry.get("gpuInstanceID")),
            _small(entry.get("computeInstanceID")),
        )
        mig_uuid = plain(mig_uuid)[:160] if isinstance(mig_uuid, str) and mig_uuid else None
        present = [value is not None for value in (mig_uuid, gi, ci)]
        realised: bool | None = all(present)
        if any(present) and not realised:
            realised = None
            self._note(
                "mig_allocation_partial",
                "a MIG allocation carries some of its three runtime fields; they come together or not at all",
                {"mig_uuid": mig_uuid, "gpu_instance_id": gi, "compute_instance_id": ci},
            )
        card = self.cards.get(record.uuid)
        profile = plain(profile)[:64] if profile else None
        slices = (
            slices_of_profile(profile, size, card.model if card else None, card.memory_mib if card else None)
            if profile
            else None
        )
        return CardPart(
            unit_kind="mig",
            unit_id=mig_uuid,
            key=mig_uuid or f"{profile}@{start}",
            profile=profile,
            gi=gi,
            ci=ci,
            placement_start=start,
            placement_size=size,
            slices=slices,
            realised=realised,
        )

    def _note(self, code: str, message: str, evidence: Mapping[str, object]) -> None:
        self.findings.append(self.ctx.finding(SOURCE, code, self.view.subject, message, evidence=evidence))


def read_mig_allocations(view: PodView, ctx: ReadContext, cards: Mapping[str, Device]) -> MigAllocations:
    """The MIG allocations of a pod; an annotation that cannot be read yields none and a finding ``mig_allocation_malformed``."""
    allocations = MigAllocations(view, ctx, cards)
    text = view.annotations.get(MIG_KEY)
    if not text:
        return allocations
    problem = None
    entries: Any = None
    try:
        entries = orjson.loads(plain(text)) if len(text) <= CHARACTERS_MAX else None
    except (ValueError, RecursionError) as error:
        problem = str(error)[:120]
    if not isinstance(entries, list) or len(entries) > ENTRIES_MAX:
        problem = problem or f"expected a JSON list of at most {ENTRIES_MAX} entries"
        entries = []
    for position, entry in enumerate(entries):
        index = _small(entry.get("containerIndex", 0)) if isinstance(entry, dict) else None
        ordinal = _small(entry.get("deviceIndex", 0)) if isinstance(entry, dict) else None
        if index is None or ordinal is None or index >= len(view.containers):
            problem = f"entry {position} names no container of the pod"
            continue
        allocations.entries[_slot_name(view.containers[index]), ordinal] = entry
    if problem:
        allocations.findings.append(
            ctx.finding(
                SOURCE, "mig_allocation_malformed", view.subject, f"{MIG_KEY}: {problem}", excerpt=plain(text[:200])
            )
        )
    return allocations


def _slot_name(container: ContainerView) -> str:
    return f"{container.kind}/{container.position}/{container.name}"


def _small(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _SMALL_INT_MAX else None
