"""Every form of nvidia-smi yields the figures that stand in it."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.unit import Unit
from steelyard.primitives.instant import AT_OBSERVATION, parse_instant
from steelyard.sources.nvidia_smi import directory_of, sniff
from steelyard.sources.shared.context import ReadContext, ReadSettings
from tests.sources.nvidia_smi.smi_texts import (
    CARD_A,
    CARD_B,
    DMON_TIMED,
    LIST,
    MIG_A,
    MIG_B,
    OLD_TABLE,
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


def test_listing_names_cards_and_their_mig_devices() -> None:
    facts = read("smi_list", LIST, node="n1")
    assert [(d.device_uuid, d.device_index, d.model, d.node) for d in of(Device, facts)] == [
        (CARD_A, 0, "NVIDIA H100 80GB HBM3", "n1"),
        (CARD_B, 1, "NVIDIA H100 80GB HBM3", "n1"),
    ]
    assert [(u.unit_id, u.device_uuid, u.profile, u.unit_index) for u in of(Unit, facts)] == [
        (MIG_A, CARD_A, "1c.3g.40gb", 0),
        (MIG_B, CARD_A, "2c.3g.40gb", 1),
    ]
    assert codes(facts) == []
    status = of(SourceStatus, facts)[0]
    assert (status.scope, status.complete, status.objects_count) == ("node/n1", True, 2)


def test_listing_of_old_drivers_tells_card_and_instances() -> None:
    text = f"GPU 0: A100-SXM4-40GB (UUID: {CARD_A})\n  MIG 3g.20gb Device 0: (UUID: MIG-{CARD_A}/1/0)\n"
    unit = of(Unit, read("smi_list", text))[0]
    assert (unit.unit_id, unit.device_uuid, unit.gi, unit.ci) == (f"{CARD_A}/gi1/ci0", CARD_A, 1, 0)


def test_query_gpu_is_read_by_column_name() -> None:
    facts = read("smi_query_gpu", QUERY_GPU)
    first, second = of(DeviceSample, facts)
    assert (first.device_uuid, first.memory_used_mib, first.memory_total_mib, first.power_watts) == (
        CARD_A,
        11125,
        81559,
        432.21,
    )
    assert first.util_gpu_ratio is None
    assert json.loads(first.unknown) == {"util_gpu_ratio": "[N/A]"}
    assert (second.util_gpu_ratio, second.unknown) == (0.07, "{}")
    assert [d.mig_enabled for d in of(Device, facts)] == [True, False]


def test_column_order_and_nounits_do_not_matter() -> None:
    text = (
        "utilization.gpu [%], clocks.sm [MHz], something.new, memory.used [MiB], gpu_uuid, clocks_throttle_reasons.active, timestamp\n"
        f"100, 1980, x, 32362, {CARD_A}, 0x0000000000000024, 2026/07/14 09:00:44.742\n"
    )
    sample = of(DeviceSample, read("smi_query_gpu", text))[0]
    assert (sample.util_gpu_ratio, sample.sm_clock_mhz, sample.memory_used_mib, sample.throttle_reasons) == (
        1.0,
        1980,
        32362,
        0x24,
    )
    assert sample.occurred_at == parse_instant("2026-07-14T09:00:44.742Z")


def test_printed_times_are_read_in_the_zone_of_the_settings() -> None:
    text = f"uuid, timestamp, memory.used [MiB]\n{CARD_A}, 2026/07/14 09:00:44.742, 3 MiB\n"
    facts = read("smi_query_gpu", text, settings=ReadSettings(smi_timezone="Asia/Shanghai"))
    assert of(DeviceSample, facts)[0].occurred_at == parse_instant("2026-07-14T09:00:44.742+08:00")


def test_a_text_without_time_stands_at_its_observation() -> None:
    assert of(DeviceSample, read("smi_query_gpu", QUERY_GPU))[0].occurred_at == AT_OBSERVATION
    assert of(DeviceSample, read("smi_query_gpu", QUERY_GPU, observed_at=77))[0].occurred_at == 77


def test_compute_apps_keep_names_with_commas() -> None:
    text = (
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        f"{CARD_A}, 21180, /opt/browser --features=, --x=1,2, 2296 MiB\n{CARD_A}, 21181, ffmpeg, [N/A]\n"
    )
    facts = read("smi_compute_apps", text)
    first, second = of(ProcessSample, facts)
    assert (first.pid, first.process_name, first.memory_used_mib) == (21180, "/opt/browser --features=, --x=1,2", 2296)
    assert (second.memory_used_mib, json.loads(second.unknown)) == (None, {"memory_used_mib": "[N/A]"})
    assert len(of(Device, facts)) == 1


def test_accounted_processes_make_no_live_sample() -> None:
    text = (
        "gpu_uuid, pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]\n"
        f"{CARD_A}, 15727, 71 %, 8 %, 0 MiB, 5270 ms\n"
    )
    facts = read("smi_accounted_apps", text)
    assert of(ProcessSample, facts) == []
    assert codes(facts) == ["accounted_processes_not_live"]


def test_xml_yields_card_instances_and_processes() -> None:
    facts = read("smi_xml", xml(XML_CARD.format(uuid=CARD_A)), node="n1")
    device = of(Device, facts)[0]
    assert (device.device_uuid, device.pci_address, device.serial, device.memory_mib, device.mig_enabled, device.device_index) == (
        CARD_A, "00000000:3B:00.0", "1320000000001", 40960, True, 0,
    )  # fmt: skip
    assert (device.encoding, device.driver_version, device.occurred_at) == (
        "xml-v12",
        "535.54.03",
        parse_instant("2026-07-14T09:00:44Z"),
    )
    board, instance = of(DeviceSample, facts)
    assert (board.gi, board.memory_used_mib, board.memory_reserved_mib, board.ecc_uncorrected, board.sm_clock_mhz) == (
        None,
        3800,
        571,
        3,
        1410,
    )
    assert (board.throttle_reasons, board.util_gpu_ratio) == (0x44, None)
    assert (instance.gi, instance.memory_used_mib, instance.memory_total_mib) == (1, 3721, 9856)
    process = of(ProcessSample, facts)[0]
    assert (process.natural_key, process.process_name, process.memory_used_mib) == (
        f"{CARD_A}/gi1/ci0/4321",
        "python a <b>",
        3000,
    )
    assert codes(facts) == []


def test_power_is_the_boards_and_never_the_modules() -> None:
    board = of(DeviceSample, read("smi_xml", xml(XML_CARD.format(uuid=CARD_A))))[0]
    assert board.power_watts == 165.93


def test_two_compute_instances_of_one_gpu_instance_count_its_memory_once() -> None:
    facts = read("smi_xml", xml(XML_CARD.format(uuid=CARD_A)))
    assert [(u.unit_id, u.memory_mib) for u in of(Unit, facts)] == [
        (f"{CARD_A}/gi1/ci0", 9856),
        (f"{CARD_A}/gi1/ci1", 9856),
    ]
    assert len([s for s in of(DeviceSample, facts) if s.gi == 1]) == 1


@pytest.mark.parametrize(
    ("doctype", "encoding"),
    [
        ("", "xml"),
        *((f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{n}.dtd">', f"xml-v{n}") for n in (10, 11, 12, 13)),
    ],
)
def test_every_dtd_version_is_read(doctype: str, encoding: str) -> None:
    facts = read("smi_xml", xml(XML_CARD.format(uuid=CARD_A), doctype=doctype))
    assert [d.encoding for d in of(Device, facts)] == [encoding]


def test_names_of_old_drivers_are_read_too() -> None:
    card = (
        f'<gpu id="0000:3B:00.0"><uuid>{CARD_A}</uuid><fb_memory_usage><total>100 MiB</total><used>7 MiB</used></fb_memory_usage>'
        "<clocks_throttle_reasons><clocks_throttle_reason_gpu_idle>Active</clocks_throttle_reason_gpu_idle></clocks_throttle_reasons>"
        "<power_readings><power_draw>25.58 W</power_draw></power_readings>"
        "<ecc_errors><volatile><double_bit><total>4</total></double_bit></volatile></ecc_errors></gpu>"
    )
    sample = of(DeviceSample, read("smi_xml", xml(card)))[0]
    assert (sample.power_watts, sample.throttle_reasons, sample.ecc_uncorrected, sample.memory_used_mib) == (
        25.58,
        1,
        4,
        7,
    )
    assert sample.memory_reserved_mib is None


def test_several_documents_in_one_file_are_all_read() -> None:
    one = xml(XML_CARD.format(uuid=CARD_A))
    later = one.replace("09:00:44", "09:00:49")
    assert [d.occurred_at for d in of(Device, read("smi_xml", one + later))] == [
        parse_instant("2026-07-14T09:00:44Z"),
        parse_instant("2026-07-14T09:00:49Z"),
    ]


def test_query_text_yields_what_the_xml_would() -> None:
    facts = read("smi_q", QUERY)
    device = of(Device, facts)[0]
    assert (device.device_uuid, device.recovery_action, device.healthy, device.device_index) == (
        CARD_A,
        "GPU Reset Required",
        False,
        0,
    )
    board, instance = of(DeviceSample, facts)
    assert (board.memory_used_mib, board.memory_reserved_mib, board.power_watts, board.throttle_reasons) == (
        11125,
        479,
        432.21,
        0x49,
    )
    assert (instance.gi, instance.memory_used_mib, instance.memory_total_mib) == (2, 11091, 40448)
    assert [u.sm_count for u in of(Unit, facts)] == [60]
    first, second = of(ProcessSample, facts)
    assert (first.natural_key, first.process_name, first.memory_used_mib) == (
        f"{CARD_A}/gi2/ci0/21180",
        "/root/tools : odd",
        2296,
    )
    assert (second.gi, second.process_type, second.memory_used_mib) == (None, "M+C", None)


def test_an_ecc_total_with_a_missing_part_is_not_zero() -> None:
    board = of(DeviceSample, read("smi_q", QUERY))[0]
    assert board.ecc_uncorrected is None
    assert json.loads(board.unknown)["ecc_uncorrected"] == "N/A"
    some = of(
        DeviceSample,
        read(
            "smi_q",
            QUERY.replace(
                "DRAM Uncorrectable                         : 0", "DRAM Uncorrectable                         : 5"
            ),
        ),
    )[0]
    assert some.ecc_uncorrected == 5
    assert "lower bound" in json.loads(some.unknown)["ecc_uncorrected"]


def test_table_is_placed_by_index_and_address() -> None:
    facts = read("smi_table", TABLE, cards())
    assert [s.device_uuid for s in of(DeviceSample, facts) if s.gi is None] == [CARD_A, CARD_B]
    first, instance, second = of(DeviceSample, facts)
    assert (first.memory_used_mib, first.memory_total_mib, first.power_watts, first.temperature_celsius) == (
        11125,
        81559,
        432,
        52,
    )
    assert (first.util_gpu_ratio, first.ecc_uncorrected) == (None, None)
    assert (instance.gi, instance.memory_used_mib) == (1, 10925)
    assert (second.util_gpu_ratio, second.ecc_uncorrected) == (0.07, 2)
    assert [(u.unit_id, u.gi, u.ci, u.memory_mib, u.sm_count) for u in of(Unit, facts)] == [
        (MIG_A, 1, 0, 40448, 16),
        (MIG_B, 1, 1, 40448, 32),
    ]
    assert [(p.pid, p.gi, p.ci, p.process_name, p.memory_used_mib) for p in of(ProcessSample, facts)] == [
        (21180, 1, 0, "/opt/my tools/train one", 2296),
        (21181, 1, 1, "./serve", 7484),
        (977, None, None, "/usr/lib/xorg/Xorg", None),
    ]
    assert codes(facts) == []


def test_table_of_old_drivers_has_no_instances() -> None:
    whole = QUERY_GPU.replace("Enabled", "Disabled")
    facts = read("smi_table", OLD_TABLE, directory_of(read("smi_query_gpu", whole)))
    sample = of(DeviceSample, facts)[0]
    assert (sample.memory_used_mib, sample.power_watts, sample.util_gpu_ratio) == (593, None, 0)
    assert json.loads(sample.unknown) == {"power_watts": "ERR!"}
    process = of(ProcessSample, facts)[0]
    assert (process.pid, process.process_name, process.memory_used_mib) == (31794, None, 571)
    assert json.loads(process.unknown) == {"process_name": "Unknown Error"}
    assert of(Device, facts)[0].model == "NVIDIA H100 80GB HBM3"  # the table cuts it; the directory knows it whole


def test_tables_of_a_loop_each_have_their_time() -> None:
    facts = read("smi_table", TABLE + TABLE.replace("09:00:43", "09:00:48"), cards())
    assert len({s.occurred_at for s in of(DeviceSample, facts)}) == 2
    assert len(of(ProcessSample, facts)) == 6


def test_pmon_keeps_the_last_row_where_rows_have_no_time() -> None:
    facts = read("smi_pmon", PMON, cards())
    assert [(p.pid, p.sm_ratio, p.memory_ratio, p.process_name) for p in of(ProcessSample, facts)] == [
        (21180, 0.79, 0.05, "train one"),
        (21181, None, None, "serve"),
    ]
    assert codes(facts) == ["rows_without_time_passed_over"]


def test_a_process_of_a_mig_card_without_instance_ids_takes_them_from_another_text() -> None:
    directory = directory_of(read("smi_table", TABLE, cards()), cards())
    known, unknown = of(ProcessSample, read("smi_pmon", PMON.replace("21181", "55"), directory))
    assert (known.natural_key, known.gi, known.ci) == (f"{CARD_A}/gi1/ci0/21180", 1, 0)
    assert (unknown.gi, "gi" in json.loads(unknown.unknown)) == (None, True)


def test_dmon_with_times_keeps_every_row() -> None:
    facts = read("smi_dmon", DMON_TIMED, cards())
    assert [
        (s.occurred_at, s.power_watts, s.util_gpu_ratio, s.memory_used_mib, s.sm_clock_mhz)
        for s in of(DeviceSample, facts)
    ] == [
        (parse_instant("2026-07-14T09:00:44Z"), 438, 1.0, 11125, 1980),
        (parse_instant("2026-07-14T09:00:45Z"), 440, 0.98, 11127, 1980),
    ]
    assert codes(facts) == []


def test_capture_reads_each_section_and_lets_them_help_each_other() -> None:
    rule = "#" * 80
    sections = [
        ("capabilities :: version", "nvidia-smi --version", "NVIDIA-SMI version : 590\n"),
        ("capabilities :: list", "nvidia-smi -L", LIST),
        ("idle :: table", "nvidia-smi ", TABLE),
        ("idle :: pmon", "nvidia-smi pmon -c 5", PMON),
    ]
    text = f"{rule}\n# a capture\n{rule}\ncollected_at:   2026-07-14T08:59:00Z\n" + "".join(
        f"\n{rule}\n# {title}\n# $ {command}\n{rule}\n{body}" for title, command, body in sections
    )
    assert sniff(text.encode()) == "smi_capture"
    facts = read("smi_capture", text)
    assert len(of(DeviceSample, facts)) == 3
    assert {p.gi for p in of(ProcessSample, facts) if p.device_uuid == CARD_A} == {1}
    assert of(Device, facts)[0].occurred_at == parse_instant("2026-07-14T08:59:00Z")
    assert of(ProcessSample, facts)[-1].occurred_at == parse_instant("2026-07-14T09:00:43Z")
    assert codes(facts) == ["rows_without_time_passed_over", "recognised_without_facts"]


def test_a_rule_inside_a_section_does_not_shift_the_others() -> None:
    rule = "#" * 80
    text = f"{rule}\n# $ nvidia-smi\n{rule}\n# a :: list\n# $ nvidia-smi -L\n{rule}\n{LIST}{rule}\n\n{rule}\n# b :: q\n{rule}\n{QUERY}"
    facts = read("smi_capture", text)
    assert [d.encoding for d in of(Device, facts)] == ["smi_list", "smi_list", "smi_q"]
    assert codes(facts) == ["source_malformed"]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (LIST, "smi_list"), (QUERY_GPU, "smi_query_gpu"), (TABLE, "smi_table"), (OLD_TABLE, "smi_table"), (QUERY, "smi_q"), (PMON, "smi_pmon"),
        (DMON_TIMED, "smi_dmon"), (xml(), "smi_xml"), ("\ufeff" + LIST, "smi_list"), (LIST.replace("\n", "\r\n"), "smi_list"),
        ("# gpu    pwr  gtemp\n# Idx      W      C\n    0     70     42\n", "smi_dmon"),
        ("timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n", "smi_compute_apps"),
        ("gpu_uuid, pid, max_memory_usage [MiB], time [ms]\n", "smi_accounted_apps"),
        ("timestamp, gpu_name, gpu_uuid, retired_pages.address\n", "smi_retired_pages"),
        (f"GPU 0: X (UUID: {CARD_A})\n\t Link 0: 25 GB/s\n", "smi_nvlink"),
        ("\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\t0-19\n", "smi_topo"),
        ("No devices were found\n", "smi_failure"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "smi_failure"),
        ("name,uid,creationTimestamp\n", None), ("", None), ("{}", None), ("[   12.3] NVRM: Xid (PCI:0000:3b:00): 79\n", None),
        ("0::/kubepods.slice/kubepods-podx.slice\n", None), ('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-x"} 5\n', None),
    ],
)  # fmt: skip
def test_sniff_names_the_form(text: str, form: str | None) -> None:
    assert sniff(text.encode()) == form


def test_utf16_of_a_windows_shell_is_read() -> None:
    payload = LIST.encode("utf-16")
    assert sniff(payload) == "smi_list"
    assert len(of(Device, list(read("smi_list", payload)))) == 2


@pytest.mark.parametrize("form", ["smi_topo", "smi_nvlink", "smi_retired_pages"])
def test_forms_without_facts_say_so(form: str) -> None:
    facts = read(form, "anything")
    assert codes(facts) == ["recognised_without_facts"]
    assert len(of(SourceStatus, facts)) == 1


def test_facts_carry_cluster_and_source() -> None:
    ctx = ReadContext(cluster="east")
    assert {(f.cluster, f.source) for f in read("smi_q", QUERY, cluster=ctx.cluster)} == {("east", "nvidia_smi")}
