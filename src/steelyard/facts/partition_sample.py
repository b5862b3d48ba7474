"""What a sharing layer or exporter enforces, counts or labels, per pod (or container) and card. NULL is not known."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class PartitionSample(Fact, frozen=True, kw_only=True):
    """One reading at ``occurred_at``. natural_key: ``<namespace>/<pod>/<container>/<device_uuid>[/gi<N>]``.

    origin: ``monitor`` (the limit in force and what was counted), ``scheduler`` (what the scheduler's cache says is allocated),
    ``dcgm_per_process`` (what dcgm-exporter counted of a pod's processes) or ``dcgm_label`` (only whose pod the exporter's rows of the card name:
    it corroborates grants and charges nobody; under time-slicing it is one pod of several). gi: the MIG instance.
    memory_limit_mib: enforced. memory_counted_mib: counted. cores_allocated_percent, memory_allocated_mib: the scheduler's view. sm_ratio: sum of
    the processes' SM shares, 0 to 1 of the card, None where the layer does not measure (a constant 0 without a limit is unknown).
    last_kernel_seconds: age. pod_uid: where the source says it. unknown: JSON object column -> reason, confidence: as in device_sample.
    """

    TABLE: ClassVar[str] = "partition_sample"

    origin: str
    node: str | None = None
    device_uuid: str
    gi: int | None = None
    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    container: str | None = None
    memory_limit_mib: int | None = None
    memory_counted_mib: int | None = None
    memory_allocated_mib: int | None = None
    cores_allocated_percent: int | None = None
    sm_ratio: float | None = None
    last_kernel_seconds: float | None = None
    unknown: str = "{}"
    confidence: str | None = None
