"""The messages of NVIDIA's drivers in a kernel log, taken apart.

``NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, text``; the old form lacks ``PCI:``; the code may end the line; names may hold
colons and blanks. ``nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 text``. ``NVRM: GPU at PCI:0000:9b:00: GPU-uuid``. The pid is
the host's and for some codes an innocent bystander's. Sceptic's command: ``dmesg -T | grep -E 'NVRM|SXid'``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from steelyard.sources.shared.pci import pci_or_none

MESSAGE_CHARACTERS_MAX: Final = 2_000
_START: Final = re.compile(r"NVRM: |nvidia-nvswitch[0-9]{1,3}: ")
_XID: Final = re.compile(r"NVRM: Xid \(([0-9A-Za-z:.]{4,24})\): ([0-9]{1,6})(?![0-9.])(.*)", re.DOTALL)
_XID_LIKE: Final = re.compile(r"NVRM: Xid\b")
_SXID: Final = re.compile(
    r"nvidia-(nvswitch[0-9]{1,3}): SXid \(([0-9A-Za-z:.]{4,24})\): ([0-9]{1,6}), ?(.*)", re.DOTALL
)
_SXID_LIKE: Final = re.compile(r"nvidia-nvswitch[0-9]{1,3}: SXid\b")
_MAP: Final = re.compile(r"NVRM: GPU at ([0-9A-Za-z:.]{4,24}): (GPU-[0-9A-Fa-f-]{36})")
_OFF_BUS: Final = re.compile(r"NVRM: GPU ([0-9A-Fa-f:.]{4,24}): GPU has fallen off the bus")
_OFF_BUS_BEGIN: Final = re.compile(r"NVRM: The NVIDIA GPU ([0-9A-Fa-f:.]{4,24})")
_OFF_BUS_END: Final = "fallen off the bus"
_PID: Final = re.compile(r",\s{0,2}pid='?(<unknown>|[0-9]{1,10})'?")
_NAME: Final = re.compile(r",\s{0,2}name='?([^,]{1,200})")
_CHANNEL: Final = re.compile(r",\s{0,2}Ch(?:annel)? ([0-9A-Fa-f]{1,16})\b")
_LINK5: Final = re.compile(
    r"([A-Z][A-Z0-9_/]{1,40})\s{1,4}(Fatal|Nonfatal|Non-fatal)\s{1,4}(XC[0-9])\s{1,4}i([0-9]{1,4})\s{1,4}Link\s{1,4}(-?[0-9]{1,4})"
    r"\s{1,4}\(((?:0x[0-9A-Fa-f]{1,16}\s?){1,16})\)"
)
_RECOVERY: Final = re.compile(
    r"recovery action changed from (0x[0-9A-Fa-f]{1,8}) \(([^)]{1,60})\) to (0x[0-9A-Fa-f]{1,8}) \(([^)]{1,60})\)"
)
_SEVERITY: Final = re.compile(r"(Fatal|Non-fatal|Nonfatal|Severity [0-9]{1,3})\b")
_SWITCH_LINK: Final = re.compile(r"\bLink (-?[0-9]{1,4})\b")


@dataclass(frozen=True, slots=True)
class Message:
    """One message taken apart. kind: xid, sxid, fell_off_bus, off_bus_begin, off_bus_end, pci_map, or ``malformed``."""

    kind: str
    text: str
    pci_text: str | None = None
    code: int | None = None
    pid: int | None = None
    process_name: str | None = None
    component: str | None = None
    severity: str | None = None
    device_uuid: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def pci(self) -> str | None:
        """The PCI address in its one spelling, or None where it cannot be read."""
        return pci_or_none(self.pci_text)


def find_message(line: str) -> tuple[int, Message] | None:
    """(where the message starts, the message), or None for a line that is none of ours. Never raises."""
    start = _START.search(line)
    if start is None:
        return None
    text = line[start.start() : start.start() + MESSAGE_CHARACTERS_MAX].rstrip()
    message = _nvswitch(text) if text.startswith("nvidia-") else _nvrm(text)
    return (start.start(), message) if message is not None else None


def _nvrm(text: str) -> Message | None:
    xid = _XID.match(text)
    if xid is not None:
        return _xid(xid, text)
    if _XID_LIKE.match(text):
        return Message("malformed", text)
    mapped = _MAP.match(text)
    if mapped is not None:
        return Message("pci_map", text, mapped.group(1), device_uuid=f"GPU-{mapped.group(2)[4:].lower()}")
    gone = _OFF_BUS.match(text)
    if gone is not None:
        return Message("fell_off_bus", text, gone.group(1), 79)
    begin = _OFF_BUS_BEGIN.match(text)
    if begin is not None:
        kind = "fell_off_bus" if _OFF_BUS_END in text else "off_bus_begin"
        return Message(kind, text, begin.group(1), 79)
    return Message("off_bus_end", text) if _OFF_BUS_END in text else None


def _xid(match: re.Match[str], text: str) -> Message:
    pci_text, code, rest = match.groups()
    details: dict[str, object] = {}
    pid, name, channel = _PID.match(rest), None, _CHANNEL.search(rest)
    at = pid.end() if pid else 0
    named = _NAME.match(rest, at)
    if named is not None:
        at = named.end()
        name = named.group(1).strip().strip("'")
    if pid is not None and not pid.group(1).isdecimal():
        details["pid_unknown"] = pid.group(1)
    if name in ("<unknown>", "unknown", ""):
        details["process_name_unknown"] = name
        name = None
    if channel is not None:
        details["channel"] = channel.group(1)
    link = _LINK5.search(rest)
    if link is not None:
        unit, severity, crossbar, instance, number, words = link.groups()
        details |= {"unit": unit, "fatality": severity, "crossbar": crossbar, "instance": int(instance)}
        details |= {"link": int(number), "words": words.split()}
    recovery = _RECOVERY.search(rest)
    if recovery is not None:
        details |= dict(zip(("recovery_from_code", "recovery_from", "recovery_to_code", "recovery_to"), recovery.groups(), strict=True))  # fmt: skip
    described = rest[at:].lstrip(", ").rstrip()
    if described:
        details["text"] = described
    return Message(
        "xid",
        text,
        pci_text,
        int(code),
        int(pid.group(1)) if pid is not None and pid.group(1).isdecimal() else None,
        name,
        "NVRM",
        _fatality(link.group(2)) if link is not None else None,
        details=details,
    )


def _nvswitch(text: str) -> Message | None:
    match = _SXID.match(text)
    if match is None:
        return Message("malformed", text) if _SXID_LIKE.match(text) else None
    component, pci_text, code, rest = match.groups()
    said, link = _SEVERITY.match(rest), _SWITCH_LINK.search(rest)
    details: dict[str, object] = {"text": rest}
    if said is not None:
        details["severity"] = said.group(1)
    if link is not None:
        details["link"] = int(link.group(1))
    severity = _fatality(said.group(1)) if said is not None else None
    return Message("sxid", text, pci_text, int(code), component=component, severity=severity, details=details)


def _fatality(word: str) -> str | None:
    return {"fatal": "error", "nonfatal": "warning", "non-fatal": "warning"}.get(word.casefold())
