"""telemetry.md section 6, rows 17, 18, 23, 25 to 28 and 34: what a figure does not mean, from exporter text and process lists to the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.primitives.instant import MINUTE_US
from steelyard.sources.cgroup.process_table import ProcessTable
from steelyard.sources.shared.context import ReadContext
from tests.collection.scraped_estate import (
    DRAM,
    FB,
    GR,
    POWER,
    SM,
    UTIL,
    XID,
    ScrapedEstate,
    card,
    cells,
    figure,
    kubelet,
    line,
    listing,
    moment,
    node,
    pod,
)

TENSOR, LIMIT = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"
RESERVED, FREE = "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_FREE"


def minutes(estate: ScrapedEstate, *lines: str, until: int = 60, name: str = "a") -> ScrapedEstate:
    """A pod holds card 0 from noon on; the exporter prints ``lines`` each minute."""
    for minute in range(until):
        estate.scrape(f"12:{minute:02d}", lines)
    for at in ("12:00", "12:30", "13:00"):
        estate.take(at, listing(node(), pod(name)), kubelet({name: [card(0)]}))
    return estate


def state_hours(estate: ScrapedEstate) -> dict[str, float]:
    return {state: hours for state, hours in cells(estate.q3(), "states", "state", "gpu_hours") if hours}


def test_row_17_a_sticky_xid_is_one_event_with_its_first_sighting_and_no_present_state(tmp_path: Path) -> None:
    estate = minutes(ScrapedEstate(tmp_path), line(UTIL, 50), line(XID, 48))
    events = estate.rows(
        "SELECT code, occurred_at = make_timestamp(?::BIGINT), message FROM fact.event WHERE kind = 'xid_last_seen'".replace(
            "?", str(moment("12:00"))
        )
    )
    assert [(code, first) for code, first, _ in events] == [(48, True)]
    assert "not proof that it is current" in events[0][2]
    assert figure(estate.q1(), "gpus_out_of_service") == 0


def test_row_18_the_kernels_log_wins_over_a_gauge_that_shows_another_xid(tmp_path: Path) -> None:
    estate = minutes(ScrapedEstate(tmp_path), line(UTIL, 50), line(XID, 45))
    estate.take(
        "12:10", "[Sun Mar  1 12:09:00 2026] NVRM: Xid (PCI:0000:10:00): 62, pid=7, name=python3, 0000\n", node="n1"
    )
    note = estate.the("xid_not_seen_by_dcgm")
    assert note.subject == f"device {card(0)}"
    assert "the kernel's log has Xid 62, DCGM did not see it" in note.message


def test_row_18_an_xid_that_dcgm_shows_too_is_no_finding(tmp_path: Path) -> None:
    estate = minutes(ScrapedEstate(tmp_path), line(UTIL, 50), line(XID, 62))
    estate.take(
        "12:10", "[Sun Mar  1 12:09:00 2026] NVRM: Xid (PCI:0000:10:00): 62, pid=7, name=python3, 0000\n", node="n1"
    )
    assert estate.found("xid_not_seen_by_dcgm") == []


BUSY_STILL = [line(UTIL, 100), line(GR, 1.0), line(SM, 0.01), line(DRAM, 0.0), line(TENSOR, 0), line(LIMIT, 400)]


def test_row_23_a_hang_is_busy_without_work_and_not_a_busy_job(tmp_path: Path) -> None:
    hours = state_hours(minutes(ScrapedEstate(tmp_path), *BUSY_STILL, line(POWER, 70)))
    assert hours["suspected_hang"] == pytest.approx(59 / 60, abs=2 / 60)
    assert not {"compute_bound", "saturated", "mixed", "busy_not_working"} & hours.keys()


def test_row_23_the_same_card_at_full_power_is_no_hang(tmp_path: Path) -> None:
    hours = state_hours(minutes(ScrapedEstate(tmp_path), *BUSY_STILL, line(POWER, 350)))
    assert "suspected_hang" not in hours and hours["busy_not_working"] > 0.9


def test_row_25_memory_that_the_driver_reserves_stands_apart_from_what_is_used(tmp_path: Path) -> None:
    estate = minutes(ScrapedEstate(tmp_path), line(UTIL, 0), line(FB, 4), line(RESERVED, 614), line(FREE, 80_936))
    columns = "memory_used_mib, memory_reserved_mib, memory_total_mib"
    assert estate.rows(f"SELECT DISTINCT {columns} FROM fact.device_sample") == [(4, 614, 81_554)]
    assert cells(estate.q2(), "pods", "pod", "memory_used_mean_mib") == [("a", 4)]


PCI = "00000000:10:00.0"


def smi_xml(*processes: str, used: int = 9000) -> str:
    """What ``nvidia-smi -q -x`` prints of card 0: process elements as given."""
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "<timestamp>Sun Mar  1 13:00:00 2026</timestamp>\n<driver_version>550.54</driver_version>\n<attached_gpus>1</attached_gpus>\n"
        f'<gpu id="{PCI}"><product_name>NVIDIA A100-SXM4-80GB</product_name><uuid>{card(0)}</uuid><pci><pci_bus_id>{PCI}</pci_bus_id></pci>'
        f"<fb_memory_usage><total>81920 MiB</total><reserved>600 MiB</reserved><used>{used} MiB</used></fb_memory_usage>"
        f"<processes>{''.join(processes)}</processes></gpu>\n</nvidia_smi_log>\n"
    )


def process(pid: int, name: str) -> str:
    return (
        f"<process_info><pid>{pid}</pid><type>C</type><process_name>{name}</process_name>"
        "<used_memory>9000 MiB</used_memory></process_info>"
    )


def after_its_end(folder: Path, *processes: str, used: int = 9000) -> ScrapedEstate:
    """Pod a held card 0 until 12:40; at 13:00 the card still shows memory."""
    estate = ScrapedEstate(folder)
    for minute in range(0, 60, 5):
        estate.scrape(f"12:{minute:02d}", [line(UTIL, 0), line(FB, used)], interval_minutes=5)
    estate.take("12:00", listing(node(), pod("a")), kubelet({"a": [card(0)]}))
    estate.take("12:50", listing(node(), pod("a", ended="12:40")), kubelet({}, [card(0)]))
    estate.take("13:00", listing(node(), pod("a", ended="12:40")), kubelet({}, [card(0)]))
    estate.take("13:00", smi_xml(*processes, used=used), node="n1")
    return estate


@pytest.mark.parametrize(
    "processes",
    [(), (process(4711, "[Unknown Error]"),)],
    ids=["no process at all", "a process whose name cannot be read"],
)
def test_row_26_memory_without_a_living_process_is_orphaned_and_charged_to_nobody(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    estate = after_its_end(tmp_path, *processes)
    note = estate.the("orphaned_memory")
    assert note.subject == f"device {card(0)}"
    assert (
        "9000 MiB in use without a living process and without a holder; last owner team/a, ended 2026-03-01T12:40:00Z"
        in note.message
    )
    assert "nobody is charged for it; the node needs cleaning" in note.message
    assert estate.found("used_without_holder") == []
    assert cells(estate.q2(), "pods", "pod", "gpu_hours_granted") == [("a", pytest.approx(40 / 60))]


def test_row_26_memory_of_a_living_process_is_not_orphaned(tmp_path: Path) -> None:
    assert after_its_end(tmp_path, process(4711, "python3")).found("orphaned_memory") == []


def test_row_26_what_a_driver_keeps_of_an_idle_card_is_not_orphaned(tmp_path: Path) -> None:
    assert after_its_end(tmp_path, used=700).found("orphaned_memory") == []


def test_row_26_without_a_look_at_the_processes_nothing_is_called_orphaned(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    for at in ("12:00", "12:50"):
        estate.scrape(at, [line(UTIL, 0), line(FB, 9000)], interval_minutes=50)
        estate.take(at, listing(node(), pod("a", ended="12:40")), kubelet({}, [card(0)]))
    assert estate.found("orphaned_memory") == []


def test_row_27_processes_below_their_card_leave_a_residual_and_nothing_is_stretched(tmp_path: Path) -> None:
    estate = ScrapedEstate(tmp_path)
    replicas = [f"{card(0)}::{n}" for n in range(2)]
    rows = [
        line(UTIL, 90), line(FB, 9000),
        *(line(UTIL, value, pod=name, namespace="team", container="main", vgpu=str(n)) for n, (name, value) in enumerate((("a", 40), ("b", 30)))),
        *(line(FB, value, pod=name, namespace="team", container="main", vgpu=str(n)) for n, (name, value) in enumerate((("a", 4000), ("b", 3000)))),
    ]  # fmt: skip
    for at in ("12:00", "12:30", "13:00"):
        estate.scrape(at, rows, interval_minutes=30)
        estate.take(
            at, listing(node(gpus=2), pod("a"), pod("b")), kubelet({"a": replicas[:1], "b": replicas[1:]}, replicas)
        )
    told = estate.rows(
        "SELECT DISTINCT pod, sm_ratio, memory_counted_mib FROM fact.partition_sample WHERE origin = 'dcgm_per_process' ORDER BY pod"
    )
    assert told == [("a", 0.4, 4000), ("b", 0.3, 3000)]
    assert estate.rows("SELECT DISTINCT util_gpu_ratio, memory_used_mib FROM fact.device_sample WHERE gi IS NULL") == [
        (0.9, 9000)
    ]
    assert not [note for note in estate.q2().findings if "sum" in note.code]


def test_row_28_pids_of_another_namespace_are_nobodys_and_the_agent_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "cgroup").write_text("0::/kubepods/pod0a1b2c3d-1111-4222-8333-444455556666\n")
    table = ProcessTable(tmp_path, host_pids=False)
    owner = table.owners_of([4711])[4711]
    assert (owner.kind, owner.pod_uid) == ("unresolved", None)
    (finding,) = table.setup_findings(ReadContext(node="n1", observed_at=MINUTE_US))
    assert finding.code == "host_pid_missing" and "hostPID: true" in finding.message


@pytest.mark.parametrize("watts", [50, 100])
def test_row_34_idle_is_told_by_activity_whatever_power_an_exporter_keeps_the_card_at(
    tmp_path: Path, watts: int
) -> None:
    """An exporter's own profiling raised idle power from 50 to 100 W on A100."""
    idle = [line(UTIL, 0), line(GR, 0), line(SM, 0), line(DRAM, 0), line(POWER, watts), line(LIMIT, 400)]
    hours = state_hours(minutes(ScrapedEstate(tmp_path), *idle))
    assert hours["held_idle"] > 0.9 and "suspected_hang" not in hours


PROFILER = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{card(0)}, 4711, {{name}}, 90 MiB\n"


@pytest.mark.parametrize(("name", "model", "told"), [
    ("/opt/nvidia/nsight-compute/ncu", "NVIDIA A100-SXM4-80GB", True),
    ("nsys", "Tesla V100-SXM2-32GB", True),
    ("ncu", "NVIDIA H100 80GB HBM3", False),
    ("python3", "NVIDIA A100-SXM4-80GB", False),
])  # fmt: skip
def test_row_22_a_profiler_before_hopper_makes_a_nodes_counters_suspect(
    tmp_path: Path, name: str, model: str, told: bool
) -> None:
    estate = ScrapedEstate(tmp_path)
    estate.scrape("12:00", [line(UTIL, 50, modelName=model)])
    estate.take("12:00", PROFILER.format(name=name), node="n1")
    assert [note.subject for note in estate.found("prof_suspect_profiler")] == (["node n1"] if told else [])
