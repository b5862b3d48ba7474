"""Pods as kube-state-metrics remembers them: names found back, lives dated, ends only where somebody looked."""

from __future__ import annotations

import pytest

from steelyard.facts.finding import Finding
from steelyard.primitives.instant import MINUTE_US, SECOND_US, Window
from steelyard.sources.kube_state_metrics import SeenPod, covered_stretches, known_resources, questions, read_pods
from steelyard.sources.kube_state_metrics.names import resource_name, sanitised
from steelyard.sources.shared.accelerators import named_resources
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.pods import parse_pod

START = 1_772_359_200 * SECOND_US
WINDOW = Window(START, START + 10 * MINUTE_US)
KNOWN = known_resources(named_resources())
POD = {"namespace": "t", "pod": "p", "uid": "u"}
CTX = ReadContext(observed_at=WINDOW.end)


def point(metric: str, value: float, minute: int = 0, **labels: str) -> MetricPoint:
    return MetricPoint(metric, {**POD, **labels}, float(value), START + minute * MINUTE_US)


def presence(*minutes: int, **labels: str) -> list[MetricPoint]:
    return [point("kube_pod_info", 1.0, minute, **labels) for minute in minutes]


def read(
    points: list[MetricPoint], seen: list[MetricPoint], covered: tuple[Window, ...] = (WINDOW,)
) -> list[SeenPod | Finding]:
    return list(read_pods(points, seen, covered, WINDOW, MINUTE_US, CTX, KNOWN))


@pytest.mark.parametrize("name", named_resources())
def test_every_known_resource_is_found_back(name: str) -> None:
    assert resource_name(sanitised(name), KNOWN) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("nvidia_com_mig_1g_10gb", "nvidia.com/mig-1g.10gb"),
        ("nvidia_com_mig_1g_10gb_me", "nvidia.com/mig-1g.10gb.me"),
        ("nvidia_com_mig_1c_3g_20gb_shared", "nvidia.com/mig-1c.3g.20gb.shared"),
        ("nvidia_com_gpu", "nvidia.com/gpu"),
        ("amd_com_gpu", "amd.com/gpu"),
        ("huawei_com_Ascend910B_memory", "huawei.com/Ascend910B-memory"),
        ("cpu", None),
        ("memory", None),
        ("x" * 10_000, None),
        ("a_" * 90 + "com_gpu", None),
    ],
)
def test_a_written_resource_is_the_one_it_was_or_unknown(written: str, name: str | None) -> None:
    assert resource_name(written, KNOWN) == name


def test_a_finished_pod_ends_when_it_completed() -> None:
    seconds = START // SECOND_US
    (pod,) = read(
        [
            point("kube_pod_info", 1, node="n1"),
            point("kube_pod_created", seconds),
            point("kube_pod_completion_time", seconds + 100),
            point("kube_pod_status_phase", 1, phase="Succeeded"),
            point("kube_pod_status_phase", 0, phase="Running"),
            point("kube_pod_container_resource_requests", 1, container="c", resource="nvidia_com_gpu"),
        ],
        presence(*range(10)),
    )
    assert isinstance(pod, SeenPod)
    assert pod.payload is not None
    view = parse_pod(pod.payload)
    assert (view.phase, view.node, view.containers[0].ended_at) == ("Succeeded", "n1", START + 100 * SECOND_US)
    assert view.containers[0].count("nvidia.com/gpu") == 1
    assert pod.gone_at is None


@pytest.mark.parametrize(
    ("minutes", "covered", "seen_to", "gone"),
    [
        (range(4), WINDOW, 4, 4),
        (range(10), WINDOW, 10, None),
        (range(-1, 0), WINDOW, 0, 0),
        (range(4), Window(START, START + 4 * MINUTE_US), 4, None),
        (range(4), Window(START + 6 * MINUTE_US, WINDOW.end), 4, None),
    ],
)
def test_a_pod_is_gone_only_where_somebody_looked_and_it_was_not_there(
    minutes: range, covered: Window, seen_to: int, gone: int | None
) -> None:
    (pod,) = read([point("kube_pod_created", START / SECOND_US)], presence(*minutes), (covered,))
    assert isinstance(pod, SeenPod)
    assert pod.seen_to_at == START + seen_to * MINUTE_US
    assert pod.gone_at == (None if gone is None else START + gone * MINUTE_US)


def test_a_minute_without_one_of_the_shards_is_not_seen() -> None:
    both = [
        MetricPoint("", {"instance": name}, 1.0, START + minute * MINUTE_US)
        for minute in range(10)
        for name in ("a", "b")
    ]
    one_missing = [each for each in both if (each.labels["instance"], each.at) != ("b", START + 5 * MINUTE_US)]
    assert covered_stretches(both, WINDOW, MINUTE_US) == [WINDOW]
    assert covered_stretches(one_missing, WINDOW, MINUTE_US) == [
        Window(START, START + 5 * MINUTE_US),
        Window(START + 6 * MINUTE_US, WINDOW.end),
    ]
    assert covered_stretches([], WINDOW, MINUTE_US) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -5.0, 1e300])
def test_a_stamp_that_is_none_is_a_finding_and_the_pod_is_told_without_it(value: float) -> None:
    found = read([point("kube_pod_created", value)], presence(0))
    assert [each.code for each in found if isinstance(each, Finding)] == ["stamp_malformed"]
    (pod,) = [each for each in found if isinstance(each, SeenPod)]
    assert pod.payload is not None
    assert parse_pod(pod.payload).created_at is None


def test_a_count_that_is_none_is_a_finding() -> None:
    asked = [
        point("kube_pod_container_resource_requests", value, container="c", resource="nvidia_com_gpu")
        for value in (0.5, float("nan"), -1.0)
    ]
    assert [each.code for each in read(asked, presence(0)) if isinstance(each, Finding)] == ["quantity_malformed"] * 3


def test_labels_that_a_scrape_renamed_are_the_pods_own() -> None:
    way = {"job": "ksm", "instance": "10.0.0.1:8080", "namespace": "monitoring", "pod": "ksm-0"}
    labels = {**way, "exported_namespace": "t", "exported_pod": "p", "uid": "u"}
    (pod,) = read(
        [MetricPoint("kube_pod_created", labels, START / SECOND_US, START)],
        [MetricPoint("kube_pod_info", labels, 1.0, START)],
    )
    assert isinstance(pod, SeenPod)
    assert pod.payload is not None
    assert (pod.payload["metadata"]["namespace"], pod.payload["metadata"]["name"]) == ("t", "p")


def test_the_questions_name_every_metric_once_and_only_holders_of_extended_resources() -> None:
    asked = questions("60000ms", "3600000ms")
    assert all(
        query.startswith(f"last_over_time({metric}[3600000ms]) and on (uid) (") for metric, query in asked.pods.items()
    )
    assert 'resource!~"cpu|memory' in asked.presence
