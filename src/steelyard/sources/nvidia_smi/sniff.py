"""Which form of nvidia-smi a text is, told from its first kilobytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from steelyard.sources.nvidia_smi.csv_form import csv_kind
from steelyard.sources.nvidia_smi.failures import is_failure
from steelyard.sources.nvidia_smi.list_form import LIST_GPU
from steelyard.sources.nvidia_smi.query_form import BANNER
from steelyard.sources.nvidia_smi.table_form import FIRST_ROW
from steelyard.sources.shared.plain_text import decode_text, numbered_lines

HEAD_BYTES: Final = 65_536
LINES_MAX: Final = 400
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]{0,8}m")
_TOPOLOGY: Final = re.compile(r"\s*GPU0\t")
_MONITOR: Final = re.compile(r"#\s{0,8}(?:Date\s{1,12})?(?:Time\s{1,12})?gpu\s")
_CAPTURE: Final = re.compile(r"#{40,}\s*\Z")
_LINK: Final = re.compile(
    r"\s{1,12}Link [0-9]{1,3}: |.{0,8}Nvlink|Device does not have or support Nvlink", re.IGNORECASE
)


def sniff(head: bytes) -> str | None:
    """The form that this beginning of a file belongs to, or None where it is not from nvidia-smi."""
    text = decode_text(head[:HEAD_BYTES])
    if "<nvidia_smi_log" in text:
        return "smi_xml"
    lines = [line[:8_192] for _, line in _first(text)]
    if _is_capture(lines):
        return "smi_capture"
    for at, raw in enumerate(lines):
        line = _ESCAPE.sub("", raw)
        form = _form_of(line)
        if form == "smi_list" and any(_LINK.match(later) for later in lines[at + 1 : at + 3]):
            return "smi_nvlink"
        if form is not None:
            return form
    return "smi_failure" if any(is_failure(line) for line in lines[:20]) else None


def _first(text: str) -> Iterator[tuple[int, str]]:
    for number, line in numbered_lines(text):
        if number > LINES_MAX:
            return
        yield number, line


def _is_capture(lines: list[str]) -> bool:
    banners = sum(_CAPTURE.match(line) is not None for line in lines)
    return banners >= 2 and any(line.startswith("# $ nvidia-smi") for line in lines)


def _form_of(line: str) -> str | None:
    if LIST_GPU.match(line):
        return "smi_list"
    if BANNER in line:
        return "smi_q"
    if line.startswith("| NVIDIA-SMI") or FIRST_ROW.match(line):
        return "smi_table"
    if _MONITOR.match(line):
        return "smi_pmon" if " pid " in f"{line} " else "smi_dmon"
    if _TOPOLOGY.match(line):
        return "smi_topo"
    return csv_kind(line) if "," in line else None
