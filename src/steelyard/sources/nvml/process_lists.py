"""The processes on a card, and how much each one used it.

The tricks to know: under MIG the card itself lists nobody to an ordinary caller, its instances do; the utilisation call returns one sample
per process that used the card since a stamp, so "not found" and a listed process without a sample mean idle, a sample of a pid that is on no
list means a process that ended, and with stamp 0 it would return all that is still buffered; under MIG there is no such figure at all; and
where a process talks to an MPS server its kernels run in the server, so its own missing sample means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.nvml import figures
from steelyard.sources.nvml.errors import NOT_FOUND, Asking
from steelyard.sources.shared.device_driver import Figure, InstanceReading, ProcessReading

LOOK_BACK_US: Final = 10_000_000
CLOCK_SLACK_US: Final = 1_000_000
UNDER_MIG: Final = "not measurable under MIG: the driver has no utilisation per process there"
THROUGH_MPS: Final = "its kernels run in the MPS server: split by reservation, not measured"
_LISTS: Final = (
    ("C", ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")),
    ("G", ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")),
    ("M", ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2")),
)

Place = tuple[int, int | None, int | None]
"""pid, GPU instance, compute instance."""
Shares = dict[int, tuple[Figure, Figure]]
"""SM and memory ratio by pid."""


class ProcessLists:
    """The lists of one card, and the stamp of the last utilisation sample that was seen."""

    def __init__(self) -> None:
        self._seen_us: int | None = None

    def read(
        self,
        asking: Asking,
        handle: object,
        instances: Sequence[tuple[object, InstanceReading]] | None,
        memory_total_mib: Figure,
        now_us: int,
    ) -> tuple[ProcessReading, ...] | Unknown:
        """All processes; Unknown where the compute list itself cannot be had. instances: of a card under MIG, None for any other."""
        places = [(handle, None)] if instances is None else instances
        types: dict[Place, set[str]] = {}
        memory: dict[Place, Figure] = {}
        for where, instance in places:
            for letter, calls in _LISTS:
                listed = asking.first(calls, where, gi=instance.gi if instance else None)
                if isinstance(listed, Unknown):
                    if letter == "C":
                        return listed
                    continue
                for process in listed:
                    place = _place(process, instance)
                    types.setdefault(place, set()).add(letter)
                    used = figures.memory_mib(process.usedGpuMemory, memory_total_mib)
                    if not isinstance(memory.get(place), int):
                        memory[place] = used
        shares: Shares | Unknown = Unknown(UNDER_MIG)
        if instances is None:
            shares = self._shares(asking, handle, now_us)
        return tuple(
            _reading(place, frozenset(letters), memory[place], shares)
            for place, letters in sorted(types.items(), key=_order)
        )

    def _shares(self, asking: Asking, handle: object, now_us: int) -> Shares | Unknown:
        """By pid, since the last round; empty = nobody used the card. Check with ``nvidia-smi pmon -c 1``."""
        since = self._seen_us
        if since is None or since > now_us + CLOCK_SLACK_US:  # a clock that was set back would make everybody idle
            since = max(now_us - LOOK_BACK_US, 0)
        samples = asking.ask("nvmlDeviceGetProcessUtilization", handle, since, quiet=(NOT_FOUND,))
        if isinstance(samples, Unknown):
            return {} if samples.reason == asking.words(NOT_FOUND) else samples
        newest: dict[int, tuple[int, Any]] = {}
        for sample in samples:
            stamp = int(sample.timeStamp)
            if stamp <= since or stamp >= figures.BLANK_64:
                continue
            if sample.pid not in newest or stamp > newest[sample.pid][0]:
                newest[sample.pid] = (stamp, sample)
        if newest:
            self._seen_us = max(stamp for stamp, _ in newest.values())
        return {pid: (figures.ratio(each.smUtil), figures.ratio(each.memUtil)) for pid, (_, each) in newest.items()}


def _place(process: Any, instance: InstanceReading | None) -> Place:
    gi, ci = process.gpuInstanceId, process.computeInstanceId
    return (
        int(process.pid),
        int(gi) if gi != figures.ALL_ONES_32 else instance.gi if instance else None,
        int(ci) if ci != figures.ALL_ONES_32 else instance.ci if instance else None,
    )


def _order(item: tuple[Place, set[str]]) -> tuple[int, int, int]:
    pid, gi, ci = item[0]
    return (-1 if gi is None else gi, -1 if ci is None else ci, pid)


def _reading(place: Place, types: frozenset[str], memory: Figure, shares: Shares | Unknown) -> ProcessReading:
    pid, gi, ci = place
    sm: Figure
    bandwidth: Figure
    if isinstance(shares, Unknown):
        sm, bandwidth = shares, shares
    elif "M" in types:
        sm, bandwidth = Unknown(THROUGH_MPS), Unknown(THROUGH_MPS)
    else:
        sm, bandwidth = shares.get(pid, (0.0, 0.0))
    return ProcessReading(pid, types, memory, gi, ci, sm, bandwidth)
