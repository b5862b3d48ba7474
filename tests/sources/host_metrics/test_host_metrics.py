"""Counters of cAdvisor and node_exporter as figures of a minute."""

from __future__ import annotations

import pytest

from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.instant import HOUR_US, MINUTE_US
from steelyard.sources.host_metrics import HOST_METRICS, read_host_metrics
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory

START = 1_900_000_000_000_000
UID = "0a1b2c3d-1111-4222-8333-444455556666"
POD = {"namespace": "team", "pod": "train-0", "node": "n1"}
ID = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"


def of(container: str, **more: str) -> dict[str, str]:
    return {**POD, "container": container, "id": f"{ID}/{container}", **more}


def read(*samples: tuple[str, dict[str, str], float, float], memory: RoundMemory | None = None) -> list[MetricSample]:
    """Samples as (name, labels, value, minutes)."""
    points = [MetricPoint(name, labels, value, START + round(at * MINUTE_US)) for name, labels, value, at in samples]
    tally = MetricTally()
    found = list(read_host_metrics(points, LabelResolver(points), ReadContext(observed_at=START), tally, memory))
    assert tally.total == len(points)
    return [fact for fact in found if isinstance(fact, MetricSample)]


def values(facts: list[MetricSample]) -> dict[str, float | None]:
    return {fact.metric: fact.value for fact in facts}


def grew(
    name: str, labels: dict[str, str], by: float, over: float = 1.0
) -> list[tuple[str, dict[str, str], float, float]]:
    return [(name, labels, 1_000, 0), (name, labels, 1_000 + by, over)]


def test_throttled_periods_are_a_share_of_all_periods_by_the_worst_container() -> None:
    facts = read(
        *grew("container_cpu_cfs_periods_total", of("main"), 600),
        *grew("container_cpu_cfs_throttled_periods_total", of("main"), 480),
        *grew("container_cpu_cfs_periods_total", of("sidecar"), 600),
        *grew("container_cpu_cfs_throttled_periods_total", of("sidecar"), 0),
    )
    assert values(facts) == {"host_cpu_throttled_ratio": 0.8}
    (fact,) = facts
    assert (fact.family, fact.kind, fact.namespace, fact.pod, fact.node) == ("host", "gauge", "team", "train-0", "n1")
    assert fact.labels == f'{{"pod_uid":"{UID}"}}'


@pytest.mark.parametrize(
    ("name", "metric", "by", "expected"),
    [
        ("container_pressure_cpu_waiting_seconds_total", "host_cpu_pressure_ratio", 15, 0.25),
        ("container_pressure_io_waiting_seconds_total", "host_io_pressure_ratio", 60, 1.0),
        ("container_pressure_memory_waiting_seconds_total", "host_memory_pressure_ratio", 0, 0.0),
        ("container_cpu_usage_seconds_total", "host_cpu_used_cores", 120, 2.0),
        ("container_fs_reads_bytes_total", "host_io_read_bytes_per_second", 600, 10.0),
        ("container_fs_writes_bytes_total", "host_io_write_bytes_per_second", 600, 10.0),
        ("container_network_receive_bytes_total", "host_network_receive_bytes_per_second", 600, 10.0),
        ("container_network_transmit_bytes_total", "host_network_transmit_bytes_per_second", 600, 10.0),
    ],
)
def test_a_counter_becomes_a_figure_of_a_minute(name: str, metric: str, by: float, expected: float) -> None:
    assert name in HOST_METRICS
    assert values(read(*grew(name, of("main"), by))) == {metric: expected}


def test_a_row_of_the_pod_as_a_whole_is_not_added_to_its_containers() -> None:
    name = "container_cpu_usage_seconds_total"
    facts = read(*grew(name, {**POD, "id": ID}, 180), *grew(name, of("main"), 120), *grew(name, of("sidecar"), 60))
    assert values(facts) == {"host_cpu_used_cores": 3.0}


def test_containers_and_interfaces_are_summed() -> None:
    name = "container_network_receive_bytes_total"
    assert values(read(*grew(name, of("", interface="eth0"), 60), *grew(name, of("", interface="ib0"), 120))) == {
        "host_network_receive_bytes_per_second": 3.0
    }


def test_the_first_sample_of_a_series_gives_nothing_and_the_next_round_goes_on_from_it() -> None:
    memory = RoundMemory()
    first, second = grew("container_cpu_usage_seconds_total", of("main"), 60)
    assert read(first, memory=memory) == []
    assert values(read(second, memory=memory)) == {"host_cpu_used_cores": 1.0}


@pytest.mark.parametrize(("by", "over"), [(-1, 1.0), (5, 0.5), (5, HOUR_US / MINUTE_US + 1)])
def test_a_reset_and_samples_too_close_or_too_far_apart_give_nothing(by: float, over: float) -> None:
    assert read(*grew("container_cpu_usage_seconds_total", of("main"), by, over)) == []


def test_more_waiting_than_time_is_not_known() -> None:
    assert read(*grew("container_pressure_io_waiting_seconds_total", of("main"), 90)) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -5.0, 2.0**64])
def test_what_is_no_counter_is_passed_over(value: float) -> None:
    first, _ = grew("container_cpu_usage_seconds_total", of("main"), 1)
    assert read(first, ("container_cpu_usage_seconds_total", of("main"), value, 1)) == []


def test_rows_of_no_pod_are_passed_over() -> None:
    assert (
        read(
            *grew("container_cpu_usage_seconds_total", {"id": "/system.slice"}, 60),
            *grew("container_cpu_usage_seconds_total", of("POD"), 5),
        )
        == []
    )


def test_a_nodes_pressure_is_without_a_pod() -> None:
    facts = read(*grew("node_pressure_io_waiting_seconds_total", {"instance": "n2:9100", "job": "node"}, 30))
    assert [(fact.metric, fact.value, fact.node, fact.pod, fact.labels) for fact in facts] == [
        ("host_io_pressure_ratio", 0.5, "n2", None, "{}")
    ]
