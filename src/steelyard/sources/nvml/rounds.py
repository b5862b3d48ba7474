"""Rounds over the cards of one node: facts now, and what changed since the round before.

``app`` makes one ``DeviceRounds`` per process and asks it for a round per interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.primitives.clock import Clock
from steelyard.sources.shared.device_driver import DeviceDriver
from steelyard.sources.shared.process_owner import ProcessOwners

SOURCE: Final = "agent"
KIND: Final = "nvml"


class DeviceRounds:
    """The cards of a node, round by round. Every driver call ends within ``deadline_seconds`` or is abandoned and told as stuck."""

    def __init__(
        self,
        driver: DeviceDriver,
        clock: Clock,
        *,
        node: str,
        cluster: str = "default",
        owners: ProcessOwners | None = None,
        deadline_seconds: float = 5.0,
        gap_max_us: int | None = None,
        state: bytes | None = None,
    ) -> None:
        """gap_max_us: how far apart two rounds may lie and still be one stretch (``source_status.gap_max_us``). state: what ``state()`` of
        an earlier process returned, so that a driver upgrade or a board swap over a restart is seen."""
        raise NotImplementedError

    def round(self) -> Iterator[Fact]:
        """The facts of one round: device, unit, device_sample, process_sample, transition, finding, and one source_status of kind ``nvml``
        (source ``agent``, scope ``node/<name>``). Takes at most about two deadlines. Never raises for what the driver does."""
        raise NotImplementedError

    def state(self) -> bytes:
        """What the next process needs to see changes over a restart: a small JSON document to keep on disk."""
        raise NotImplementedError

    @property
    def restart_reason(self) -> str | None:
        """Why only a new process can go on (the library on disk is not the one that is mapped), else None."""
        raise NotImplementedError

    def close(self) -> None:
        """Let the driver go; calls that are stuck stay behind in their threads, which die with the process."""
        raise NotImplementedError
