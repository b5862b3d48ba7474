"""What a real Prometheus scraped and is asked for gives the facts that the same text gives when it is scraped directly."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from steelyard.app.metric_readers import read_points
from steelyard.app.prometheus_round import asked_names, read_prometheus
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.partition_sample import PartitionSample
from steelyard.primitives.instant import AT_OBSERVATION, HOUR_US, SECOND_US, Instant, Window
from steelyard.sources.exposition import read_exposition
from steelyard.sources.prometheus import PrometheusApi, PrometheusEndpoint
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from tests.sources.prometheus.real_prometheus import JOB, Exporters, exporters, prometheus

RECORDED = (
    "hami/monitor_metrics_v210_gpu-f.prom",
    "hami/monitor_metrics_v210_mig_gpu-d.prom",
    "hami/monitor_metrics_v27_legacy_gpu-b.prom",
    "hami/scheduler_metrics_v210.prom",
    "hami/scheduler_metrics_v27_legacy.prom",
    "queues/kueue-metrics-v0.19.prom",
    "queues/volcano-metrics.prom",
    "smi/dcgm_issue_lines.prom",
    "bench/engine-metrics/dynamo.prom",
    "bench/engine-metrics/ray_serve.prom",
    "bench/engine-metrics/sglang.prom",
    "bench/engine-metrics/tgi.prom",
    "bench/engine-metrics/triton.prom",
    "bench/engine-metrics/vllm_v0.11plus_style.prom",
    "bench/engine-metrics/vllm_v0.8_style.prom",
)
CARD = 'gpu="0",UUID="GPU-{card}",device="nvidia0",modelName="NVIDIA H100",hostname="n1"'
HELD = CARD.format(card="aaaa") + ',container="train",namespace="team-a",pod="job-0"'
FREE = CARD.format(card="bbbb").replace('gpu="0"', 'gpu="1"')
DCGM_TEXT = "".join(
    f"{name}{{{labels}}} {value}\n"
    for labels, value in ((HELD, 40), (FREE, 0))
    for name in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED")
).encode()
OPERATOR = {
    "namespace": "gpu-operator", "pod": "node-agent-x7k2p", "container": "exporter-main", "endpoint": "metrics", "service": "gpu-metrics",
}  # fmt: skip


def now() -> Instant:
    return time.time_ns() // 1_000


def until(end: Instant) -> Window:
    return Window(end - HOUR_US, end)


def context(at: Instant = AT_OBSERVATION) -> ReadContext:
    return ReadContext(observed_at=at)


def comparable(facts: Iterable[Fact], instance: str) -> list[str]:
    """Facts without source, observed_at, job and instance, which tell the way; and without the count of what is not read, because a
    Prometheus is asked for nothing else. Everything else stays, the instant too (a finding's is the round's, so it goes with observed_at)."""
    rows = []
    for fact in facts:
        if isinstance(fact, Finding) and fact.code == "metrics_ignored":
            continue
        dropped = {"source", "observed_at", *(("occurred_at",) if isinstance(fact, Finding) else ())}
        row = {name: value for name, value in _builtins(fact).items() if name not in dropped}
        text = msgspec.json.encode([type(fact).__name__, row], order="sorted").decode()
        for quoted in (f'\\"instance\\":\\"{instance}\\"', f'\\\\\\"instance\\\\\\":\\\\\\"{instance}\\\\\\"'):
            text = text.replace(f"{quoted},", "").replace(f",{quoted}", "").replace(quoted, "")
        rows.append(text.replace(f"{JOB}/{instance}", "direct"))
    return sorted(rows)


def _builtins(fact: Fact) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(fact)
    return found


def scraped_directly(text: bytes, at: Instant) -> Iterator[Fact]:
    """The facts of the text, scraped at that instant."""
    ctx = context(at)
    points: list[MetricPoint] = []
    for each in read_exposition(text, ctx):
        if isinstance(each, Finding):
            yield each
        else:
            points.append(each)
    for fact in read_points(points, ctx):
        yield msgspec.structs.replace(fact, occurred_at=at) if fact.occurred_at == AT_OBSERVATION else fact


@pytest.fixture(scope="module")
def recorded(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Exporters, dict[str, list[MetricPoint]], list[Finding]]]:
    """The recorded texts, and what a Prometheus that scraped them says: points by address, and findings."""
    texts = {name: (shared / "cases" / name).read_bytes() for name in RECORDED}
    with exporters(texts) as site, prometheus(tmp_path_factory.mktemp("prometheus"), site) as url:
        end = site.await_scrapes()
        by_address: dict[str, list[MetricPoint]] = {}
        findings = []
        with PrometheusApi(PrometheusEndpoint(url)) as api:
            window = until(end)
            for each in api.latest(asked_names(api, window), window, context()):
                if isinstance(each, Finding):
                    findings.append(each)
                else:
                    by_address.setdefault(each.labels["instance"], []).append(each)
        yield site, by_address, findings


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_text_gives_the_same_facts_through_a_real_prometheus_and_by_direct_scrape(
    recorded: tuple[Exporters, dict[str, list[MetricPoint]], list[Finding]], name: str
) -> None:
    site, by_address, findings = recorded
    points = by_address[site.address(name)]
    (at,) = {point.at for point in points}
    through = comparable(read_points(points, context(now())), site.address(name))
    directly = comparable(scraped_directly(site.texts[name], at), site.address(name))
    assert through == directly
    assert len(through) > 1
    assert findings == []


def test_target_labels_that_hide_the_tenant_change_nothing(tmp_path: Path) -> None:
    with exporters({"dcgm": DCGM_TEXT}) as site:
        hiding = {"static_configs": [{"targets": [site.address("dcgm")], "labels": OPERATOR}]}
        with prometheus(tmp_path, site, more=hiding) as url, PrometheusApi(PrometheusEndpoint(url)) as api:
            facts = list(read_prometheus(api, until(site.await_scrapes()), context(now())))
    instants = {fact.occurred_at for fact in facts if isinstance(fact, DeviceSample)}
    assert len(instants) == 1
    through = comparable(facts, site.address("dcgm"))
    assert through == comparable(scraped_directly(DCGM_TEXT, instants.pop()), site.address("dcgm"))
    assert [fact.pod for fact in facts if isinstance(fact, PartitionSample)] == ["job-0"]


def test_a_series_that_ended_is_not_carried_on(tmp_path: Path) -> None:
    texts = {"dcgm": DCGM_TEXT}
    with (
        exporters(texts) as site,
        prometheus(tmp_path, site) as url,
        PrometheusApi(PrometheusEndpoint(url)) as api,
    ):
        site.await_scrapes()
        texts["dcgm"] = b"".join(line + b"\n" for line in DCGM_TEXT.splitlines() if b"GPU-aaaa" in line)
        end = site.await_scrapes(4)
        points = [
            each
            for each in api.points(["DCGM_FI_DEV_GPU_UTIL"], until(end), context())
            if isinstance(each, MetricPoint)
        ]
        last = max(point.at for point in points)
        ended = max(point.at for point in points if point.labels["UUID"] == "GPU-bbbb")
        facts = list(read_prometheus(api, Window(ended + 1, last + 1), context(now())))
    assert ended < last
    assert {fact.device_uuid for fact in facts if isinstance(fact, DeviceSample)} == {"GPU-aaaa"}


def test_every_sample_of_a_window_comes_with_its_own_stamp_and_windows_side_by_side_share_none(tmp_path: Path) -> None:
    with (
        exporters({"dcgm": DCGM_TEXT}) as site,
        prometheus(tmp_path, site) as url,
        PrometheusApi(PrometheusEndpoint(url)) as api,
    ):
        whole = until(site.await_scrapes(5))
        found = [
            each.at for each in api.points(["DCGM_FI_DEV_FB_USED"], whole, context()) if isinstance(each, MetricPoint)
        ]
        middle = sorted(found)[len(found) // 2]  # a sample stands exactly on the border
        parts = [
            [each.at for each in api.points(["DCGM_FI_DEV_FB_USED"], part, context()) if isinstance(each, MetricPoint)]
            for part in (Window(whole.start, middle), Window(middle, whole.end))
        ]
        minutes = list(
            api.minutes(
                ["DCGM_FI_DEV_GPU_UTIL"],
                ["DCGM_FI_DEV_FB_USED"],
                Window(middle, middle + SECOND_US),
                context(),
                SECOND_US,
            )
        )
    assert len(set(found)) >= 3
    assert sorted(parts[0] + parts[1]) == sorted(found)
    assert min(parts[1]) == middle
    # of the second that begins with a sample, its mean and its last are that sample
    assert sorted((each.name, each.value, each.at) for each in minutes if isinstance(each, MetricPoint)) == [
        ("DCGM_FI_DEV_FB_USED", 0.0, middle),
        ("DCGM_FI_DEV_FB_USED", 40.0, middle),
        ("DCGM_FI_DEV_GPU_UTIL", 0.0, middle),
        ("DCGM_FI_DEV_GPU_UTIL", 40.0, middle),
    ]


class _Names:
    """A Prometheus that has a metric of cAdvisor."""

    def __init__(self, known: list[str] | None) -> None:
        self._known = known

    def names(self, window: Window) -> list[str] | None:
        return self._known


@pytest.mark.parametrize("known", [None, ["DCGM_FI_DEV_GPU_UTIL", "container_cpu_cfs_periods_total", "up"]])
@pytest.mark.parametrize("host", [True, False])
def test_what_every_container_has_is_asked_for_only_where_somebody_wants_it(
    known: list[str] | None, host: bool
) -> None:
    asked = asked_names(cast(PrometheusApi, _Names(known)), Window(0, 1), host=host)
    assert ("container_cpu_cfs_periods_total" in asked) == host
    assert "DCGM_FI_DEV_GPU_UTIL" in asked and "up" not in asked
