"""One table says who reads a metric; an imported text, and every handed one, goes through it without a lost line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from steelyard.app.metric_readers import metric_names, read_metrics_text, read_points, reader_of
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.sources.exposition import SeriesCache
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory
from steelyard.store import Store
from tests.app.import_samples import import_files

CTX = ReadContext(file="scrape.prom")
SAID_OTHERWISE = {
    # the same figure under another name
    "vGPUPodsDeviceAllocated", "vGPUCorePercentage", "nodeGPUOverview", "Device_memory_desc_of_container", "hami_container_device_memory_bytes",
    # derived of figures that are read
    "vGPUMemoryPercentage", "nodeGPUMemoryPercentage", "hami_node_gpu_memory_allocated_ratio",
    # a follower's copy of the leader's series
    "kueue_pending_workloads",
    # measure another span than they say
    "volcano_e2e_job_scheduling_duration", "volcano_e2e_job_scheduling_latency_milliseconds_bucket",
    "volcano_e2e_job_scheduling_latency_milliseconds_sum", "volcano_e2e_job_scheduling_latency_milliseconds_count",
    # fields without a column
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_VGPU_LICENSE_STATUS", "DCGM_FI_DEV_MEMORY_TEMP",
}  # fmt: skip
MIXED = """\
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 50
vGPUMemoryAllocated{deviceuuid="GPU-1",podname="p",podnamespace="t"} 1048576
kueue_pending_workloads{cluster_queue="q",status="active"} 3
vllm:num_requests_running{model_name="m"} 2
go_goroutines 7
go_goroutines{x="1"} 7
"""


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", "dcgm"),
        ("DCGM_FI_DEV_SOMETHING_NEW", "dcgm"),
        ("DCGM_EXP_XID_ERRORS_COUNT", "dcgm"),
        ("dcgm_fi_prof_gr_engine_active", "dcgm"),
        ("HostCoreUtilization", "hami"),
        ("hami_build_info", "hami"),
        ("kueue_pending_workloads", "queue_metrics"),
        ("volcano_queue_share", "queue_metrics"),
        ("scheduler_pending_pods", "queue_metrics"),
        ("ray_vllm_num_requests_running", "inference_server"),
        ("istio_requests_total", "inference_server"),
        ("steelyard_gpu_power_watts", "agent_metrics"),
        ("steelyard_agent_spool_bytes", "agent_metrics"),
        ("steelyard_agents_known", None),
        ("up", None),
        ("", None),
    ],
)
def test_a_metric_goes_to_one_reader(name: str, reader: str | None) -> None:
    assert reader_of(name) == reader


def test_every_name_that_is_asked_for_has_a_reader() -> None:
    readers = {"dcgm", "hami", "queue_metrics", "inference_server", "agent_metrics"}
    assert {reader_of(name) for name in metric_names()} == readers
    assert "DCGM_FI_DEV_GPU_UTIL" in metric_names()
    assert {reader_of(name) for name in metric_names(host=True)} == readers | {"host_metrics"}


def test_a_mixed_text_is_read_by_all_of_them_and_the_rest_is_counted() -> None:
    tally = MetricTally()
    facts = list(read_metrics_text(MIXED, CTX, tally=tally))
    assert [fact.util_gpu_ratio for fact in facts if isinstance(fact, DeviceSample)] == [0.5]
    assert [fact.memory_allocated_mib for fact in facts if isinstance(fact, PartitionSample)] == [1]
    assert {fact.metric for fact in facts if isinstance(fact, MetricSample)} == {
        "kueue_pending_workloads",
        "vllm:num_requests_running",
    }
    [finding] = [fact for fact in facts if isinstance(fact, Finding) and fact.code == "metrics_ignored"]
    assert json.loads(finding.evidence) == {"count": 2, "names": {"go_goroutines": 2}}
    assert tally.total == 6


def test_a_later_round_says_what_changes_and_not_what_stays() -> None:
    cache, memory = SeriesCache(), RoundMemory()
    ctx = ReadContext(observed_at=0)
    first, second = (
        Counter(type(fact).__name__ for fact in read_metrics_text(MIXED, ctx, cache, memory)) for _ in range(2)
    )
    assert (first["DeviceSample"], first["Device"], first["Finding"]) == (1, 1, 2)
    assert (second["DeviceSample"], second["Device"], second["Finding"]) == (1, 0, 0)


def test_equal_points_of_two_ways_are_equal_facts() -> None:
    own = {"gpu": "0", "UUID": "GPU-1", "pod": "train", "namespace": "t", "container": "c"}
    hidden = {f"exported_{name}": own[name] for name in ("pod", "namespace", "container")}
    way = {"job": "j", "instance": "i", "pod": "dcgm-exporter-1", "namespace": "m", "container": "exporter", **hidden}
    direct = [MetricPoint("DCGM_FI_DEV_GPU_UTIL", own, 5.0, 7)]
    asked = [MetricPoint("DCGM_FI_DEV_GPU_UTIL", {**own, **way}, 5.0, 7)]
    assert list(read_points(direct, CTX)) == list(read_points(asked, CTX))


def test_a_stamp_that_is_no_time_is_a_finding() -> None:
    points = [MetricPoint(name, {"UUID": "GPU-1"}, 5.0, 2**62) for name in ("DCGM_FI_DEV_GPU_UTIL", "up")]
    facts = list(read_points(points, CTX))
    assert [fact.code for fact in facts if isinstance(fact, Finding)] == ["stamp_out_of_range", "metrics_ignored"]
    assert len(facts) == 2


def test_every_line_of_every_handed_text_is_used_ignored_or_refused(shared: Path) -> None:
    texts = sorted((shared / "cases").rglob("*.prom"))
    assert len(texts) >= 15
    for path in texts:
        text = path.read_text(encoding="utf-8")
        tally = MetricTally()
        facts = list(read_metrics_text(text, ReadContext(file=path.name), tally=tally))
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert tally.total == len(lines), path.name
        assert set(tally.ignored) <= SAID_OTHERWISE, path.name
        assert set(tally.refused) <= {"DCGM_FI_DEV_XID_ERRORS"}, path.name
        assert not [fact for fact in facts if isinstance(fact, Finding) and fact.code == "source_malformed"], path.name


def test_an_import_reads_metrics_text_and_keeps_its_bad_lines_as_findings(tmp_path: Path) -> None:
    (tmp_path / "node.prom").write_text(MIXED + "broken{ 1\n", encoding="utf-8")
    report = import_files(tmp_path / "data", tmp_path / "node.prom", node="n1")
    [file] = report.files
    assert (file.kind, file.status, file.refused_count) == ("metrics_text", "imported", 1)
    with Store.open(tmp_path / "data", read_only=True) as store:
        assert store.rows("SELECT util_gpu_ratio FROM fact.device_sample") == [(0.5,)]
        assert store.rows("SELECT node FROM fact.device") == [("n1",)]
        assert store.rows("SELECT line, excerpt FROM fact.finding WHERE code = 'source_malformed'") == [
            (7, "broken{ 1")
        ]
    again = import_files(tmp_path / "data", tmp_path / "node.prom", node="n1")
    assert [each.new_count for each in again.files] == [0]
