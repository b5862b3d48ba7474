"""The human table that plain ``nvidia-smi`` prints: cards, MIG devices, processes, one or many tables in a text.

It shows no UUID, so every card is asked of the directory by index and PCI address. Rows are read by their cells between ``|``, not by
column position, because every driver draws the frame anew. The trick to know: of two compute instances of one GPU instance some
drivers leave the second memory cell blank, which means "as above", not "nothing".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.sources.nvidia_smi.card_facts import card_facts
from steelyard.sources.nvidia_smi.failures import failure_facts
from steelyard.sources.nvidia_smi.reading import CardReading, MigReading, Page, ProcessReading

LINE_CHARACTERS_MAX: Final = 4_096
CARDS_MAX: Final = 4_096
ROWS_MAX: Final = 1_000_000
FIRST_ROW: Final = re.compile(
    r"\|\s{1,6}([0-9]{1,4})\s{1,4}(\S.{0,120})\|\s{0,8}([0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}\.[0-9A-Fa-f])\s"
)
_VERSIONS: Final = re.compile(r"Driver Version: (\S{1,40})")
_STAMP: Final = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} ")
_POWER: Final = re.compile(r"(?:^|\s)((?:[0-9]{1,5}W)|N/A|ERR!|\[[^\]]{1,40}\]|Unknown Error)\s{0,4}/\s{0,4}\S")
_POWER_LIMIT: Final = re.compile(r"W\s{0,4}/\s{0,4}([0-9]{1,5}W)(?:\s|$)")
_TYPES: Final = frozenset({"C", "G", "C+G", "M", "M+C", "M+G", "M+C+G"})
_MEMORY_WORDS: Final = re.compile(r"(\S+|\[[^\]]{1,60}\]|Unknown Error|GPU is lost)\s{0,6}/\s{0,6}(\S.{0,60})\Z")


class _Table:
    """The table being read: which part, the card whose rows come, all cards by index."""

    def __init__(self) -> None:
        self.part = "cards"
        self.row = 0
        self.driver: str | None = None
        self.cards: dict[str, CardReading] = {}
        self.card: CardReading | None = None
        self.rows_count = 0

    def card_at(self, index: str, line: int) -> CardReading:
        """The card of an index; one that the table's upper part did not show starts here."""
        if index not in self.cards:
            self.cards[index] = CardReading(line, {"index": index})
        return self.cards[index]


def read_table(page: Page, lines: Iterator[tuple[int, str]]) -> Iterator[Fact]:
    """The facts of every table in the text."""
    table = _Table()
    for line, text in lines:
        bare = text.strip()
        if not bare or bare.startswith("#"):
            continue
        if len(text) > LINE_CHARACTERS_MAX:
            yield from page.refusals.refuse(
                f"a line longer than {LINE_CHARACTERS_MAX} characters is refused", line, text
            )
        elif "| NVIDIA-SMI" in text:
            version = _VERSIONS.search(text)
            yield from _finish(table, page)
            table = _Table()
            table.driver = version.group(1) if version else None
        elif _STAMP.match(bare):
            yield from _finish(table, page)
            table = _Table()
            yield from page.set_stamp(bare, line)
        elif bare.startswith(("+", "|=", "|-")):
            table.row = 0
        elif bare.startswith("|") and bare.endswith("|"):
            yield from _row(table, page, line, text.strip())
        else:
            found = list(failure_facts(page, line, text))
            yield from found or page.refusals.refuse("expected a line of the nvidia-smi table", line, text)
    yield from _finish(table, page)


def _finish(table: _Table, page: Page) -> Iterator[Fact]:
    for card in table.cards.values():
        if table.driver is not None:
            card.cells["driver"] = table.driver
        yield from card_facts(card, page)


