"""What a scheduler or device plugin gave: one row per container and device (or per container where the device is unknown)."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Grant(Fact, frozen=True, kw_only=True):
    """A grant as written (``occurred_at`` = the snapshot). natural_key: ``<pod_uid>/<container>/<device or ordinal>[/<unit>]``.

    scheme: who granted it and so how strong the row is: ``hami``, ``volcano_vgpu``, ``hami_vendor``, ``dra``, ``pod_resources``,
    ``device_plugin`` (a plain extended resource: the device is unknown), ``time_slicing``, ``mps``, ``mig_plugin``, ``shared_scheme``
    (a row of the settings' table), ``declared`` (holdings CSV), ``trace``.
    device_uuid: the physical card without any suffix; None with ``device_unknown_reason``. unit_kind, unit_id: which part of it.
    resource_name: the extended resource behind a plain grant. quantity: how many cards
    (or replicas, or instances) a row without device stands for; 1 with a device.
    memory_mib, cores_percent: granted per device, None where the scheme does not say. compute_slices/_total, memory_slices/_total:
    MIG; replicas: per card under sharing; share_ppm: set only where the scheme itself states the share of one card.
    requested_memory_mib, requested_cores_percent: what the same container asked for per device, None where it did not.
    reserved_at: Filter stamp; bound_at: the scheduler's own bind stamp; bind_phase: allocating, success, failed.
    valid_from_at, valid_to_at: declared grants; of DRA the claim's allocation. claim_state: ``accepted``, ``unreadable`` (no device
    readable: a finding only), ``rejected`` (the kubelet refused it), ``suspect`` (a reader found it contradictory; held in suspense),
    with claim_reason.
    alignment: how a slot was matched to its container (``position``, ``gpu_requesting_containers_in_order``).
    consumers: how many pods share it (DRA); admin_access: monitoring only, holds nothing. confidence: as in request.
    namespace, pod: the holder's name where the grant itself tells it (a claim names its consumers); a pod that is seen is named by itself.
    """

    TABLE: ClassVar[str] = "grant"

    pod_uid: str
    container: str
    container_kind: str = "app"
    scheme: str
    resource_name: str | None = None
    node: str | None = None
    device_uuid: str | None = None
    device_unknown_reason: str | None = None
    unit_kind: str = "gpu"
    unit_id: str | None = None
    quantity: int = 1
    memory_mib: int | None = None
    cores_percent: int | None = None
    profile: str | None = None
    gi: int | None = None
    ci: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None
    compute_slices: int | None = None
    compute_slices_total: int | None = None
    memory_slices: int | None = None
    memory_slices_total: int | None = None
    replicas: int | None = None
    share_ppm: int | None = None
    requested_memory_mib: int | None = None
    requested_cores_percent: int | None = None
    reserved_at: Instant | None = None
    bound_at: Instant | None = None
    bind_basis: str | None = None
    bind_phase: str | None = None
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None
    approver: str | None = None
    claim_state: str = "accepted"
    claim_reason: str | None = None
    alignment: str | None = None
    consumers: int = 1
    admin_access: bool = False
    realised: bool | None = None
    namespace: str | None = None
    pod: str | None = None
    confidence: str | None = None
