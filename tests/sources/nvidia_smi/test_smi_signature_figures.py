"""Power limits and PCIe traffic as each form of nvidia-smi prints them."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.device_sample import DeviceSample
from tests.sources.nvidia_smi.smi_texts import CARD_A, CARD_B, TABLE, cards, codes, of, read, xml


def sample(kind: str, text: str) -> DeviceSample:
    return of(DeviceSample, read(kind, text, cards()))[0]


def xml_card(readings: str, pci: str = "") -> str:
    memory = "<fb_memory_usage><total>81559 MiB</total><used>7 MiB</used></fb_memory_usage>"
    return xml(f'<gpu id="00000000:3B:00.0"><uuid>{CARD_A}</uuid><pci>{pci}</pci>{memory}{readings}</gpu>')


@pytest.mark.parametrize(
    "readings",
    [
        "<power_readings><power_limit>300.00 W</power_limit><enforced_power_limit>250.00 W</enforced_power_limit></power_readings>",
        "<gpu_power_readings><current_power_limit>250.00 W</current_power_limit><requested_power_limit>300.00 W</requested_power_limit>"
        "</gpu_power_readings><module_power_readings><current_power_limit>2500.00 W</current_power_limit></module_power_readings>",
    ],
)
def test_the_limit_in_force_is_read_and_never_the_asked_for_nor_the_modules(readings: str) -> None:
    assert sample("smi_xml", xml_card(readings)).power_limit_watts == 250


def test_pcie_traffic_of_the_xml_is_in_bytes_per_second() -> None:
    found = sample("smi_xml", xml_card("", "<tx_util>830 KB/s</tx_util><rx_util>0 KB/s</rx_util>"))
    assert (found.pcie_tx_bytes_per_second, found.pcie_rx_bytes_per_second) == (849_920, 0)


def test_traffic_that_is_not_available_is_not_zero() -> None:
    found = sample("smi_xml", xml_card("", "<tx_util>N/A</tx_util><rx_util>N/A</rx_util>"))
    assert (found.pcie_tx_bytes_per_second, found.pcie_rx_bytes_per_second) == (None, None)
    assert json.loads(found.unknown)["pcie_tx_bytes_per_second"] == "N/A"


def test_traffic_that_pcie_cannot_carry_is_refused_and_told() -> None:
    facts = read("smi_xml", xml_card("", "<tx_util>99999999999999 KB/s</tx_util>"), cards())
    assert of(DeviceSample, facts)[0].pcie_tx_bytes_per_second is None
    assert codes(facts) == ["sample_above_physical_limit"]


@pytest.mark.parametrize("column", ["enforced.power.limit [W]", "power.limit [W]"])
def test_the_limit_of_a_query_is_read(column: str) -> None:
    text = f"uuid, memory.used [MiB], {column}\n{CARD_B}, 3 MiB, 70.00 W\n"
    assert sample("smi_query_gpu", text).power_limit_watts == 70


def test_the_cap_of_the_table_is_the_limit() -> None:
    assert [
        each.power_limit_watts for each in of(DeviceSample, read("smi_table", TABLE, cards())) if each.gi is None
    ] == [700, 700]


@pytest.mark.parametrize("unit", ["MB/s", "missing"])
def test_traffic_of_dmon_is_in_bytes_per_second(unit: str) -> None:
    units = f"#  Idx  %  {unit}  {unit}\n" if unit != "missing" else ""
    found = sample("smi_dmon", f"# gpu  sm  rxpci  txpci\n{units}    0  90  120  2\n")
    assert (found.pcie_rx_bytes_per_second, found.pcie_tx_bytes_per_second) == (125_829_120, 2_097_152)
