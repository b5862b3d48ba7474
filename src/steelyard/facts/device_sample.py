"""Measurements of a card or of one of its GPU instances. NULL is not known; ``unknown`` says why."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class DeviceSample(Fact, frozen=True, kw_only=True):
    """One sample (or one-minute reduction) at ``occurred_at``. natural_key: ``<device_uuid>[/gi<N>]``.

    gi None = the whole board. Ratios are 0 to 1. util_gpu_ratio is field 203 (share of time with a kernel), gr_active_ratio 1001,
    sm_active_ratio 1002, dram_active_ratio 1005, sm_occupancy_ratio 1003, tensor_active_ratio 1004. PCIe and NVLink are seen from the card: tx
    leaves it (1009, 1011), rx comes to it (1010, 1012), means over the sample's own period. power_limit_watts is the limit in force.
    interval_us: the stretch it stands for, None = an instant.
    unknown: JSON object column -> reason, for every column that the source names but could not give. confidence: None = measured at the time,
    ``backfilled`` = taken afterwards from the history of a Prometheus.
    """

    TABLE: ClassVar[str] = "device_sample"

    device_uuid: str
    gi: int | None = None
    interval_us: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    memory_reserved_mib: int | None = None
    util_gpu_ratio: float | None = None
    util_memory_ratio: float | None = None
    gr_active_ratio: float | None = None
    sm_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    sm_occupancy_ratio: float | None = None
    tensor_active_ratio: float | None = None
    pcie_tx_bytes_per_second: int | None = None
    pcie_rx_bytes_per_second: int | None = None
    nvlink_tx_bytes_per_second: int | None = None
    nvlink_rx_bytes_per_second: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle_reasons: int | None = None
    ecc_uncorrected: int | None = None
    unknown: str = "{}"
    confidence: str | None = None
