"""The troubles of telemetry.md section 6 that a reader of dcgm-exporter rows decides, one test each: the row's number is in the docstring."""

from __future__ import annotations

import pytest

from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.request import Request
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.round_memory import RoundMemory
from tests.sources.dcgm.dcgm_rows import CARD, FB, GR, OTHER, POWER, SM, UTIL, XID, read, reasons, row

VIA_PROMETHEUS = {"job": "gpu-metrics", "instance": "10.0.0.7:9400"}


def of(pod: str, **labels: str) -> dict[str, str]:
    return {"pod": pod, "namespace": "team", "container": "main", **labels}


def test_a_time_sliced_card_with_one_labelled_pod_is_measured_as_a_whole_and_charged_to_nobody() -> None:
    """Row 1."""
    found = read(row(UTIL, 80, **of("d")), row(FB, 4096, **of("d")))
    assert (found.sample().util_gpu_ratio, found.sample().memory_used_mib) == (0.8, 4096)
    assert [(each.pod, each.sm_ratio, each.memory_counted_mib) for each in found.labels] == [("d", None, None)]
    assert not found.pods
    assert not [fact for fact in found.facts if isinstance(fact, Grant)]


def test_three_sharing_pods_with_the_same_value_are_one_value_of_the_card() -> None:
    """Row 2."""
    found = read(*(row(GR, 0.714, **of(pod, vgpu=str(n))) for n, pod in enumerate("abc")))
    assert found.sample().gr_active_ratio == 0.714
    assert not found.pods
    assert {each.pod for each in found.labels} == {"a", "b", "c"}


def test_identical_use_of_all_sharing_pods_is_the_cards_and_no_pods() -> None:
    """Rows 2 and 3: up to 4.8.1 every replica carries the board's value, memory and utilisation too."""
    found = read(*(row(name, value, **of(pod, vgpu="0")) for pod in "ab" for name, value in ((UTIL, 60), (FB, 8_000))))
    assert (found.sample().util_gpu_ratio, found.sample().memory_used_mib) == (0.6, 8_000)
    assert not found.pods


def test_power_of_sharing_pods_is_the_boards_once() -> None:
    """Row 3."""
    found = read(*(row(POWER, 412.5, **of(pod, vgpu=str(n))) for n, pod in enumerate("abcd")))
    assert found.sample().power_watts == 412.5
    assert len(found.samples) == 1


@pytest.mark.parametrize("board", [None, 11_000])
def test_a_pods_memory_repeated_per_slot_counts_once(board: int | None) -> None:
    """Row 4: 10056 twice is 10056 MiB once, with and without the board's own row."""
    lines = [row(FB, 10_056, pod_uid="1843d150", vgpu=slot) for slot in ("5", "19")]
    found = read(*lines, row(FB, board) if board else "")
    assert found.sample().memory_used_mib == (board or 10_056)
    assert [each.memory_counted_mib for each in found.pods] == ([10_056] if board else [])
    assert {each.pod_uid for each in (*found.pods, *found.labels)} == {"1843d150"}


def test_figures_per_pod_stand_beside_the_boards_row() -> None:
    """Row 4, release 4.8.2: pod rows are shares, the row without a pod is the total, other metrics stay copies."""
    found = read(
        row(UTIL, 90),
        row(FB, 30_000),
        *(row(UTIL, util, **of(pod, vgpu=slot)) for pod, slot, util in (("a", "0", 50), ("a", "1", 50), ("b", "2", 0))),
        *(
            row(FB, used, **of(pod, vgpu=slot))
            for pod, slot, used in (("a", "0", 20_000), ("a", "1", 20_000), ("b", "2", 0))
        ),
        *(row(POWER, 300, **of(pod, vgpu=slot)) for pod, slot in (("a", "0"), ("a", "1"), ("b", "2"))),
    )
    assert (found.sample().util_gpu_ratio, found.sample().memory_used_mib, found.sample().power_watts) == (
        0.9,
        30_000,
        300,
    )
    assert [(each.pod, each.sm_ratio, each.memory_counted_mib) for each in found.pods] == [
        ("a", 0.5, 20_000),
        ("b", 0.0, 0),
    ]
    assert not found.labels


