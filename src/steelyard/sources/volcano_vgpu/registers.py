"""What the volcano-vgpu-device-plugin wrote on a node: its cards and its handshake.

``app`` calls ``read_node_register`` for every Node. Cards have 6 fields (older plugins 5, without the mode), none of them an index, a
NUMA node or a compute figure, so those stay unknown. The trick to know: health stands where HAMi has its compute percent.

Sceptic's command: ``kubectl get node N -o jsonpath='{.metadata.annotations.volcano\\.sh/node-vgpu-register}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.node import Node
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import mapping_of, text_of
from steelyard.sources.shared.scaled_memory import physical_memory_mib
from steelyard.sources.shared.vgpu_register import VOLCANO_5, VOLCANO_6, Registered, parse_csv_register
from steelyard.sources.shared.vgpu_stamps import parse_handshake

SOURCE: Final = "volcano_vgpu"
REGISTER_KEY: Final = "volcano.sh/node-vgpu-register"
HANDSHAKE_KEY: Final = "volcano.sh/node-vgpu-handshake"


def read_node_register(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """Device facts of a Node's Volcano vGPU register, a Node fact with the handshake, and findings. Memory is MiB."""
    metadata = mapping_of(payload.get("metadata"))
    name, annotations = text_of(metadata.get("name")), mapping_of(metadata.get("annotations"))
    if name is None:
        return
    node = plain(name)
    handshake = text_of(annotations.get(HANDSHAKE_KEY))
    if handshake is not None:
        yield from _handshake(node, plain(handshake[:200]), ctx)
    register = text_of(annotations.get(REGISTER_KEY))
    if register is None:
        return
    try:
        cards, problems = parse_csv_register(plain(register), {"volcano5": VOLCANO_5, "volcano6": VOLCANO_6})
    except SourceMalformed as error:
        yield ctx.finding(
            SOURCE,
            "register_malformed",
            f"node {node}",
            f"{REGISTER_KEY}: {error.message}",
            severity="error",
            evidence={"key": REGISTER_KEY, "characters_count": len(register)},
            excerpt=error.excerpt,
        )
        return
    for code, message in problems:
        yield ctx.finding(SOURCE, code, f"node {node}", f"{REGISTER_KEY}: {message}", evidence={"key": REGISTER_KEY})
    for card in cards:
        yield _device(node, card, ctx)


def _handshake(node: str, text: str, ctx: ReadContext) -> Iterator[Fact]:
    try:
        handshake = parse_handshake(text, ctx.settings.hami_timezone)
    except ValueError as error:
        yield ctx.finding(SOURCE, "handshake_unreadable", f"node {node}", f"{HANDSHAKE_KEY}: {error}", excerpt=text)
        return
    yield Node(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=node,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        node=node,
        handshake=handshake.word,
        handshake_at=handshake.at,
    )


def _device(node: str, card: Registered, ctx: ReadContext) -> Device:
    memory = card.memory_mib
    return Device(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=card.uuid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        device_uuid=card.uuid,
        node=node,
        model=card.kind,
        memory_mib=physical_memory_mib(memory, card.kind, None) if memory is not None else None,
        schedulable_memory_mib=memory,
        slots_count=card.slots_count,
        mode=card.mode,
        healthy=card.healthy,
        basis="vendor_register",
        encoding=card.encoding,
        mig_enabled=True if card.mode == "mig" else None,
    )
