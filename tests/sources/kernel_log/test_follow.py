"""A log that is followed: each message once, over rounds, restarts and rotations; bursts counted; what was lost is said."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import SECOND_US, parse_instant
from steelyard.sources.kernel_log import (
    FileSource,
    JournalSource,
    KernelLogFollower,
    KmsgSource,
    LogSource,
    read_kernel_log,
    records,
)
from steelyard.sources.kernel_log.follow import HOLD_US
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory

NODE = "gpu-1"
AT = parse_instant("2026-11-30T12:00:00Z")
BOOT_AT = parse_instant("2026-11-30T10:00:00Z")
CARD = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
PCI = "00000000:3B:00.0"
XID_31 = "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, MMU fault"
XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=python, GPU has fallen off the bus."
FALL = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."
MAP = f"NVRM: GPU at PCI:0000:3b:00: {CARD}"
CARDS = DeviceDirectory(by_pci={(NODE, PCI): frozenset((CARD,))})


class Kmsg(KmsgSource):
    """The device as the kernel offers it: one record per read, from the beginning for each reader, EPIPE where it overwrote some."""

    def __init__(self, written: list[bytes | int], boot: str = "boot-1", boot_at: int = BOOT_AT) -> None:
        super().__init__(Path("/dev/kmsg"), NODE, lambda: (boot, boot_at))
        self.written = written
        self.at = 0

    def _records(self) -> Iterator[bytes | None]:
        while self.at < len(self.written):
            self.at += 1
            record = self.written[self.at - 1]
            yield None if isinstance(record, int) else record


def record(number: int, text: str, priority: int = 4) -> bytes:
    """The n-th record of a boot, n seconds after its beginning, with the continuation lines that the kernel adds."""
    return f"{priority},{number},{number * SECOND_US},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n".encode()


def round_of(follower: KernelLogFollower, after_seconds: int = 0, cards: DeviceDirectory | None = None) -> list[Fact]:
    ctx = ReadContext(node=NODE, file="kernel log", observed_at=AT + after_seconds * SECOND_US)
    return list(follower.round(ctx, cards))


def events(facts: list[Fact]) -> list[Event]:
    return [fact for fact in facts if isinstance(fact, Event)]


def codes(facts: list[Fact]) -> list[int | None]:
    return [fact.code for fact in events(facts)]


def findings(facts: list[Fact]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding)]


def test_a_record_is_an_event_at_its_own_instant_on_the_card_that_the_driver_names() -> None:
    facts = round_of(KernelLogFollower(Kmsg([record(5, "eth0: link up"), record(9, XID_31)])), cards=CARDS)
    (event,) = events(facts)
    assert (event.occurred_at, event.code, event.pid, event.device_uuid, event.node) == (
        BOOT_AT + 9 * SECOND_US, 31, 7, CARD, NODE,
    )  # fmt: skip
    (status,) = [fact for fact in facts if isinstance(fact, SourceStatus)]
    assert (status.status, status.scope, status.objects_count) == ("ok", f"node/{NODE}", 1)


def test_a_restart_replays_nothing_and_dates_the_boot_as_before() -> None:
    written: list[bytes | int] = [record(1, XID_31)]
    first = KernelLogFollower(Kmsg(written))
    assert codes(round_of(first)) == [31]
    assert codes(round_of(first)) == []
    written.append(record(2, XID_79))
    again = KernelLogFollower(Kmsg(written, boot_at=BOOT_AT + 12_345), first.cursor())
    (event,) = events(round_of(again))
    assert (event.code, event.occurred_at) == (79, BOOT_AT + 2 * SECOND_US)


def test_a_new_boot_is_read_from_its_beginning_and_forgets_who_sat_where() -> None:
    first = KernelLogFollower(Kmsg([record(1, MAP), record(5, XID_31)]))
    assert [event.device_uuid for event in events(round_of(first))] == [CARD, CARD]
    second = KernelLogFollower(Kmsg([record(1, XID_31)], boot="boot-2"), first.cursor())
    (event,) = events(round_of(second))
    assert event.device_uuid is None


def test_a_lost_card_is_named_by_what_was_known_before() -> None:
    written: list[bytes | int] = []
    follower = KernelLogFollower(Kmsg(written))
    round_of(follower, cards=CARDS)
    written.append(record(3, XID_79))
    facts = round_of(KernelLogFollower(Kmsg(written), follower.cursor()))
    assert [event.device_uuid for event in events(facts)] == [CARD]
    assert [(fact.device_uuid, fact.state) for fact in facts if isinstance(fact, Device)] == [(CARD, "lost")]


def test_records_that_the_kernel_overwrote_are_said() -> None:
    written: list[bytes | int] = [record(1, "x")]
    follower = KernelLogFollower(Kmsg(written))
    assert findings(round_of(follower)) == []
    written += [0, record(40, XID_31)]
    facts = round_of(follower)
    assert (findings(facts), codes(facts)) == (["kernel_log_gap"], [31])
    assert any(isinstance(fact, Finding) and "38 records" in fact.message for fact in facts)


@pytest.mark.parametrize("priority", [8 + 4, 12, 3 * 8 + 4])
def test_what_a_program_writes_there_is_no_drivers_word(priority: int) -> None:
    assert codes(round_of(KernelLogFollower(Kmsg([record(1, XID_79, priority)])))) == []


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"no record",
        b"4,1,99999999999999999999999,-;x",
        b"4,1;",
        b"4,1,1,-;\xff\xfeNVRM: Xid (PCI:zz): 1",
        b"\x00" * 9_000,
    ],
)
def test_a_hostile_record_stops_nothing(odd: bytes) -> None:
    assert 31 in codes(round_of(KernelLogFollower(Kmsg([odd, record(2, XID_31)]))))


def test_a_burst_is_one_event_with_its_count_and_its_stretch() -> None:
    facts = round_of(KernelLogFollower(Kmsg([record(n, XID_31) for n in range(1, 1_001)])), cards=CARDS)
    (event,) = events(facts)
    assert (event.count, event.first_at, event.occurred_at) == (1_000, BOOT_AT + SECOND_US, BOOT_AT + 1_000 * SECOND_US)


def test_events_of_other_cards_codes_and_processes_stay_apart() -> None:
    texts = [XID_31, XID_31.replace("3b", "9b"), XID_31.replace("31", "13"), XID_31.replace("pid=7", "pid=8"), XID_31]
    facts = events(round_of(KernelLogFollower(Kmsg([record(n, text) for n, text in enumerate(texts)]))))
    assert sorted(event.count for event in facts) == [1, 1, 1, 2]


@pytest.mark.parametrize("order", [(FALL, XID_79), (XID_79, FALL)])
@pytest.mark.parametrize("restart", [False, True])
def test_a_fall_that_is_told_twice_in_two_rounds_is_one(order: tuple[str, str], restart: bool) -> None:
    written: list[bytes | int] = [record(1, order[0])]
    follower = KernelLogFollower(Kmsg(written))
    found = events(round_of(follower, cards=CARDS))
    if restart:
        follower = KernelLogFollower(Kmsg(written), follower.cursor())
    written.append(record(2, order[1]))
    for after in (10, 10 + HOLD_US // SECOND_US, 100):
        found += events(round_of(follower, after, CARDS))
    assert [(event.kind, event.code) for event in found] == [("xid", 79)]


@pytest.mark.parametrize("restart", [False, True])
def test_a_fall_without_an_xid_is_told_after_a_while_and_once(restart: bool) -> None:
    written: list[bytes | int] = [record(1, FALL)]
    follower = KernelLogFollower(Kmsg(written))
    assert codes(round_of(follower, cards=CARDS)) == []
    if restart:
        follower = KernelLogFollower(Kmsg(written), follower.cursor())
    written.append(record(2, FALL))
    facts = [fact for after in (10, 21, 42) for fact in round_of(follower, after, CARDS)]
    assert [(event.kind, event.code, event.occurred_at) for event in events(facts)] == [
        ("fell_off_bus", 79, BOOT_AT + SECOND_US)
    ]
    assert [fact.device_uuid for fact in facts if isinstance(fact, Device)] == [CARD]


def test_a_fall_in_three_lines_that_a_round_cuts_apart_is_one() -> None:
    lines = [
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ]
    written: list[bytes | int] = [record(1, lines[0]), record(2, lines[1])]
    follower = KernelLogFollower(Kmsg(written))
    found = round_of(follower)
    written.append(record(3, lines[2]))
    found += round_of(follower, 10) + round_of(follower, 30)
    assert [(event.kind, event.pci_address) for event in events(found)] == [("fell_off_bus", "00000000:B3:00.0")]


def test_every_recorded_line_gives_what_reading_the_whole_gives(shared: Path) -> None:
    text = (shared / "cases" / "smi" / "xid_log_lines.txt").read_text(encoding="utf-8")
    lines = [part for line in text.splitlines() if "\t" in line for part in line.split("\t", 1)[1].split("\\n")]
    stamped = [
        f"2026-11-30T11:{at:02d}:00Z {NODE} kernel: {line[line.find('N') :] if 'NVRM' in line else line}"
        for at, line in enumerate(lines)
    ]
    whole = [
        fact for fact in read_kernel_log(stamped, ReadContext(node=NODE, observed_at=AT)) if isinstance(fact, Event)
    ]
    follower = KernelLogFollower(Kmsg([]))
    found: list[Fact] = []
    for at, line in enumerate(stamped):
        follower._source = _Once([line])
        found += round_of(follower, at)
    follower._source = _Once([])
    found += round_of(follower, 1_000)
    key = sorted((event.kind, event.code, event.pci_address or "", event.occurred_at) for event in events(found))
    assert key == sorted((event.kind, event.code, event.pci_address or "", event.occurred_at) for event in whole)
    assert len(key) > 15


class _Once(LogSource):
    """A log of these lines, in one round."""

    name = "test"

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def read(self, since: records.Position) -> tuple[list[str], records.Position, str | None]:
        return self._lines, since, None

    def close(self) -> None:
        pass


def test_the_real_device_is_read_one_record_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, ours:
        ours.setblocking(False)
        source = KmsgSource(Path("/dev/kmsg"), NODE, lambda: ("b", BOOT_AT))
        monkeypatch.setattr(source, "_opened", ours.fileno)
        follower = KernelLogFollower(source)
        assert codes(round_of(follower)) == []
        for number in range(3):
            theirs.send(record(number, XID_31))
        assert [event.count for event in events(round_of(follower))] == [3]


def test_a_device_that_may_not_be_read_says_what_right_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceUnavailable, match="No such file"):
        round_of(KernelLogFollower(KmsgSource(tmp_path / "kmsg")))

    def refused(*_arguments: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(SourceUnavailable, match="CAP_SYSLOG"):
        round_of(KernelLogFollower(KmsgSource()))


def stamped(second: int, text: str = XID_31) -> str:
    return f"2026-11-30T11:00:{second:02d}Z {NODE} kernel: {text}\n"


@contextmanager
def appended(path: Path) -> Iterator[list[str]]:
    lines: list[str] = []
    yield lines
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def test_a_file_is_followed_line_by_line_and_half_a_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text(stamped(1) + stamped(2, XID_79)[:70])
    follower = KernelLogFollower(FileSource(path))
    assert codes(round_of(follower)) == [31]
    with path.open("a") as file:
        file.write(stamped(2, XID_79)[70:])
    assert codes(round_of(KernelLogFollower(FileSource(path), follower.cursor()))) == [79]


@pytest.mark.parametrize("how", ["renamed", "truncated", "removed"])
def test_a_file_is_followed_through_rotation_and_what_is_lost_is_said(tmp_path: Path, how: str) -> None:
    path = tmp_path / "kern.log"
    path.write_text("x" * 500 + "\n" + stamped(1))
    follower = KernelLogFollower(FileSource(path))
    round_of(follower)
    if how == "renamed":
        with path.open("a") as file:
            file.write(stamped(2, XID_79))
        path.rename(tmp_path / "kern.log.1")
    elif how == "removed":
        (tmp_path / "other").write_text("keeps the inode from being used again")
        path.rename(tmp_path / "elsewhere")
    path.write_text(stamped(3, XID_31.replace("31", "13")))
    facts = round_of(KernelLogFollower(FileSource(path), follower.cursor()))
    assert codes(facts) == ([79, 13] if how == "renamed" else [13])
    assert findings(facts) == ([] if how == "renamed" else ["kernel_log_gap"])


def test_of_a_large_file_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROUND_BYTES_MAX", 4_096)
    path = tmp_path / "kern.log"
    path.write_text(stamped(1, XID_79) + "".join(f"line {n}\n" for n in range(2_000)) + stamped(2))
    follower = KernelLogFollower(FileSource(path))
    assert codes(round_of(follower)) == [31]
    with path.open("a") as file:
        file.write("".join(f"line {n}\n" for n in range(2_000)) + stamped(3, XID_79))
    assert [codes(round_of(follower, n)) for n in range(8)].count([79]) == 1


def journalctl(folder: Path, body: str) -> JournalSource:
    path = folder / "journalctl"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return JournalSource((str(path),))


def test_the_journal_is_asked_for_what_came_after_its_cursor(tmp_path: Path) -> None:
    entry = {"MESSAGE": XID_31, "__REALTIME_TIMESTAMP": str(AT), "_HOSTNAME": NODE, "__CURSOR": "s=1;i=2"}
    (tmp_path / "entry").write_text(json.dumps(entry) + "\n")
    body = f'case "$*" in *--after-cursor=s=1*) ;; *--boot*) cat {tmp_path}/entry;; esac; echo "$@" >> {tmp_path}/asked'
    source = journalctl(tmp_path, body)
    follower = KernelLogFollower(source)
    (event,) = events(round_of(follower))
    assert (event.code, event.occurred_at) == (31, AT)
    again = KernelLogFollower(source, follower.cursor())
    assert codes(round_of(again)) == codes(round_of(again)) == []
    assert "--dmesg" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("body", ["echo 'no journal files' >&2; exit 1", "exit 3"])
def test_a_journal_that_cannot_be_read_is_unavailable(tmp_path: Path, body: str) -> None:
    with pytest.raises(SourceUnavailable, match=r"journal: (no journal files|exit 3)"):
        round_of(KernelLogFollower(journalctl(tmp_path, body)))
    with pytest.raises(SourceUnavailable, match="journal"):
        round_of(KernelLogFollower(JournalSource(("/nonexistent/journalctl",))))


@pytest.mark.parametrize("cursor", ["", "rubbish", "{}", "[]", '{"position": 1}', '{"held": [1]}', "[" * 10_000])
def test_a_cursor_that_is_none_begins_anew(cursor: str) -> None:
    assert codes(round_of(KernelLogFollower(Kmsg([record(1, XID_31)]), cursor))) == [31]


def test_a_log_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text(stamped(1))
    follower = KernelLogFollower(FileSource(path))
    round_of(follower)
    before = follower.cursor()
    path.rename(tmp_path / "away")
    with pytest.raises(SourceUnavailable):
        round_of(follower)
    assert follower.cursor() == before
    (tmp_path / "away").rename(path)
    with path.open("a") as file:
        file.write(stamped(2, XID_79))
    assert codes(round_of(follower)) == [79]
