"""What goes wrong on real nodes ends in NULL with its reason or in a finding: never in zero, never in an invented card."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.finding import Finding
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceUnsupported, UsageError
from steelyard.sources.nvidia_smi import directory_of
from steelyard.sources.shared.context import ReadContext, ReadSettings
from tests.sources.nvidia_smi.smi_texts import (
    CARD_A,
    CARD_B,
    LIST,
    PMON,
    QUERY,
    QUERY_GPU,
    TABLE,
    XML_CARD,
    cards,
    codes,
    of,
    read,
    xml,
)

MISSING = (
    "[N/A]", "N/A", "[Not Supported]", "ERR!", "[Unknown Error]", "[Insufficient Permissions]", "[GPU requires reset]", "[GPU is lost]",
    "[Requested functionality has been deprecated]", "-", "",
)  # fmt: skip
SAMPLED = (
    "memory_used_mib",
    "util_gpu_ratio",
    "power_watts",
    "temperature_celsius",
    "sm_clock_mhz",
    "ecc_uncorrected",
    "throttle_reasons",
)


@pytest.mark.parametrize("cell", MISSING)
def test_a_cell_that_cannot_say_is_null_with_its_words(cell: str) -> None:
    text = (
        "uuid, memory.used [MiB], utilization.gpu [%], power.draw [W], temperature.gpu, clocks.sm [MHz], "
        f"ecc.errors.uncorrected.volatile.total, clocks_event_reasons.active\n{CARD_A}" + f", {cell}" * 7 + "\n"
    )
    sample = of(DeviceSample, read("smi_query_gpu", text))[0]
    assert [getattr(sample, name) for name in SAMPLED] == [None] * 7
    assert json.loads(sample.unknown) == dict.fromkeys(SAMPLED, cell or "blank")


def test_a_lost_card_in_xml_is_a_lost_device_with_its_identity() -> None:
    lost = (
        f'<gpu id="00000000:0A:00.0"><product_name>NVIDIA GB200</product_name><uuid>{CARD_B}</uuid>'
        "<fb_memory_usage><total>GPU is lost</total><used>GPU is lost</used></fb_memory_usage>"
        "<utilization>GPU is lost</utilization><temperature><gpu_temp>GPU is lost</gpu_temp></temperature></gpu>"
    )
    facts = read("smi_xml", xml(XML_CARD.format(uuid=CARD_A), lost, attached=2))
    device = of(Device, facts)[1]
    assert (device.device_uuid, device.state, device.state_reason, device.model) == (
        CARD_B, "lost", "GPU is lost", "NVIDIA GB200",
    )  # fmt: skip
    sample = next(s for s in of(DeviceSample, facts) if s.device_uuid == CARD_B)
    assert (sample.memory_used_mib, sample.memory_total_mib, sample.util_gpu_ratio, sample.temperature_celsius) == (
        None,
    ) * 4
    silent = ("memory_used_mib", "memory_total_mib", "util_gpu_ratio", "util_memory_ratio", "temperature_celsius")
    assert json.loads(sample.unknown) == dict.fromkeys(silent, "GPU is lost")
    assert codes(facts) == ["device_lost"]


def test_a_handle_that_cannot_be_had_is_a_failure_and_names_a_lost_card_where_it_is_known() -> None:
    text = (
        LIST
        + "Unable to determine the device handle for GPU 0000:5E:00.0: GPU is lost. Reboot the system to recover this GPU\n"
    )
    facts = read("smi_list", text, cards(), node=None)
    assert codes(facts) == ["smi_failed", "device_lost"]
    assert [d.state for d in of(Device, facts) if d.device_uuid == CARD_B] == ["lost", "present"]
    assert of(SourceStatus, facts)[0].complete is False


@pytest.mark.parametrize("variant", ["GPU 000:BA:80.0", "GPU 0000:0B:00.0", "GPU0000:20:00.0"])
def test_every_spelling_of_the_failure_is_recognised(variant: str) -> None:
    facts = read("smi_failure", f"Unable to determine the device handle for {variant}: Unknown Error\n")
    assert codes(facts) == ["smi_failed"]
    assert of(SourceStatus, facts)[0].status == "failed"
    assert json.loads(of(Finding, facts)[0].evidence)["pci_address"] is not None


def test_a_csv_without_header_is_one_error_and_no_fact() -> None:
    text = "".join(QUERY_GPU.splitlines(keepends=True)[1:])
    facts = read("smi_query_gpu", text)
    assert codes(facts) == ["csv_header_missing"]
    finding = of(Finding, facts)[0]
    assert (finding.severity, finding.line, json.loads(finding.evidence)) == ("error", 1, {"rows": 2})
    assert of(DeviceSample, facts) == of(Device, facts) == []


def test_a_row_with_cells_missing_is_refused_with_its_line() -> None:
    facts = read("smi_query_gpu", QUERY_GPU + f"0, {CARD_A}, 5\n")
    finding = of(Finding, facts)[0]
    assert (finding.code, finding.line, finding.excerpt) == ("source_malformed", 4, f"0, {CARD_A}, 5")
    assert len(of(DeviceSample, facts)) == 2


@pytest.mark.parametrize(("form", "text", "processes"), [("smi_table", TABLE, 3), ("smi_pmon", PMON, 2)])
def test_without_a_directory_no_card_is_invented(form: str, text: str, processes: int) -> None:
    facts = read(form, text)
    assert of(DeviceSample, facts) == of(ProcessSample, facts) == of(Device, facts) == []
    unresolved = [json.loads(f.evidence) for f in of(Finding, facts) if f.code == "device_unresolved"]
    assert sum(each["processes"] for each in unresolved) == processes


EXCERPT = """|   0  Tesla V100-PCIE...  On   | 00000000:3B:00.0 Off |                    0 |
| N/A   29C    P0   90W / 250W |    593MiB / 16160MiB |      0%      Default |
|    0     31794    C   Unknown Error                                  371MiB |
|    1     27707    C   python train.py                                111MiB |
"""


def test_a_process_without_the_heading_of_the_processes_is_a_process_all_the_same() -> None:
    samples = of(ProcessSample, read("smi_table", EXCERPT, cards()))
    assert [(s.device_uuid, s.pid, s.process_name, s.memory_used_mib) for s in samples] == [
        (CARD_A, 31794, None, 371),
        (CARD_B, 27707, "python train.py", 111),
    ]
    unresolved = [f for f in of(Finding, read("smi_table", EXCERPT)) if f.code == "device_unresolved"]
    assert sum(json.loads(f.evidence)["processes"] for f in unresolved) == 2
    assert all("import it together with nvidia-smi -L or -q of the same node" in f.message for f in unresolved)


def test_an_elided_uuid_is_no_card() -> None:
    facts = read(
        "smi_compute_apps", "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-..., 114687, python, 19135\n"
    )
    assert codes(facts) == ["device_unresolved"]
    assert of(ProcessSample, facts) == []


def test_two_nodes_without_names_make_an_index_ambiguous() -> None:
    other = QUERY_GPU.replace(CARD_A, CARD_B.replace("b", "e")).replace("3B", "4C")
    directory = directory_of(read("smi_query_gpu", other), cards())
    facts = read("smi_pmon", PMON, directory)
    assert of(ProcessSample, facts) == []
    unresolved = next(f for f in of(Finding, facts) if f.code == "device_unresolved")
    assert "2 cards of this import are at index 0" in json.loads(unresolved.evidence)["reason"]
    placed = read("smi_table", TABLE, directory)
    assert [s.device_uuid for s in of(DeviceSample, placed) if s.gi is None] == [CARD_A, CARD_B]


def test_nodes_with_names_keep_their_indices_apart() -> None:
    other = QUERY_GPU.replace(CARD_A, CARD_B.replace("b", "e"))
    directory = directory_of([*read("smi_query_gpu", QUERY_GPU, node="n1"), *read("smi_query_gpu", other, node="n2")])
    assert of(ProcessSample, read("smi_pmon", PMON, directory, node="n2"))[0].device_uuid == CARD_B.replace("b", "e")


def test_unified_memory_without_a_total_keeps_the_processes() -> None:
    query = f"uuid, index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n{CARD_A}, 0, NVIDIA GB10, [N/A], [N/A], 0\n"
    apps = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{CARD_A}, 114687, python, 19135\n"
    facts = read("smi_query_gpu", query)
    sample = of(DeviceSample, facts)[0]
    assert (sample.memory_used_mib, sample.memory_total_mib, sample.util_gpu_ratio) == (None, None, 0)
    process = of(ProcessSample, read("smi_compute_apps", apps, directory_of(facts)))[0]
    assert process.memory_used_mib == 19135


@pytest.mark.parametrize("cell", ["17592186044415 MiB", "18446744073709551615 MiB", "81560 MiB"])
def test_memory_above_the_card_is_unknown_with_a_finding(cell: str) -> None:
    apps = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{CARD_A}, 9, python, {cell}\n"
    facts = read("smi_compute_apps", apps, cards())
    assert of(ProcessSample, facts)[0].memory_used_mib is None
    assert codes(facts) == ["sample_above_physical_limit"]


@pytest.mark.parametrize(
    ("cell", "ratio", "found"),
    [
        ("100 %", 1.0, []),
        ("103 %", 1.0, ["ratio_above_one"]),
        ("105 %", 1.0, ["ratio_above_one"]),
        ("106 %", None, ["sample_above_physical_limit"]),
        ("0 %", 0.0, []),
    ],
)
def test_ratios_above_one_count_as_one_up_to_a_bound(cell: str, ratio: float | None, found: list[str]) -> None:
    facts = read("smi_query_gpu", f"uuid, utilization.gpu [%]\n{CARD_A}, {cell}\n")
    assert (of(DeviceSample, facts)[0].util_gpu_ratio, codes(facts)) == (ratio, found)


@pytest.mark.parametrize("cell", ["12 parsecs", "1e3", "0x20", "12 GiBs", "-5 MiB", "٣ MiB", "nan", "inf"])
def test_an_unreadable_cell_is_null_and_refused(cell: str) -> None:
    facts = read("smi_query_gpu", f"uuid, memory.used [MiB]\n{CARD_A}, {cell}\n")
    assert of(DeviceSample, facts)[0].memory_used_mib is None
    assert codes(facts) == ["source_malformed"]


def test_a_count_that_disagrees_is_a_finding() -> None:
    facts = read("smi_xml", xml(XML_CARD.format(uuid=CARD_A), attached=4), node="n")
    assert codes(facts) == ["attached_gpus_mismatch"]
    assert (of(SourceStatus, facts)[0].complete, of(Device, facts)[0].device_index) == (False, None)
    text = f"uuid, count, memory.used [MiB]\n{CARD_A}, 8, 5 MiB\n"
    assert codes(read("smi_query_gpu", text)) == ["attached_gpus_mismatch"]
    assert codes(
        read(
            "smi_q",
            QUERY.replace(
                "Attached GPUs                                          : 1",
                "Attached GPUs                                          : 2",
            ),
        )
    ) == ["attached_gpus_mismatch"]


def test_compute_instances_that_disagree_on_their_memory_give_none() -> None:
    card = XML_CARD.format(uuid=CARD_A).replace("<used>3721 MiB</used>", "<used>1 MiB</used>", 1)
    facts = read("smi_xml", xml(card))
    assert next(s for s in of(DeviceSample, facts) if s.gi == 1).memory_used_mib is None
    assert codes(facts) == ["gpu_instance_memory_disagrees"]


def test_one_uuid_on_two_slots_is_said() -> None:
    again = XML_CARD.format(uuid=CARD_A).replace("3B:00.0", "5E:00.0")
    assert codes(read("smi_xml", xml(XML_CARD.format(uuid=CARD_A), again, attached=2))) == ["device_uuid_repeated"]


def test_a_masked_uuid_is_said_once() -> None:
    text = f"uuid, memory.used [MiB]\n{'GPU-00000000-0000-0000-0000-000000000000, 5 MiB' + chr(10)}" * 2
    facts = read("smi_query_gpu", text)
    assert codes(facts) == ["device_uuid_masked"]


def test_a_reset_that_is_required_makes_the_card_unhealthy() -> None:
    text = f"uuid, power.draw [W], serial\n{CARD_A}, [GPU requires reset], 0\n"
    device = of(Device, read("smi_query_gpu", text))[0]
    assert (device.healthy, device.state, device.state_reason, device.serial) == (
        False,
        "present",
        "GPU requires reset",
        None,
    )


@pytest.mark.parametrize(
    ("action", "healthy"),
    [("None", True), ("GPU Reset Required", False), ("Drain P2P", False), ("[N/A]", None), ("Something New", None)],
)
def test_the_recovery_action_tells_health(action: str, healthy: bool | None) -> None:
    device = of(Device, read("smi_query_gpu", f"uuid, gpu_recovery_action\n{CARD_A}, {action}\n"))[0]
    assert device.healthy is healthy
    assert device.recovery_action == (action if healthy is not None else None)


def test_text_of_several_kinds_yields_what_is_readable_and_refuses_the_rest() -> None:
    text = (
        "# pasted from a ticket\n"
        "|   0  Tesla V100-PCIE...  On   | 00000000:3B:00.0 Off |                    0 |\n"
        "| N/A   29C    P0   ERR! / 250W |    593MiB / 16160MiB |      0%      Default |\n"
        "GeForce GTX 1080 Ti, 53 %, 3 %\n"
        "Not supported on the device(s)\n"
    )
    facts = read("smi_table", text, cards())
    assert [s.memory_used_mib for s in of(DeviceSample, facts)] == [593]
    assert codes(facts) == ["source_malformed", "smi_failed"]


def test_an_unknown_form_and_an_unknown_zone_are_errors() -> None:
    with pytest.raises(SourceUnsupported):
        read("smi_nonsense", "")
    with pytest.raises(UsageError):
        read("smi_q", QUERY, settings=ReadSettings(smi_timezone="Mars/Olympus"))
    assert ReadContext().settings.smi_timezone == "UTC"
