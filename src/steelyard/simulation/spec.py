"""What to simulate: how many cards, for how long, how often the collectors look, and the seed that fixes everything."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, SECOND_US, DurationUs, Instant, parse_instant

START_AT: Final[Instant] = parse_instant("2026-09-01T00:00:00Z")
GPUS_MAX: Final = 10_000
DAYS_MAX: Final = 366


@dataclass(frozen=True, slots=True)
class SimulationSpec:
    """A simulated estate. The same spec gives the same bytes: no wall clock, no global random state.

    snapshot_interval_seconds: between two ``kubectl get pods,nodes,events``. pod_resources_interval_seconds: between two kubelet
    dumps, a multiple of it. sample_interval_seconds: between two ``nvidia-smi`` rounds. mig_report_interval_seconds: between two
    ``nvidia-smi -q -x`` of a MIG node, a multiple of that. load: demanded over installed GPU-time.
    troubles: beside it a small cluster of its own in which things are wrong, over the estate's last hours.
    """

    gpus: int = 64
    days: int = 14
    seed: int = 7
    snapshot_interval_seconds: int = 7200
    pod_resources_interval_seconds: int = 14_400
    sample_interval_seconds: int = 1800
    mig_report_interval_seconds: int = 21_600
    load: float = 0.8
    troubles: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.gpus <= GPUS_MAX:
            raise UsageError(_("expected 1 to {most} GPUs, found {found}").format(most=GPUS_MAX, found=self.gpus))
        if not 1 <= self.days <= DAYS_MAX:
            raise UsageError(_("expected 1 to {most} days, found {found}").format(most=DAYS_MAX, found=self.days))

    @property
    def start_at(self) -> Instant:
        """The first snapshot."""
        return START_AT

    @property
    def end_at(self) -> Instant:
        """The last snapshot."""
        return START_AT + self.days * DAY_US

    def stream(self, name: str) -> random.Random:
        """A stream of random numbers of its own for each purpose, so that one more draw here changes nothing there."""
        return random.Random(f"{self.seed}/{self.gpus}/{self.days}/{name}")  # noqa: S311 (a simulation, not a secret)

    def grid(self, interval_seconds: int, offset_seconds: int = 0) -> list[Instant]:
        """The instants ``start + offset + n x interval`` up to and including the end."""
        step: DurationUs = interval_seconds * SECOND_US
        return list(range(self.start_at + offset_seconds * SECOND_US, self.end_at + 1, step))
