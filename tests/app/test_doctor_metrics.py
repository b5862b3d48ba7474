"""What the labels and names of metrics show of exporters: recorded text, and the troubles of the field made small."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.app.doctor.metric_families import family_of
from steelyard.app.doctor.metric_survey import SUMMED_UP, MetricSurvey, survey_points
from steelyard.app.doctor.survey import MetricsSeen
from steelyard.sources.exposition import read_exposition
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_points import MetricPoint

A, B = "GPU-aaaaaaaa-0000-4000-8000-000000000001", "GPU-bbbbbbbb-0000-4000-8000-000000000002"
OPERATOR = 'job="nvidia-dcgm-exporter",instance="10.0.0.1:9400",namespace="gpu-operator",pod="nvidia-dcgm-exporter-x7k2p",endpoint="m",service="s"'


def points(text: str, **labels: str) -> list[MetricPoint]:
    found = [each for each in read_exposition(text, ReadContext()) if isinstance(each, MetricPoint)]
    return [MetricPoint(each.name, {**labels, **each.labels}, each.value, each.at) for each in found]


def seen(*texts: str) -> MetricsSeen:
    return survey_points([point for text in texts for point in points(text)])


def row(number_name: str, uuid: str, value: float, more: str) -> str:
    return f'DCGM_FI_{number_name}{{gpu="0",UUID="{uuid}",device="nvidia0",hostname="n1",{more}}} {value}\n'


def test_fields_are_known_by_number_whatever_they_are_called() -> None:
    old = seen(row("PROF_SM_ACTIVE", A, 0.5, 'instance="a"'), row("DEV_POWER_USAGE", A, 70, 'instance="a"'))
    new = seen(row("PROF_SM_UTIL_RATIO", A, 0.5, 'instance="a"'), row("DEV_BOARD_POWER_WATTS", A, 70, 'instance="a"'))
    assert old.fields == new.fields == {1002, 155}
    assert [each.current_names for each in (*old.exporters, *new.exporters)] == [False, True]


def test_a_name_that_never_changed_tells_no_spelling() -> None:
    assert not seen(row("DEV_FB_USED", A, 5, 'instance="a"')).exporters[0].current_names


def test_a_tenant_hidden_behind_the_exporters_own_pod_is_seen() -> None:
    (hidden,) = seen(row("DEV_GPU_UTIL", A, 80, OPERATOR)).exporters
    assert (hidden.working, hidden.named, hidden.shadowed) == (1, 0, 1)
    (shown,) = seen(row("DEV_GPU_UTIL", A, 80, f'{OPERATOR},exported_pod="train-0",exported_namespace="t"')).exporters
    assert (shown.working, shown.named, shown.shadowed) == (1, 1, 0)
    (free,) = seen(row("DEV_GPU_UTIL", A, 0, OPERATOR)).exporters
    assert (free.working, free.shadowed) == (0, 0)
    (honoured,) = seen(row("DEV_GPU_UTIL", A, 80, 'job="x",instance="i",pod="train-0",namespace="t"')).exporters
    assert (honoured.working, honoured.named) == (1, 1)


def test_cards_at_work_without_a_pod_are_counted() -> None:
    (found,) = seen(
        row("DEV_GPU_UTIL", A, 80, 'instance="a"'), row("DEV_GPU_UTIL", B, 80, 'instance="a",pod="p",namespace="t"')
    ).exporters
    assert (found.working, found.named, found.shadowed) == (2, 1, 0)


def test_two_exporters_of_one_card_are_a_pair() -> None:
    both = [row("DEV_FB_USED", uuid, 5, f'instance="{name}"') for name in ("x:1", "y:1") for uuid in (A, B)]
    assert seen(*both, row("DEV_FB_USED", A, 5, 'instance="z:1"')).doubled == (("x:1", "y:1", 2), ("x:1", "z:1", 1))
    assert seen(row("DEV_FB_USED", A, 5, 'instance="x:1"'), row("DEV_FB_USED", B, 5, 'instance="y:1"')).doubled == ()


def test_the_instances_of_a_card_are_kept_by_field() -> None:
    rows = [row("DEV_FB_USED", A, 5, f'instance="a",GPU_I_ID="{gi}",GPU_I_PROFILE="1g.10gb"') for gi in (7, 8, 9)]
    rows += [row("PROF_GR_ENGINE_ACTIVE", A, 0.5, 'instance="a",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"')]
    (found,) = seen(*rows).exporters
    assert found.instances == {("n1", A): {252: frozenset({7, 8, 9}), 1001: frozenset({7})}}


def test_a_host_that_is_the_exporters_own_pod_is_seen() -> None:
    text = row("DEV_FB_USED", A, 5, 'instance="a"').replace('hostname="n1"', 'Hostname="dcgm-exporter-6ldbb"')
    assert seen(text).exporters[0].host_is_pod
    assert not seen(row("DEV_FB_USED", A, 5, 'instance="a"')).exporters[0].host_is_pod


def test_targets_taken_one_by_one_are_as_all_at_once() -> None:
    texts = [row("DEV_GPU_UTIL", A, 80, 'instance="x:1",pod="p"'), row("DEV_GPU_UTIL", A, 80, 'instance="y:1"')]
    survey = MetricSurvey()
    for text in texts:
        survey.take(points(text))
    assert survey.seen() == seen(*texts)


def test_of_fields_that_were_not_asked_for_only_the_names_are_known() -> None:
    survey = MetricSurvey()
    survey.take_names(["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_USED", "up"])
    survey.take(points(row("DEV_FB_USED", A, 5, 'instance="a"')))
    (found,) = survey.seen(SUMMED_UP).exporters
    assert found.fields == {252, 230}, "1002 was asked for and this exporter has none"


@pytest.mark.parametrize(
    ("file", "families"),
    [
        ("hami/monitor_metrics_v210_gpu-f.prom", {"hami_monitor"}),
        ("hami/monitor_metrics_v27_legacy_gpu-b.prom", {"hami_monitor"}),
        ("hami/scheduler_metrics_v210.prom", {"hami_scheduler"}),
        ("hami/scheduler_metrics_v27_legacy.prom", {"hami_scheduler"}),
        ("queues/kueue-metrics-v0.19.prom", {"kueue"}),
        ("queues/volcano-metrics.prom", {"volcano"}),
        ("smi/dcgm_issue_lines.prom", {"dcgm"}),
        ("bench/engine-metrics/vllm_v0.8_style.prom", {"vllm"}),
        ("bench/engine-metrics/sglang.prom", {"sglang"}),
        ("bench/engine-metrics/triton.prom", {"triton"}),
        ("bench/engine-metrics/tgi.prom", {"tgi"}),
        ("bench/engine-metrics/dynamo.prom", {"dynamo"}),
        ("bench/engine-metrics/ray_serve.prom", {"ray_serve"}),
    ],
)
def test_a_recorded_exporter_is_known_by_its_family(shared: Path, file: str, families: set[str]) -> None:
    text = (shared / "cases" / file).read_text(encoding="utf-8")
    assert survey_points(points(text, instance="a")).families == families


def test_the_recorded_troubles_of_dcgm_exporter_are_seen(shared: Path) -> None:
    text = (shared / "cases/smi/dcgm_issue_lines.prom").read_text(encoding="utf-8")
    found = survey_points(points(text))
    direct = next(each for each in found.exporters if each.key == "direct")
    assert {155, 156, 252, 1001} <= direct.fields, "1001 is there under its name of 1.x, in lower case"
    assert [set(fields) for fields in direct.instances.values()] == [{1001}]
    assert (direct.working, direct.host_is_pod) == (0, False)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("kube_pod_info", "kube_state_metrics"),
        ("ray_vllm:num_requests_running", "vllm"),
        ("nginx_ingress_controller_requests", "ingress_nginx"),
        ("scheduler_pending_pods", "kube_scheduler"),
        ("DCGM_FI_DEV_FB_USED", "dcgm"),
        ("node_cpu_seconds_total", None),
        ("", None),
    ],
)
def test_a_name_has_one_family_or_none(name: str, family: str | None) -> None:
    assert family_of(name) == family