def test_pods_that_all_read_zero_on_a_busy_card_are_not_known_rather_than_idle() -> None:
    """Row 4, without hostPID no process resolves (telemetry 1.5)."""
    found = read(row(UTIL, 90), row(FB, 30_000), *(row(name, 0, **of("a", vgpu="0")) for name in (UTIL, FB)))
    assert [(each.sm_ratio, each.memory_counted_mib) for each in found.pods] == [(None, None)]
    assert reasons(found.pods[0]).keys() == {"sm_ratio", "memory_counted_mib"}
    assert found.codes.count("pod_rows_unresolved") == 2


def test_idle_pods_on_an_idle_card_keep_their_zeros() -> None:
    """Row 4, the other way round: an idle pod is 0."""
    found = read(row(UTIL, 3), row(FB, 600), *(row(name, 0, **of("a", vgpu="0")) for name in (UTIL, FB)))
    assert [(each.sm_ratio, each.memory_counted_mib) for each in found.pods] == [(0.0, 0)]


def test_a_figure_repeated_for_each_container_of_a_pod_counts_once() -> None:
    """Row 4: k GPU containers give k rows, each with the pod's whole value."""
    pods = [of("a", vgpu=str(n)) | {"container": name} for n, name in enumerate(("main", "side"))]
    found = read(row(FB, 30_000), *(row(FB, 20_000, **labels) for labels in pods))
    assert [(each.pod, each.container, each.memory_counted_mib) for each in found.pods] == [("a", None, 20_000)]


def test_differing_figures_of_pods_are_theirs_and_no_total() -> None:
    """Row 4: copies of one board value cannot differ; without a row of the card, its total is not known."""
    found = read(*(row(FB, used, **of(pod, vgpu="0")) for pod, used in (("a", 8_000), ("b", 500))))
    assert [(each.pod, each.memory_counted_mib) for each in found.pods] == [("a", 8_000), ("b", 500)]
    assert found.sample().memory_used_mib is None
    assert reasons(found.sample()) == {"memory_used_mib": "only rows of pods: none of the card as a whole"}


def test_process_memory_that_is_not_available_is_no_figure() -> None:
    """Row 4: 2^64-1 bytes divided into MiB (telemetry 1.5)."""
    found = read(row(FB, 30_000), row(FB, 17_592_186_044_415, **of("a", vgpu="0")))
    assert found.pods[0].memory_counted_mib is None
    assert found.sample().memory_used_mib == 30_000


def mig(name: str, values: dict[int, object], profile: str = "1g.6gb", **labels: str) -> list[str]:
    return [row(name, value, GPU_I_ID=str(gi), GPU_I_PROFILE=profile, **labels) for gi, value in values.items()]


def test_board_power_repeated_per_instance_is_one_board_value() -> None:
    """Row 5."""
    found = read(*mig(POWER, {3: 52.636, 4: 52.636, 5: 52.746, 6: 52.746}))
    assert found.sample().power_watts == 52.746
    assert [each.power_watts for each in found.samples if each.gi is not None] == []


def test_the_board_of_a_mig_card_is_rebuilt_from_its_instances() -> None:
    """Row 6: temperature from any instance, memory as the instances' sum, utilisation named as impossible."""
    found = read(
        *mig("DCGM_FI_DEV_GPU_TEMP", {1: 41, 2: 41}), *mig(FB, {1: 1_000, 2: 2_500}), *mig(GR, {1: 0.25, 2: 1.0})
    )
    board = found.sample()
    assert (board.temperature_celsius, board.memory_used_mib, board.util_gpu_ratio) == (41, 3_500, None)
    assert "MIG" in reasons(board)["util_gpu_ratio"]
    assert [(each.gi, each.memory_used_mib, each.gr_active_ratio) for each in found.samples if each.gi is not None] == [
        (1, 1_000, 0.25),
        (2, 2_500, 1.0),
    ]
    assert found.devices[0].mode == "mig"


