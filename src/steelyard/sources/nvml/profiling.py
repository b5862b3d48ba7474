"""Fields 1001 to 1005 and 1009 to 1012 of a board or of a GPU instance, from the counters that Hopper and later keep for everybody (GPM).

A figure is the mean between two samples, so the first round has none. The trick to know: GPM needs no exclusive right and disturbs no
profiler, but each sample is a piece of the driver's memory: two per place are kept and change roles.
"""

from __future__ import annotations

from typing import Any, Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.nvml import figures
from steelyard.sources.nvml.errors import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Asking, kind_of
from steelyard.sources.shared.device_driver import UNSUPPORTED, Figure

FIRST: Final = "a profiling figure is the mean between two rounds, and this is the first"
NOT_OFFERED: Final = "the board has no GPM counters"
NOT_AMONG_THEM: Final = "it is not among the GPM counters here"
_METRICS: Final = (
    ("gr_active_ratio", 1),
    ("sm_active_ratio", 2),
    ("dram_active_ratio", 10),
    ("sm_occupancy_ratio", 3),
    ("tensor_active_ratio", 5),
    ("pcie_tx_bytes_per_second", 20),
    ("pcie_rx_bytes_per_second", 21),
    ("nvlink_tx_bytes_per_second", 61),
    ("nvlink_rx_bytes_per_second", 60),
)
"""Column and nvmlGpmMetricId_t: ratios in percent, traffic in MiB per second. Fields of DCGM: 1001, 1002, 1005, 1003, 1004, 1009 to 1012."""
PROFILED: Final = tuple(column for column, _ in _METRICS)


class ProfilingSamples:
    """The last sample of each place of one card."""

    def __init__(self) -> None:
        self._earlier: dict[int | None, Any] = {}
        self._spare: dict[int | None, Any] = {}
        self._request: Any = None

    def forget(self) -> None:
        """After the library was initialised anew: samples of before are not comparable."""
        self._earlier.clear()
        self._spare.clear()

    def read(self, asking: Asking, handle: object, gi: int | None) -> dict[str, Figure]:
        """The figures of the board (gi None) or of a GPU instance since the last call for that place."""
        if not self._is_offered(asking, handle, gi):
            return _all(NOT_OFFERED)
        sample = self._spare.pop(gi, None) or asking.ask("nvmlGpmSampleAlloc", gi=gi)
        if isinstance(sample, Unknown):
            return _all(sample.reason)
        call = ("nvmlGpmSampleGet", handle, sample) if gi is None else ("nvmlGpmMigSampleGet", handle, gi, sample)
        taken = asking.ask(*call, gi=gi)
        if isinstance(taken, Unknown):
            self._spare[gi] = sample  # the earlier one stays: the next mean spans two rounds
            return _all(taken.reason)
        earlier = self._earlier.pop(gi, None)
        self._earlier[gi] = sample
        if earlier is None:
            return _all(FIRST)
        self._spare[gi] = earlier
        return self._between(asking, earlier, sample, gi)

    def _is_offered(self, asking: Asking, handle: object, gi: int | None) -> bool:
        if gi in self._earlier:
            return True
        support = asking.ask("nvmlGpmQueryDeviceSupport", handle, gi=gi, quiet=(NOT_SUPPORTED, FUNCTION_NOT_FOUND))
        return not isinstance(support, Unknown) and bool(support.isSupportedDevice)

    def _between(self, asking: Asking, earlier: object, later: object, gi: int | None) -> dict[str, Figure]:
        nvml = asking.nvml
        if self._request is None:
            self._request = nvml.c_nvmlGpmMetricsGet_t()
        request = self._request
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(_METRICS)
        request.sample1, request.sample2 = earlier, later
        for position, (_, metric_id) in enumerate(_METRICS):
            request.metrics[position].metricId = metric_id
        answered = asking.ask("nvmlGpmMetricsGet", request, gi=gi)
        if isinstance(answered, Unknown):
            return _all(answered.reason)
        found: dict[str, Figure] = {}
        for position, (column, metric_id) in enumerate(_METRICS):
            metric = answered.metrics[position]
            if metric.nvmlReturn == 0:
                read = figures.ratio if column.endswith("_ratio") else figures.bytes_per_second
                found[column] = read(metric.value)
            elif kind_of(metric.nvmlReturn) == UNSUPPORTED:
                found[column] = Unknown(NOT_AMONG_THEM)
            else:
                words = asking.words(metric.nvmlReturn)
                found[column] = asking.problem(kind_of(metric.nvmlReturn), f"nvmlGpmMetricsGet {metric_id}", words, gi)
        return found


def _all(reason: str) -> dict[str, Figure]:
    return {column: Unknown(reason) for column in PROFILED}
