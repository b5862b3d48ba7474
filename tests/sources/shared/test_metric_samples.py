"""Metrics by their current names: spellings, buckets, doubled names, impossible values; and the small parts that readers share."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.instant import HOUR_US
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.gpu_uuid import metric_gpu_uuid
from steelyard.sources.shared.metric_catalogue import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Catalogue, Metric
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_samples import canonical_bound, read_samples
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory

CTX = ReadContext()
CATALOGUE = Catalogue(
    [
        Metric("e:wait_seconds", HISTOGRAM, "engine", ("e:old_wait_seconds",)),
        Metric("e:requests_total", COUNTER, "engine"),
        Metric("e:use_perc", GAUGE, "engine", ("e:gpu_use_perc",), 0.0, 1.05),
        Metric("e:size_us", SUMMARY, "engine"),
        Metric("proxy_rq", COUNTER, "gateway", exact=True),
        Metric("proxy_rq_total", COUNTER, "gateway", exact=True),
    ],
    ("ray_",),
    colon=True,
)


def read(*points: tuple[str, dict[str, str], float]) -> tuple[list[MetricSample], list[Finding], MetricTally]:
    given_points = [MetricPoint(name, labels, value, 7) for name, labels, value in points]
    tally = MetricTally()
    facts: list[Fact] = list(read_samples(given_points, CATALOGUE, LabelResolver(given_points), CTX, "test", tally))
    assert tally.total == len(points)
    samples = [fact for fact in facts if isinstance(fact, MetricSample)]
    return samples, [fact for fact in facts if isinstance(fact, Finding)], tally


@pytest.mark.parametrize(
    ("name", "metric", "kind"),
    [
        ("e:requests_total", "e:requests_total", "counter"),
        ("e:requests", "e:requests_total", "counter"),
        ("ray_e_requests_total", "e:requests_total", "counter"),
        ("ray_e:requests", "e:requests_total", "counter"),
        ("e:gpu_use_perc", "e:use_perc", "gauge"),
        ("e_old_wait_seconds_sum", "e:wait_seconds", "sum"),
        ("e:wait_seconds_count", "e:wait_seconds", "count"),
        ("e:size_us", "e:size_us", "gauge"),
        ("e:size_us_count", "e:size_us", "count"),
        ("proxy_rq", "proxy_rq", "counter"),
        ("proxy_rq_total", "proxy_rq_total", "counter"),
    ],
)
def test_every_spelling_is_the_current_name(name: str, metric: str, kind: str) -> None:
    [sample], findings, _ = read((name, {}, 1.0))
    assert (sample.metric, sample.kind, findings) == (metric, kind, [])


@pytest.mark.parametrize(
    "name", ["e:wait_seconds", "e:wait_seconds_created", "e:requests_total_total", "kserve_e:use_perc", "x"]
)
def test_what_no_spelling_says_is_counted_and_ignored(name: str) -> None:
    samples, findings, tally = read((name, {}, 1.0))
    assert (samples, findings, dict(tally.ignored)) == ([], [], {name: 1})
    finding = tally.finding(CTX, "test")
    assert finding is not None
    assert json.loads(finding.evidence) == {"count": 1, "names": {name: 1}}


def test_the_current_name_counts_where_a_release_exposes_both() -> None:
    points = [("e:gpu_use_perc", {"a": "1"}, 0.5), ("e:use_perc", {"a": "1"}, 0.6), ("e:gpu_use_perc", {"a": "2"}, 0.7)]
    for order in (points, points[::-1]):
        samples, _, tally = read(*order)
        assert {sample.labels: sample.value for sample in samples} == {'{"a":"1"}': 0.6, '{"a":"2"}': 0.7}
        assert (dict(tally.repeated), tally.total, tally.finding(CTX, "test")) == ({"e:gpu_use_perc": 1}, 3, None)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("0.50", "0.5"),
        ("5e-3", "0.005"),
        ("+Inf", "+Inf"),
        ("inf", "+Inf"),
        ("1e3", "1000"),
        ("2560.0", "2560"),
    ],
)
def test_a_bound_has_one_spelling(text: str, bound: str) -> None:
    assert canonical_bound(text) == bound
    [sample], _, _ = read(("e:wait_seconds_bucket", {"le": text}, 1.0))
    assert (sample.le, sample.labels) == (bound, "{}")


@pytest.mark.parametrize("labels", [{}, {"le": "x"}, {"le": "NaN"}, {"le": "1_0"}, {"le": "9" * 100}])
def test_a_bucket_without_a_readable_bound_is_a_finding(labels: dict[str, str]) -> None:
    samples, findings, tally = read(("e:wait_seconds_bucket", labels, 1.0))
    assert (samples, [finding.code for finding in findings]) == ([], ["bucket_bound_unreadable"])
    assert tally.refused.total() == 1


@given(st.floats(allow_nan=False))
def test_a_bound_keeps_its_value(bound: float) -> None:
    written = canonical_bound(repr(bound))
    assert float(written) == bound
    assert canonical_bound(written) == written


@pytest.mark.parametrize(
    ("name", "value", "stored", "code"),
    [
        ("e:use_perc", 0.62, 0.62, None),
        ("e:use_perc", 62, None, "sample_above_physical_limit"),
        ("e:use_perc", -0.1, None, "sample_above_physical_limit"),
        ("e:requests_total", -1, None, "sample_above_physical_limit"),
        ("e:size_us", math.nan, None, None),
        ("e:requests_total", math.inf, math.inf, None),
    ],
)
def test_what_cannot_be_is_not_known(name: str, value: float, stored: float | None, code: str | None) -> None:
    [sample], findings, _ = read((name, {}, value))
    assert sample.value == stored
    assert [finding.code for finding in findings] == ([code] if code else [])


def test_an_engine_is_the_pod_that_was_scraped() -> None:
    way = {"job": "j", "instance": "i", "namespace": "n", "pod": "engine-0"}
    [sample], _, _ = read(("e:use_perc", {"model": "m", **way}, 0.5))
    assert (sample.namespace, sample.pod, json.loads(sample.labels)["model"]) == ("n", "engine-0", "m")
    assert not {"job", "instance"} & json.loads(sample.labels).keys()


def test_two_servers_without_a_pod_stay_two_series() -> None:
    samples, _, _ = read(*(("e:use_perc", {"job": "j", "instance": each}, 0.5) for each in ("a", "b")))
    assert len({sample.natural_key for sample in samples}) == 2


def test_each_bucket_has_a_key_of_its_own() -> None:
    samples, _, _ = read(*(("e:wait_seconds_bucket", {"le": each, "m": "x"}, 1.0) for each in ("1", "2", "+Inf")))
    assert len({sample.natural_key for sample in samples}) == 3
    assert {sample.labels for sample in samples} == {'{"m":"x"}'}


@pytest.mark.parametrize(
    ("text", "uuid"),
    [
        ("GPU-ABC", "GPU-abc"),
        ("gpu-abc", "GPU-abc"),
        ("GPU-abc[1-0]", "GPU-abc"),
        ("DCU-7", "DCU-7"),
        ("", None),
        ("GPU-", None),
        ("a b", None),
        ("x" * 200, None),
        (None, None),
    ],
)
def test_a_card_is_one_whatever_its_spelling(text: str | None, uuid: str | None) -> None:
    assert metric_gpu_uuid(text) == uuid


def test_a_memory_says_what_is_new_and_the_rest_once_an_hour() -> None:
    memory = RoundMemory()
    assert [memory.is_news("k", value, at) for value, at in ((1, 0), (1, 5), (2, 6), (2, 7), (2, 6 + HOUR_US))] == [
        True,
        False,
        True,
        False,
        True,
    ]
    assert [memory.is_news("once", 1, at, once=True) for at in (0, 2 * HOUR_US)] == [True, False]


def test_a_full_memory_repeats_rather_than_forgets_to_say() -> None:
    memory = RoundMemory(entries_max=1)
    assert [memory.is_news(key, 1, 0) for key in ("a", "b", "b", "a")] == [True, True, True, False]


def test_a_tally_is_bounded_in_names_and_not_in_counts() -> None:
    tally = MetricTally()
    for number in range(10_100):
        tally.ignore(f"m{number}")
    assert tally.total == 10_100
    assert len(tally.ignored) == 10_001