@pytest.mark.parametrize("lines", [[], mig(UTIL, {1: 0, 2: 0})])
def test_utilisation_under_mig_is_not_measurable_and_never_zero(lines: list[str]) -> None:
    """Row 7: missing, or 0."""
    found = read(*lines, *mig(GR, {1: 0.9, 2: 0.1}))
    assert all(each.util_gpu_ratio is None for each in found.samples)
    assert reasons(found.sample())["util_gpu_ratio"] == "not measurable under MIG; see gr_active_ratio of its instances"


def test_instances_without_a_row_are_counted_as_missing() -> None:
    """Row 8: instances expected 7, seen 5."""
    found = read(*mig(GR, dict.fromkeys(range(1, 8), 0.5)), *mig(FB, dict.fromkeys(range(1, 6), 100)))
    [finding] = [each for each in found.findings if each.code == "mig_rows_missing"]
    assert "instances expected 7, seen 5" in finding.message
    assert found.sample(gi=7).memory_used_mib is None
    assert reasons(found.sample(gi=7)) == {"memory_used_mib": "no row of this instance"}
    assert found.sample().memory_used_mib is None


def test_profiling_on_a_mixed_layout_is_flagged_and_the_larger_instance_is_not_read() -> None:
    """Row 9: a 3g instance beside a 1g reads 33 % at saturation."""
    found = read(*mig(GR, {1: 1.0}, "1g.10gb"), *mig(GR, {2: 0.333}, "3g.40gb"))
    assert (found.sample(gi=1).gr_active_ratio, found.sample(gi=2).gr_active_ratio) == (1.0, None)
    assert reasons(found.sample(gi=2))["gr_active_ratio"].startswith("prof_suspect")
    assert "prof_unreliable_mixed_mig" in found.codes


def test_equal_instances_keep_their_profiling() -> None:
    """Row 9, the other way round."""
    found = read(*mig(GR, {1: 1.0, 2: 0.333}, "3g.40gb"))
    assert found.sample(gi=2).gr_active_ratio == 0.333
    assert "prof_unreliable_mixed_mig" not in found.codes


@pytest.mark.parametrize(
    ("value", "stored", "code"),
    [
        (1.0, 1.0, None),
        (1.04, 1.0, "ratio_above_one"),
        (1.05, 1.0, "ratio_above_one"),
        (1.294, None, "sample_above_physical_limit"),
        (-0.1, None, "sample_above_physical_limit"),
    ],
)
def test_a_ratio_above_one_is_one_or_not_known_with_a_finding(
    value: float, stored: float | None, code: str | None
) -> None:
    """Row 10."""
    found = read(row(SM, value))
    assert found.sample().sm_active_ratio == stored
    assert found.codes == ([code] if code else [])
    if value > 1.05:
        assert reasons(found.sample())["sm_active_ratio"].startswith("prof_suspect")


def test_pod_labels_that_change_between_scrapes_leave_one_card() -> None:
    """Row 11: with exported_pod, with another, and without, over three scrapes through Prometheus."""
    way = {**VIA_PROMETHEUS, "pod": "dcgm-exporter-x1", "namespace": "monitoring"}
    found = read(
        row(UTIL, 10, 1_000, exported_pod="a", exported_namespace="team", **way),
        row(UTIL, 20, 2_000, exported_pod="b", exported_namespace="team", **way),
        row(UTIL, 30, 3_000, **way),
    )
    assert [(each.device_uuid, each.util_gpu_ratio) for each in found.samples] == [
        (CARD, 0.1),
        (CARD, 0.2),
        (CARD, 0.3),
    ]
    assert [device.device_uuid for device in found.devices] == [CARD]
    assert [each.pod for each in found.labels] == ["a", "b"]


def test_one_card_with_two_label_sets_at_one_instant_is_one_sample() -> None:
    """Row 11: a series that lost its label still answers beside its successor."""
    for lines in ((row(UTIL, 40, **of("a")), row(UTIL, 30)), (row(UTIL, 30), row(UTIL, 40, **of("a")))):
        assert read(*lines).sample().util_gpu_ratio == 0.3  # the row of the card itself goes first


