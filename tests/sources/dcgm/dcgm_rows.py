"""Rows of dcgm-exporter in few words, and their facts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.source_status import SourceStatus
from steelyard.sources.dcgm import read_dcgm
from steelyard.sources.exposition import read_exposition
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory

CTX = ReadContext(file="scrape.prom")
UTIL, FB, POWER, GR, SM = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
)
XID = "DCGM_FI_DEV_XID_ERRORS"
CARD = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
OTHER = "GPU-aaaaaaaa-0000-4000-8000-000000000002"


def row(name: str, value: object, at_ms: int | None = None, **labels: str) -> str:
    """One line; ``UUID`` is CARD unless it is given (empty: left out)."""
    named = {"gpu": "0", "UUID": CARD, **labels}
    text = ",".join(f'{key}="{value}"' for key, value in named.items() if value is not None)
    return f"{name}{{{text}}} {value}" + (f" {at_ms}" if at_ms is not None else "")


@dataclass(frozen=True)
class Read:
    """What came of a text, by class of fact."""

    facts: Sequence[Fact]
    tally: MetricTally

    def sample(self, uuid: str = CARD, gi: int | None = None) -> DeviceSample:
        found = [each for each in self.samples if each.device_uuid == uuid and each.gi == gi]
        assert len(found) == 1, f"one row per unit: {found}"
        return found[0]

    @property
    def samples(self) -> list[DeviceSample]:
        return [fact for fact in self.facts if isinstance(fact, DeviceSample)]

    @property
    def devices(self) -> list[Device]:
        return [fact for fact in self.facts if isinstance(fact, Device)]

    @property
    def pods(self) -> list[PartitionSample]:
        return [fact for fact in self.facts if isinstance(fact, PartitionSample) and fact.origin == "dcgm_per_process"]

    @property
    def labels(self) -> list[PartitionSample]:
        return [fact for fact in self.facts if isinstance(fact, PartitionSample) and fact.origin == "dcgm_label"]

    @property
    def events(self) -> list[Event]:
        return [fact for fact in self.facts if isinstance(fact, Event)]

    @property
    def findings(self) -> list[Finding]:
        return [fact for fact in self.facts if isinstance(fact, Finding)]

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    @property
    def status(self) -> SourceStatus:
        return next(fact for fact in self.facts if isinstance(fact, SourceStatus))


def read(*lines: str, ctx: ReadContext = CTX, memory: RoundMemory | None = None) -> Read:
    """Parse and read the lines as one round. Every sample must be tallied."""
    parsed = list(read_exposition("\n".join(lines) + "\n", ctx))
    points = [each for each in parsed if isinstance(each, MetricPoint)]
    assert len(points) == len([line for line in lines if line])
    tally = MetricTally()
    facts = list(read_dcgm(points, LabelResolver(points), ctx, tally, memory))
    assert tally.total == len(points)
    return Read(facts, tally)


def reasons(sample: DeviceSample | PartitionSample) -> dict[str, str]:
    """Why columns are not known."""
    found: dict[str, str] = json.loads(sample.unknown)
    return found
