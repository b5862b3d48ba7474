"""A kernel log becomes events: Xid, SXid, cards off the bus, and the map from PCI address to UUID.

A kernel log is mostly about other things, so lines that are none of ours are passed over in silence; an Xid line that cannot be read
is refused. The tricks to know: a card that fell off the bus often shows no Xid, or shows both, so code 79 is synthesised from the
words and dropped where a real 79 of the same address stands nearby; and an Xid may come before the line that tells its UUID, so
events wait, in bounds, until the log says it or ends. A boot ends the map: cards may have been swapped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.event import Event
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import AT_OBSERVATION, MINUTE_US
from steelyard.primitives.unknown import known
from steelyard.sources.kernel_log.grammar import Message, find_message
from steelyard.sources.kernel_log.stamps import LineStamp, journal_entry, line_stamp
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory, merge_devices
from steelyard.sources.shared.plain_text import decode_text, numbered_lines, plain
from steelyard.sources.shared.refusals import Refusals

SOURCE: Final = "kernel_log"
OFF_BUS_CODE: Final = 79
SAME_FALL_US: Final = 5 * MINUTE_US
SAME_FALL_LINES: Final = 50
OFF_BUS_LINES: Final = 4
WAITING_MAX: Final = 10_000
KEYS_MAX: Final = 200_000
_BOOT: Final = re.compile(r"(?:kernel:|\]|^)\s{0,4}(?:\[\s{0,8}0\.0{1,9}\]\s)?Linux version [0-9]")
_CLOCK: Final = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_STAMPED: Final = re.compile(
    r"(?:[^\n,\[]{0,300}[\t:] {0,4})?\s{0,4}(?:<[0-9]{1,3}>)?"
    rf"(?:\[ {{0,8}}[0-9]{{1,10}}\.[0-9]{{1,9}}\]|\[\.{{3}}\]|\[[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} {{1,2}}[0-9]{{1,2}} {_CLOCK} [0-9]{{4}}\]) "
)
"""dmesg's ``[   12.345678] ``, ``[Sun Feb 23 16:24:18 2025] ``, an elided ``[...] ``; grep and lists put a name and a tab or colon before it."""
_FROM_KERNEL: Final = re.compile(
    r"[^\n,]{0,300}\bkernel: |(?:[^\n,\[]{0,300}\t)?\s{0,4}(?:NVRM: |nvidia-nvswitch[0-9]{1,3}: )"
)
"""A line of syslog or the journal, or the driver's message without a stamp."""
_SYSLOG: Final = re.compile(
    rf"(?:[A-Z][a-z]{{2}} {{1,2}}[0-9]{{1,2}} {_CLOCK}|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T{_CLOCK}\S{{0,20}}) \S{{1,253}} \S"
)
"""A line of any program in syslog: in a kernel log's company, where at least one line is the kernel's."""
_HEAD_LINES_MAX: Final = 2_000


Slot = tuple[str | None, str]
"""(node, PCI address): a log server's file tells of many nodes."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A message with its place and time."""

    message: Message
    stamp: LineStamp
    line: int


def sniff(head: bytes) -> str | None:
    """``kernel_log`` where most lines of this beginning of a file have the shape of a kernel log's; prose that quotes one is none.

    Blank lines and comments say nothing. A text of another kind that has stamps like dmesg's without any from the kernel would be taken for one.
    """
    ours = others = said = 0
    for number, line in numbered_lines(decode_text(head[:65_536])):
        if number > _HEAD_LINES_MAX:
            break
        if line.strip() and not line.startswith("#"):
            said += 1
            start = plain(line[:1_000])
            if _STAMPED.match(start) is not None or _FROM_KERNEL.match(start) is not None:
                ours += 1
            elif _SYSLOG.match(start) is not None:
                others += 1
    return SOURCE if ours and 2 * (ours + others) >= said else None


def read_kernel_log(
    lines: Iterable[str] | str | bytes, ctx: ReadContext, directory: DeviceDirectory | None = None
) -> Iterator[Fact]:
    """Events, Devices in state ``lost``, findings and one SourceStatus. ``directory`` names cards whose UUID the log does not tell.

    Raises UsageError for an unknown time zone in the settings.
    """
    log = _Log(ctx, directory or DeviceDirectory())
    numbered = numbered_lines(decode_text(lines)) if isinstance(lines, str | bytes) else enumerate(lines, start=1)
    for number, text in numbered:
        yield from log.take(number, text)
    yield from log.finish()


