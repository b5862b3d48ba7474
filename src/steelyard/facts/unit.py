"""Parts of a card that can be held: MIG instances, replicas, DRA devices; whole cards are units of themselves."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Unit(Fact, frozen=True, kw_only=True):
    """A unit at one sighting. natural_key: unit_id. unit_kind: ``gpu``, ``mig``, ``vgpu``, ``slice`` or ``dra``.

    unit_id: ``MIG-<uuid>``, ``<uuid>::<n>`` for a replica, ``driver/pool/device[/share]`` for DRA; where a MIG instance shows no
    UUID: ``<device uuid>/gi<N>[/ci<M>]``. device_uuid: the parent card, None where the text does not say it. gi, ci: instance
    ids; unit_index: the number that nvidia-smi gives a MIG device on its card. memory_mib: what the instance owns (two compute
    instances of one GPU instance show the same figure: key it by gi). instance_uuid: the MIG instance's own UUID, where unit_id is not it.
    """

    TABLE: ClassVar[str] = "unit"

    unit_kind: str
    unit_id: str
    device_uuid: str | None = None
    node: str | None = None
    gi: int | None = None
    ci: int | None = None
    profile: str | None = None
    placement_start: int | None = None
    placement_size: int | None = None
    memory_mib: int | None = None
    sm_count: int | None = None
    replicas: int | None = None
    unit_index: int | None = None
    instance_uuid: str | None = None
