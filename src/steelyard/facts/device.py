"""Physical cards as they were seen. The root key is the physical GPU UUID; index, PCI address and node are attributes."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Device(Fact, frozen=True, kw_only=True):
    """A card at one sighting (``occurred_at`` = the sighting). natural_key: the device UUID.

    vendor: ``nvidia``, ``ascend`` and so on. memory_mib: physical memory, None where only a scaled or no figure was seen.
    schedulable_memory_mib, schedulable_cores_percent: what the sharing layer offers (may exceed the card). slots_count: how
    many holders the sharing layer admits. mode: ``hami-core``, ``mig``, ``mps``, ``whole`` or None. healthy: None = not said.
    state: ``present`` or ``lost`` (driver or kernel says the card is gone). basis: how strong the sighting is as an inventory:
    ``inventory`` (NVML, nvidia-smi, PodResources, a DRA slice), ``vendor_register`` (HAMi, Volcano vGPU annotations),
    ``allocation`` (only a grant names the card; nothing else is known of it).
    encoding: the wire form it was read from (``csv7``, ``csv9``, ``json``, ``json+migProfiles``, ``volcano6``, ``xml-v12``).
    mig_profiles: JSON list of the profiles the card offers, as the register wrote them, or None.
    """

    TABLE: ClassVar[str] = "device"

    device_uuid: str
    node: str | None = None
    vendor: str = "nvidia"
    model: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    device_index: int | None = None
    numa: int | None = None
    memory_mib: int | None = None
    schedulable_memory_mib: int | None = None
    schedulable_cores_percent: int | None = None
    slots_count: int | None = None
    mode: str | None = None
    healthy: bool | None = None
    cordoned: bool = False
    state: str = "present"
    state_reason: str | None = None
    basis: str = "inventory"
    encoding: str | None = None
    driver_version: str | None = None
    mig_enabled: bool | None = None
    mig_profiles: str | None = None
    recovery_action: str | None = None
