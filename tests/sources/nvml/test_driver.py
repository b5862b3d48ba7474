"""The real nvidia-ml-py over the stub: what each answer of the library becomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.primitives.unknown import Unknown
from steelyard.sources.nvml.driver import NOT_UNDER_MIG, RECOVERY_ACTIONS, NvmlDriver
from steelyard.sources.nvml.process_lists import THROUGH_MPS, UNDER_MIG
from steelyard.sources.nvml.profiling import FIRST, NOT_AMONG_THEM, NOT_OFFERED
from steelyard.sources.shared.device_driver import CardReading, DriverError, ProcessReading, RowRemaps
from tests.sources.nvml.stub_library import StubScenario

NOW_US = 1_900_000_000_000_000


class Noted:
    """The calls of a reading, and the identity that it told on its way."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.identity: CardReading | None = None

    def __call__(self, call: str) -> None:
        self.calls.append(call)

    def identified(self, card: CardReading) -> None:
        self.identity = card


@pytest.fixture
def driver(scenario: StubScenario) -> NvmlDriver:
    return NvmlDriver(scenario.library, now_us=lambda: NOW_US)


@pytest.fixture
def card(driver: NvmlDriver) -> Callable[..., CardReading]:
    def read(index: int = 0, rounds: int = 1) -> CardReading:
        for _ in range(rounds):
            driver.open(lambda call: None)
            reading = driver.read_card(index, Noted())
        return reading

    return read


Read = Callable[..., CardReading]


def processes(card: CardReading) -> dict[int, ProcessReading]:
    assert not isinstance(card.processes, Unknown)
    return {process.pid: process for process in card.processes}


def unknown(value: object) -> str:
    assert isinstance(value, Unknown)
    return value.reason


def kinds(card: CardReading) -> set[str]:
    return {problem.kind for problem in card.problems}


def test_the_library_tells_its_versions_and_how_many_cards_there_are(
    scenario: StubScenario, driver: NvmlDriver
) -> None:
    scenario.play("whole")
    library = driver.open(lambda call: None)
    assert (library.driver_version, library.library_version, library.cards_count) == ("570.124.06", "12.570.124.06", 2)


