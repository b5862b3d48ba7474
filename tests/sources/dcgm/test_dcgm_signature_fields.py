"""The fields that tell signatures apart: occupancy, tensor cores, traffic over PCIe and NVLink, the power limit, and clocks held down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.facts.metric_sample import MetricSample
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.round_memory import RoundMemory
from tests.sources.dcgm.dcgm_rows import CARD, GR, OTHER, POWER, SM, UTIL, XID, Read, read, reasons, row

PCIE_TX, PCIE_RX = "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"
NVLINK_TX, NVLINK_RX = "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"
MINUTE_MS = 60_000


def typed(name: str, kind: str) -> str:
    return f"# TYPE {name} {kind}"


def told(*lines: str, memory: RoundMemory | None = None, ctx: ReadContext | None = None) -> Read:
    """As ``read``, with comments among the lines."""
    from steelyard.sources.dcgm import read_dcgm
    from steelyard.sources.exposition import read_exposition
    from steelyard.sources.shared.metric_labels import LabelResolver
    from steelyard.sources.shared.metric_points import MetricPoint
    from steelyard.sources.shared.metric_tally import MetricTally

    ctx = ctx or ReadContext(file="scrape.prom")
    points = [each for each in read_exposition("\n".join(lines) + "\n", ctx) if isinstance(each, MetricPoint)]
    tally = MetricTally()
    return Read(list(read_dcgm(points, LabelResolver(points), ctx, tally, memory)), tally)


@pytest.mark.parametrize(
    ("name", "value", "column", "expected"),
    [
        ("DCGM_FI_PROF_SM_OCCUPANCY", 0.25, "sm_occupancy_ratio", 0.25),
        ("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", 0.25, "sm_occupancy_ratio", 0.25),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.5, "tensor_active_ratio", 0.5),
        ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 0.5, "tensor_active_ratio", 0.5),
        (PCIE_TX, 12_345_678, "pcie_tx_bytes_per_second", 12_345_678),
        (PCIE_RX, 1e10, "pcie_rx_bytes_per_second", 10_000_000_000),
        (NVLINK_TX, 4e11, "nvlink_tx_bytes_per_second", 400_000_000_000),
        (NVLINK_RX, 0, "nvlink_rx_bytes_per_second", 0),
        ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 700, "power_limit_watts", 700.0),
        ("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", 650, "power_limit_watts", 650.0),
    ],
)
def test_a_field_fills_its_column_under_either_name(name: str, value: float, column: str, expected: float) -> None:
    assert getattr(read(row(name, value)).sample(), column) == expected


def test_the_limit_in_force_goes_before_the_limit_asked_for() -> None:
    lines = [row("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 500), row("DCGM_FI_DEV_POWER_MGMT_LIMIT", 700)]
    for each in (lines, lines[::-1]):
        assert read(*each).sample().power_limit_watts == 500


def test_averaged_power_still_goes_before_the_instant() -> None:
    assert read(row(POWER, 300), row("DCGM_FI_DEV_POWER_USAGE_INSTANT", 420)).sample().power_watts == 300


@pytest.mark.parametrize("name", [PCIE_TX, PCIE_RX, NVLINK_TX, NVLINK_RX])
def test_traffic_that_is_declared_a_counter_is_no_rate(name: str) -> None:
    sample = told(typed(name, "counter"), row(name, 5_000_000)).sample()
    (reason,) = reasons(sample).values()
    assert reason == "exported as a counter: a total of bytes is no rate"
    assert not any(getattr(sample, column) for column in sample.__struct_fields__ if column.endswith("_per_second"))


@pytest.mark.parametrize("kind", ["gauge", "untyped"])
def test_traffic_that_is_declared_a_gauge_is_taken_as_it_is_and_never_differentiated(kind: str) -> None:
    lines = [typed(PCIE_TX, kind), row(PCIE_TX, 100, MINUTE_MS), row(PCIE_TX, 900, 2 * MINUTE_MS)]
    assert [sample.pcie_tx_bytes_per_second for sample in told(*lines).samples] == [100, 900]


def test_a_declaration_that_changes_holds_from_then_on() -> None:
    """The same target, scraped again after its CSV was corrected: what was remembered of its series is not believed."""
    from steelyard.sources.exposition import SeriesCache, read_exposition

    cache, ctx = SeriesCache(), ReadContext()
    kinds = []
    for kind in ("counter", "gauge"):
        text = "\n".join((typed(PCIE_TX, kind), row(PCIE_TX, 5), ""))
        kinds += [each.declared for each in read_exposition(text, ctx, cache)]  # type: ignore[union-attr]  # points
    assert kinds == ["counter", "gauge"]


@pytest.mark.parametrize(("name", "value"), [(PCIE_TX, 2**41), (NVLINK_RX, 2**44), (PCIE_RX, -1)])
def test_traffic_that_no_link_carries_is_not_known_and_told(name: str, value: float) -> None:
    found = read(row(name, value))
    assert [finding.code for finding in found.findings] == ["sample_above_physical_limit"]
    assert len(reasons(found.sample())) == 1


def test_traffic_that_every_instance_repeats_is_the_boards_once() -> None:
    found = read(*(row(PCIE_TX, 7_000, GPU_I_ID=str(gi), GPU_I_PROFILE="1g.10gb") for gi in (7, 8, 9)))
    assert found.sample().pcie_tx_bytes_per_second == 7_000
    assert [
        found.sample(gi=gi).pcie_tx_bytes_per_second for gi in (7, 8) if any(s.gi == gi for s in found.samples)
    ] == []


def test_traffic_that_differs_by_instance_is_theirs_and_the_boards_is_not_known() -> None:
    found = read(*(row(PCIE_TX, 1_000 * gi, GPU_I_ID=str(gi), GPU_I_PROFILE="1g.10gb") for gi in (7, 8)))
    assert [found.sample(gi=gi).pcie_tx_bytes_per_second for gi in (7, 8)] == [7_000, 8_000]
    assert "none of them is the board's" in reasons(found.sample())["pcie_tx_bytes_per_second"]


def test_profiling_that_goes_blank_on_a_busy_card_is_suspect_and_not_idle() -> None:
    """After an Xid 31 DCGM gives no value; the exporter drops the row."""
    memory = RoundMemory()
    before = read(row(UTIL, 97, MINUTE_MS), row(GR, 0.9, MINUTE_MS), row(SM, 0.4, MINUTE_MS), memory=memory)
    assert before.sample().gr_active_ratio == 0.9
    found = read(row(UTIL, 100, 2 * MINUTE_MS), row(XID, 31, 2 * MINUTE_MS), memory=memory)
    assert reasons(found.sample()) == {
        "gr_active_ratio": "prof_suspect: blank while 203 reads 1 after Xid 31",
        "sm_active_ratio": "prof_suspect: blank while 203 reads 1 after Xid 31",
    }
    assert "prof_suspect" in found.codes
    assert "sample_above_physical_limit" not in found.codes


def test_profiling_that_a_card_of_the_same_model_prints_is_blank_on_this_one() -> None:
    same = {"modelName": "NVIDIA H100"}
    found = read(row(UTIL, 99, **same), row(UTIL, 5, UUID=OTHER, **same), row(GR, 0.04, UUID=OTHER, **same))
    assert reasons(found.sample(CARD)) == {"gr_active_ratio": "prof_suspect: blank while 203 reads 0.99"}


def test_profiling_that_only_another_model_prints_was_never_on() -> None:
    """On a mixed node the exporter probes card 0 alone."""
    found = read(row(UTIL, 99, modelName="T4"), row(GR, 0.9, UUID=OTHER, modelName="H100"))
    assert reasons(found.sample(CARD)) == {}
    assert "prof_suspect" not in found.codes


def test_the_threshold_of_dead_profiling_is_a_setting() -> None:
    lines = [row(UTIL, 60), row(GR, 0)]
    strict = replace(ReadContext(), settings=ReadSettings(prof_suspect_util_percent=70))
    assert read(*lines).sample().gr_active_ratio is None
    assert read(*lines, ctx=strict).sample().gr_active_ratio == 0


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("DCGM_FI_DEV_POWER_VIOLATION", "power_violation_ns"),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", "thermal_violation_ns"),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "clocks_event_hw_thermal_slowdown_ns"),
    ],
)
def test_clocks_held_down_are_a_counter_of_the_card_said_when_it_moves(name: str, metric: str) -> None:
    memory = RoundMemory()
    values = [5_000, 5_000, 9_000]
    found = [
        fact
        for n, value in enumerate(values, start=1)
        for fact in read(row(name, value, n * MINUTE_MS), memory=memory).facts
        if isinstance(fact, MetricSample)
    ]
    assert [(fact.metric, fact.kind, fact.family, fact.value) for fact in found] == [
        (metric, "counter", "device", 5_000),
        (metric, "counter", "device", 9_000),
    ]
    assert CARD in found[0].labels


def test_the_windowed_count_of_clock_events_is_a_gauge_whatever_its_type_says() -> None:
    name = "DCGM_EXP_CLOCK_EVENTS_COUNT"
    labels = {"clock_event": "hw_thermal", "window_size_in_ms": "300000"}
    found = [
        fact for fact in told(typed(name, "counter"), row(name, 3, **labels)).facts if isinstance(fact, MetricSample)
    ]
    assert [(fact.metric, fact.kind, fact.value) for fact in found] == [("clock_events_in_window", "gauge", 3)]


def test_counters_that_every_instance_repeats_are_the_cards_once() -> None:
    lines = [row("DCGM_FI_DEV_POWER_VIOLATION", 7, GPU_I_ID=str(gi), GPU_I_PROFILE="1g.10gb") for gi in (7, 8)]
    assert sum(isinstance(fact, MetricSample) for fact in read(*lines).facts) == 1
