"""Files that hold the outputs of several commands under banners, as collection scripts write them.

A banner is a rule of ``#``, one line ``# <phase> :: <name>``, perhaps ``# $ <command>``, and a rule again. Each section is read in its own
form. The tricks to know: sections help each other (the UUIDs of ``-L`` name the cards of the table, the table's instance ids place the
processes of the csv), so all are read twice, first for the directory; and a section that prints no time (pmon, dmon, ``-L``) is
dated by the last time before it in the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.instant import AT_OBSERVATION, Instant, parse_instant
from steelyard.sources.shared.plain_text import numbered_lines

SECTIONS_MAX: Final = 2_000
_RULE: Final = re.compile(r"#{40,200}\s*\Z")
_TITLE: Final = re.compile(r"# (.{1,80}) :: (.{1,200})\Z")
_COLLECTED: Final = re.compile(r"collected_at:\s{1,20}(\S{10,40})\s*\Z")
_COMMANDS: Final = (
    (re.compile(r"nvidia-smi\s+(?:-L|--list-gpus)\b"), "smi_list"),
    (re.compile(r"nvidia-smi\s+--query-gpu="), "smi_query_gpu"),
    (re.compile(r"nvidia-smi\s+--query-compute-apps="), "smi_compute_apps"),
    (re.compile(r"nvidia-smi\s+--query-accounted-apps="), "smi_accounted_apps"),
    (re.compile(r"nvidia-smi\s+--query-retired-pages="), "smi_retired_pages"),
    (re.compile(r"nvidia-smi\s+(?:-q\s.{0,80}-x|-x\s.{0,80}-q)"), "smi_xml"),
    (re.compile(r"nvidia-smi\s+-q\b"), "smi_q"),
    (re.compile(r"nvidia-smi\s+pmon\b"), "smi_pmon"),
    (re.compile(r"nvidia-smi\s+dmon\b"), "smi_dmon"),
    (re.compile(r"nvidia-smi\s+topo\b"), "smi_topo"),
    (re.compile(r"nvidia-smi\s+nvlink\b"), "smi_nvlink"),
    (re.compile(r"nvidia-smi\s*\Z"), "smi_table"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """One command's output: where it starts (line and character), where it ends, its title, and its form by the command's words."""

    title: str
    command: str
    form: str | None
    first_line: int
    start: int
    end: int


def sections_of(text: str) -> list[Section]:
    """The sections of a capture, in order; at most ``SECTIONS_MAX``. A rule without a title under it belongs to the section it stands in."""
    sections: list[Section] = []
    title, command, in_banner, rule_at = "", "", False, -1
    body, body_line, position = 0, 1, 0
    for number, line in numbered_lines(text):
        following = text.find("\n", position) + 1 or len(text)
        is_rule = _RULE.match(line[:300]) is not None
        closes = is_rule and in_banner
        named = _TITLE.match(line) if rule_at >= 0 and len(line) <= 300 else None
        if in_banner and line.startswith("# $ ") and not is_rule:
            command = line[4:].strip()
        elif in_banner:
            in_banner = False
            body, body_line = (following, number + 1) if is_rule else (position, number)
        elif named is not None:
            if title and len(sections) < SECTIONS_MAX:
                sections.append(Section(title, command, _form_of(command), body_line, body, rule_at))
            title, command, in_banner = f"{named.group(1)} :: {named.group(2)}", "", True
            body, body_line = following, number + 1
        rule_at = position if is_rule and not closes else -1
        position = following
    if title and len(sections) < SECTIONS_MAX:
        sections.append(Section(title, command, _form_of(command), body_line, body, len(text)))
    return sections


def collected_at(text: str) -> Instant:
    """The time of collection that the preamble states with its zone; AT_OBSERVATION where it does not."""
    for number, line in numbered_lines(text[:16_384]):
        match = _COLLECTED.match(line) if number < 100 and len(line) < 100 else None
        if match is not None:
            try:
                return parse_instant(match.group(1))
            except ValueError:
                break
    return AT_OBSERVATION


def _form_of(command: str) -> str | None:
    return next((form for pattern, form in _COMMANDS if pattern.match(command[:400])), None)