def _row(table: _Table, page: Page, line: int, text: str) -> Iterator[Fact]:
    content = text[1:-1]
    if content.strip().startswith("MIG devices:"):
        table.part = "mig"
    elif content.strip().startswith("Processes:"):
        table.part = "processes"
    elif table.rows_count >= ROWS_MAX or len(table.cards) >= CARDS_MAX:
        yield from page.refusals.refuse("more rows than any node has", line, text)
    elif (first := FIRST_ROW.match(text)) is not None:
        table.part = "cards"
        _first_row(table, first, text, line)
    elif "|" not in content and _looks_like_process(content):  # an excerpt may lack the heading of the processes
        yield from _process_row(table, page, content, line)
    elif table.part == "cards" and table.card is not None:
        _later_row(table.card, table.row, content.split("|"))
        table.row += 1
    elif table.part == "mig":
        _mig_row(table, content.split("|"), line)
    elif table.part == "processes":
        yield from _process_row(table, page, content, line)


def _first_row(table: _Table, first: re.Match[str], text: str, line: int) -> None:
    index, name, pci = first.groups()
    words = name.split()
    if len(words) > 1 and words[-1] in ("On", "Off", "N/A"):
        words.pop()
    cells = {"index": index, "pci": pci, "name": " ".join(words)}
    last = text[1:-1].split("|")[-1].strip()
    if last:
        cells["ecc"] = last
    table.card = CardReading(line, cells)
    table.cards[index] = table.card
    table.row = 0
    table.rows_count += 1


def _later_row(card: CardReading, row: int, cells: list[str]) -> None:
    if len(cells) != 3:
        return
    if row == 0:
        left, memory, right = (cell.strip() for cell in cells)
        power = _POWER.search(left)
        card.cells["power"] = power.group(1) if power else ""
        limit = _POWER_LIMIT.search(left)
        if limit is not None:
            card.cells["power_limit"] = limit.group(1)
        words = left.split()
        if len(words) > 1:
            card.cells["temperature"] = words[1]
        pair = _MEMORY_WORDS.match(memory)
        used, total = pair.groups() if pair else (memory, memory)
        card.cells["memory_used"], card.cells["memory_total"] = used, total
        card.cells["util_gpu"] = right.split()[0] if right else ""
    elif row == 1 and cells[2].strip():
        card.cells["mig"] = cells[2].strip()


def _mig_row(table: _Table, cells: list[str], line: int) -> None:
    numbers = cells[0].split()
    if len(cells) < 3 or len(numbers) != 4 or not all(number.isdecimal() and len(number) <= 5 for number in numbers):
        return
    index, gi, ci, mig_index = numbers
    pair = _MEMORY_WORDS.match(cells[1].strip())
    used, total = pair.groups() if pair else (cells[1].strip(), cells[1].strip())
    sm = cells[2].split()
    table.rows_count += 1
    table.card_at(index, line).migs.append(
        MigReading(line, mig_index, gi, ci, memory_total=total, memory_used=used, sm_count=sm[0] if sm else None)
    )


def _looks_like_process(content: str) -> bool:
    words = content.split()
    return len(words) >= 4 and words[0].isdecimal() and (words[2] in _TYPES or (len(words) > 5 and words[4] in _TYPES))


def _process_row(table: _Table, page: Page, content: str, line: int) -> Iterator[Fact]:
    words = content.split()
    if not words or not words[0].isdecimal():
        return
    at = 4 if len(words) > 5 and words[4] in _TYPES else 2 if len(words) > 3 and words[2] in _TYPES else None
    if at is None:
        yield from page.refusals.refuse("expected a process: GPU, GI, CI, PID, type, name, memory", line, content)
        return
    table.rows_count += 1
    name_and_memory = content.split(None, at + 1)[-1].rstrip()
    name, _, memory = name_and_memory.rpartition(" ")
    table.card_at(words[0], line).processes.append(
        ProcessReading(
            pid=words[at - 1],
            line=line,
            name=name.strip(),
            process_type=words[at],
            gi=words[1] if at == 4 else None,
            ci=words[2] if at == 4 else None,
            memory=memory,
        )
    )