class _Log:
    """The state of one reading: the map, the events that wait for it, the falls that wait for a real Xid 79."""

    def __init__(self, ctx: ReadContext, directory: DeviceDirectory) -> None:
        self._ctx = ctx
        self._directory = directory
        self._refusals = Refusals(ctx, SOURCE)
        self._timezone = _zone(ctx.settings.smi_timezone)
        self._uuids: dict[Slot, str] = {}
        self._waiting: dict[Slot, list[_Seen]] = {}
        self._waiting_count = 0
        self._falls: dict[Slot, _Seen] = {}
        self._real_falls: dict[Slot, _Seen] = {}
        self._begun: _Seen | None = None
        self._keys: Counter[str] = Counter()
        self._events_count = 0

    def take(self, number: int, text: str) -> Iterator[Fact]:
        """The facts that a line makes certain."""
        limit = self._ctx.settings.line_bytes_max
        if len(text) > limit:
            yield from self._refusals.refuse(f"a line longer than {limit} is refused", number, text)
            return
        text = plain(text)
        journal = journal_entry(text)
        text, stamp = journal if journal is not None else (text, None)
        found = find_message(text)
        if found is None:
            if "Linux version " in text and _BOOT.search(text[:400]):
                yield from self._flush()
                self._uuids.clear()
            return
        start, message = found
        stamp = stamp or line_stamp(text[:start], self._ctx.observed_at, self._timezone)
        yield from self._take_message(_Seen(message, stamp, number), text)

    def finish(self) -> Iterator[Fact]:
        """What still waits, then the findings that were too many, then the status."""
        yield from self._flush()
        yield from self._refusals.rest()
        scope = f"node/{self._ctx.node}" if self._ctx.node is not None else "cluster"
        yield SourceStatus(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"{SOURCE}/{scope}",
            occurred_at=self._ctx.observed_at,
            observed_at=self._ctx.observed_at,
            kind=SOURCE,
            scope=scope,
            status="partial" if self._refusals.count else "ok",
            objects_count=self._events_count,
            as_of_basis="inferred",
        )

    def _take_message(self, seen: _Seen, text: str) -> Iterator[Fact]:
        message = seen.message
        if message.kind == "malformed":
            yield from self._refusals.refuse(
                "expected an Xid line such as NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, text", seen.line, text
            )
        elif message.kind == "off_bus_begin":
            self._begun = seen
        elif message.kind == "off_bus_end":
            begun, self._begun = self._begun, None
            if begun is not None and seen.line - begun.line <= OFF_BUS_LINES:
                yield from self._fall(_Seen(_whole_fall(begun.message, message.text), begun.stamp, begun.line))
        elif message.kind == "fell_off_bus":
            yield from self._fall(seen)
        elif message.pci is None:
            yield from self._refusals.find(
                "pci_address_unreadable",
                f"file {self._ctx.file}",
                f"expected a PCI address, found {message.pci_text!r}",
                line=seen.line,
                excerpt=text,
            )
            yield from self._facts(seen, None)
        elif message.kind == "pci_map":
            yield from self._map(seen, (self._node(seen), message.pci))
        else:
            yield from self._event(seen, (self._node(seen), message.pci))

    def _map(self, seen: _Seen, slot: Slot) -> Iterator[Fact]:
        uuid = seen.message.device_uuid
        if uuid is not None and (slot in self._uuids or len(self._uuids) < KEYS_MAX):
            self._uuids[slot] = uuid
        yield from self._facts(seen, uuid)
        ready = self._waiting.pop(slot, [])
        self._waiting_count -= len(ready)
        for each in ready:
            yield from self._facts(each, uuid)

    def _event(self, seen: _Seen, slot: Slot) -> Iterator[Fact]:
        if seen.message.code == OFF_BUS_CODE and seen.message.kind == "xid":
            fall = self._falls.get(slot)
            if fall is not None and _same_fall(fall, seen):
                del self._falls[slot]
            if slot in self._real_falls or len(self._real_falls) < KEYS_MAX:
                self._real_falls[slot] = seen
        yield from self._when_known(seen, slot)

    def _fall(self, seen: _Seen) -> Iterator[Fact]:
        """A fall told in words: kept back until it is certain that no real Xid 79 tells it too."""
        pci = seen.message.pci
        if pci is None:
            message = f"expected a PCI address, found {seen.message.pci_text!r}"
            yield from self._refusals.refuse(message, seen.line, seen.message.text)
            return
        slot = (self._node(seen), pci)
        real, earlier = self._real_falls.get(slot), self._falls.get(slot)
        if (real is not None and _same_fall(real, seen)) or (earlier is not None and _same_fall(earlier, seen)):
            return
        if earlier is not None:
            yield from self._when_known(earlier, slot)
        if earlier is not None or len(self._falls) < KEYS_MAX:
            self._falls[slot] = seen
        else:
            yield from self._when_known(seen, slot)

    def _when_known(self, seen: _Seen, slot: Slot) -> Iterator[Fact]:
        if seen.message.kind == "sxid":
            yield from self._facts(seen, None)
            return
        uuid = self._uuids.get(slot) or known(self._directory.uuid_of(slot[0], pci=slot[1]))
        if uuid is None and self._waiting_count < WAITING_MAX:
            self._waiting.setdefault(slot, []).append(seen)
            self._waiting_count += 1
        else:
            yield from self._facts(seen, uuid)

    def _flush(self) -> Iterator[Fact]:
        for slot, fall in self._falls.items():
            yield from self._when_known(fall, slot)
        for waiting in self._waiting.values():
            for seen in waiting:
                yield from self._facts(seen, None)
        self._falls, self._real_falls, self._waiting, self._waiting_count, self._begun = {}, {}, {}, 0, None

    def _node(self, seen: _Seen) -> str | None:
        return self._ctx.node or seen.stamp.node

    def _facts(self, seen: _Seen, uuid: str | None) -> Iterator[Fact]:
        message, stamp = seen.message, seen.stamp
        instant = stamp.instant if stamp.instant != AT_OBSERVATION else self._ctx.observed_at
        details = dict(message.details)
        if stamp.instant == AT_OBSERVATION:
            details["time_unknown"] = "the line does not date itself in full"
        if stamp.boot_us is not None:
            details["boot_seconds"] = stamp.boot_us / 1_000_000
        if stamp.written is not None:
            details["written"] = stamp.written
        if message.kind == "fell_off_bus":
            details["synthesised"] = "from the driver's words; no Xid 79 of this address stands nearby"
        when = stamp.written or stamp.boot_us if stamp.instant == AT_OBSERVATION else stamp.instant
        parts = (message.kind, self._node(seen), message.pci or message.pci_text, message.code, when, message.pid)
        key = "/".join("-" if part is None else str(part) for part in parts)
        self._events_count += 1
        yield Event(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"{key}#{self._occurrence(key + message.text)}",
            occurred_at=instant,
            observed_at=self._ctx.observed_at,
            kind=message.kind,
            reason=_reason(message),
            message=message.text,
            component=message.component or "NVRM",
            severity=message.severity,
            node=self._node(seen),
            subject_kind="nvswitch" if message.kind == "sxid" else "device",
            subject_name=message.component if message.kind == "sxid" else None,
            device_uuid=uuid,
            pci_address=message.pci,
            code=message.code,
            pid=message.pid,
            process_name=message.process_name,
            details=msgspec.json.encode(details, order="sorted").decode(),
        )
        if uuid is not None and message.code == OFF_BUS_CODE and message.kind in ("xid", "fell_off_bus"):
            yield self._lost(seen, uuid, instant)

    def _lost(self, seen: _Seen, uuid: str, instant: int) -> Device:
        device = Device(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=uuid,
            occurred_at=instant,
            observed_at=self._ctx.observed_at,
            device_uuid=uuid,
            node=self._node(seen),
            pci_address=seen.message.pci,
            state="lost",
            state_reason="fallen off the bus (Xid 79)",
            encoding=SOURCE,
        )
        return merge_devices(self._directory.devices.get(uuid), device)

    def _occurrence(self, key: str) -> int:
        if key not in self._keys and len(self._keys) >= KEYS_MAX:
            self._keys.clear()
        self._keys[key] += 1
        return self._keys[key]


def _whole_fall(message: Message, more: str) -> Message:
    """The first line's message as a whole fall, with the words of the last line."""
    return Message("fell_off_bus", f"{message.text} {more}", message.pci_text, OFF_BUS_CODE)


def _same_fall(one: _Seen, other: _Seen) -> bool:
    distance = one.stamp.distance_us(other.stamp)
    return distance <= SAME_FALL_US if distance is not None else abs(one.line - other.line) <= SAME_FALL_LINES


def _reason(message: Message) -> str:
    if message.kind in ("xid", "sxid"):
        return f"{'Xid' if message.kind == 'xid' else 'SXid'} {message.code}"
    return "FallenOffBus" if message.kind == "fell_off_bus" else "PciMap"


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            _("smi_timezone: expected a time zone such as UTC or Europe/Berlin, found {zone!r}").format(zone=name)
        ) from None
