"""Histograms of Kueue with other buckets than documented are a finding, since percentiles reach only up to the top bound."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.metric_sample import MetricSample
from steelyard.ledgers.registry import LEDGERS
from tests.ledgers.queue_facts import posted
from tests.ledgers.wait_facts import at

BOUNDS = [1.0, *(2.5 * 2**power for power in range(20))]


def histogram(metric: str, count: int) -> list[MetricSample]:
    bounds = [*(f"{bound:g}" for bound in BOUNDS[:count]), "+Inf"]
    return [
        MetricSample(
            source="exposition", natural_key=f"{metric}{le}", family="queue", metric=metric, kind="bucket", le=le, value=0.0,
            labels='{"cluster_queue":"q"}', occurred_at=at(60), observed_at=at(60),
        )
        for le in bounds
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "count", "told"),
    [
        ("kueue_quota_reserved_wait_time_seconds", 14, None),
        ("kueue_quota_reserved_wait_time_seconds", 16, 16),
        ("kueue_admission_wait_time_seconds", 14, None),
        ("kueue_admission_wait_time_seconds", 16, None),
        ("kueue_admission_wait_time_seconds", 12, 12),
    ],
)
def test_buckets_other_than_documented_are_told(metric: str, count: int, told: int | None) -> None:
    with posted(histogram(metric, count), ledgers=LEDGERS) as store:
        found = store.rows("SELECT subject, evidence FROM ledger.finding WHERE code = 'bucket_count'")
    assert [(subject, json.loads(text)["buckets_count"]) for subject, text in found] == (
        [] if told is None else [(f"metric {metric}", told)]
    )
