"""What stands before the message on a line of a kernel log: when, and on which node.

Forms: ``[  12.345]`` (dmesg: seconds since boot, no date), ``[Sun Feb 23 16:24:18 2025]`` (``dmesg -T``),
``Nov 22 18:29:55 host kernel:`` (syslog: no year), ``2025-02-23T16:24:18.5+0000 host kernel:`` (journald, rsyslog),
``6,123,45678,-;`` (/dev/kmsg), ``journalctl -o json``. Only ISO times and the journal have a zone; the others are read in the setting
``smi_timezone``. The trick to know: a line without a date keeps its seconds since boot, and its instant is that of the observation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from steelyard.primitives.instant import AT_OBSERVATION, DAY_US, Instant, from_datetime, parse_instant, to_datetime

PREFIX_CHARACTERS_MAX: Final = 400
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_BRACKET: Final = re.compile(r"\[([^\[\]]{1,40})\]")
_BOOT: Final = re.compile(r"\s*([0-9]{1,12})\.([0-9]{1,9})\Z")
_CTIME: Final = re.compile(
    r"[A-Z][a-z]{2}\s{1,2}([A-Z][a-z]{2})\s{1,2}([0-9]{1,2})\s([0-9]{2}):([0-9]{2}):([0-9]{2})\s([0-9]{4})\Z"
)
_ISO: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?)(Z|[+-][0-9]{2}:?[0-9]{2})?(?:\s{1,4}(\S{1,253})\s{1,4}kernel)?"
)
_SYSLOG: Final = re.compile(
    r"(?:^|[\s>])([A-Z][a-z]{2})\s{1,2}([0-9]{1,2})\s([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\s{1,4}(\S{1,253})\s{1,4}kernel)?"
)
_KMSG: Final = re.compile(r"[0-9]{1,4},[0-9]{1,20},([0-9]{1,18}),[^;]{0,40};")


@dataclass(frozen=True, slots=True)
class LineStamp:
    """When a line was written. ``instant``: AT_OBSERVATION where the line does not say it in full. ``boot_us``: since boot, or None.

    ``written``: a time without a year, as it stands. ``node``: the host a syslog line names.
    """

    instant: Instant = AT_OBSERVATION
    boot_us: int | None = None
    node: str | None = None
    written: str | None = None

    def distance_us(self, other: LineStamp) -> int | None:
        """How far apart two lines are; None where they have no common clock."""
        if self.instant != AT_OBSERVATION and other.instant != AT_OBSERVATION:
            return abs(self.instant - other.instant)
        if self.boot_us is not None and other.boot_us is not None:
            return abs(self.boot_us - other.boot_us)
        return None


def line_stamp(prefix: str, observed_at: Instant, timezone: ZoneInfo) -> LineStamp:
    """The stamp of a line from what stands before its message."""
    prefix = prefix[-PREFIX_CHARACTERS_MAX:]
    boot_us, instant, node, written = _boot_us(prefix), AT_OBSERVATION, None, None
    iso = _ISO.search(prefix)
    if iso is not None:
        instant = _iso(iso.group(1), iso.group(2), timezone)
        node = iso.group(3)
    for bracket in _BRACKET.finditer(prefix):
        named = _CTIME.match(bracket.group(1))
        if named is not None and instant == AT_OBSERVATION:
            month, day, hour, minute, second, year = named.groups()
            instant = _local(year, month, day, hour, minute, second, timezone)
    if instant == AT_OBSERVATION and (syslog := _SYSLOG.search(_BRACKET.sub("", prefix))) is not None:
        month, day, hour, minute, second, node = syslog.groups()
        written = f"{month} {day} {hour}:{minute}:{second}"
        instant = _in_likely_year(month, day, hour, minute, second, observed_at, timezone)
    return LineStamp(instant, boot_us, node, written if instant == AT_OBSERVATION else None)


class _JournalEntry(msgspec.Struct):
    message: str = msgspec.field(name="MESSAGE")
    realtime: str | None = msgspec.field(name="__REALTIME_TIMESTAMP", default=None)
    source_realtime: str | None = msgspec.field(name="_SOURCE_REALTIME_TIMESTAMP", default=None)
    hostname: str | None = msgspec.field(name="_HOSTNAME", default=None)


def journal_entry(line: str) -> tuple[str, LineStamp] | None:
    """(message, stamp) of a line of ``journalctl -k -o json``; None for any other line."""
    if not line.startswith("{") or '"MESSAGE"' not in line:
        return None
    try:
        entry = msgspec.json.decode(line, type=_JournalEntry)
    except (msgspec.MsgspecError, RecursionError):
        return None
    written = entry.source_realtime or entry.realtime or ""
    instant = int(written) if written.isdecimal() and len(written) <= 17 else AT_OBSERVATION
    return entry.message, LineStamp(instant, node=entry.hostname)


def _boot_us(prefix: str) -> int | None:
    kmsg = _KMSG.search(prefix)
    if kmsg is not None:
        return int(kmsg.group(1))
    for bracket in _BRACKET.finditer(prefix):
        seconds = _BOOT.match(bracket.group(1))
        if seconds is not None:
            return int(seconds.group(1)) * 1_000_000 + int(seconds.group(2).ljust(6, "0")[:6])
    return None


def _iso(text: str, zone: str | None, timezone: ZoneInfo) -> Instant:
    try:
        if zone is not None:
            return parse_instant(text.replace(",", ".") + zone)
        return from_datetime(datetime.fromisoformat(text.replace(",", ".")[:26]).replace(tzinfo=timezone))
    except (ValueError, OverflowError):
        return AT_OBSERVATION


def _local(year: str | int, month: str, day: str, hour: str, minute: str, second: str, timezone: ZoneInfo) -> Instant:
    if month.casefold() not in _MONTHS:
        return AT_OBSERVATION
    try:
        moment = datetime(
            int(year),
            _MONTHS.index(month.casefold()) + 1,
            int(day),
            int(hour),
            int(minute),
            int(second),
            tzinfo=timezone,
        )
        return from_datetime(moment)
    except (ValueError, OverflowError):
        return AT_OBSERVATION


def _in_likely_year(
    month: str, day: str, hour: str, minute: str, second: str, observed_at: Instant, timezone: ZoneInfo
) -> Instant:
    """The latest year in which the time is not more than a day after the observation; AT_OBSERVATION where that is not known."""
    if observed_at == AT_OBSERVATION:
        return AT_OBSERVATION
    year = to_datetime(observed_at).year
    for candidate in (year + 1, year, year - 1, year - 2, year - 3, year - 4):
        instant = _local(candidate, month, day, hour, minute, second, timezone)
        if instant != AT_OBSERVATION and instant <= observed_at + DAY_US:
            return instant
    return AT_OBSERVATION
