"""Which family a metric's name belongs to: the words by which the doctor says what an endpoint or a Prometheus has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

ENGINES: Final = frozenset({"vllm", "sglang", "tgi", "triton", "ray_serve", "dynamo"})
GATEWAYS: Final = frozenset({"envoy", "istio", "ingress_nginx", "litellm"})
DCGM: Final = "dcgm"

_STEMS: Final = {
    "kueue_": "kueue",
    "volcano_": "volcano",
    "scheduler_": "kube_scheduler",
    "vllm": "vllm",
    "sglang": "sglang",
    "tgi_": "tgi",
    "nv_inference_": "triton",
    "ray_serve_": "ray_serve",
    "dynamo_": "dynamo",
    "envoy_": "envoy",
    "istio_": "istio",
    "nginx_ingress_controller_": "ingress_nginx",
    "litellm_": "litellm",
}
_PREFIXES: Final = ("ray_", "kserve_")


@lru_cache(maxsize=20_000)
def family_of(name: str) -> str | None:
    """The family; None for a metric that nobody reads. HAMi's names tell the scheduler's from the monitor's."""
    from steelyard.app.metric_readers import DCGM as DCGM_READER
    from steelyard.app.metric_readers import reader_of
    from steelyard.sources.hami.metric_names import NAMES
    from steelyard.sources.kube_state_metrics.names import POD_METRICS

    meaning = NAMES.get(name)
    if meaning is not None:
        return f"hami_{meaning.origin}"
    if name in POD_METRICS:
        return "kube_state_metrics"
    reader = reader_of(name)
    if reader is None or reader == DCGM_READER:
        return DCGM if reader else None
    return next((word for stem, word in _STEMS.items() if name.startswith(stem)), None) or _behind_a_prefix(name)


def families_of(names: Iterable[str]) -> frozenset[str]:
    """The families of many names."""
    return frozenset(family for name in names if (family := family_of(name)) is not None)


def _behind_a_prefix(name: str) -> str | None:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            rest = name[len(prefix) :]
            return next((word for stem, word in _STEMS.items() if rest.startswith(stem)), None)
    return None