@pytest.mark.parametrize(
    ("labels", "pod"),
    [
        ({"pod": "dcgm-exporter-dev-78z52", "exported_pod": "train-0"}, "train-0"),
        ({"pod": "dcgm-exporter-dev-78z52"}, None),
        ({"pod": "gpumetrics-78z52", "service": "gpumetrics", "endpoint": "metrics"}, None),
        ({"pod": "x-78z52", "container": "exporter"}, None),
        ({"pod": "host-7", "Hostname": "host-7"}, None),
        ({"pod": "train-0", "service": "dcgm-exporter", "endpoint": "metrics"}, "train-0"),
    ],
)
def test_the_tenant_is_the_exported_pod_and_never_the_scrape_target(labels: dict[str, str], pod: str | None) -> None:
    """Row 12: honorLabels false, and the reverse."""
    found = read(row(UTIL, 5, namespace="n", **VIA_PROMETHEUS, **labels))
    assert [each.pod for each in found.labels] == ([pod] if pod else [])


def test_a_free_cards_pod_label_is_the_exporters_where_other_cards_have_an_exported_one() -> None:
    """Row 12: nothing in the row of the free card itself tells."""
    found = read(
        row(UTIL, 5, pod="x1", exported_pod="train-0", **VIA_PROMETHEUS),
        row(UTIL, 0, UUID=OTHER, pod="x1", **VIA_PROMETHEUS),
    )
    assert [(each.device_uuid, each.pod) for each in found.labels] == [(CARD, "train-0")]


def test_a_card_used_without_a_request_is_measured_and_nobodys() -> None:
    """Row 13: no label; whose it is only a process proves."""
    found = read(row(UTIL, 97), row(FB, 9_000))
    assert (found.sample().util_gpu_ratio, found.sample().memory_used_mib) == (0.97, 9_000)
    assert not found.labels
    assert found.codes == ["pod_labels_missing"]


def test_attribution_is_told_as_a_share_of_the_cards_at_work() -> None:
    """Row 14: missing labels are unknown, not idle; idle cards do not count."""
    third = CARD.replace("0001", "0003")
    found = read(row(UTIL, 50, **of("a")), row(UTIL, 50, UUID=OTHER), row(UTIL, 0, UUID=third))
    [finding] = found.findings
    assert finding.code == "pod_labels_missing"
    assert finding.message.startswith("1 of 2 sightings")
    assert "not idleness" in finding.message


def test_a_card_without_a_series_gets_no_zero() -> None:
    """Rows 15 and 21: an idle card disappears with virtual GPUs; the listing is never complete."""
    found = read(row(UTIL, 5, 1_000), row(UTIL, 5, 1_000, UUID=OTHER), row(UTIL, 5, 2_000))
    assert [each.occurred_at for each in found.samples if each.device_uuid == OTHER] == [1_000_000]
    assert found.status.complete is False


def test_the_label_of_a_finished_pod_starts_no_holding() -> None:
    """Row 16: a label is a label; no grant and no request is made of it."""
    found = read(row(UTIL, 0, **of("done")))
    assert not [fact for fact in found.facts if isinstance(fact, Grant | Request)]
    assert {type(fact) for fact in found.facts if isinstance(fact, Device)} == {Device}
    assert [each.origin for each in found.labels] == ["dcgm_label"]


def test_a_sticky_xid_is_one_event_in_words_that_claim_no_more() -> None:
    """Row 17."""
    found = read(
        *(row(XID, value, at) for at, value in ((1_000, 0), (2_000, 48), (3_000, 48), (4_000, 48), (5_000, 63)))
    )
    assert [(event.kind, event.code, event.occurred_at) for event in found.events] == [
        ("xid_last_seen", 48, 2_000_000),
        ("xid_last_seen", 63, 5_000_000),
    ]
    assert (
        found.events[0].message
        == "last XID seen by DCGM was 48, first observed at scrape 1970-01-01T00:00:02Z; not proof that it is current"
    )


