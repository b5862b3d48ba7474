"""What a store holds: what came lately by itself is told from what was imported or is of before."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.unit import Unit
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.store import Store
from steelyard.store.contents import (
    Present,
    collected_span_us,
    instances_by_card,
    metric_names_of,
    register_forms,
    sample_columns,
    sources_of,
    valid_tokens_count,
    words_of,
)

NOW = 1_770_000_000_000_000
SINCE = NOW - 15 * MINUTE_US
CARD = "GPU-a"


def sample(source: str, at: int, **more: Any) -> DeviceSample:
    return DeviceSample(source=source, natural_key=CARD, occurred_at=at, observed_at=at, device_uuid=CARD, **more)


def metric(name: str, at: int) -> MetricSample:
    return MetricSample(source="m", natural_key=name, occurred_at=at, observed_at=at, family="engine", metric=name)


def unit(gi: int, source: str, at: int) -> Unit:
    return Unit(
        source=source, natural_key=f"{gi}/{source}", occurred_at=at, observed_at=at, unit_kind="mig", unit_id=f"u{gi}", device_uuid=CARD, gi=gi
    )  # fmt: skip


def test_an_empty_store_has_nothing_and_says_so() -> None:
    with Store.open_memory() as store:
        nothing = Present(frozenset(), frozenset())
        assert sources_of(store, DeviceSample, SINCE) == metric_names_of(store, SINCE) == nothing
        assert sample_columns(store, ("power_watts",), SINCE) == nothing
        assert words_of(store, PartitionSample, "origin") == frozenset()
        assert (collected_span_us(store), register_forms(store), instances_by_card(store)) == (None, {}, {})
        assert valid_tokens_count(store) == 0


@pytest.mark.parametrize(
    ("at", "import_id", "live"), [(NOW, None, {"dcgm"}), (NOW - HOUR_US, None, set()), (NOW, "file", set())]
)
def test_live_is_what_came_lately_without_a_file(at: int, import_id: str | None, live: set[str]) -> None:
    with Store.open_memory() as store:
        store.append([sample("dcgm", at, power_watts=70.0)], import_id=import_id)
        found = sources_of(store, DeviceSample, SINCE)
        assert (set(found.all), set(found.live)) == ({"dcgm"}, live)
        columns = sample_columns(store, ("power_watts", "sm_clock_mhz"), SINCE)
        assert (set(columns.all), bool(columns.live)) == ({"power_watts"}, bool(live))


def test_metrics_are_told_by_name() -> None:
    with Store.open_memory() as store:
        store.append([metric("old", NOW - HOUR_US), metric("new", NOW)])
        found = metric_names_of(store, SINCE)
    assert (found.all, found.live) == ({"old", "new"}, {"new"})


def test_instances_are_those_of_the_latest_sighting_by_anything_but_an_exporter() -> None:
    with Store.open_memory() as store:
        store.append([unit(gi, "nvidia_smi", NOW - HOUR_US) for gi in range(5)])
        store.append([unit(gi, "nvidia_smi", NOW) for gi in range(2)])
        store.append([unit(gi, "dcgm", NOW) for gi in range(7)])
        store.append([unit(gi, "pod_resources", NOW) for gi in range(3)])
        assert instances_by_card(store) == {CARD: 3}
