"""Names, labels and values of dcgm-exporter rows, and what hostile ones end in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.facts.finding import Finding
from steelyard.sources.dcgm import field_number, read_dcgm
from steelyard.sources.dcgm.fields import GAUGES, field_numbers
from steelyard.sources.exposition import read_exposition
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.metric_labels import LabelResolver
from steelyard.sources.shared.metric_points import MetricPoint
from steelyard.sources.shared.metric_tally import MetricTally
from steelyard.sources.shared.round_memory import RoundMemory
from tests.sources.dcgm.dcgm_rows import CARD, CTX, FB, GR, OTHER, POWER, UTIL, read, reasons, row


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 203),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1001),
        ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1001),
        ("DCGM_FI_DEV_XID_ERRORS", 230),
        ("DCGM_FI_DEV_XID_ERROR", 230),
        ("DCGM_FI_DRIVER_VERSION", 1),
        ("DCGM_FI_SYSTEM_DRIVER_VERSION", 1),
        ("dcgm_fi_dev_fb_used", 252),
        ("DCGM_FI_DEV_NO_SUCH", None),
        ("DCGM_EXP_XID_ERRORS_COUNT", None),
        ("up", None),
    ],
)
def test_a_name_is_a_number(name: str, number: int | None) -> None:
    assert field_number(name) == number


def test_every_field_number_of_the_handed_table_is_known_under_all_its_names(shared: Path) -> None:
    lines = (shared / "cases" / "tables" / "dcgm_fields.csv").read_text(encoding="utf-8").splitlines()[1:]
    for line in lines:
        number, name, former = line.split(",")
        assert {field_number(each) for each in (name, *former.split()) if each} == {int(number)}
    assert set(field_numbers().values()) >= GAUGES.keys()


@pytest.mark.parametrize(
    "value",
    [
        "9223372036854775794",
        "9223372036854775792",
        "1.8446744073709552e+19",
        "NaN",
        "140737488355328",
        "2147483632",
        "+Inf",
    ],
)
@pytest.mark.parametrize("name", [FB, UTIL, GR, POWER])
def test_a_blank_is_no_number(name: str, value: str) -> None:
    found = read(row(name, value))
    [reason] = reasons(found.sample()).values()
    assert reason in ("blank value of DCGM", "NaN")
    assert found.codes == []
    assert not any(isinstance(getattr(found.sample(), gauge.column, None), float) for gauge in GAUGES.values())


@pytest.mark.parametrize(("value", "known"), [(0, 0.0), (100, 1.0), (101, 1.0), (106, None), (-1, None)])
def test_utilisation_is_percent(value: float, known: float | None) -> None:
    assert read(row(UTIL, value)).sample().util_gpu_ratio == known


def test_utilisation_under_its_new_name_that_looks_like_a_ratio_is_not_read_as_percent() -> None:
    name = "DCGM_FI_DEV_GPU_UTIL_RATIO"
    found = read(row(name, 0.45), row(name, 0, UUID=OTHER))
    assert found.sample().util_gpu_ratio is None
    assert "unit" in reasons(found.sample())["util_gpu_ratio"]
    assert read(row(name, 45), row(name, 0.5, UUID=OTHER)).sample().util_gpu_ratio == 0.45


def test_memory_is_whole_mib_and_the_total_is_the_sum_of_its_parts() -> None:
    sample = read(row(FB, 1000.9), row("DCGM_FI_DEV_FB_FREE", 80_000), row("DCGM_FI_DEV_FB_RESERVED", 559)).sample()
    assert (sample.memory_used_mib, sample.memory_reserved_mib, sample.memory_total_mib) == (1_000, 559, 81_559)


def test_without_the_reserved_part_the_total_is_not_known() -> None:
    assert read(row(FB, 1_000), row("DCGM_FI_DEV_FB_FREE", 80_000)).sample().memory_total_mib is None


def test_memory_beyond_the_card_is_not_known() -> None:
    found = read(row(FB, 90_000), row("DCGM_FI_DEV_FB_TOTAL", 81_559))
    assert (found.sample().memory_used_mib, found.sample().memory_total_mib) == (None, 81_559)
    assert found.codes == ["sample_above_physical_limit"]


def test_the_averaged_power_goes_before_the_instantaneous_one() -> None:
    lines = [row("DCGM_FI_DEV_POWER_USAGE_INSTANT", 300), row(POWER, 250)]
    assert read(*lines).sample().power_watts == read(*reversed(lines)).sample().power_watts == 250
    assert read(lines[0]).sample().power_watts == 300


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"Hostname": "n1"}, "n1"),
        ({"hostname": "n1"}, "n1"),
        ({"Hostname": "dcgm-exporter-6ldbb"}, None),
        ({"Hostname": "nvidia-dcgm-exporter-6ldbb", "node": "n2", "job": "j", "instance": "i"}, "n2"),
        ({"Hostname": "x1", "pod": "x1", "job": "j", "instance": "i"}, None),
        ({}, None),
    ],
)
def test_the_node_is_the_host_unless_that_is_the_exporters_pod(labels: dict[str, str], node: str | None) -> None:
    assert read(row(UTIL, 5, **labels)).devices[0].node == node


def test_the_node_of_the_context_goes_first() -> None:
    ctx = ReadContext(node="n9")
    found = read(row(UTIL, 5, Hostname="n1"), ctx=ctx)
    assert (found.devices[0].node, found.status.scope) == ("n9", "node/n9")


@pytest.mark.parametrize(
    "labels",
    [
        {"pod_name": "a", "pod_namespace": "n", "container_name": "c"},
        {"pod": "a", "namespace": "n", "container": "c"},
        {"exported_pod": "a", "exported_namespace": "n", "exported_container": "c", "job": "j", "instance": "i"},
    ],
)
def test_old_and_new_pod_labels_are_the_same(labels: dict[str, str]) -> None:
    [label] = read(row(UTIL, 5, **labels)).labels
    assert (label.namespace, label.pod, label.container, label.origin) == ("n", "a", "c", "dcgm_label")
    assert label.natural_key == f"n/a/c/{CARD}"


def test_empty_labels_of_a_free_card_are_no_pod() -> None:
    assert not read(row(UTIL, 0, pod="", namespace="", container="")).labels


def test_the_uuid_is_one_whatever_its_spelling() -> None:
    found = read(
        row(UTIL, 5, UUID="GPU-AAAAAAAA-0000-4000-8000-000000000001"),
        row(FB, 7, **{"UUID": "", "uuid": CARD}),
    )
    assert (found.sample().util_gpu_ratio, found.sample().memory_used_mib) == (0.05, 7)


def test_rows_of_links_switches_and_cpus_are_counted_and_no_card() -> None:
    lines = [
        row("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 5, nvlink="3", nvswitch="0"),
        row("DCGM_FI_DEV_CPU_UTIL_TOTAL", 5, UUID="", cpu="0"),
    ]
    found = read(*lines)
    assert found.facts == []
    assert found.tally.ignored.total() == 2


def test_a_row_without_a_card_is_a_finding() -> None:
    found = read(row(UTIL, 5, UUID=""))
    assert found.codes == ["row_without_device"]
    assert found.tally.refused == {UTIL: 1}


def test_what_does_not_change_is_said_once_an_hour() -> None:
    memory = RoundMemory()
    minute_ms = 60_000
    counts = []
    for minute in range(0, 121, 30):
        found = read(row(UTIL, 5, minute * minute_ms, pod="a"), memory=memory)
        counts.append((len(found.devices), len(found.labels), len(found.samples)))
    assert counts == [(1, 1, 1), (0, 0, 1), (1, 1, 1), (0, 0, 1), (1, 1, 1)]


def test_a_windowed_xid_count_is_a_hint_and_no_count() -> None:
    found = read(row("DCGM_EXP_XID_ERRORS_COUNT", 3, xid="42", window_size_in_ms="300000"))
    assert [(event.kind, event.code, event.count) for event in found.events] == [("xid_last_seen", 42, 1)]


NAMES = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_PROF_SM_ACTIVE", "x")
MORE_NAMES = (*NAMES, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_EXP_XID_ERRORS_COUNT")
LABEL_NAMES = ("UUID", "gpu", "GPU_I_ID", "GPU_I_PROFILE", "pod", "vgpu", "job", "instance", "exported_pod", "xid")
LABELS = st.dictionaries(
    st.sampled_from((*LABEL_NAMES, "pci_bus_id", "hostname")),
    st.text(max_size=8) | st.sampled_from(["GPU-1", "1", "99999", "1g.5gb"]),
)
SAMPLES = st.tuples(st.sampled_from(MORE_NAMES), LABELS, st.floats(), st.integers(-(2**60), 2**60))


@given(st.lists(SAMPLES, max_size=12))
def test_hostile_rows_end_in_facts_findings_or_counts(samples: list[tuple[str, dict[str, str], float, int]]) -> None:
    points = [MetricPoint(name, labels, value, at) for name, labels, value, at in samples]
    tally = MetricTally()
    list(read_dcgm(points, LabelResolver(points), CTX, tally))
    assert tally.total == len(points)


def test_the_handed_issue_lines_are_all_accounted_for(shared: Path) -> None:
    text = (shared / "cases" / "smi" / "dcgm_issue_lines.prom").read_text(encoding="utf-8")
    parsed = list(read_exposition(text, CTX))
    points = [each for each in parsed if isinstance(each, MetricPoint)]
    assert not [each for each in parsed if isinstance(each, Finding)]
    tally = MetricTally()
    facts = list(read_dcgm(points, LabelResolver(points), CTX, tally))
    assert tally.total == len(points) == len([line for line in text.splitlines() if line and line[0] != "#"])
    assert dict(tally.refused) == {"DCGM_FI_DEV_XID_ERRORS": 1}
    assert dict(tally.ignored) == {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 2,
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS": 1,
        "DCGM_FI_DEV_MEMORY_TEMP": 1,
    }
    assert [fact.code for fact in facts if isinstance(fact, Finding)] == [
        "row_without_device",
        "gpu_util_not_under_mig",
    ]
