"""A small estate that was sampled several times a minute for some days, posted, in a data directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard.app.posting import post
from steelyard.app.settings import Settings
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.node import Node
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Instant, parse_instant
from steelyard.store import Store

FIRST_DAY = parse_instant("2026-11-01T00:00:00Z")
DAYS = 6
CARDS = ("GPU-a", "GPU-b")
STEP_US = 15 * SECOND_US
NOW = FIRST_DAY + DAYS * DAY_US + 2 * HOUR_US
CLOCK = FixedClock(NOW)
SETTINGS = Settings(retention={"raw_days": 2, "minute_days": 4})  # type: ignore[arg-type]
"""Days 0 and 1 are to be dropped, days 2 and 3 to be reduced, days 4 and 5 stay as they are."""

SAMPLED = ((0, 40), (600, 20), (1_410, 30))
"""Minutes of each day from which on the cards are sampled, and for how many: around midnight, and in between."""


def instants(day: int) -> list[Instant]:
    """When the cards are sampled on a day."""
    start = FIRST_DAY + day * DAY_US
    return [
        start + minute * MINUTE_US + offset
        for minute, length in SAMPLED
        for offset in range(3 * SECOND_US, length * MINUTE_US, STEP_US)
    ]


def samples(at: Instant) -> list[Fact]:
    """What one round sees."""
    seen = {"occurred_at": at, "observed_at": at}
    number = at // STEP_US
    found: list[Fact] = []
    for place, card in enumerate(CARDS):
        found.append(
            DeviceSample(
                source="dcgm", natural_key=card, device_uuid=card, memory_used_mib=1_000 + number % 97, memory_total_mib=40_960,
                util_gpu_ratio=(number % 101) / 100, sm_active_ratio=(number % 89) / 100, dram_active_ratio=(number % 83) / 100,
                power_watts=200.0 + number % 7, temperature_celsius=40.0 + number % 5, **seen,
            )
        )  # fmt: skip
        found.append(
            ProcessSample(
                source="dcgm", natural_key=f"{card}/{place}", device_uuid=card, pid=place, pod_uid=f"u{place}",
                memory_used_mib=900 + number % 97, **seen,
            )
        )  # fmt: skip
    found.append(
        PartitionSample(
            source="hami", natural_key=f"t/p/c/{CARDS[0]}", origin="monitor", device_uuid=CARDS[0], namespace="t", pod="p",
            container="c", memory_counted_mib=number % 89, **seen,
        )
    )  # fmt: skip
    found += [
        MetricSample(
            source="engine", natural_key=f"requests{{}}/{le}", family="engine", metric="requests", kind="bucket", le=le,
            value=float(number), **seen,
        )
        for le in ("1", "2")
    ]  # fmt: skip
    return found


def frame() -> list[Fact]:
    """Node, cards, two pods that hold one each, and rounds that saw the cluster throughout."""
    found: list[Fact] = []
    for hour in range(DAYS * 24 + 1):
        at = FIRST_DAY + hour * HOUR_US
        seen = {"occurred_at": at, "observed_at": at}
        found.append(Node(source="kube_api", natural_key="n1", node="n1", ready=True, **seen))
        found += [
            Device(source="nvidia_smi", natural_key=card, device_uuid=card, node="n1", model="NVIDIA A100", memory_mib=40_960, **seen)
            for card in CARDS
        ]  # fmt: skip
        for place, card in enumerate(CARDS):
            uid = f"u{place}"
            found.append(
                Request(
                    source="kube_api", natural_key=uid, pod_uid=uid, namespace="t", pod=f"p{place}", node="n1", phase="Running",
                    created_at=FIRST_DAY, scheduled_at=FIRST_DAY + MINUTE_US, started_at=FIRST_DAY + 2 * MINUTE_US, **seen,
                )
            )  # fmt: skip
            found.append(
                Grant(
                    source="kube_api", natural_key=f"{uid}/c/{card}", pod_uid=uid, container="c", scheme="pod_resources", node="n1",
                    resource_name="nvidia.com/gpu", device_uuid=card, **seen,
                )
            )  # fmt: skip
        found += [
            SourceStatus(
                source="kube_api", natural_key="pods/cluster", kind="pods", complete=True, gap_max_us=2 * HOUR_US, **seen
            ),
            SourceStatus(source="dcgm", natural_key="dcgm/cluster", kind="dcgm", gap_max_us=60 * SECOND_US, **seen),
        ]  # fmt: skip
    return found


def aged(directory: Path, days: Sequence[int] = range(DAYS)) -> Path:
    """The directory, posted as of its last day."""
    with Store.open(directory) as store:
        store.append(frame())
        for day in days:
            store.append([fact for at in instants(day) for fact in samples(at)])
        post(store, SETTINGS, CLOCK)
    return directory
