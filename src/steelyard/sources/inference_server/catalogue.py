"""Which metrics of inference engines and gateways are read, under their current names.

Engines: vLLM (also through Ray and KServe, which put prefixes in front), SGLang, TGI, Triton, Ray Serve, Dynamo. Gateways: Envoy, Istio,
ingress-nginx, LiteLLM. Two names are two metrics where the figure differs: ``inter_token_latency`` weighs tokens, ``time_per_output_token``
of vLLM's requests weighs requests; only the old per-gap metric of that name is the former spelling of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.sources.shared.metric_catalogue import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Catalogue, Metric

ENGINE: Final = "engine"
GATEWAY: Final = "gateway"
RATIO_SLACK: Final = 1.05
PREFIXES: Final = ("ray_", "kserve_")

Names = Mapping[str, Sequence[str]]
"""Current name -> former names."""

_VLLM_HISTOGRAMS: Final[Names] = {
    "time_to_first_token_seconds": (),
    "inter_token_latency_seconds": ("time_per_output_token_seconds",),
    "request_time_per_output_token_seconds": (),
    "e2e_request_latency_seconds": (),
    "request_queue_time_seconds": (),
    "request_prefill_time_seconds": (),
    "request_decode_time_seconds": (),
    "request_inference_time_seconds": (),
    "request_prompt_tokens": (),
    "request_generation_tokens": (),
}
_VLLM_COUNTERS: Final[Names] = {
    "prefix_cache_queries_total": ("gpu_prefix_cache_queries_total",),
    "prefix_cache_hits_total": ("gpu_prefix_cache_hits_total",),
    "num_preemptions_total": (),
    "prompt_tokens_total": (),
    "generation_tokens_total": (),
    "request_success_total": (),
    "spec_decode_num_drafts_total": (),
    "spec_decode_num_draft_tokens_total": (),
    "spec_decode_num_accepted_tokens_total": (),
}
_SGLANG_HISTOGRAMS: Final[Names] = {
    "time_to_first_token_seconds": (),
    "inter_token_latency_seconds": ("time_per_output_token_seconds",),
    "e2e_request_latency_seconds": (),
    "queue_time_seconds": (),
    "num_retractions": (),
}
_SGLANG_COUNTERS: Final = (
    "prompt_tokens_total", "generation_tokens_total", "cached_tokens_total", "num_requests_total", "num_aborted_requests_total",
)  # fmt: skip
_SGLANG_GAUGES: Final = (
    "num_running_reqs", "num_queue_reqs", "num_used_tokens", "max_total_num_tokens", "gen_throughput", "num_retracted_reqs",
)  # fmt: skip
_TGI_COUNTERS: Final = ("request_count", "request_success", "request_failure")
_TGI_HISTOGRAMS: Final = (
    "request_duration", "request_queue_duration", "request_inference_duration", "request_validation_duration",
    "request_mean_time_per_token_duration", "request_generated_tokens", "request_input_length",
)  # fmt: skip
_TRITON_COUNTERS: Final = (
    "request_success", "request_failure", "count", "exec_count", "request_duration_us", "queue_duration_us",
    "compute_input_duration_us", "compute_infer_duration_us", "compute_output_duration_us",
)  # fmt: skip
_DYNAMO_GAUGES: Final = (
    "inflight_requests", "queued_requests", "model_total_kv_blocks", "model_max_num_seqs", "model_workers", "model_context_length",
    "model_kv_cache_block_size",
)  # fmt: skip
_DYNAMO_HISTOGRAMS: Final = (
    "time_to_first_token_seconds", "inter_token_latency_seconds", "request_duration_seconds", "input_sequence_tokens",
    "output_sequence_tokens",
)  # fmt: skip
_ENVOY_COUNTERS: Final = (
    "cluster_upstream_rq", "cluster_upstream_rq_total", "cluster_upstream_rq_xx", "cluster_upstream_rq_completed",
    "cluster_upstream_rq_timeout", "cluster_upstream_rq_retry", "cluster_upstream_rq_pending_overflow", "http_downstream_rq_total",
    "http_downstream_rq_xx", "http_downstream_rq_completed", "http_downstream_rq_timeout",
)  # fmt: skip
_ENVOY_HISTOGRAMS: Final = ("cluster_upstream_rq_time", "http_downstream_rq_time")
_NGINX_HISTOGRAMS: Final = (
    "request_duration_seconds", "response_duration_seconds", "connect_duration_seconds", "header_duration_seconds", "request_size",
    "response_size",
)  # fmt: skip
_LITELLM_COUNTERS: Final = (
    "proxy_total_requests_metric", "proxy_failed_requests_metric", "requests_metric", "total_tokens_metric", "input_tokens_metric",
    "output_tokens_metric", "deployment_total_requests", "deployment_success_responses", "deployment_failure_responses",
)  # fmt: skip
_LITELLM_HISTOGRAMS: Final = (
    "request_total_latency_metric",
    "llm_api_latency_metric",
    "llm_api_time_to_first_token_metric",
)


def _many(stem: str, names: Names | Sequence[str], kind: str, family: str = ENGINE) -> list[Metric]:
    former = names if isinstance(names, Mapping) else dict.fromkeys(names, ())
    return [Metric(stem + name, kind, family, [stem + old for old in others]) for name, others in former.items()]


def _ratio(name: str, *former: str) -> Metric:
    return Metric(name, GAUGE, ENGINE, former, 0.0, RATIO_SLACK)


def _prefixed() -> list[Metric]:
    """Engines whose names have a colon, and come through Ray and KServe too."""
    return [
        *_many("vllm:", _VLLM_HISTOGRAMS, HISTOGRAM),
        *_many("vllm:", _VLLM_COUNTERS, COUNTER),
        *_many(
            "vllm:",
            ("num_requests_running", "num_requests_waiting", "num_requests_swapped", "cache_config_info"),
            GAUGE,
        ),
        _ratio("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        *_many("sglang:", _SGLANG_HISTOGRAMS, HISTOGRAM),
        *_many("sglang:", _SGLANG_COUNTERS, COUNTER),
        *_many("sglang:", _SGLANG_GAUGES, GAUGE),
        _ratio("sglang:token_usage"),
        _ratio("sglang:cache_hit_rate"),
    ]


def _plain() -> list[Metric]:
    return [
        *_many("tgi_", ("queue_size", "batch_current_size"), GAUGE),
        *_many("tgi_", _TGI_COUNTERS, COUNTER),
        *_many("tgi_", _TGI_HISTOGRAMS, HISTOGRAM),
        *_many("nv_inference_", _TRITON_COUNTERS, COUNTER),
        *_many("nv_inference_", ("pending_request_count",), GAUGE),
        *_many("nv_inference_", ("request_summary_us",), SUMMARY),
        *_many("nv_inference_", ("first_response_histogram_ms",), HISTOGRAM),
        *_many("ray_serve_", ("deployment_request_counter_total", "deployment_error_counter_total"), COUNTER),
        *_many("ray_serve_", ("num_http_requests_total", "num_http_error_requests_total"), COUNTER),
        *_many("ray_serve_", ("deployment_queued_queries", "replica_processing_queries"), GAUGE),
        *_many("ray_serve_", ("deployment_processing_latency_ms", "http_request_latency_ms"), HISTOGRAM),
        *_many("dynamo_frontend_", _DYNAMO_GAUGES, GAUGE),
        *_many("dynamo_frontend_", ("requests_total",), COUNTER),
        *_many("dynamo_frontend_", _DYNAMO_HISTOGRAMS, HISTOGRAM),
        _ratio("dynamo_component_kvstats_gpu_cache_usage_percent"),
        _ratio("dynamo_component_kvstats_gpu_prefix_cache_hit_rate"),
    ]


def _gateways() -> list[Metric]:
    return [
        *(Metric(f"envoy_{name}", COUNTER, GATEWAY, exact=True) for name in _ENVOY_COUNTERS),
        Metric("envoy_cluster_upstream_rq_active", GAUGE, GATEWAY),
        Metric("envoy_http_downstream_rq_active", GAUGE, GATEWAY),
        *_many("envoy_", _ENVOY_HISTOGRAMS, HISTOGRAM, GATEWAY),
        Metric("istio_requests_total", COUNTER, GATEWAY),
        *_many("istio_", ("request_duration_milliseconds", "request_bytes", "response_bytes"), HISTOGRAM, GATEWAY),
        Metric("nginx_ingress_controller_requests", COUNTER, GATEWAY),
        *_many("nginx_ingress_controller_", _NGINX_HISTOGRAMS, HISTOGRAM, GATEWAY),
        *_many("litellm_", _LITELLM_COUNTERS, COUNTER, GATEWAY),
        *_many("litellm_", _LITELLM_HISTOGRAMS, HISTOGRAM, GATEWAY),
    ]


INFERENCE_METRICS: Final = Catalogue(_prefixed(), PREFIXES, colon=True, base=Catalogue([*_plain(), *_gateways()]))
