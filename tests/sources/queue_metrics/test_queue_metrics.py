"""Kueue, Volcano and kube-scheduler: whole units, one replica, limits that are none."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.metric_sample import MetricSample
from steelyard.sources.exposition import read_exposition
from steelyard.sources.queue_metrics import QUEUE_METRICS, read_queue_metrics
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally

CTX = ReadContext(file="scrape.prom")


def read(text: str) -> tuple[dict[tuple[str, str, str | None], float | None], Sequence[Fact], MetricTally]:
    points = [each for each in read_exposition(text, CTX) if isinstance(each, MetricPoint)]
    tally = MetricTally()
    facts = list(read_queue_metrics(points, LabelResolver(points), CTX, tally))
    assert tally.total == len(points)
    values = {(fact.metric, fact.labels, fact.le): fact.value for fact in facts if isinstance(fact, MetricSample)}
    return values, facts, tally


def codes(facts: Sequence[Fact]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding)]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('volcano_queue_allocated_scalar_resources{queue_name="q",resource="nvidia.com/gpu"} 8000', 8.0),
        (
            'volcano_queue_allocated_scalar_resources{queue_name="q",resource="volcano.sh/vgpu-memory"} 8.192e+06',
            8_192.0,
        ),
        ('volcano_queue_allocated_scalar_resources{queue_name="q",resource="nvidia.com/gpu"} 2900', 2.9),
        ('volcano_queue_allocated_scalar_resources{queue_name="q",resource="pods"} 3', 3.0),
        ('volcano_queue_allocated_milli_cpu{queue_name="q"} 3000', 3_000.0),
        ('kueue_cluster_queue_resource_usage{cluster_queue="q",resource="nvidia.com/gpu"} 24', 24.0),
        ('scheduler_pending_pods{queue="gated"} 4', 4.0),
    ],
)
def test_resources_are_in_the_unit_of_their_name_and_scalars_whole(line: str, value: float) -> None:
    values, _, _ = read(line + "\n")
    assert list(values.values()) == [value]


def test_of_several_replicas_of_kueue_the_leader_counts() -> None:
    name = "kueue_pending_workloads"
    lines = [
        f'{name}{{cluster_queue="a",status="inadmissible",replica_role="follower"}} 9',
        f'{name}{{cluster_queue="a",status="inadmissible",replica_role="leader"}} 2',
        f'{name}{{cluster_queue="b",status="active",replica_role="standalone"}} 1',
        f'{name}{{cluster_queue="c",status="active",replica_role="follower"}} 5',
        f'{name}{{cluster_queue="d",status="active"}} 6',
    ]
    for order in (lines, lines[::-1]):
        values, _, tally = read("\n".join(order) + "\n")
        assert {json.loads(labels)["cluster_queue"]: value for (_, labels, _), value in values.items()} == {
            "a": 2,
            "b": 1,
            "c": 5,
            "d": 6,
        }
        assert not any("replica_role" in labels for _, labels, _ in values)
        assert (dict(tally.repeated), dict(tally.ignored)) == ({name: 1}, {})


def test_a_sum_over_replicas_would_count_pending_workloads_again_and_a_finding_says_by_how_much() -> None:
    name = "kueue_pending_workloads"
    lines = [
        f'{name}{{cluster_queue="a",status="active",replica_role="leader"}} 0',
        f'{name}{{cluster_queue="a",status="inadmissible",replica_role="leader"}} 2',
        f'{name}{{cluster_queue="a",status="active",replica_role="follower"}} 0',
        f'{name}{{cluster_queue="a",status="inadmissible",replica_role="follower"}} 2',
        f'{name}{{cluster_queue="b",status="active",replica_role="leader"}} 1',
        f'{name}{{cluster_queue="b",status="active",replica_role="follower"}} 0',
    ]
    _, facts, _ = read("\n".join(lines) + "\n")
    (finding,) = (fact for fact in facts if isinstance(fact, Finding))
    assert (finding.code, finding.subject) == ("replica_role_double_count", "cluster queue a")
    assert json.loads(finding.evidence) == {
        "metric": name,
        "cluster_queue": "a",
        "leader_count": 2,
        "naive_sum_count": 4,
    }


@pytest.mark.parametrize(
    ("lines", "limit", "found"),
    [
        (["kueue_cluster_queue_borrowing_limit{cluster_queue=\"a\"} 0"], None, ["quota_limit_zero_may_be_unset"]),
        (["kueue_cluster_queue_borrowing_limit{cluster_queue=\"a\"} 8"], 8.0, []),
        (["kueue_cluster_queue_borrowing_limit{cluster_queue=\"a\"} +Inf"], math.inf, []),
        (["kueue_cluster_queue_borrowing_limit{cluster_queue=\"a\"} 0", "kueue_unadmitted_workloads{cluster_queue=\"a\"} 1"], 0.0, []),
        (["kueue_cluster_queue_borrowing_limit{cluster_queue=\"a\"} 0", "kueue_cluster_queue_lending_limit{cluster_queue=\"a\"} +Inf"], 0.0, []),
    ],
)  # fmt: skip
def test_a_limit_of_zero_is_only_known_where_an_unset_one_is_printed_as_infinite(
    lines: list[str], limit: float | None, found: list[str]
) -> None:
    values, facts, _ = read("\n".join(lines) + "\n")
    assert values["kueue_cluster_queue_borrowing_limit", '{"cluster_queue":"a"}', None] == limit
    assert codes(facts) == found


def test_row_31_what_does_not_measure_what_its_name_says_is_not_read() -> None:
    for name in ("volcano_e2e_job_scheduling_latency_milliseconds_count", "volcano_e2e_job_scheduling_duration"):
        assert QUEUE_METRICS.find(name) is None


def test_the_deprecated_scheduling_duration_stays_apart_because_it_includes_the_time_gated() -> None:
    values, _, _ = read(
        "scheduler_pod_scheduling_duration_seconds_count 3\nscheduler_pod_scheduling_sli_duration_seconds_count 2\n"
    )
    assert {metric: value for (metric, _, _), value in values.items()} == {
        "scheduler_pod_scheduling_duration_seconds": 3,
        "scheduler_pod_scheduling_sli_duration_seconds": 2,
    }


def test_row_33_a_negative_count_of_pending_pods_is_not_known() -> None:
    values, facts, _ = read('scheduler_pending_pods{queue="gated"} -3\n')
    assert list(values.values()) == [None]
    assert codes(facts) == ["sample_above_physical_limit"]


def test_local_queues_are_series_of_their_own() -> None:
    values, _, _ = read('kueue_local_queue_pending_workloads{name="lq",namespace="t",status="active"} 3\n')
    [(metric, labels, _)] = values
    assert (metric, json.loads(labels)["namespace"]) == ("kueue_local_queue_pending_workloads", "t")


@pytest.mark.parametrize(
    ("name", "used", "ignored"),
    [
        ("kueue-metrics-v0.19.prom", 59, {"kueue_pending_workloads": 2}),
        (
            "volcano-metrics.prom",
            23,
            {
                "volcano_e2e_job_scheduling_duration": 2,
                "volcano_e2e_job_scheduling_latency_milliseconds_bucket": 1,
                "volcano_e2e_job_scheduling_latency_milliseconds_sum": 1,
                "volcano_e2e_job_scheduling_latency_milliseconds_count": 1,
            },
        ),
    ],
)
def test_every_line_of_the_handed_queue_cases_is_a_fact_or_a_counted_ignore(
    shared: Path, name: str, used: int, ignored: dict[str, int]
) -> None:
    _, facts, tally = read((shared / "cases" / "queues" / name).read_text(encoding="utf-8"))
    assert len([fact for fact in facts if isinstance(fact, MetricSample)]) == used
    assert (tally.used.total(), dict(tally.ignored | tally.repeated), tally.refused.total(), codes(facts)) == (
        used,
        ignored,
        0,
        ["replica_role_double_count"] if name.startswith("kueue") else [],
    )
