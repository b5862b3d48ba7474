"""Engines and gateways under current names, whatever release and relabelling exposed them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.metric_sample import MetricSample
from steelyard.sources.exposition import read_exposition
from steelyard.sources.inference_server import read_inference_metrics
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally

CTX = ReadContext(file="scrape.prom")


def read(text: str) -> tuple[list[MetricSample], Sequence[Fact], MetricTally]:
    points = [each for each in read_exposition(text, CTX) if isinstance(each, MetricPoint)]
    tally = MetricTally()
    facts = list(read_inference_metrics(points, LabelResolver(points), CTX, tally))
    assert tally.total == len(points)
    return [fact for fact in facts if isinstance(fact, MetricSample)], facts, tally


@pytest.mark.parametrize(
    ("exposed", "metric", "kind", "family"),
    [
        ("vllm:time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds", "sum", "engine"),
        ("ray_vllm_time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds", "sum", "engine"),
        ("kserve_vllm:time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds", "sum", "engine"),
        ("vllm:time_per_output_token_seconds_count", "vllm:inter_token_latency_seconds", "count", "engine"),
        (
            "vllm:request_time_per_output_token_seconds_count",
            "vllm:request_time_per_output_token_seconds",
            "count",
            "engine",
        ),
        ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", "gauge", "engine"),
        ("vllm:gpu_prefix_cache_queries_total", "vllm:prefix_cache_queries_total", "counter", "engine"),
        ("vllm:gpu_prefix_cache_hits", "vllm:prefix_cache_hits_total", "counter", "engine"),
        ("vllm:num_preemptions", "vllm:num_preemptions_total", "counter", "engine"),
        ("sglang:time_per_output_token_seconds_sum", "sglang:inter_token_latency_seconds", "sum", "engine"),
        ("sglang:token_usage", "sglang:token_usage", "gauge", "engine"),
        ("tgi_request_count", "tgi_request_count", "counter", "engine"),
        ("tgi_request_duration_count", "tgi_request_duration", "count", "engine"),
        ("nv_inference_request_summary_us", "nv_inference_request_summary_us", "gauge", "engine"),
        ("nv_inference_request_duration_us", "nv_inference_request_duration_us", "counter", "engine"),
        ("ray_serve_deployment_request_counter", "ray_serve_deployment_request_counter_total", "counter", "engine"),
        ("ray_serve_num_http_requests_total", "ray_serve_num_http_requests_total", "counter", "engine"),
        ("dynamo_frontend_requests_total", "dynamo_frontend_requests_total", "counter", "engine"),
        ("istio_requests_total", "istio_requests_total", "counter", "gateway"),
        ("istio_request_duration_milliseconds_sum", "istio_request_duration_milliseconds", "sum", "gateway"),
        ("envoy_cluster_upstream_rq", "envoy_cluster_upstream_rq", "counter", "gateway"),
        ("envoy_cluster_upstream_rq_total", "envoy_cluster_upstream_rq_total", "counter", "gateway"),
        ("nginx_ingress_controller_requests", "nginx_ingress_controller_requests", "counter", "gateway"),
        ("litellm_proxy_total_requests_metric_total", "litellm_proxy_total_requests_metric", "counter", "gateway"),
    ],
)
def test_a_metric_has_one_name_for_all_releases_and_relabellings(
    exposed: str, metric: str, kind: str, family: str
) -> None:
    [sample], _, _ = read(f'{exposed}{{model_name="m"}} 0.5\n')
    assert (sample.metric, sample.kind, sample.family, sample.value) == (metric, kind, family, 0.5)


def test_a_target_of_one_second_is_the_same_bucket_in_all_engines() -> None:
    samples, _, _ = read(
        'vllm:time_to_first_token_seconds_bucket{le="1.0"} 5\nsglang:time_to_first_token_seconds_bucket{le="1"} 6\n'
    )
    assert [sample.le for sample in samples] == ["1", "1"]


def test_cache_use_that_is_percent_is_not_read_as_a_ratio() -> None:
    [sample], facts, _ = read("vllm:kv_cache_usage_perc 62\n")
    assert sample.value is None
    assert [fact.code for fact in facts if isinstance(fact, Finding)] == ["sample_above_physical_limit"]


def test_a_quantile_of_nothing_is_not_known() -> None:
    samples, facts, _ = read(
        'nv_inference_request_summary_us{quantile="0.50"} NaN\nnv_inference_request_summary_us{quantile="0.9"} 5\n'
    )
    assert [(json.loads(sample.labels)["quantile"], sample.value) for sample in samples] == [
        ("0.5", None),
        ("0.9", 5.0),
    ]
    assert not [fact for fact in facts if isinstance(fact, Finding)]


def test_what_is_no_service_metric_is_counted_and_ignored() -> None:
    samples, _, tally = read("python_gc_objects_collected_total 5\nvllm:request_success_created 1.7e9\n")
    assert samples == []
    assert dict(tally.ignored) == {"python_gc_objects_collected_total": 1, "vllm:request_success_created": 1}


@pytest.mark.parametrize(
    "name", ["dynamo", "ray_serve", "sglang", "tgi", "triton", "vllm_v0.11plus_style", "vllm_v0.8_style"]
)
def test_every_line_of_the_handed_engine_cases_is_a_fact(shared: Path, name: str) -> None:
    text = (shared / "cases" / "bench" / "engine-metrics" / f"{name}.prom").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    samples, facts, tally = read(text)
    assert (len(samples), tally.ignored.total(), tally.refused.total()) == (len(lines), 0, 0)
    assert len(facts) == len(samples)
    assert sum(sample.value or 0 for sample in samples) == pytest.approx(
        sum(float(line.rsplit(" ", 1)[1]) for line in lines)
    )


def test_both_releases_of_vllm_tell_the_same(shared: Path) -> None:
    folder = shared / "cases" / "bench" / "engine-metrics"
    old, new = (
        {
            (fact.natural_key, fact.kind): fact.value
            for fact in read((folder / f"vllm_{name}_style.prom").read_text(encoding="utf-8"))[0]
        }
        for name in ("v0.8", "v0.11plus")
    )
    assert old.items() <= new.items()
