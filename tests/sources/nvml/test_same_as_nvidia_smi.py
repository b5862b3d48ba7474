"""One card, told by the driver's library and by the tool over it: the same facts, but for who says it and in which form."""

from __future__ import annotations

from typing import Any

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.unit import Unit
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import SECOND_US
from steelyard.sources.nvidia_smi.read import read_smi
from steelyard.sources.nvml.driver import NvmlDriver
from steelyard.sources.nvml.profiling import PROFILED
from steelyard.sources.nvml.rounds import DeviceRounds
from steelyard.sources.shared.context import ReadContext
from tests.sources.nvml.stub_library import StubScenario

NOW = 1_900_000_000 * SECOND_US
UUID = "GPU-11111111-aaaa-4bbb-8ccc-000000000000"
QUERY = (
    "index, uuid, name, serial, pci.bus_id, driver_version, memory.total [MiB], memory.reserved [MiB], memory.used [MiB], "
    "utilization.gpu [%], utilization.memory [%], power.draw [W], enforced.power.limit [W], temperature.gpu, clocks.current.sm [MHz], "
    "clocks.current.memory [MHz], clocks_event_reasons.active, mig.mode.current, gpu_recovery_action, "
    "ecc.errors.uncorrected.volatile.total\n"
    f"0, {UUID}, NVIDIA H100 80GB HBM3, 1650000000010, 00000000:3B:00.0, 570.124.06, 81559 MiB, 639 MiB, 10240 MiB, 87 %, 40 %, "
    "312.45 W, 700.00 W, 54, 1980 MHz, 2619 MHz, 0x0000000000000004, Disabled, None, 0\n"
)
APPS = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{UUID}, 4242, python3, 8192 MiB\n"
LISTED = (
    f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID})\n"
    "  MIG 3g.40gb     Device  0: (UUID: MIG-22222222-0000-4000-8000-000000000000)\n"
    "  MIG 1g.10gb     Device  1: (UUID: MIG-22222222-0000-4000-8000-000000000001)\n"
)
CTX = ReadContext(node="node-1", observed_at=NOW)


def by_driver(scenario: StubScenario, name: str, rounds_count: int = 1) -> list[Fact]:
    scenario.play(name)
    rounds = DeviceRounds(NvmlDriver(scenario.library, now_us=lambda: NOW), FixedClock(NOW), node="node-1")
    facts: list[Fact] = []
    for _ in range(rounds_count):
        facts += rounds.round()
    rounds.close()
    return facts


def columns(fact: Fact, *names: str) -> dict[str, Any]:
    return {name: getattr(fact, name) for name in names}


def of_card(facts: list[Fact], kind: type[Fact]) -> Fact:
    return next(fact for fact in facts if isinstance(fact, kind) and getattr(fact, "device_uuid", None) == UUID)


def test_a_card_and_its_sample_are_the_same_facts(scenario: StubScenario) -> None:
    told, printed = by_driver(scenario, "whole"), list(read_smi("smi_query_gpu", QUERY, CTX))
    device, tool = of_card(told, Device), of_card(printed, Device)
    others = {"source", "encoding", "occurred_at", "observed_at"}
    same = [name for name in Device.__struct_fields__ if name not in others]
    assert columns(device, *same) == columns(tool, *same)
    sample, cells = of_card(told, DeviceSample), of_card(printed, DeviceSample)
    profiled = {*PROFILED, "unknown"}
    same = [name for name in DeviceSample.__struct_fields__ if name not in others | profiled]
    assert columns(sample, *same) == columns(cells, *same)
    assert set(msgspec.json.decode(sample.unknown)) == profiled - {"unknown"}  # type: ignore[attr-defined]


def test_a_process_is_the_same_process_with_more_that_is_known_of_it(scenario: StubScenario) -> None:
    told, printed = (
        of_card(by_driver(scenario, "whole"), ProcessSample),
        of_card(list(read_smi("smi_compute_apps", APPS, CTX)), ProcessSample),
    )
    same = ("natural_key", "device_uuid", "gi", "ci", "pid", "memory_used_mib")
    assert columns(told, *same) == columns(printed, *same)


def test_mig_devices_are_the_same_units(scenario: StubScenario) -> None:
    same = ("natural_key", "unit_id", "unit_kind", "device_uuid", "node", "profile", "unit_index")
    told = [columns(fact, *same) for fact in by_driver(scenario, "mig") if isinstance(fact, Unit)]
    printed = [columns(fact, *same) for fact in read_smi("smi_list", LISTED, CTX) if isinstance(fact, Unit)]
    assert told == printed and len(told) == 2
