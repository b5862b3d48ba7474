"""``nvidia-smi -q`` as text: the same facts as the XML, nested by indentation.

Each line is ``Name : value`` at some depth. The trick to know: a process is three siblings, not a nest: ``GPU instance ID`` and
``Compute instance ID`` stand before the ``Process ID`` that they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.primitives.unknown import known
from steelyard.sources.nvidia_smi import values
from steelyard.sources.nvidia_smi.card_facts import card_facts
from steelyard.sources.nvidia_smi.failures import failure_facts
from steelyard.sources.nvidia_smi.reading import Page, ProcessReading
from steelyard.sources.nvidia_smi.tree import TEXT_MAP, Branch, card_of, mig_of
from steelyard.sources.shared.plain_text import numbered_lines

LINES_MAX: Final = 200_000
LINE_CHARACTERS_MAX: Final = 65_536
BANNER: Final = "==NVSMI LOG=="
_GPU: Final = re.compile(r"GPU ([0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}(?:\.[0-9A-Fa-f])?)\s*\Z")


def read_query(page: Page, lines: Iterator[tuple[int, str]]) -> Iterator[Fact]:
    """The facts of one or several logs in one text."""
    gpu: Branch | None = None
    stack: list[tuple[int, Branch]] = []
    driver: str | None = None
    position, count = 0, 0
    for line, text in lines:
        if not text.strip():
            continue
        found = _GPU.match(text) if len(text) <= 100 else None
        if found is not None or BANNER in text[:80]:
            if gpu is not None:
                yield from _gpu_facts(page, gpu, driver, position)
                position += 1
            position = 0 if found is None else position
            gpu = Branch(found.group(1), line) if found is not None else None
            stack, count = [(0, gpu)] if gpu is not None else [], 0
        elif gpu is None:
            name, _, value = _split(text)
            if name == "timestamp":
                yield from page.set_stamp(value, line)
            elif name == "driver version":
                driver = value
            elif name == "attached gpus":
                stated = known(values.count(value, 65_535))
                page.stated_count = int(stated) if stated is not None else None
            elif name != "cuda version":
                yield from _other(page, line, text)
        elif count >= LINES_MAX or len(text) > LINE_CHARACTERS_MAX:
            yield from page.refusals.refuse(f"more than {LINES_MAX} lines of one card, or a line too long", line, text)
        else:
            count += 1
            _grow(stack, line, text)
    if gpu is not None:
        yield from _gpu_facts(page, gpu, driver, position)


def _grow(stack: list[tuple[int, Branch]], line: int, text: str) -> None:
    name, depth, value = _split(text)
    while len(stack) > 1 and stack[-1][0] >= depth:
        stack.pop()
    branch = Branch(name, line, value)
    stack[-1][1].branches.append(branch)
    if len(stack) < 64:
        stack.append((depth, branch))


def _split(text: str) -> tuple[str, int, str]:
    depth = len(text) - len(text.lstrip(" "))
    name, separator, value = text.partition(" : ")
    if not separator and text.rstrip().endswith(" :"):
        name = text.rstrip()[:-1]
    return name.strip().casefold()[:200], depth, value.strip()


def _other(page: Page, line: int, text: str) -> Iterator[Fact]:
    found = list(failure_facts(page, line, text))
    yield from found or page.refusals.refuse("expected a line of nvidia-smi -q", line, text)


def _gpu_facts(page: Page, gpu: Branch, driver: str | None, position: int) -> Iterator[Fact]:
    card = card_of(gpu, TEXT_MAP)
    if values.is_missing(card.cells.get("pci", "")):
        card.cells["pci"] = gpu.name
    if driver is not None:
        card.cells["driver"] = driver
    if page.stated_count is not None and page.gpus_count == page.stated_count:
        card.cells["index"] = str(position)
    card.migs = [mig_of(branch, TEXT_MAP) for branch in gpu.all_at("mig device")]
    processes = gpu.at(("processes",))
    if processes is not None:
        card.processes = list(_processes(processes))
    yield from card_facts(card, page)


def _processes(parent: Branch) -> Iterator[ProcessReading]:
    gi: str | None = None
    ci: str | None = None
    for branch in parent.branches:
        if branch.name == "gpu instance id":
            gi = branch.text
        elif branch.name == "compute instance id":
            ci = branch.text
        elif branch.name == "process id":
            yield ProcessReading(
                pid=branch.text,
                line=branch.line,
                name=branch.text_at(("name",)),
                process_type=branch.text_at(("type",)),
                gi=gi,
                ci=ci,
                memory=branch.text_at(("used gpu memory",)),
            )
            gi = ci = None


def count_gpus(text: str) -> int:
    """How many card headings the first log in a text has."""
    count = 0
    logs = 0
    for _, line in numbered_lines(text):
        logs += BANNER in line[:80]
        if logs > 1:
            break
        count += len(line) <= 100 and _GPU.match(line) is not None
    return count
