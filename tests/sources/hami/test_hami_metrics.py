"""Metrics of HAMi's scheduler and monitor: one figure per thing, in its unit, under old and new names."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.unit import Unit
from steelyard.sources.exposition import read_exposition
from steelyard.sources.hami import HAMI_METRICS, read_hami_metrics
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory

CTX = ReadContext(file="scrape.prom")
CARD = "GPU-bbbbbbbb-0000-4000-8000-000000000001"
OLD_POD = f'containeridx="0",deviceuuid="{CARD}",nodename="n1",podname="p",podnamespace="t"'
NEW_POD = f'container_index="0",device_uuid="{CARD}",node="n1",pod="p",namespace="t"'
OLD_USE = f'ctrname="c",deviceuuid="{CARD}",podname="p",podnamespace="t",vdeviceid="0"'
NEW_USE = f'container="c",device_uuid="{CARD}",pod="p",namespace="t",vdevice_index="0"'
GIB8 = 8_589_934_592


def read(text: str, ctx: ReadContext = CTX, memory: RoundMemory | None = None) -> Sequence[Fact]:
    parsed = list(read_exposition(text, ctx))
    points = [each for each in parsed if isinstance(each, MetricPoint)]
    assert len(points) == len([line for line in text.splitlines() if line and not line.startswith("#")])
    tally = MetricTally()
    facts = list(read_hami_metrics(points, LabelResolver(points), ctx, tally, memory))
    assert tally.total == len(points)
    return facts


def partitions(facts: Sequence[Fact]) -> list[PartitionSample]:
    return [fact for fact in facts if isinstance(fact, PartitionSample)]


def codes(facts: Sequence[Fact]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding)]


@pytest.mark.parametrize(
    "text",
    [
        f"vGPUMemoryAllocated{{{OLD_POD}}} {GIB8}\nvGPUCoreAllocated{{{OLD_POD}}} 30\n",
        f"hami_vgpu_memory_allocated_bytes{{{NEW_POD}}} {GIB8}\nhami_vgpu_core_allocated_ratio{{{NEW_POD}}} 30\n",
        f"vGPUPodsDeviceAllocated{{{OLD_POD}}} {GIB8}\nvGPUCorePercentage{{{OLD_POD}}} 30\n",
        f"vGPUMemoryAllocated{{{OLD_POD}}} {GIB8}\nvGPUPodsDeviceAllocated{{{OLD_POD}}} {GIB8}\nvGPUCoreAllocated{{{OLD_POD}}} 30\n",
        f"vGPUMemoryAllocated{{{OLD_POD}}} {GIB8}\nhami_vgpu_memory_allocated_bytes{{{NEW_POD}}} {GIB8}\nvGPUCoreAllocated{{{OLD_POD}}} 30\n",
    ],
)
def test_an_allocation_is_one_figure_under_old_new_and_doubled_names(text: str) -> None:
    [sample] = partitions(read(text))
    assert (sample.origin, sample.namespace, sample.pod, sample.container, sample.node) == (
        "scheduler",
        "t",
        "p",
        None,
        "n1",
    )
    assert (sample.memory_allocated_mib, sample.cores_allocated_percent) == (8_192, 30)
    assert sample.natural_key == f"t/p//{CARD}"


def test_containers_of_one_pod_on_one_card_add_up_and_are_not_named_by_their_index() -> None:
    second = NEW_POD.replace('"0"', '"1"', 1)
    [sample] = partitions(
        read(
            f"hami_vgpu_memory_allocated_bytes{{{NEW_POD}}} {GIB8}\nhami_vgpu_memory_allocated_bytes{{{second}}} {GIB8}\n"
        )
    )
    assert (sample.memory_allocated_mib, sample.container) == (16_384, None)


def test_two_names_that_disagree_are_a_finding_and_the_newer_one_counts() -> None:
    facts = read(f"vGPUMemoryAllocated{{{OLD_POD}}} {GIB8}\nvGPUPodsDeviceAllocated{{{OLD_POD}}} {GIB8 * 2}\n")
    assert partitions(facts)[0].memory_allocated_mib == 8_192
    assert codes(facts) == ["duplicate_names_disagree"]


@pytest.mark.parametrize(
    "text",
    [
        f"vGPU_device_memory_usage_in_bytes{{{OLD_USE}}} {GIB8}\nvGPU_device_memory_limit_in_bytes{{{OLD_USE}}} {GIB8}\n"
        f"Device_utilization_desc_of_container{{{OLD_USE}}} 28\nDevice_last_kernel_of_container{{{OLD_USE}}} 30\n",
        f"hami_vgpu_memory_used_bytes{{{NEW_USE}}} {GIB8}\nhami_vgpu_memory_limit_bytes{{{NEW_USE}}} {GIB8}\n"
        f"hami_container_device_utilization_ratio{{{NEW_USE}}} 28\nhami_container_last_kernel_elapsed_seconds{{{NEW_USE}}} 30\n",
    ],
)
def test_what_the_monitor_enforces_and_counts_is_per_container(text: str) -> None:
    [sample] = partitions(read(text))
    assert (sample.origin, sample.container, sample.memory_limit_mib, sample.memory_counted_mib) == (
        "monitor",
        "c",
        8_192,
        8_192,
    )
    assert (sample.sm_ratio, sample.last_kernel_seconds) == (0.28, 30)


@pytest.mark.parametrize(
    ("percent", "ratio", "found"),
    [
        (0, 0.0, []),
        (100, 1.0, []),
        (104, 1.0, ["utilisation_over_100"]),
        (137, None, ["utilisation_over_100"]),
        ("NaN", None, []),
    ],
)
def test_utilisation_is_percent_of_the_card_and_never_above_it(
    percent: object, ratio: float | None, found: list[str]
) -> None:
    facts = read(f"hami_container_device_utilization_ratio{{{NEW_USE}}} {percent}\n")
    [sample] = partitions(facts)
    assert sample.sm_ratio == ratio
    assert codes(facts) == found
    assert (sample.unknown == "{}") is (ratio is not None)


def test_a_zero_while_kernels_run_is_not_measured() -> None:
    text = f"hami_container_device_utilization_ratio{{{NEW_USE}}} 0\nhami_container_last_kernel_elapsed_seconds{{{NEW_USE}}} {{}}\n"
    fresh, idle = (partitions(read(text.replace("{}", age)))[0] for age in ("1", "940"))
    assert (fresh.sm_ratio, idle.sm_ratio) == (None, 0.0)
    assert "cores" in json.loads(fresh.unknown)["sm_ratio"]


@pytest.mark.parametrize("value", ["1.8446744073707737e+19", "-1", "+Inf"])
def test_an_impossible_amount_is_discarded_and_not_zero(value: str) -> None:
    facts = read(
        f"vGPU_device_memory_usage_in_bytes{{{OLD_USE}}} {value}\nvGPU_device_memory_limit_in_bytes{{{OLD_USE}}} {GIB8}\n"
    )
    [sample] = partitions(facts)
    assert (sample.memory_counted_mib, sample.memory_limit_mib) == (None, 8_192)
    assert "memory_counted_mib" in json.loads(sample.unknown)
    assert "value_above_physical" in codes(facts)


def test_a_limit_of_zero_is_no_limit() -> None:
    [sample] = partitions(read(f"hami_vgpu_memory_limit_bytes{{{NEW_USE}}} 0\n"))
    assert json.loads(sample.unknown) == {"memory_limit_mib": "no limit is set"}


def test_byte_counts_among_the_labels_do_not_multiply_the_series() -> None:
    text = "".join(f'Device_memory_desc_of_container{{{OLD_USE},context="{n}",data="{n}"}} {GIB8}\n' for n in range(3))
    facts = read(text)
    assert partitions(facts)[0].memory_counted_mib == 8_192
    assert codes(facts) == ["counter_typed_level"]


def test_the_hosts_rows_are_samples_of_the_card_as_a_whole() -> None:
    labels = f'deviceidx="0",deviceuuid="{CARD}"'
    facts = read(
        f"HostGPUMemoryUsage{{{labels}}} 25501368320\nHostCoreUtilization{{{labels}}} 91\n", ReadContext(node="n1")
    )
    [sample] = [fact for fact in facts if isinstance(fact, DeviceSample)]
    assert (sample.source, sample.gi, sample.memory_used_mib, sample.util_gpu_ratio) == ("hami", None, 24_320, 0.91)
    assert codes(facts) == []


def test_a_template_suffix_of_the_card_is_cut_off() -> None:
    [sample] = partitions(read(f"vGPUMemoryAllocated{{{OLD_POD.replace(CARD, CARD + '[1-0]')}}} {GIB8}\n"))
    assert sample.device_uuid == CARD


@pytest.mark.parametrize(
    ("limit", "own", "expected"),
    [("65536", None, 65_536.0), ("0", None, math.inf), ("0", 12_000, 12_000.0), ("x", None, None)],
)
def test_a_quota_has_its_use_and_its_limit(limit: str, own: int | None, expected: float | None) -> None:
    text = f'hami_resource_quota_used{{limit="{limit}",namespace="t",quota_name="nvidia.com/gpumem"}} 49152\n'
    if own is not None:
        text += f'hami_resource_quota_limit{{namespace="t",quota_name="nvidia.com/gpumem"}} {own}\n'
    samples = {fact.metric: fact for fact in read(text) if isinstance(fact, MetricSample)}
    assert samples["hami_resource_quota_used"].value == 49_152
    assert samples["hami_resource_quota_used"].family == "queue"
    assert getattr(samples.get("hami_resource_quota_limit"), "value", None) == expected


def test_followers_of_the_scheduler_do_not_double_its_figures() -> None:
    lines = [
        f'{name}{{{NEW_POD.replace("pod=", "exported_pod=")},job="hami",instance="{instance}"}} {value}'
        for instance, rows in (("a", 2), ("b", 1))
        for name, value in [("hami_vgpu_memory_allocated_bytes", GIB8 * rows), ("hami_vgpu_core_allocated_ratio", 30)][
            :rows
        ]
    ]
    [sample] = partitions(read("\n".join(lines) + "\n"))
    assert (sample.memory_allocated_mib, sample.cores_allocated_percent) == (16_384, 30)


def test_a_realised_mig_instance_is_a_unit_with_its_ids() -> None:
    labels = f'{NEW_USE},gpu_instance_id="4",compute_instance_id="0",mig_uuid="MIG-ABC",profile="2g.10gb"'
    memory = RoundMemory()
    first = [fact for fact in read(f"hami_mig_device_info{{{labels}}} 1\n", memory=memory) if isinstance(fact, Unit)]
    assert [(unit.unit_id, unit.device_uuid, unit.gi, unit.ci, unit.profile) for unit in first] == [
        ("MIG-abc", CARD, 4, 0, "2g.10gb")
    ]
    assert not read(f"hami_mig_device_info{{{labels}}} 1\n", memory=memory)
    assert not read(f'nodeGPUMigInstance{{deviceuuid="{CARD}",migname="2g.10gb-0"}} 1\n')


def test_a_row_without_a_card_is_a_finding() -> None:
    assert codes(read('vGPUMemoryAllocated{podname="p"} 5\n')) == ["row_without_device"]


def test_an_unchanged_note_is_said_once() -> None:
    memory = RoundMemory()
    text = f"Device_memory_desc_of_container{{{OLD_USE}}} {GIB8}\n"
    assert [codes(read(text, memory=memory)) for _ in range(2)] == [["counter_typed_level"], []]


LABEL_NAMES = ("device_uuid", "deviceuuid", "pod", "namespace", "container", "container_index", "vdeviceid", "limit")
LABEL_NAMES += ("gpu_instance_id", "mig_uuid", "job", "instance")
LABELS = st.dictionaries(st.sampled_from(LABEL_NAMES), st.text(max_size=6) | st.sampled_from(["0", "GPU-1", "MIG-1"]))
SAMPLES = st.tuples(st.sampled_from(sorted(HAMI_METRICS)), LABELS, st.floats(), st.integers(-5, 5))


@given(st.lists(SAMPLES, max_size=12))
def test_hostile_rows_end_in_facts_findings_or_counts(samples: list[tuple[str, dict[str, str], float, int]]) -> None:
    points = [MetricPoint(name, labels, value, at) for name, labels, value, at in samples]
    tally = MetricTally()
    list(read_hami_metrics(points, LabelResolver(points), CTX, tally))
    assert tally.total == len(points)


# -- the handed case -------------------------------------------------------------------------------------------------------------


def case(shared: Path, name: str) -> Sequence[Fact]:
    return read((shared / "cases" / "hami" / name).read_text(encoding="utf-8"))


def findings_of(shared: Path, name: str) -> list[dict[str, Any]]:
    expected = json.loads((shared / "cases" / "hami" / "expected.json").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = expected["metric_findings"][name]
    return found


def card_of(facts: Sequence[Fact], uuid: str) -> PartitionSample:
    return next(each for each in partitions(facts) if each.device_uuid == uuid and each.pod is None)


def pod_of(facts: Sequence[Fact], pod: str, uuid: str) -> PartitionSample | None:
    return next(
        (each for each in partitions(facts) if (f"{each.namespace}/{each.pod}", each.device_uuid) == (pod, uuid)), None
    )


def quota_of(facts: Sequence[Fact], metric: str, namespace: str, quota: str) -> float | None:
    return next(
        fact.value
        for fact in facts
        if isinstance(fact, MetricSample)
        and fact.metric == metric
        and fact.namespace == namespace
        and json.loads(fact.labels)["quota_name"] == quota
    )


@pytest.mark.parametrize("name", ["scheduler_metrics_v27_legacy.prom", "scheduler_metrics_v210.prom"])
def test_the_exporters_figures_of_the_handed_case_come_through_raw(shared: Path, name: str) -> None:
    facts, checked = case(shared, name), 0
    shared_counts = {
        json.loads(fact.labels)["device_uuid"]: fact.value
        for fact in facts
        if isinstance(fact, MetricSample) and fact.metric == "hami_gpu_shared_count"
    }
    for finding in findings_of(shared, name):
        uuid = finding.get("device_uuid")
        if "exporter_memory_mib" in finding and uuid:
            assert card_of(facts, uuid).memory_allocated_mib == finding["exporter_memory_mib"]
            checked += 1
        if "exporter_cores_percent" in finding and uuid:
            assert card_of(facts, uuid).cores_allocated_percent == finding["exporter_cores_percent"]
            checked += 1
        if "exporter_shared_count" in finding:
            assert shared_counts[uuid] == finding["exporter_shared_count"]
            checked += 1
        if finding["code"] == "ghost_pod":
            ghost = pod_of(facts, finding["pod"], uuid)
            assert ghost is not None
            assert (ghost.memory_allocated_mib, ghost.cores_allocated_percent) == (
                finding["over_reported_memory_mib"],
                finding["over_reported_cores_percent"],
            )
        if finding["code"].startswith("quota_used"):
            used = quota_of(facts, "hami_resource_quota_used", finding["namespace"], finding["quota_name"])
            assert used == finding.get("exporter_mib", finding.get("used_mib"))
            checked += 1
    assert checked >= 4


def test_the_legacy_schedulers_doubled_names_and_its_unlimited_quota_are_told(shared: Path) -> None:
    name = "scheduler_metrics_v27_legacy.prom"
    facts = case(shared, name)
    told = [
        json.loads(fact.evidence)
        for fact in facts
        if isinstance(fact, Finding) and fact.code == "duplicate_metric_names"
    ]
    expected = {finding["code"]: finding for finding in findings_of(shared, name)}
    assert expected["duplicate_metric_names"]["names"] in [each["names"] for each in told]
    unlimited = expected["quota_limit_zero_is_unlimited"]
    assert quota_of(facts, "hami_resource_quota_limit", unlimited["namespace"], unlimited["quota_name"]) == math.inf
    assert (
        quota_of(facts, "hami_resource_quota_used", unlimited["namespace"], unlimited["quota_name"])
        == unlimited["used_percent"]
    )
    assert (
        quota_of(facts, "hami_resource_quota_limit", "team-a", "nvidia.com/gpumem")
        == expected["quota_used_agrees"]["limit_mib"]
    )


def test_the_legacy_monitors_impossible_values_are_told_and_left_out(shared: Path) -> None:
    name = "monitor_metrics_v27_legacy_gpu-b.prom"
    facts = case(shared, name)
    hosts = {fact.device_uuid: fact.memory_used_mib for fact in facts if isinstance(fact, DeviceSample)}
    told = {fact.code: json.loads(fact.evidence) for fact in facts if isinstance(fact, Finding)}
    for finding in findings_of(shared, name):
        if finding["code"] == "utilisation_over_100":
            busy = pod_of(facts, finding["pod"], finding["device_uuid"])
            assert busy is not None
            assert busy.sm_ratio is None
            assert (told["utilisation_over_100"]["raw_percent"], told["utilisation_over_100"]["clamped_percent"]) == (
                finding["raw_percent"],
                finding["clamped_percent"],
            )
        elif finding["code"] == "value_above_physical":
            broken = pod_of(facts, finding["pod"], finding["device_uuid"])
            assert broken is not None
            assert broken.memory_counted_mib is None
            assert told["value_above_physical"]["raw"] == finding["raw_bytes"]
            assert sorted(told["value_above_physical"]["metrics"]) == sorted(finding["metrics"])
            assert told["value_above_physical"]["rejected_samples_count"] == finding["rejected_samples_count"]
        elif finding["code"] == "series_of_finished_pod":
            stale = pod_of(facts, finding["pod"], finding["device_uuid"])
            assert stale is not None
            assert stale.memory_counted_mib == finding["stale_memory_mib"]
        elif finding["code"] == "residual_memory":
            assert hosts[finding["device_uuid"]] == finding["device_used_memory_mib"]
    assert "counter_typed_level" in told


@pytest.mark.parametrize("name", ["monitor_metrics_v210_gpu-f.prom", "monitor_metrics_v210_mig_gpu-d.prom"])
def test_the_new_monitors_figures_come_through(shared: Path, name: str) -> None:
    facts, checked = case(shared, name), 0
    hosts = {fact.device_uuid: fact.memory_used_mib for fact in facts if isinstance(fact, DeviceSample)}
    for finding in findings_of(shared, name):
        if "device_used_memory_mib" in finding:
            assert hosts[finding["device_uuid"]] == finding["device_used_memory_mib"]
            checked += 1
        if finding["code"] == "residual_memory":
            counted = [
                each.memory_counted_mib or 0 for each in partitions(facts) if each.device_uuid == finding["device_uuid"]
            ]
            assert sum(counted) == finding["counted_memory_mib"]
        if finding["code"] in ("components_do_not_add_up", "series_without_node_label"):
            assert finding["code"] in codes(facts)
        if finding["code"] == "mig_without_container_usage":
            assert [unit.gi for unit in facts if isinstance(unit, Unit)] == [finding["join_key"]["gpu_instance_id"]]
    assert checked
