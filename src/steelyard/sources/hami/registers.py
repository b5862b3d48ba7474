"""What HAMi's device plugins wrote on a node: its cards, in three encodings, and the plugin's handshake.

``app`` calls ``read_node_register`` for every Node. Releases up to 2.4 write 7 fields a card, 2.5 to 2.7 write 9, later ones JSON
(with MIG profiles from 2.10). The trick to know: the register shows schedulable memory, which may be a multiple of the card's, and
it stays on the node when the plugin is gone, so the handshake must be read with it.

Sceptic's command: ``kubectl get node N -o jsonpath='{.metadata.annotations.hami\\.io/node-nvidia-register}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.node import Node
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.hami.vendors import SOURCE, cores_are_percent, register_word, vendor_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import mapping_of, text_of, texts_of
from steelyard.sources.shared.scaled_memory import physical_memory_mib, scaling_label, scaling_of
from steelyard.sources.shared.vgpu_register import Registered, parse_csv_register, parse_json_register
from steelyard.sources.shared.vgpu_stamps import parse_handshake

HANDSHAKE_KEY = "hami.io/node-handshake"
CORDON_KEY = "hami.io/device-cordon"
MIG_ENCODING = "json+migProfiles"


@dataclass(frozen=True, slots=True)
class _NodeView:
    """The parts of a Node that a register is read with."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    ctx: ReadContext

    @property
    def subject(self) -> str:
        return f"node {self.name}"


def read_node_register(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """Device facts of every ``hami.io/node-*-register`` of a Node object, a Node fact with the handshake, and findings.

    memory_mib is physical: schedulable memory over the scaling factor of the settings, else of a node label, else the listed memory
    of the model where less is listed. An encoding that HAMi's own decoder refuses yields no device and ``register_malformed``.
    """
    metadata = mapping_of(payload.get("metadata"))
    annotations = metadata.get("annotations")
    name = text_of(metadata.get("name"))
    if (
        name is None
        or not isinstance(annotations, dict)
        or not any(str(key).startswith("hami.io/") for key in annotations)
    ):
        return
    view = _NodeView(plain(name), texts_of(metadata.get("labels")), texts_of(annotations), ctx)
    registers = {key: word for key in sorted(view.annotations) if (word := register_word(key)) is not None}
    yield from _handshake(view, list(registers.values()))
    if not registers:
        return
    cordoned = {part.strip() for part in view.annotations.get(CORDON_KEY, "").split(",") if part.strip()}
    seen: set[str] = set()
    for key, word in registers.items():
        for fact in _register(view, key, vendor_of(plain(word)), cordoned):
            if isinstance(fact, Device):
                seen.add(fact.device_uuid)
            yield fact
    if cordoned - seen:
        yield ctx.finding(
            SOURCE,
            "cordon_names_unknown_device",
            view.subject,
            f"{CORDON_KEY} names devices that no register of the node lists",
            evidence={"device_uuids": [plain(uuid)[:160] for uuid in sorted(cordoned - seen)[:16]]},
        )


def _handshake(view: _NodeView, words: list[str]) -> Iterator[Fact]:
    keys = [HANDSHAKE_KEY, *(f"{HANDSHAKE_KEY}-{word}" for word in words)]
    key = next((key for key in keys if view.annotations.get(key)), None)
    if key is None:
        return
    text = plain(view.annotations[key][:200])
    try:
        handshake = parse_handshake(text, view.ctx.settings.hami_timezone)
    except ValueError as error:
        yield view.ctx.finding(SOURCE, "handshake_unreadable", view.subject, f"{key}: {error}", excerpt=text)
        return
    if handshake.at is None:
        yield view.ctx.finding(
            SOURCE,
            "handshake_unreadable",
            view.subject,
            f"{key}: the time of the handshake cannot be read",
            excerpt=text,
        )
    yield Node(
        cluster=view.ctx.cluster,
        source=SOURCE,
        natural_key=view.name,
        occurred_at=view.ctx.observed_at,
        observed_at=view.ctx.observed_at,
        node=view.name,
        handshake=handshake.word,
        handshake_at=handshake.at,
    )


def _register(view: _NodeView, key: str, vendor: str, cordoned: set[str]) -> Iterator[Fact]:
    text = plain(view.annotations[key])
    try:
        parse = parse_json_register if text.lstrip()[:1] == "[" else parse_csv_register
        cards, problems = parse(text)
    except SourceMalformed as error:
        yield view.ctx.finding(
            SOURCE,
            "register_malformed",
            view.subject,
            f"{key}: {error.message}",
            severity="error",
            evidence={"key": plain(key), "characters_count": len(text)},
            excerpt=plain(error.excerpt),
        )
        return
    for code, message in problems:
        yield view.ctx.finding(SOURCE, code, view.subject, f"{key}: {message}", evidence={"key": plain(key)})
    scaling: Fraction | None = None
    if vendor == "nvidia":
        try:
            scaling = _scaling(view)
        except ValueError as error:
            yield view.ctx.finding(SOURCE, "memory_scaling_unreadable", view.subject, plain(str(error)))
    for card in cards:
        if card.encoding == MIG_ENCODING and card.mode != "mig":
            yield view.ctx.finding(
                SOURCE,
                "device_mode_conflict",
                f"device {card.uuid}",
                "the register offers MIG profiles on a card that it does not call a MIG card",
                evidence={"node": view.name, "mode": card.mode},
            )
        yield _device(view, card, vendor, scaling, card.uuid in cordoned)


def _scaling(view: _NodeView) -> Fraction | None:
    setting = view.ctx.settings.hami_memory_scaling_by_node.get(view.name)
    written = setting if setting is not None else scaling_label(view.labels)
    return scaling_of(written) if written is not None else None


def _device(view: _NodeView, card: Registered, vendor: str, scaling: Fraction | None, cordoned: bool) -> Device:
    ctx = view.ctx
    nvidia = vendor == "nvidia"
    mode = card.mode or ("hami-core" if nvidia else None)
    memory = card.memory_mib
    if memory is not None:
        scaled = nvidia and card.encoding != MIG_ENCODING
        memory = physical_memory_mib(memory, card.kind, scaling) if scaled else memory or None
    return Device(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=card.uuid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        device_uuid=card.uuid,
        node=view.name,
        vendor=vendor,
        model=card.kind,
        device_index=card.index,
        numa=card.numa,
        memory_mib=memory,
        schedulable_memory_mib=card.memory_mib,
        schedulable_cores_percent=card.cores if cores_are_percent(vendor) else None,
        slots_count=card.slots_count,
        mode=mode,
        healthy=card.healthy,
        cordoned=cordoned,
        basis="vendor_register",
        encoding=card.encoding,
        mig_enabled=True if mode == "mig" else None,
        mig_profiles=card.mig_profiles,
    )
