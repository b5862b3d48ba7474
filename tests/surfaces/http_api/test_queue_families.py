"""Queues at ``/metrics``: valid text, buckets that add up, cards as numbers, and no sample for what is not known."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from steelyard.answers.cost_series import CostSeries
from steelyard.answers.queue_series import BOUNDS_US, QueueSeries, WaitSeries
from steelyard.answers.registry import ANSWERS, Entry, entry
from steelyard.primitives.instant import SECOND_US
from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.shared.server_ports import Standing

WAITS = WaitSeries([2, 1, *[0] * (len(BOUNDS_US) - 2), 4], 90 * SECOND_US)
SERIES = QueueSeries(
    {("default", "gpus"): WAITS, ("default", ""): WaitSeries()},
    {("default", "gpus", "not_now", "quota"): 7, ("default", 'odd "q"\n', "scheduled", ""): 1},
    {("default", "cluster_queue", "gpus", "", "nvidia.com/gpu"): [8_000, None, 2_500, 0, 4_000]},
)


def text(series: QueueSeries = SERIES) -> str:
    return exposition(Standing(queues=series), Traffic(), ()).decode()


def test_the_buckets_of_a_wait_add_up_to_its_count() -> None:
    label = 'cluster="default",queue="gpus"'
    lines = [line for line in text().splitlines() if label in line and "wait" in line]
    values = [int(line.split()[1]) for line in lines if "_bucket" in line]
    assert values == [2, *[3] * (len(BOUNDS_US) - 1), 7]
    assert f'steelyard_queue_wait_seconds_bucket{{{label},le="+Inf"}} 7' in lines
    assert f"steelyard_queue_wait_seconds_sum{{{label}}} 90.0" in lines
    assert f"steelyard_queue_wait_seconds_count{{{label}}} 7" in lines


def test_quota_is_in_cards_and_what_is_not_known_has_no_sample() -> None:
    label = '{cluster="default",kind="cluster_queue",queue="gpus",flavor="",resource="nvidia.com/gpu"}'
    found = text()
    for name, value in (("nominal", "8.0"), ("used", "2.5"), ("borrowed", "0.0"), ("leaked", "4.0")):
        assert f"steelyard_quota_{name}{label} {value}\n" in found
    assert "steelyard_quota_reserved" not in found
    assert 'steelyard_decisions_total{cluster="default",queue="gpus",verdict="not_now",cause="quota"} 7\n' in found


def test_the_metrics_that_question_6_names_are_those_that_are_printed() -> None:
    known = {("default", "cluster_queue", "gpus", "", "nvidia.com/gpu"): [8_000, 8_000, 2_500, 0, 4_000]}
    of_queues = set(re.findall(r"^# TYPE (\S+)", text(replace(SERIES, quotas=known)), re.MULTILINE)) - set(
        re.findall(r"^# TYPE (\S+)", text(QueueSeries()), re.MULTILINE)
    )
    assert set(entry(6).metrics) == of_queues


@pytest.mark.parametrize("each", ANSWERS, ids=lambda each: each.name)
def test_no_question_names_a_metric_that_is_not_printed(each: Entry) -> None:
    known = {("default", "cluster_queue", "gpus", "", "nvidia.com/gpu"): [8_000, 8_000, 2_500, 0, 4_000]}
    states = {("default", "held_idle", "no_load"): 1_000_000}
    over_use = {("default", "memory", "soft"): (1, 1_000_000)}
    costs = CostSeries({("default", "idle", "USD"): 1}, {("default", "cost", "no price"): 1})
    standing = Standing(
        residual_gpu_us=0,
        coverage=1.0,
        queues=replace(SERIES, quotas=known),
        states=states,
        over_use=over_use,
        costs=costs,
    )
    printed = re.findall(r"^# TYPE (\S+)", exposition(standing, Traffic(), ()).decode(), re.MULTILINE)
    assert set(each.metrics) <= set(printed)


def test_without_queues_there_is_no_family_of_them() -> None:
    assert "queue" not in text(QueueSeries()) and "decisions" not in text(QueueSeries())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say() -> None:
    found = subprocess.run(
        ["promtool", "check", "metrics"], input=text(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