def test_a_whole_card_is_told_with_all_its_figures_in_the_units_of_facts(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    told = card(rounds=2)
    assert (told.uuid, told.serial, told.pci_address) == (
        "GPU-11111111-aaaa-4bbb-8ccc-000000000000",
        "1650000000010",
        "00000000:3B:00.0",
    )
    assert (told.model, told.recovery_action, told.mig_enabled) == ("NVIDIA H100 80GB HBM3", "None", False)
    assert told.remaps == RowRemaps(1, 0, False, False)
    assert dict(told.figures) == {
        "memory_total_mib": 81_559,
        "memory_used_mib": 10_240,
        "memory_reserved_mib": 639,
        "util_gpu_ratio": 0.87,
        "util_memory_ratio": 0.4,
        "power_watts": 312.45,
        "power_limit_watts": 700.0,
        "temperature_celsius": 54,
        "sm_clock_mhz": 1_980,
        "memory_clock_mhz": 2_619,
        "throttle_reasons": 4,
        "ecc_uncorrected": 0,
        "gr_active_ratio": 0.815,
        "sm_active_ratio": 0.6225,
        "dram_active_ratio": 0.33,
        "sm_occupancy_ratio": 0.25,
        "tensor_active_ratio": 0.125,
        "pcie_tx_bytes_per_second": 104_857_600,
        "pcie_rx_bytes_per_second": 210_239_488,
        "nvlink_tx_bytes_per_second": 3_145_728_000,
        "nvlink_rx_bytes_per_second": 4_194_304_000,
    }
    assert told.counters["clocks_event_sw_power_cap_ns"] == 5_000_000
    assert told.problems == ()


def test_a_profiling_figure_needs_two_rounds(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    assert unknown(card().figures["gr_active_ratio"]) == FIRST


def test_a_sample_that_fails_once_makes_one_figure_unknown_and_not_the_next(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    card()
    scenario.set({"fail.nvmlGpmSampleGet": 999})
    assert unknown(card().figures["sm_active_ratio"]) == "Unknown Error"
    scenario.unset("fail.nvmlGpmSampleGet")
    assert card().figures["sm_active_ratio"] == 0.6225


def test_two_profiling_samples_serve_for_ever(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    card(rounds=2)
    scenario.set({"fail.nvmlGpmSampleAlloc": 20})
    assert card(rounds=3).figures["sm_active_ratio"] == 0.6225


def test_a_profiling_figure_above_its_limit_is_unknown_and_not_cut(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.gpm": "50 129.4 nan"})
    told = card(rounds=2)
    assert told.figures["gr_active_ratio"] == 0.5
    assert "129.4" in unknown(told.figures["sm_active_ratio"])
    assert isinstance(told.figures["dram_active_ratio"], Unknown)


def test_a_board_without_gpm_says_so(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.gpm_supported": 0})
    assert unknown(card(rounds=2).figures["dram_active_ratio"]) == NOT_OFFERED


def test_a_board_without_gpm_still_tells_its_pcie_traffic_and_no_links(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.gpm_supported": 0, "gpu.0.pcie_tx_kb": 2_048, "gpu.0.pcie_rx_kb": 0})
    told = card(rounds=2).figures
    assert (told["pcie_tx_bytes_per_second"], told["pcie_rx_bytes_per_second"]) == (2_097_152, 0)
    assert unknown(told["nvlink_tx_bytes_per_second"]) == NOT_OFFERED


def test_a_figure_that_gpm_does_not_count_here_is_not_known(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.gpm": "50 40 30"})
    told = card(rounds=2)
    assert told.figures["dram_active_ratio"] == 0.3
    assert unknown(told.figures["sm_occupancy_ratio"]) == NOT_AMONG_THEM
    assert kinds(told) == set()


@pytest.mark.parametrize("mib", ["-1", "nan", "1e9"])
def test_traffic_that_no_link_carries_is_not_known(scenario: StubScenario, card: Read, mib: str) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.gpm": f"50 40 30 20 10 {mib} 1 1 1"})
    assert isinstance(card(rounds=2).figures["pcie_tx_bytes_per_second"], Unknown)


def test_an_idle_figure_is_zero_and_a_missing_one_is_not(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.unset("gpu.1.power_mw")
    told = card(1, rounds=2)
    assert told.figures["util_gpu_ratio"] == 0.0
    assert unknown(told.figures["power_watts"]) == "Not Supported"


@pytest.mark.parametrize(
    ("key", "value", "column"),
    [
        ("gpu.0.power_mw", 2**32 - 1, "power_watts"),
        ("gpu.0.sm_clock", 2**32 - 1, "sm_clock_mhz"),
        ("gpu.0.temperature", 4_000, "temperature_celsius"),
        ("gpu.0.util", f"{2**32 - 1} 0", "util_gpu_ratio"),
        ("gpu.0.util", "200 0", "util_gpu_ratio"),
        ("gpu.0.throttle", "0xffffffffffffffff", "throttle_reasons"),
        ("gpu.0.ecc_uncorrected", 2**64 - 1, "ecc_uncorrected"),
        ("gpu.0.memory", f"85520809984 0 {2**64 - 1}", "memory_used_mib"),
        ("gpu.0.memory", "85520809984 0 99520809984", "memory_used_mib"),
    ],
)
def test_a_figure_that_cannot_be_is_unknown(
    scenario: StubScenario, card: Read, key: str, value: object, column: str
) -> None:
    scenario.play("whole")
    scenario.set({key: value})
    assert isinstance(card().figures[column], Unknown)


def test_before_version_two_reserved_memory_is_not_told_apart(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"fail.nvmlDeviceGetMemoryInfo_v2": 13})
    told = card()
    assert told.figures["memory_used_mib"] == 10_879
    assert "does not tell" in unknown(told.figures["memory_reserved_mib"])
    assert told.problems == ()


def test_the_older_spelling_of_the_throttle_call_is_asked_where_the_newer_is_missing(
    scenario: StubScenario, card: Read
) -> None:
    scenario.play("whole")
    scenario.set({"fail.nvmlDeviceGetCurrentClocksEventReasons": 13})
    assert card().figures["throttle_reasons"] == 4


@pytest.mark.parametrize("code", range(len(RECOVERY_ACTIONS)))
def test_each_recovery_action_has_its_words(scenario: StubScenario, card: Read, code: int) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.field.230": code})
    assert card().recovery_action == RECOVERY_ACTIONS[code]


def test_a_recovery_action_of_tomorrow_is_unknown(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.field.230": 99})
    assert "99" in unknown(card().recovery_action)


def test_a_mig_device_is_its_instance_with_memory_profile_and_place(scenario: StubScenario, card: Read) -> None:
    scenario.play("mig")
    told = card(rounds=2)
    assert told.mig_enabled is True
    assert [
        (each.gi, each.ci, each.profile, each.sm_count, each.placement_start, each.placement_size)
        for each in told.instances
    ] == [
        (1, 0, "3g.40gb", 60, 0, 4),
        (9, 0, "1g.10gb", 16, 4, 1),
    ]
    assert told.instances[0].uuid == "MIG-22222222-0000-4000-8000-000000000000"
    assert told.instances[0].figures["memory_total_mib"] == 40_320
    assert told.instances[1].figures["gr_active_ratio"] == 0.12


def test_under_mig_the_board_has_no_utilisation_and_says_where_to_look(scenario: StubScenario, card: Read) -> None:
    scenario.play("mig")
    told = card(rounds=2)
    for column in ("util_gpu_ratio", "util_memory_ratio", "gr_active_ratio", "sm_active_ratio", "dram_active_ratio"):
        assert unknown(told.figures[column]) == NOT_UNDER_MIG
    assert told.figures["power_watts"] == 312.45
    assert told.problems == ()


def test_processes_under_mig_have_their_place_and_no_utilisation(scenario: StubScenario, card: Read) -> None:
    scenario.play("mig")
    found = processes(card())
    assert [(found[pid].gi, found[pid].ci, found[pid].memory_used_mib) for pid in (5151, 5252)] == [
        (1, 0, 16_384),
        (9, 0, 2_048),
    ]
    assert {unknown(process.sm_ratio) for process in found.values()} == {UNDER_MIG}


def test_two_compute_instances_share_the_memory_of_their_gpu_instance(scenario: StubScenario, card: Read) -> None:
    scenario.play("two_compute_instances")
    told = card(rounds=2)
    assert [(each.gi, each.ci, each.profile) for each in told.instances] == [(1, 0, "1c.3g.40gb"), (1, 1, "2c.3g.40gb")]
    assert told.instances[0].figures is told.instances[1].figures
    assert [processes(told)[pid].ci for pid in (5151, 5252)] == [0, 1]


def test_a_mig_device_without_its_rights_has_no_placement_and_is_no_trouble(scenario: StubScenario, card: Read) -> None:
    scenario.play("mig")
    scenario.set({"fail.nvmlDeviceGetGpuInstanceById": 4})
    told = card()
    assert (told.instances[0].placement_start, told.problems) == (None, ())


def test_process_utilisation_is_the_samples_since_the_last_round(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.process_util": f"4242:{NOW_US - 1}:71:30 4242:{NOW_US - 500}:5:5"})
    first = processes(card())
    assert (first[4242].sm_ratio, first[4242].memory_ratio) == (0.71, 0.3)
    second = processes(card())
    assert (second[4242].sm_ratio, second[4242].memory_ratio) == (0.0, 0.0)
    scenario.set({"gpu.0.process_util": f"4242:{NOW_US - 1}:71:30 4343:{NOW_US + 7}:12:3"})
    third = processes(card())
    assert (third[4242].sm_ratio, third[4343].sm_ratio) == (0.0, 0.12)


def test_in_the_first_round_what_is_still_buffered_from_before_does_not_count(
    scenario: StubScenario, card: Read
) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.process_util": f"4242:{NOW_US - 3_600_000_000}:71:30"})
    assert processes(card())[4242].sm_ratio == 0.0


def test_a_driver_that_returns_older_samples_too_makes_nobody_busy(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.process_util": f"4242:{NOW_US - 60_000_000}:71:30", "gpu.0.process_util_unfiltered": 1})
    assert processes(card())[4242].sm_ratio == 0.0


def test_a_clock_that_was_set_back_makes_nobody_idle(scenario: StubScenario) -> None:
    now = [NOW_US]
    driver = NvmlDriver(scenario.library, now_us=lambda: now[0])
    scenario.play("whole")
    driver.open(lambda call: None)
    scenario.set({"gpu.0.process_util": f"4242:{NOW_US - 1}:71:30"})
    assert processes(driver.read_card(0, Noted()))[4242].sm_ratio == 0.71
    now[0] = NOW_US - 3_600_000_000
    scenario.set({"gpu.0.process_util": f"4242:{now[0] - 1}:55:30"})
    assert processes(driver.read_card(0, Noted()))[4242].sm_ratio == 0.55


def test_not_found_is_idle_and_no_trouble(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.unset("gpu.0.process_util")
    told = card()
    assert (processes(told)[4242].sm_ratio, told.problems) == (0.0, ())


def test_a_sample_of_a_pid_that_is_on_no_list_is_of_a_process_that_ended(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.process_util": f"9999:{NOW_US - 1}:71:30"})
    assert 9999 not in processes(card())


def test_utilisation_that_may_not_be_asked_is_unknown_and_not_idle(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"fail.nvmlDeviceGetProcessUtilization": 4})
    told = card()
    assert unknown(processes(told)[4242].sm_ratio) == "Insufficient Permissions"
    assert kinds(told) == {"driver_no_permission"}


def test_an_impossible_utilisation_of_a_process_is_unknown(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.process_util": f"4242:{NOW_US - 1}:4294967295:30"})
    found = processes(card())[4242]
    assert (unknown(found.sm_ratio), found.memory_ratio) == ("not available", 0.3)


def test_a_process_of_both_kinds_is_one_process(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    assert processes(card())[4343].types == frozenset({"C", "G"})


def test_lists_of_version_two_and_memory_of_all_ones_are_read(scenario: StubScenario, card: Read) -> None:
    scenario.play("unsupported")
    told = card(rounds=2)
    assert unknown(processes(told)[6161].memory_used_mib) == "not available"
    assert kinds(told) == {"driver_call_unsupported"}
    assert (told.serial, told.mig_enabled, told.remaps) == (Unknown("Not Supported"), None, Unknown("Not Supported"))


def test_lists_of_neither_version_are_unknown_and_not_empty(scenario: StubScenario, card: Read) -> None:
    scenario.play("unsupported")
    scenario.set({"fail.nvmlDeviceGetComputeRunningProcesses_v2": 13})
    assert isinstance(card().processes, Unknown)


def test_clients_of_an_mps_server_are_listed_and_not_measured(scenario: StubScenario, card: Read) -> None:
    scenario.play("mps")
    scenario.set({"gpu.0.process_util": f"7000:{NOW_US - 1}:93:35"})
    found = processes(card())
    assert found[7000].sm_ratio == 0.93
    assert [(found[pid].types, unknown(found[pid].sm_ratio)) for pid in (7001, 7002)] == [
        (frozenset({"C", "M"}), THROUGH_MPS)
    ] * 2
    assert found[7001].memory_used_mib == 4_096


def test_what_may_not_be_asked_leaves_the_rest(scenario: StubScenario, card: Read) -> None:
    scenario.play("no_permission")
    told = card(1, rounds=2)
    assert unknown(told.processes) == "Insufficient Permissions"
    assert unknown(told.figures["sm_clock_mhz"]) == "Insufficient Permissions"
    assert told.figures["power_watts"] == 70.12
    assert kinds(told) == {"driver_no_permission"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, "driver_uninitialised"),
        (9, "driver_not_loaded"),
        (12, "driver_library_missing"),
        (18, "driver_library_mismatch"),
        (999, "driver_call_failed"),
    ],
)
def test_a_library_that_cannot_be_initialised_says_of_which_kind(
    scenario: StubScenario, driver: NvmlDriver, code: int, kind: str
) -> None:
    scenario.set({"fail.nvmlInitWithFlags": code})
    with pytest.raises(DriverError) as raised:
        driver.open(lambda call: None)
    assert (raised.value.kind, raised.value.call) == (kind, "nvmlInit")


def test_a_lost_card_is_lost_at_the_first_call_and_at_any_later_one(scenario: StubScenario, driver: NvmlDriver) -> None:
    scenario.play("lost")
    driver.open(lambda call: None)
    with pytest.raises(DriverError) as at_once:
        driver.read_card(1, Noted())
    assert at_once.value.kind == "device_lost"
    scenario.unset("lost.1")
    scenario.set({"fail.nvmlDeviceGetTemperature.1": 15})
    noted = Noted()
    with pytest.raises(DriverError) as later:
        driver.read_card(1, noted)
    assert (later.value.kind, later.value.call) == ("device_lost", "nvmlDeviceGetTemperature")
    assert noted.identity is not None and noted.identity.serial == "1650000000011"


def test_a_driver_that_was_replaced_under_the_library_is_opened_anew(
    scenario: StubScenario, driver: NvmlDriver
) -> None:
    scenario.play("whole")
    driver.open(lambda call: None)
    driver.read_card(0, Noted())
    scenario.set({"fail.nvmlDeviceGetCount_v2": 1})
    with pytest.raises(DriverError):
        driver.open(lambda call: None)
    scenario.unset("fail.nvmlDeviceGetCount_v2")
    scenario.set({"driver_version": "580.1"})
    assert driver.open(lambda call: None).driver_version == "580.1"
    assert unknown(driver.read_card(0, Noted()).figures["gr_active_ratio"]) == FIRST


def test_a_card_without_a_readable_uuid_is_no_card(scenario: StubScenario, driver: NvmlDriver) -> None:
    scenario.play("whole")
    scenario.set({"gpu.0.uuid": "two words"})
    driver.open(lambda call: None)
    with pytest.raises(DriverError) as raised:
        driver.read_card(0, Noted())
    assert raised.value.call == "nvmlDeviceGetUUID"


def test_a_card_that_must_be_reset_keeps_its_identity_and_says_so(scenario: StubScenario, card: Read) -> None:
    scenario.play("whole")
    scenario.set({"fail.nvmlDeviceGetPowerUsage.0": 16})
    told = card()
    assert (told.serial, kinds(told)) == ("1650000000010", {"device_needs_reset"})


def test_every_call_is_noted_before_it_is_made(scenario: StubScenario, driver: NvmlDriver) -> None:
    scenario.play("whole")
    noted = Noted()
    driver.open(noted)
    driver.read_card(0, noted)
    assert noted.calls[1:3] == ["nvmlInit", "nvmlDeviceGetCount"]
    assert "nvmlDeviceGetPowerUsage" in noted.calls


def test_a_driver_that_was_never_opened_reads_nothing(scenario: StubScenario, driver: NvmlDriver) -> None:
    with pytest.raises(DriverError):
        driver.read_card(0, Noted())
    driver.close()


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(DriverError) as raised:
        NvmlDriver(library=Path("/nowhere/libnvidia-ml.so.1")).open(lambda call: None)
    assert raised.value.kind == "driver_library_missing" and "/nowhere" in raised.value.reason
