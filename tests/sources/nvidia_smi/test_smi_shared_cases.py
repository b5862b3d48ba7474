"""Every handed nvidia-smi file yields facts whose figures stand in its text, or a finding that says why not.

The figures are taken from the text a second time here, by plain patterns that share nothing with the readers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.unit import Unit
from steelyard.sources.kernel_log import read_kernel_log
from steelyard.sources.kernel_log import sniff as sniff_log
from steelyard.sources.nvidia_smi import DeviceDirectory, directory_of, needs_directory, read_smi, sniff
from steelyard.sources.shared.context import ReadContext
from tests.conftest import shared_folder
from tests.sources.nvidia_smi.smi_texts import codes, of

FOLDER = shared_folder()
FILES = sorted(path for path in (FOLDER / "cases" / "smi").rglob("*") if path.is_file()) if FOLDER else []
OTHERS = {"SOURCES.md", "cgroup_lines.txt", "dcgm_issue_lines.prom"}
MACHINES = ("h100-mig", "h200", "l40s")


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def directory_for(path: Path) -> DeviceDirectory:
    """What the other texts of the same machine say; each other file stands alone."""
    facts: list[Fact] = []
    if path.parent.name == "split":
        machine = path.name.split(".")[0]
        for other in sorted(path.parent.glob(f"{machine}.*")):
            form = sniff(other.read_bytes())
            if form is not None and not needs_directory(form):
                facts.extend(read_smi(form, other.read_bytes(), ReadContext(file=other.name)))
    return directory_of(facts)


def facts_of(path: Path) -> list[Fact]:
    payload = path.read_bytes()
    ctx = ReadContext(file=path.name)
    form = sniff(payload)
    if form is not None:
        return list(read_smi(form, payload, ctx, directory_for(path)))
    return list(read_kernel_log(payload, ctx)) if sniff_log(payload) else []


def test_all_files_are_walked(shared: Path) -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_each_file_yields_facts_or_a_finding(path: Path) -> None:
    facts = facts_of(path)
    if path.name in OTHERS:
        assert facts == []  # other readers' files, or none's: recognised as not from nvidia-smi
        return
    if re.search(r"idle\.(compute-apps|pmon)|(h100-mig|h200)\.load\.accounted", path.name):
        assert of(ProcessSample, facts) == []  # there was none
        return
    assert any(isinstance(fact, Device | DeviceSample | ProcessSample | Event | Finding) for fact in facts)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_column_is_both_known_and_unknown(path: Path) -> None:
    for fact in facts_of(path):
        if isinstance(fact, DeviceSample | ProcessSample):
            for column, reason in json.loads(fact.unknown).items():
                assert getattr(fact, column) is None or "lower bound" in reason


def numbers(text: str, pattern: str) -> list[tuple[str, ...]]:
    return [
        found if isinstance(found, tuple) else (found,) for found in re.findall(pattern, text, re.DOTALL | re.MULTILINE)
    ]


def mib(text: str) -> int | None:
    found = re.match(r"\s*(\d+) ?MiB", text)
    return int(found.group(1)) if found else None


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".xml"], ids=name_of)
def test_xml_figures_are_those_of_the_text(path: Path) -> None:
    facts, text = facts_of(path), path.read_text()
    boards = [sample for sample in of(DeviceSample, facts) if sample.gi is None]
    cards = re.split(r"<gpu id=", text)[1:]
    assert len(boards) == len(of(Device, facts)) == len(cards)
    for board, device, card in zip(boards, of(Device, facts), cards, strict=True):
        ((memory,),) = numbers(card, r"<fb_memory_usage>(.*?)</fb_memory_usage>")
        values = dict(numbers(memory, r"<(\w+)>([^<]*)</"))
        assert (board.memory_total_mib, board.memory_used_mib) == (mib(values["total"]), mib(values["used"]))
        assert board.memory_reserved_mib == mib(values.get("reserved", ""))
        ((util,),) = numbers(card, r"<gpu_util>([^<]*)</gpu_util>")
        assert board.util_gpu_ratio == (int(util.split()[0]) / 100 if "%" in util else None)
        assert device.device_uuid in card
        assert device.memory_mib == board.memory_total_mib
        printed = numbers(card, r"<pid>(\d+)</pid>.*?<used_memory>([^<]*)</used_memory>")
        own = Counter(
            (p.pid, p.memory_used_mib) for p in of(ProcessSample, facts) if p.device_uuid == device.device_uuid
        )
        assert len({d.device_uuid for d in of(Device, facts)}) < len(cards) or own == Counter(
            (int(pid), mib(used)) for pid, used in printed
        )
        own_power = card.split("<gpu_memory_power")[0]
        powers = re.findall(r"<(?:average_|instant_)?power_draw>([0-9.]+) W", own_power)
        assert board.power_watts == (float(powers[0]) if powers else None)
    assert "source_malformed" not in codes(facts)


def texts_of(path: Path) -> str:
    return path.read_text().replace("\r", "")


TABLES = [p for p in FILES if p.name.startswith("nvgpuexp__") or ".table." in p.name]


@pytest.mark.parametrize("path", TABLES, ids=name_of)
def test_table_figures_are_those_of_the_text(path: Path) -> None:
    facts, text = facts_of(path), texts_of(path)
    boards = {(s.memory_used_mib, s.memory_total_mib) for s in of(DeviceSample, facts) if s.gi is None}
    printed = numbers(text, r"^\|[^|]*W / +\d+W \| +(\d+)MiB / +(\d+)MiB \|")
    assert printed
    assert {(int(used), int(total)) for used, total in printed} <= boards
    instances = Counter(
        (s.gi, s.memory_used_mib, s.memory_total_mib) for s in of(DeviceSample, facts) if s.gi is not None
    )
    for gi, _, used, total in numbers(text, r"^\|  \d+ +(\d+) +(\d+) +\d+ +\| +(\d+)MiB / +(\d+)MiB"):
        assert instances[int(gi), int(used), int(total)] >= 1
    processes = {(p.pid, p.gi, p.memory_used_mib) for p in of(ProcessSample, facts)}
    rows = numbers(text, r"^\| +\d+ +(N/A|\d+) +(?:N/A|\d+) +(\d+) +[CGM+]+ [^\n]* (\d+)MiB \|$")
    assert {(int(pid), None if gi == "N/A" else int(gi), int(used)) for gi, pid, used in rows} <= processes
    for row in re.findall(r"^\|.*\| +(\S+) +Default \|$", text, re.MULTILINE):
        assert row == "N/A" or any(s.util_gpu_ratio == int(row.rstrip("%")) / 100 for s in of(DeviceSample, facts))
    if re.search(r"\| +N/A +Default \|$", text, re.MULTILINE):
        assert {s.util_gpu_ratio for s in of(DeviceSample, facts)} == {None}


QUERIES = [p for p in FILES if p.name.startswith("nvgpuexp__") or p.name.endswith(".q.txt")]


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_query_figures_are_those_of_the_text(path: Path) -> None:
    facts, text = facts_of(path), texts_of(path)
    samples = {
        (s.gi is None, s.memory_total_mib, s.memory_reserved_mib, s.memory_used_mib) for s in of(DeviceSample, facts)
    }
    memory = r"Total +: (\d+) MiB\n +Reserved +: (\d+) MiB\n +Used +: (\d+) MiB"
    for shared, total, reserved, used in numbers(text, rf"^ +(Shared )?FB Memory Usage\n +{memory}"):
        assert (not shared, int(total), int(reserved), int(used)) in samples
    for pid, used in numbers(text, r"Process ID +: (\d+)\n.*?\n.*?\n +Used GPU Memory +: (\d+) MiB"):
        assert any((p.pid, p.memory_used_mib) == (int(pid), int(used)) for p in of(ProcessSample, facts))
    units = numbers(text, r"MIG Device\n +Index +: (\d+)\n +GPU Instance ID +: (\d+)\n +Compute Instance ID +: (\d+)")
    assert {(int(index), int(gi), int(ci)) for index, gi, ci in units} <= {
        (u.unit_index, u.gi, u.ci) for u in of(Unit, facts)
    }


CSVS = [p for p in FILES if p.suffix == ".csv"]


@pytest.mark.parametrize("path", CSVS, ids=name_of)
def test_csv_figures_are_those_of_the_text(path: Path) -> None:
    facts = facts_of(path)
    header, *rows = [[cell.strip() for cell in line.split(", ")] for line in texts_of(path).splitlines() if line]
    at = {title.split(" [")[0]: position for position, title in enumerate(header)}
    if "memory.used" in at:
        for row, sample in zip(rows, of(DeviceSample, facts), strict=True):
            assert (sample.memory_used_mib, sample.memory_total_mib) == (
                mib(row[at["memory.used"]]),
                mib(row[at["memory.total"]]),
            )
            util = row[at["utilization.gpu"]]
            assert sample.util_gpu_ratio == (None if util == "[N/A]" else int(util.rstrip(" %")) / 100)
            assert sample.power_watts == float(row[at["power.draw"]].split()[0])
    elif "used_gpu_memory" in at:
        printed = [(int(row[at["pid"]]), mib(row[at["used_gpu_memory"]])) for row in rows]
        assert [(p.pid, p.memory_used_mib) for p in of(ProcessSample, facts)] == printed
    else:
        assert of(ProcessSample, facts) == []


@pytest.mark.parametrize("machine", MACHINES)
def test_monitors_show_the_last_row_and_no_zero_for_a_dash(machine: str, shared: Path) -> None:
    split = shared / "cases" / "smi" / "split"
    lines = [
        line.split()
        for line in (split / f"{machine}.load.pmon.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    last = {int(row[1]): None if row[3] == "-" else int(row[3]) / 100 for row in lines}
    assert {p.pid: p.sm_ratio for p in of(ProcessSample, facts_of(split / f"{machine}.load.pmon.txt"))} == last
    row = (split / f"{machine}.load.dmon.txt").read_text().splitlines()[-1].split()
    (sample,) = of(DeviceSample, facts_of(split / f"{machine}.load.dmon.txt"))
    assert (sample.power_watts, sample.util_gpu_ratio) == (float(row[1]), None if row[4] == "-" else int(row[4]) / 100)


def test_mig_processes_of_one_capture_agree_in_every_form(shared: Path) -> None:
    facts = facts_of(shared / "cases" / "smi" / "nvgpuexp__nvidia-h100-mig__590.48.01.txt")
    samples = of(ProcessSample, facts)
    assert {(p.pid, p.gi, p.ci) for p in samples} == {(21180, 2, 0), (21181, 2, 0), (21198, 2, 0)}
    assert {u.unit_id.split("-")[0] for u in of(Unit, facts)} == {"MIG"}
    assert {(u.gi, u.profile) for u in of(Unit, facts) if u.gi is not None} == {
        (2, "3g.40gb"),
        (3, "2g.20gb"),
        (9, "1g.10gb"),
        (10, "1g.10gb"),
    }


def test_the_excerpts_yield_their_failures_and_refuse_the_rest(shared: Path) -> None:
    facts = facts_of(shared / "cases" / "smi" / "issue_smi_excerpts.txt")
    counted = Counter(codes(facts))
    assert counted["smi_failed"] == 5
    assert counted["device_unresolved"] >= 1
    assert of(DeviceSample, facts) == of(ProcessSample, facts) == []


def test_every_xid_line_of_the_logs_is_an_event(shared: Path) -> None:
    for name in ("xid_log_lines.txt", "gpud__dmesg-with-xid-119.log"):
        path = shared / "cases" / "smi" / name
        facts, lines = facts_of(path), [line for line in path.read_text().splitlines() if not line.startswith("#")]
        printed = Counter(int(code) for line in lines for code in re.findall(r"NVRM: Xid \([^)]*\): (\d+)", line))
        assert Counter(e.code for e in of(Event, facts) if e.kind == "xid") == printed
        assert sum(e.kind == "sxid" for e in of(Event, facts)) == sum("SXid" in line for line in lines)
        assert codes(facts) == []
