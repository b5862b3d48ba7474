"""``nvidia-smi --query-gpu``, ``--query-compute-apps``, ``--query-accounted-apps`` with ``--format=csv``: rows by column name, any order.

Units stand in the header (``memory.used [MiB]``) and, without ``nounits``, in the cells too. The tricks to know: nvidia-smi quotes
nothing, so a process name may hold commas and takes every surplus cell; and a header may come again (a loop appended to one file).
Without a header (``noheader``) the columns are not known and nothing is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from steelyard.facts.base import Fact
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.unknown import known
from steelyard.sources.nvidia_smi import values
from steelyard.sources.nvidia_smi.card_facts import card_facts, process_facts
from steelyard.sources.nvidia_smi.reading import CardReading, Page, ProcessReading

COLUMNS_MAX: Final = 1_000
ACCOUNTED_SHOWN: Final = 50
_UNIT: Final = re.compile(r"([^\[\]]{1,80}?)\s*(?:\[([^\[\]]{1,20})\])?\Z")
_BARE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,9})?\Z")

_CARD_COLUMNS: Final = {
    "timestamp": "timestamp",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "pci",
    "gpu_bus_id": "pci",
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "serial": "serial",
    "gpu_serial": "serial",
    "driver_version": "driver",
    "count": "count",
    "mig.mode.current": "mig",
    "gpu_recovery_action": "recovery",
    "reset_status.reset_required": "reset_required",
    "memory.total": "memory_total",
    "memory.used": "memory_used",
    "memory.reserved": "memory_reserved",
    "utilization.gpu": "util_gpu",
    "utilization.memory": "util_memory",
    "power.draw": "power",
    "power.draw.average": "power_average",
    "power.draw.instant": "power_instant",
    "enforced.power.limit": "power_limit",
    "power.limit": "power_limit",
    "temperature.gpu": "temperature",
    "clocks.current.sm": "sm_clock",
    "clocks.sm": "sm_clock",
    "clocks.current.memory": "memory_clock",
    "clocks.mem": "memory_clock",
    "clocks_event_reasons.active": "throttle",
    "clocks_throttle_reasons.active": "throttle",
    "ecc.errors.uncorrected.volatile.total": "ecc",
}
_APP_COLUMNS: Final = {
    **{name: meaning for name, meaning in _CARD_COLUMNS.items() if name.startswith("gpu_") or name == "timestamp"},
    "pid": "pid",
    "process_name": "process_name",
    "name": "process_name",
    "used_gpu_memory": "memory",
    "used_memory": "memory",
    "gpu_utilization": "accounted",
    "gpu_util": "accounted",
    "mem_utilization": "accounted",
    "mem_util": "accounted",
    "max_memory_usage": "accounted_memory",
    "time": "accounted",
}


_ANYBODYS: Final = frozenset({"index", "uuid", "name", "serial", "count", "timestamp", "pstate", "pid", "time"})
"""Names of nvidia-smi that any other list of cards may use too; all its further names have a mark of their own."""

_SITES_TOO: Final = frozenset({"gpu_uuid", "gpu_name", "gpu_serial"})

_OWN: Final = re.compile(
    r"[a-z0-9_]{1,60}\.[a-z0-9_.]{1,80}|gpu_[a-z_]{1,40}|(?:driver|vbios|inforom)_[a-z_]{1,40}|compute_[a-z]{1,20}|[a-z_]{1,40}_mode"
)


@dataclass(slots=True)
class _Header:
    """Meaning and unit of each column (None: one that nobody here reads); ``name_at``: the column that may hold commas."""

    meanings: list[str | None]
    units: list[str | None]
    name_at: int | None
    titles: list[str]


@dataclass(slots=True)
class _Accounted:
    rows_count: int = 0
    shown: list[dict[str, str]] = field(default_factory=list)


def is_header(line: str) -> bool:
    """Whether the line is a header of a query: two names that it knows, or one and nothing else."""
    header = _header(line)
    known_count = sum(meaning is not None for meaning in header.meanings)
    return known_count >= min(2, len(header.meanings)) and known_count > 0


def csv_kind(line: str) -> str | None:
    """The form that a header line begins: smi_query_gpu, smi_compute_apps, smi_accounted_apps, smi_retired_pages, or None."""
    if len(line) > 65_536:
        return None
    titles = set(_header(line).titles)
    if "retired_pages.address" in titles:
        return "smi_retired_pages"
    if not is_header(line):
        return None
    if "pid" in titles:
        return "smi_accounted_apps" if titles & {"max_memory_usage", "time"} else "smi_compute_apps"
    return "smi_query_gpu" if _is_of_smi(line, titles) else None


def _is_of_smi(line: str, titles: set[str]) -> bool:
    """Whether the names are nvidia-smi's: one with a unit or of a form that is its own, or no other names than its plainest. A site's
    list of its cards has a UUID and a serial too, beside names that nvidia-smi does not have."""
    if "[" in line and any(unit for unit in _header(line).units):
        return True
    own = any(_OWN.fullmatch(title) and title in _CARD_COLUMNS.keys() - _SITES_TOO for title in titles)
    if own:
        return True
    strange = [title for title in titles - _ANYBODYS if not _OWN.fullmatch(title)]
    return not strange


def shows_uuid(head: str) -> bool:
    """Whether the first header in the text has a column of UUIDs: without it, cards are named by index or address only."""
    for line in head.splitlines()[:400]:
        if "," in line and is_header(line[:65_536]):
            return "uuid" in _header(line).meanings
    return False


def read_csv(page: Page, lines: Iterator[tuple[int, str]]) -> Iterator[Fact]:
    """The facts of a csv query. Rows before any header are refused; a file without one is the finding ``csv_header_missing``."""
    header: _Header | None = None
    accounted = _Accounted()
    headless_count, first = 0, (0, "")
    counts: set[int] = set()
    for line, text in lines:
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        if (header is None or _begins_like(header, text)) and is_header(text):
            header = _header(text)
        elif header is None:
            headless_count, first = headless_count + 1, first if headless_count else (line, text)
        else:
            yield from _row(page, header, line, text, accounted, counts)
    if header is None and headless_count:
        yield from page.refusals.find(
            "csv_header_missing",
            f"file {page.ctx.file}",
            "expected a header line that names the columns (leave out noheader), found none; no row can be read",
            severity="error",
            evidence={"rows": headless_count},
            line=first[0],
            excerpt=first[1],
        )
    elif headless_count:
        yield from page.refusals.refuse(
            ngettext("{count} line before the header", "{count} lines before the header", headless_count).format(
                count=headless_count
            ),
            first[0],
            first[1],
        )
    if len(counts) == 1:
        page.stated_count = counts.pop()
    if accounted.rows_count:
        yield from _accounted_finding(page, accounted)


def _begins_like(header: _Header, text: str) -> bool:
    title = _UNIT.sub(r"\1", text[:100].split(",", 1)[0].strip())
    return title == header.titles[0] or title in _CARD_COLUMNS or title in _APP_COLUMNS


def _row(page: Page, header: _Header, line: int, text: str, accounted: _Accounted, counts: set[int]) -> Iterator[Fact]:
    cells = _cells(header, text)
    if cells is None:
        yield from page.refusals.refuse(f"expected {len(header.meanings)} cells as in the header", line, text)
        return
    if "timestamp" in cells:
        yield from page.set_stamp(cells.pop("timestamp"), line)
    stated = known(values.count(cells.pop("count", None), 65_535))
    if isinstance(stated, int) and len(counts) < 2:
        counts.add(stated)
    _choose_power(cells)
    if "pid" not in cells:
        yield from card_facts(CardReading(line=line, cells=cells), page)
        return
    process = ProcessReading(cells.pop("pid"), line, cells.pop("process_name", None), memory=cells.pop("memory", None))
    memory_max = cells.pop("accounted_memory", None)
    was_accounted = cells.pop("accounted", None) is not None or memory_max is not None
    if was_accounted:
        accounted.rows_count += 1
        if len(accounted.shown) < ACCOUNTED_SHOWN:
            accounted.shown.append({"pid": process.pid[:20], "memory_max": (memory_max or "")[:40]})
        yield from _first_sighting(CardReading(line=line, cells=cells), page)
        return
    yield from _first_sighting(CardReading(line=line, cells=cells, processes=[process]), page)


def _first_sighting(card: CardReading, page: Page) -> Iterator[Fact]:
    """A row of a process list: the card is a fact the first time it is named, the process every time."""
    uuid = values.gpu_uuid(card.cells.get("uuid"))
    if uuid is None or uuid not in page.seen:
        yield from card_facts(card, page)
        return
    for process in card.processes:
        yield from process_facts(process, uuid, page)


def _choose_power(cells: dict[str, str]) -> None:
    """``power.draw`` where it says something, else the average, else the instant: the board's own figure, never the module's."""
    choices = [cells.pop(name, None) for name in ("power", "power_average", "power_instant")]
    named = [choice for choice in choices if choice is not None]
    best = next((choice for choice in named if not values.is_missing(choice)), named[0] if named else None)
    if best is not None:
        cells["power"] = best


def _accounted_finding(page: Page, accounted: _Accounted) -> Iterator[Fact]:
    yield from page.refusals.find(
        "accounted_processes_not_live",
        f"file {page.ctx.file}",
        ngettext("{count} row", "{count} rows", accounted.rows_count).format(count=accounted.rows_count)
        + " of accounted processes: peaks over their lives, most of them over; no process sample is made of them",
        severity="info",
        evidence={"rows": accounted.rows_count, "shown": accounted.shown},
    )


def _header(line: str) -> _Header:
    cells = [cell.strip() for cell in line[:65_536].split(",", COLUMNS_MAX)[:COLUMNS_MAX]]
    pairs = [_UNIT.match(cell) for cell in cells]
    titles = [pair.group(1) if pair else cell for pair, cell in zip(pairs, cells, strict=True)]
    columns = _APP_COLUMNS if "pid" in titles else _CARD_COLUMNS
    meanings = [columns.get(title) for title in titles]
    name_at = next((at for at, meaning in enumerate(meanings) if meaning == "process_name"), None)
    units = [pair.group(2) if pair else None for pair in pairs]
    return _Header(meanings, units, name_at, titles)


def _cells(header: _Header, text: str) -> dict[str, str] | None:
    parts = text.split(",")
    surplus = len(parts) - len(header.meanings)
    if surplus > 0 and header.name_at is not None:
        at = header.name_at
        parts = [*parts[:at], ",".join(parts[at : at + surplus + 1]), *parts[at + surplus + 1 :]]
    elif surplus == 1 and not parts[-1].strip():
        parts.pop()
    if len(parts) != len(header.meanings):
        return None
    cells: dict[str, str] = {}
    for meaning, unit, part in zip(header.meanings, header.units, parts, strict=True):
        if meaning is not None and (meaning not in cells or values.is_missing(cells[meaning])):
            cell = part.strip()
            cells[meaning] = f"{cell} {unit}" if unit and _BARE_NUMBER.match(cell) else cell
    return cells