def test_a_sticky_xid_is_said_once_over_many_rounds_and_again_after_a_reset() -> None:
    """Row 17, live."""
    memory = RoundMemory()
    hour_ms = 3_600_000
    values = [48, 48, 48, 0, 48]
    events = [len(read(row(XID, value, n * hour_ms), memory=memory).events) for n, value in enumerate(values)]
    assert events == [1, 0, 0, 0, 1]


def test_an_xid_under_mig_is_the_boards() -> None:
    """Rows 5 and 17: each instance shows it."""
    assert len(read(*mig(XID, {1: 31, 2: 31, 3: 31})).events) == 1


def test_a_hidden_xid_is_not_invented() -> None:
    """Row 18: 45 overwrote 62; DCGM says 45 and only that."""
    assert [event.code for event in read(row(XID, 45)).events] == [45]


@pytest.mark.parametrize("lines", [[], [row(XID, 0)], [row(XID, 2**63 - 14)], [row(XID, "NaN")]])
def test_no_xid_is_no_event_and_no_health(lines: list[str]) -> None:
    """Row 19: absent, 0 and blank say nothing of the card's health."""
    found = read(row(UTIL, 5), *lines)
    assert not found.events
    assert [device.healthy for device in found.devices] == [None]


def test_a_card_that_vanishes_between_scrapes_is_seen_no_more_and_not_idle() -> None:
    """Row 20: the last sample is its last sign; what follows is for the ledger of supply."""
    found = read(row(UTIL, 90, 1_000), row(UTIL, 90, 1_000, UUID=OTHER), row(UTIL, 90, 2_000))
    assert max(each.occurred_at for each in found.samples if each.device_uuid == OTHER) == 1_000_000
    assert found.status.objects_count == 2


def test_a_busy_card_with_dead_profiling_is_not_called_idle() -> None:
    """Row 22: 1001 reads 0 while 203 reads 100."""
    found = read(row(UTIL, 100), row(GR, 0), row(SM, 0), row("DCGM_FI_PROF_DRAM_ACTIVE", 0))
    sample = found.sample()
    assert (sample.util_gpu_ratio, sample.gr_active_ratio, sample.sm_active_ratio, sample.dram_active_ratio) == (
        1,
        None,
        None,
        None,
    )
    assert all(reason.startswith("prof_suspect") for reason in reasons(sample).values())
    assert "prof_suspect" in found.codes


def test_an_idle_card_keeps_its_zeros() -> None:
    """Row 22, the other way round: 50 and less proves nothing."""
    assert read(row(UTIL, 50), row(GR, 0)).sample().gr_active_ratio == 0


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "util_gpu_ratio"),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "gr_active_ratio"),
        ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO", "sm_active_ratio"),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "dram_active_ratio"),
        ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "power_watts"),
        ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "temperature_celsius"),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "throttle_reasons"),
        ("dcgm_fi_prof_gr_engine_active", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gr_active_ratio"),
    ],
)
def test_a_metric_is_its_field_number_under_every_name(old: str, new: str, column: str) -> None:
    """Row 24: 1001 is never read as SM or card utilisation, whatever its name says."""
    value = 0.0 if column.endswith("_ratio") and "PROF" in new else 64
    one, other = read(row(old, value)).sample(), read(row(new, value)).sample()
    assert one == other
    kinds = ("_ratio", "_watts", "_celsius", "_reasons")
    filled = {name for name in one.__struct_fields__ if name.endswith(kinds) and getattr(one, name) is not None}
    assert filled == {column}


def test_a_replaced_card_is_another_card_in_the_same_slot() -> None:
    """Row 29."""
    slot = {"pci_bus_id": "00000000:3B:00.0", "Hostname": "n1"}
    found = read(row(UTIL, 5, 1_000, **slot), row(UTIL, 5, 2_000, UUID=OTHER, **slot))
    assert [(each.device_uuid, each.pci_address, each.occurred_at) for each in found.devices] == [
        (CARD, "00000000:3B:00.0", 1_000_000),
        (OTHER, "00000000:3B:00.0", 2_000_000),
    ]


