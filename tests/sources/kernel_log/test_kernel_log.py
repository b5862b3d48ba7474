"""Kernel logs: every prefix, every spelling of an Xid, cards that fall off the bus, and what waits for its UUID."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import AT_OBSERVATION, parse_instant
from steelyard.sources.kernel_log import read_kernel_log, sniff
from steelyard.sources.shared.context import ReadContext, ReadSettings
from steelyard.sources.shared.device_directory import directory_of

CARD = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=12, name=python, GPU has fallen off the bus."
MAP = f"NVRM: GPU at PCI:0000:3b:00: {CARD}"


def read(text: str, **context: object) -> list[Fact]:
    return list(read_kernel_log(text, ReadContext(**context)))  # type: ignore[arg-type]


def events(facts: list[Fact], kind: str | None = None) -> list[Event]:
    return [fact for fact in facts if isinstance(fact, Event) and kind in (None, fact.kind)]


def one(text: str, **context: object) -> Event:
    (event,) = events(read(text, **context))
    return event


@pytest.mark.parametrize(
    ("message", "code", "pci", "pid", "name"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=12, name=python, GPU has fallen", 79, "00000000:3B:00.0", 12, "python"),
        ("NVRM: Xid (PCI:0000:3b:00.1): 31", 31, "00000000:3B:00.1", None, None),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "00000000:03:00.0", None, None),
        ("NVRM: Xid (PCI:0009:01:00): 149, pid='<unknown>', name=<unknown>, x", 149, "00000009:01:00.0", None, None),
        (
            "NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::WorkerDict, RLW",
            145,
            "00000018:01:00.0",
            876767,
            "ray::WorkerDict",
        ),
        (
            "NVRM: Xid (PCI:0018:01:00): 45, pid=8, name=my trainer x, Ch 00000010",
            45,
            "00000018:01:00.0",
            8,
            "my trainer x",
        ),
        (
            "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row, reset gpu",
            63,
            "00000000:10:1C.0",
            1896,
            None,
        ),
    ],
)
def test_every_spelling_of_an_xid(message: str, code: int, pci: str, pid: int | None, name: str | None) -> None:
    event = one(message)
    assert (event.kind, event.code, event.pci_address, event.pid, event.process_name) == ("xid", code, pci, pid, name)
    assert event.message == message


@pytest.mark.parametrize(
    ("prefix", "stamp", "boot_seconds", "node"),
    [
        ("", None, None, None),
        ("[171167.620236] ", None, 171167.620236, None),
        ("[    0.5] ", None, 0.5, None),
        ("<4>[   12.000001] ", None, 12.000001, None),
        ("6,1234,171167620236,-;", None, 171167.620236, None),
        ("[Sun Feb 23 16:24:18 2025] ", "2025-02-23T16:24:18Z", None, None),
        ("2025-02-23T16:24:18.5+08:00 gpu-1 kernel: ", "2025-02-23T08:24:18.5Z", None, "gpu-1"),
        ("2025-02-23T16:24:18+0000 gpu-1 kernel: [   5.5] ", "2025-02-23T16:24:18Z", 5.5, "gpu-1"),
        ("Feb 23 16:24:18 gpu-1 kernel: [  966.503025] ", None, 966.503025, "gpu-1"),
        ("[Sun Foo 99 16:24:18 2025] ", None, None, None),
        ("2025-13-45T99:24:18Z gpu-1 kernel: ", None, None, "gpu-1"),
    ],
)
def test_every_prefix_says_what_it_can(
    prefix: str, stamp: str | None, boot_seconds: float | None, node: str | None
) -> None:
    event = one(prefix + XID)
    assert event.occurred_at == (parse_instant(stamp) if stamp else AT_OBSERVATION)
    details = json.loads(event.details)
    assert details.get("boot_seconds") == boot_seconds
    assert ("time_unknown" in details) == (stamp is None)
    assert event.node == node


@pytest.mark.parametrize(
    ("observed", "stamp"),
    [
        ("2026-03-01T00:00:00Z", "2026-02-23T16:24:18Z"),
        ("2026-01-02T00:00:00Z", "2025-02-23T16:24:18Z"),
        ("2026-02-23T10:00:00Z", "2026-02-23T16:24:18Z"),
    ],
)
def test_a_syslog_time_without_year_takes_the_year_of_the_observation(observed: str, stamp: str) -> None:
    event = one("Feb 23 16:24:18 gpu-1 kernel: " + XID, observed_at=parse_instant(observed))
    assert event.occurred_at == parse_instant(stamp)


def test_the_leap_day_is_found_in_an_earlier_year() -> None:
    event = one("Feb 29 12:00:00 gpu-1 kernel: " + XID, observed_at=parse_instant("2026-11-30T00:00:00Z"))
    assert event.occurred_at == parse_instant("2024-02-29T12:00:00Z")


def test_local_times_are_read_in_the_zone_of_the_settings() -> None:
    event = one("[Sun Feb 23 16:24:18 2025] " + XID, settings=ReadSettings(smi_timezone="Asia/Shanghai"))
    assert event.occurred_at == parse_instant("2025-02-23T16:24:18+08:00")
    with pytest.raises(UsageError):
        read(XID, settings=ReadSettings(smi_timezone="Nowhere"))


def test_journal_json_is_read() -> None:
    line = json.dumps({"MESSAGE": XID, "__REALTIME_TIMESTAMP": "1740327858000000", "_HOSTNAME": "gpu-1"})
    event = one(line)
    assert (event.occurred_at, event.node, event.message) == (1740327858000000, "gpu-1", XID)


def test_nvlink_errors_and_recovery_actions_are_taken_apart() -> None:
    link = one(
        "NVRM: Xid (PCI:0018:01:00): 145, pid=1, name=a, RLW_RXPIPE Nonfatal XC0 i3 Link -1 (0x0409a0c2 0x00000008)"
    )
    details = json.loads(link.details)
    assert (details["unit"], details["crossbar"], details["instance"], details["link"], details["words"]) == (
        "RLW_RXPIPE",
        "XC0",
        3,
        -1,
        ["0x0409a0c2", "0x00000008"],
    )
    assert link.severity == "warning"
    action = one(
        "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
    )
    assert json.loads(action.details)["recovery_to"] == "Drain and Reset"


@pytest.mark.parametrize(
    ("said", "severity"),
    [
        ("Fatal, Link 28 sourcetrack", "error"),
        ("Non-fatal, Link 46 x", "warning"),
        ("Severity 1 Engine instance 00", None),
    ],
)
def test_switch_errors_name_their_switch(said: str, severity: str | None) -> None:
    event = one(f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, {said}")
    assert (event.kind, event.code, event.component, event.subject_name, event.severity) == (
        "sxid",
        28006,
        "nvswitch3",
        "nvswitch3",
        severity,
    )
    assert event.device_uuid is None


@pytest.mark.parametrize("order", [[MAP, XID], [XID, MAP]])
def test_an_address_is_named_by_the_log_before_or_after(order: list[str]) -> None:
    facts = read("\n".join(order), node="n1")
    assert events(facts, "xid")[0].device_uuid == CARD
    assert len(events(facts, "pci_map")) == 1
    (lost,) = [fact for fact in facts if isinstance(fact, Device)]
    assert (lost.device_uuid, lost.state, lost.node, lost.pci_address) == (CARD, "lost", "n1", "00000000:3B:00.0")


def test_a_directory_names_what_the_log_does_not() -> None:
    known = Device(
        source="x",
        natural_key=CARD,
        occurred_at=0,
        observed_at=0,
        device_uuid=CARD,
        node="n1",
        pci_address="00000000:3B:00.0",
        memory_mib=5,
    )
    facts = list(read_kernel_log(XID, ReadContext(node="n1"), directory_of([known])))
    assert events(facts)[0].device_uuid == CARD
    assert next(f for f in facts if isinstance(f, Device)).memory_mib == 5
    assert events(list(read_kernel_log(XID, ReadContext(node="n2"), directory_of([known]))))[0].device_uuid is None


def test_nodes_of_a_log_server_are_kept_apart() -> None:
    stamp = "2025-02-23T16:24:18Z"
    facts = read(f"{stamp} n1 kernel: {MAP}\n{stamp} n2 kernel: {XID}\n{stamp} n1 kernel: {XID}\n")
    assert {(e.node, e.device_uuid) for e in events(facts, "xid")} == {("n1", CARD), ("n2", None)}


def test_a_boot_ends_what_was_known_of_addresses() -> None:
    boot = "[    0.000000] Linux version 5.15.0 (builder)"
    facts = read(f"[ 5.0] {MAP}\n{boot}\n[ 9.0] {XID}\n")
    assert events(facts, "xid")[0].device_uuid is None


THREE_LINES = (
    "[ 5.0] NVRM: The NVIDIA GPU 0000:b3:00.0\n[ 5.0] NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    "[ 5.0] NVRM: fallen off the bus and is not responding to commands.\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
        THREE_LINES,
        r"NVRM: The NVIDIA GPU 0000:b3:00.0\n NVRM: (PCI ID: 10de:26b5) installed in this system has\n NVRM: fallen off the bus and",
    ],
)
def test_a_fall_without_xid_is_synthesised_as_79(text: str) -> None:
    event = one(text)
    assert (event.kind, event.code, event.pci_address) == ("fell_off_bus", 79, "00000000:B3:00.0")
    assert "synthesised" in json.loads(event.details)


WORDS = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ([f"[ 100.0] {XID}", f"[ 100.1] {WORDS}"], ["xid"]),
        ([f"[ 100.0] {WORDS}", f"[ 100.1] {XID}"], ["xid"]),
        ([f"[ 100.0] {WORDS}", f"[ 100.1] {WORDS}"], ["fell_off_bus"]),
        ([f"[ 100.0] {WORDS}", f"[ 900.0] {XID}"], ["xid", "fell_off_bus"]),
        ([f"[ 100.0] {WORDS}", f"[ 900.0] {WORDS}"], ["fell_off_bus", "fell_off_bus"]),
        ([WORDS, *["NVRM: other"] * 60, XID], ["xid", "fell_off_bus"]),
        ([WORDS, *["NVRM: other"] * 10, XID], ["xid"]),
        ([f"[ 100.0] {XID}", f"[ 100.1] {WORDS.replace('3b', '5e')}"], ["xid", "fell_off_bus"]),
    ],
)
def test_a_fall_that_a_real_79_tells_too_is_one_event(lines: list[str], kinds: list[str]) -> None:
    assert sorted(e.kind for e in events(read("\n".join(lines)))) == sorted(kinds)


def test_equal_lines_are_two_events_and_the_same_log_twice_is_the_same_facts() -> None:
    text = f"[ 5.0] {XID}\n[ 5.0] {XID}\n"
    keys = [e.natural_key for e in events(read(text))]
    assert len(set(keys)) == 2
    assert keys == [e.natural_key for e in events(read(text))]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00)",
        "NVRM: Xid 79",
        "NVRM: Xid (PCI:0000:3b:00): x",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0) 5",
    ],
)
def test_a_broken_xid_line_is_refused_with_its_place(text: str) -> None:
    facts = read("nothing here\n" + text)
    (finding,) = [fact for fact in facts if isinstance(fact, Finding)]
    assert (finding.code, finding.line, finding.excerpt) == ("source_malformed", 2, text)
    assert events(facts) == []


def test_an_address_that_cannot_be_read_keeps_the_code() -> None:
    facts = read("NVRM: Xid (PCI:zzzz:yy): 79, pid=1")
    assert [(e.code, e.pci_address) for e in events(facts)] == [(79, None)]
    assert [f.code for f in facts if isinstance(f, Finding)] == ["pci_address_unreadable"]


def test_lines_about_other_things_are_passed_over_in_silence() -> None:
    facts = read(
        "[ 1.0] usb 1-1: new device\n[ 2.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n\n[ 3.0] CPU: 17 PID: 1\n"
    )
    assert [type(fact) for fact in facts] == [SourceStatus]


def test_a_line_beyond_the_limit_is_refused() -> None:
    facts = read("x" * 5_000, settings=ReadSettings(line_bytes_max=1_000))
    assert [f.code for f in facts if isinstance(f, Finding)] == ["source_malformed"]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (XID, "kernel_log"),
        ("[    1.000000] Linux version 5.15\n", "kernel_log"),
        ("Nov 22 18:29:55 h kernel: x\n", "kernel_log"),
        ("2025-02-23T16:24:18+0000 h kernel: x\n", "kernel_log"),
        ("[Sun Feb 23 16:24:18 2025] x\n", "kernel_log"),
        ("node.log:[  111.111111] x\nnode.log:[  111.222222] y\n", "kernel_log"),
        ("a quoted source\t[...] NVRM: Xid (0000:03:00): 14, Channel 1\n", "kernel_log"),
        (
            "Nov 22 18:29:55 h systemd[1]: a\nNov 22 18:29:55 h systemd[1]: b\nNov 22 18:29:56 h kernel: x\n",
            "kernel_log",
        ),
        ("Nov 22 18:29:55 h systemd[1]: a\n", None),
        ('case,input\nC1,"NVRM: Xid (PCI:0000:dc:00): 45, pid=1"\nC2,GPU has fallen off the bus\n', None),
        ("We saw this:\n[  111.111111] NVRM: Xid (PCI:0000:dc:00): 45\nand wondered.\nThen it\nwas gone.\n", None),
        ("0::/kubepods.slice/x\n", None),
        ("", None),
        ("{}", None),
        ("# HELP x\n", None),
        ("GPU 0: X (UUID: GPU-1)\n", None),
    ],
)
def test_sniff_knows_a_kernel_log(head: str, kind: str | None) -> None:
    assert sniff(head.encode()) == kind


@given(
    st.text(max_size=300)
    | st.builds(lambda a, b: f"{a}NVRM: Xid (PCI:0000:3b:00): 79{b}", st.text(max_size=60), st.text(max_size=60))
)
@settings(max_examples=150, deadline=None)
def test_any_text_ends_in_facts_or_findings(text: str) -> None:
    for fact in read(text + "\ud800\x00"):
        assert isinstance(fact, Event | Finding | Device | SourceStatus)
        if isinstance(fact, Event):
            assert "\x00" not in (fact.message or "")
            json.loads(fact.details)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (" * 2_000,
        "[" * 8_000 + XID,
        "NVRM: Xid (PCI:0000:3b:00): 1" + ", pid=" * 2_000,
        "A" * 8_000 + " kernel: " + XID,
    ],
)
def test_lines_made_to_confuse_a_pattern_are_read_in_bounds(line: str) -> None:
    assert read("\n".join([line] * 20))
