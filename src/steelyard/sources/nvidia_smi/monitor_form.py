"""``nvidia-smi pmon`` and ``dmon``: columns by their header, ``-o DT`` or not.

Drivers add and drop columns, so the header (lines that start with ``#``) names them. Rows carry no time unless ``-o DT`` was given:
then only the last row of each card or process is kept (all would fall on one instant) and a finding says how many were passed over.
The trick to know: ``-`` in pmon stands for a live process without a sample as well as for MIG, never for 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.unknown import Unknown
from steelyard.sources.nvidia_smi import values
from steelyard.sources.nvidia_smi.card_facts import card_facts, note_unresolved, process_facts
from steelyard.sources.nvidia_smi.failures import failure_facts
from steelyard.sources.nvidia_smi.reading import CardReading, Page, ProcessReading

COLUMNS_MAX: Final = 200
KEPT_MAX: Final = 100_000
_CARD_COLUMNS: Final = {
    "sm": "util_gpu",
    "mem": "util_memory",
    "pwr": "power",
    "gtemp": "temperature",
    "temp": "temperature",
    "mclk": "memory_clock",
    "pclk": "sm_clock",
    "fb": "memory_used",
    "rxpci": "pcie_rx",
    "txpci": "pcie_tx",
}

Columns = tuple[list[str], dict[str, str]]


def read_monitor(page: Page, lines: Iterator[tuple[int, str]]) -> Iterator[Fact]:
    """The facts of a pmon or dmon text; a row before any header is refused."""
    names: list[str] = []
    units: dict[str, str] = {}
    kept: dict[tuple[str, str], tuple[int, dict[str, str]]] = {}
    passed_count = 0
    for line, text in lines:
        bare = text.strip()
        if not bare:
            continue
        if bare.startswith("#"):
            words = bare.lstrip("#").split(None, COLUMNS_MAX)
            if "gpu" in words:
                names = words
            elif len(words) == len(names):
                units = dict(zip(names, words, strict=True))
            continue
        row = _row(names, bare)
        if row is None:
            found = list(failure_facts(page, line, text))
            yield from found or page.refusals.refuse("expected a row under a header that starts with #", line, text)
        elif "Date" in row and "Time" in row:
            yield from page.set_stamp(f"{row['Date']} {row['Time']}", line)
            yield from _facts(page, row, units, line)
        else:
            key = (row["gpu"], row.get("pid", ""))
            passed_count += key in kept
            if key in kept or len(kept) < KEPT_MAX:
                kept[key] = (line, row)
            else:
                yield from page.refusals.refuse(f"more than {KEPT_MAX} processes without a time", line, text)
    for line, row in kept.values():
        yield from _facts(page, row, units, line)
    if passed_count:
        yield from page.refusals.find(
            "rows_without_time_passed_over",
            f"file {page.ctx.file}",
            ngettext("{count} row carries", "{count} rows carry", passed_count).format(count=passed_count)
            + " no time (run with -o DT): of each card and process only the last row is taken",
            severity="info",
            evidence={"passed_over": passed_count, "kept": len(kept)},
            line=next(iter(kept.values()))[0],
        )


def _row(names: list[str], text: str) -> dict[str, str] | None:
    if not names or len(text) > 65_536:
        return None
    last_is_text = names[-1] in ("command", "name")
    words = text.split(None, len(names) - 1) if last_is_text else text.split(None, len(names))
    if len(words) == len(names) - 1 and last_is_text:
        words.append("")
    if len(words) != len(names):
        return None
    row = dict(zip(names, words, strict=True))
    return row if row.get("gpu", "").isdecimal() else None


def _facts(page: Page, row: dict[str, str], units: dict[str, str], line: int) -> Iterator[Fact]:
    if "pid" not in row:
        cells = {"index": row["gpu"]}
        for name, meaning in _CARD_COLUMNS.items():
            if name in row:
                cells[meaning] = _with_unit(row[name], units.get(name), name == "fb", name.endswith("pci"))
        yield from card_facts(CardReading(line, cells), page)
    elif row["pid"] != "-":
        yield from _process(page, row, units, line)


def _process(page: Page, row: dict[str, str], units: dict[str, str], line: int) -> Iterator[Fact]:
    index = values.count(row["gpu"], 65_535)
    uuid = page.directory.uuid_of(page.ctx.node, index=index if isinstance(index, int) else None)
    if isinstance(uuid, Unknown):
        note_unresolved(page, f"index {row['gpu'][:20]}", uuid.reason, 1, 1)
        return
    page.seen.setdefault(uuid, set())
    process = ProcessReading(
        pid=row["pid"],
        line=line,
        name=row.get("command", row.get("name")),
        process_type=row.get("type"),
        memory=_with_unit(row["fb"], units.get("fb"), True) if "fb" in row else None,
        sm_percent=row.get("sm"),
        memory_percent=row.get("mem"),
    )
    yield from process_facts(process, uuid, page)


def _with_unit(cell: str, unit: str | None, is_memory: bool, is_traffic: bool = False) -> str:
    if not cell.isdecimal() or not (is_memory or is_traffic):
        return cell
    return f"{cell} {unit or ('MB' if is_memory else 'MB/s')}"