def test_an_index_that_moves_is_an_attribute_of_the_same_card() -> None:
    """Row 30: after a reboot, gpu 0 is gpu 3."""
    serial = {"DCGM_FI_DEV_SERIAL": "165"}
    found = read(row(UTIL, 5, 1_000, **serial), row(UTIL, 5, 2_000, **{"gpu": "3", **serial}))
    assert [(each.device_uuid, each.device_index, each.serial) for each in found.devices] == [
        (CARD, 0, "165"),
        (CARD, 3, "165"),
    ]


def test_one_row_per_card_and_instant_whatever_pods_share_it() -> None:
    """Row 31: so that a join on the UUID stays one to one."""
    lines = [row(name, 30, 1_000, **of(pod, vgpu=str(n))) for n, pod in enumerate("abcdefgh") for name in (UTIL, POWER)]
    keys = [(each.device_uuid, each.gi, each.occurred_at) for each in read(*lines).samples]
    assert keys == [(CARD, None, 1_000_000)]


def test_two_exporters_of_one_card_are_one() -> None:
    """Row 32: the one that names pods stays, whatever the order; the finding says which went."""
    one, other = {"job": "b", "instance": "10.0.0.1:9400"}, {"job": "a", "instance": "10.0.0.2:9400"}
    with_pods = [row(name, value, exported_pod="train", pod="x", **one) for name, value in ((UTIL, 50), (FB, 100))]
    without = [row(name, value, **other) for name, value in ((UTIL, 51), (FB, 101))]
    for lines in ((*with_pods, *without), (*without, *with_pods)):
        found = read(*lines)
        assert (found.sample().util_gpu_ratio, found.sample().memory_used_mib) == (0.5, 100)
        [finding] = found.findings
        assert (finding.code, finding.subject) == ("exporters_doubled", "exporter a/10.0.0.2:9400")


def test_an_exporter_that_moved_between_scrapes_is_not_two() -> None:
    """Row 32, the other way round: a restarted exporter pod has another address."""
    found = read(
        row(UTIL, 5, 1_000, job="a", instance="10.0.0.1:9400"), row(UTIL, 6, 2_000, job="a", instance="10.0.0.9:9400")
    )
    assert len(found.samples) == 2
    assert not [code for code in found.codes if code == "exporters_doubled"]


def test_xid_45_is_its_own_event_and_a_stalled_exporter_gives_nothing() -> None:
    """Row 33: 45 of job churn is told apart by its code; no rows are no sample, and no round is counted as seen."""
    assert [(event.code, event.reason) for event in read(row(XID, 45)).events] == [(45, "Xid 45")]
    assert list(read("").facts) == []


def test_a_declared_interval_is_told_so_that_use_can_be_integrated() -> None:
    found = read(row(UTIL, 5, 1_000), ctx=ReadContext(expected_interval_us=30_000_000))
    assert (found.status.kind, found.status.scope, found.status.gap_max_us) == ("dcgm", "cluster", 30_000_000)


def test_two_values_of_one_series_and_instant_are_a_finding_and_neither_is_taken() -> None:
    found = read(row(GR, 0.95, 1_000), row(SM, 0.9, 1_000), row(GR, 0.02, 1_000), row(GR, 0.3, 2_000))
    first, second = sorted(found.samples, key=lambda each: each.occurred_at)
    assert (first.gr_active_ratio, first.sm_active_ratio, second.gr_active_ratio) == (None, 0.9, 0.3)
    assert "several values" in reasons(first)["gr_active_ratio"]
    assert found.codes.count("values_contradict") == 1
    assert read(row(GR, 0.5, 1_000), row(GR, 0.5, 1_000)).sample().gr_active_ratio == 0.5


def test_an_hourly_import_of_samples_by_the_minute_does_not_cover_their_holes() -> None:
    minutes = [n for n in range(60) if not 10 <= n < 50]
    hourly = ReadContext(file="scrape.prom", expected_interval_us=3_600_000_000)
    found = read(*(row(GR, 0.5, n * 60_000) for n in minutes), ctx=hourly)
    assert found.status.gap_max_us == 90_000_000
