"""One door for every form: ``read_smi(form, text, ctx, directory)`` yields facts, findings and one SourceStatus.

Called by ``app`` with decompressed text in bounds. Forms that show no UUID (``needs_directory``) should be read after the others of
their import, with ``directory_of`` those facts. Sceptic's command: the one that wrote the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.i18n import ngettext
from steelyard.primitives.instant import AT_OBSERVATION, Instant
from steelyard.sources.nvidia_smi.capture_form import Section, collected_at, sections_of
from steelyard.sources.nvidia_smi.csv_form import read_csv, shows_uuid
from steelyard.sources.nvidia_smi.failures import read_failures
from steelyard.sources.nvidia_smi.list_form import read_list
from steelyard.sources.nvidia_smi.monitor_form import read_monitor
from steelyard.sources.nvidia_smi.query_form import count_gpus, read_query
from steelyard.sources.nvidia_smi.reading import SOURCE, Page
from steelyard.sources.nvidia_smi.sniff import sniff
from steelyard.sources.nvidia_smi.table_form import read_table
from steelyard.sources.nvidia_smi.xml_form import read_xml
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory, directory_of
from steelyard.sources.shared.plain_text import decode_text, numbered_lines
from steelyard.sources.shared.refusals import Refusals
from steelyard.sources.shared.sample_gap import sample_gap_max_us

Lines = Iterator[tuple[int, str]]

_BY_LINES: Final[dict[str, Callable[[Page, Lines], Iterator[Fact]]]] = {
    "smi_list": read_list,
    "smi_query_gpu": read_csv,
    "smi_compute_apps": read_csv,
    "smi_accounted_apps": read_csv,
    "smi_q": read_query,
    "smi_table": read_table,
    "smi_pmon": read_monitor,
    "smi_dmon": read_monitor,
    "smi_failure": read_failures,
}
_WITHOUT_FACTS: Final = frozenset({"smi_topo", "smi_nvlink", "smi_retired_pages"})
_FIRST_ROUND: Final = frozenset({"smi_list", "smi_query_gpu", "smi_xml", "smi_q"})
_SECOND_ROUND: Final = _FIRST_ROUND | {"smi_table"}
FORMS: Final = frozenset({*_BY_LINES, *_WITHOUT_FACTS, "smi_xml", "smi_capture"})


def needs_directory(form: str, head: str | None = None) -> bool:
    """Whether the form shows cards by index or address only, so that it must be read after the forms that show UUIDs.

    A query has the columns that were asked for: ``head``, the beginning of its text, tells whether UUIDs are among them.
    """
    if form == "smi_query_gpu" and head is not None:
        return not shows_uuid(head)
    return form in ("smi_table", "smi_pmon", "smi_dmon", "smi_compute_apps", "smi_failure", "smi_capture")


def read_smi(
    form: str, text: str | bytes, ctx: ReadContext, directory: DeviceDirectory | None = None
) -> Iterator[Fact]:
    """The facts of one text. Raises SourceUnsupported for a form that is not in ``FORMS``, UsageError for an unknown time zone."""
    if form not in FORMS:
        raise SourceUnsupported(f"{form!r} is no form of nvidia-smi; the forms are {', '.join(sorted(FORMS))}")
    decoded = decode_text(text)
    known = directory or DeviceDirectory()
    if form == "smi_capture":
        yield from _read_capture(decoded, ctx, known)
    else:
        page = Page(ctx, known, form)
        yield from _read_page(page, form, decoded, 1)
        yield from _masked(page.refusals, page.masked)
        yield from page.refusals.rest()


def _read_page(page: Page, form: str, text: str, first_line: int) -> Iterator[Fact]:
    if form == "smi_xml":
        yield from read_xml(page, text)
    elif form in _WITHOUT_FACTS:
        yield from page.refusals.find(
            "recognised_without_facts",
            f"file {page.ctx.file}",
            f"{form} is recognised; no facts are read from this form yet",
            severity="info",
            evidence={"form": form},
            line=first_line,
        )
    else:
        page.gpus_count = count_gpus(text) if form == "smi_q" else None
        too_long: list[Fact] = []
        yield from _BY_LINES[form](page, _bounded(page, text, first_line, too_long))
        yield from too_long
    yield from _closing(page)


def _bounded(page: Page, text: str, first_line: int, too_long: list[Fact]) -> Lines:
    """The lines within the limit; the findings of the others are left in ``too_long``."""
    limit = page.ctx.settings.line_bytes_max
    for line, each in numbered_lines(text, first_line):
        if len(each) > limit:
            too_long.extend(page.refusals.refuse(f"a line longer than {limit} is refused", line, each))
        else:
            yield line, each


def _rows_of(rows: int, processes: int) -> str:
    of_processes = ngettext("{count} process", "{count} processes", processes).format(count=processes)
    return ngettext("{count} row ({of_processes}) makes", "{count} rows ({of_processes}) make", rows).format(
        count=rows, of_processes=of_processes
    )


def _closing(page: Page) -> Iterator[Fact]:
    """What is known only at the end: cards that were not resolved, counts that disagree, and the source's status."""
    file = f"file {page.ctx.file}"
    for place, (reason, rows, processes) in page.unresolved.items():
        yield from page.refusals.find(
            "device_unresolved",
            f"{file}: {place}",
            f"the card at {place} is not known, because {reason}; {_rows_of(rows, processes)} no sample; "
            "import it together with nvidia-smi -L or -q of the same node",
            evidence={"place": place, "rows": rows, "processes": processes, "form": page.form, "reason": reason},
        )
    cards_count = sum(max(1, len(addresses)) for addresses in page.seen.values()) + len(page.unresolved)
    mismatch = page.stated_count is not None and page.stated_count != cards_count
    if mismatch:
        yield from page.refusals.find(
            "attached_gpus_mismatch",
            file,
            ngettext(
                "the text says that {count} card is attached and describes {described}",
                "the text says that {count} cards are attached and describes {described}",
                page.stated_count or 0,
            ).format(count=page.stated_count, described=cards_count),
            evidence={"attached": page.stated_count, "described": cards_count, "form": page.form},
        )
    yield _status(page, cards_count, page.stated_count is not None and not mismatch)


def _masked(refusals: Refusals, masked: dict[str, int]) -> Iterator[Fact]:
    for uuid, line in masked.items():
        yield from refusals.find(
            "device_uuid_masked",
            f"device {uuid}",
            "the UUID is all zeros (masked before it was shared): cards of several such files cannot be told apart",
            line=line,
        )


def _status(page: Page, cards_count: int, counted: bool) -> SourceStatus:
    node = page.ctx.node
    scope = f"node/{node}" if node is not None else "cluster"
    whole = (counted or page.form == "smi_list") and node is not None and not page.failures and cards_count > 0
    return SourceStatus(
        cluster=page.ctx.cluster,
        source=SOURCE,
        natural_key=f"{SOURCE}/{scope}",
        occurred_at=page.stamp,
        observed_at=page.ctx.observed_at,
        kind=SOURCE,
        scope=scope,
        status="failed" if page.failures and not page.seen else "partial" if page.failures or page.unresolved else "ok",
        complete=whole and not page.unresolved,
        objects_count=cards_count,
        as_of_basis="stamped" if page.stamped else "inferred",
        gap_max_us=sample_gap_max_us(page.instants.values(), page.ctx.expected_interval_us) if page.stamped else None,
        message="; ".join(page.failures[:3]) or page.form,
    )


def _read_capture(text: str, ctx: ReadContext, directory: DeviceDirectory) -> Iterator[Fact]:
    sections = [(section, _section_form(section, text)) for section in sections_of(text)]
    own = DeviceDirectory()
    for forms in (_FIRST_ROUND, _SECOND_ROUND):
        pages = _read_sections(sections, text, ctx, own, forms, Refusals(ctx, SOURCE), {})
        own = directory_of(pages, own)
    refusals, masked = Refusals(ctx, SOURCE), dict[str, int]()
    read = FORMS - _WITHOUT_FACTS
    yield from _read_sections(sections, text, ctx, own if own.devices else directory, read, refusals, masked)
    yield from _masked(refusals, masked)
    yield from refusals.rest()
    without = [section.title for section, form in sections if form not in read]
    if without or not sections:
        yield ctx.finding(
            SOURCE,
            "recognised_without_facts",
            f"file {ctx.file}",
            f"{len(without)} of {len(sections)} sections hold nothing that is read",
            severity="info",
            evidence={"sections": without[:100]},
        )


def _read_sections(
    sections: list[tuple[Section, str | None]],
    text: str,
    ctx: ReadContext,
    directory: DeviceDirectory,
    forms: frozenset[str],
    refusals: Refusals,
    masked: dict[str, int],
) -> Iterator[Fact]:
    stamp: Instant = collected_at(text)
    if stamp == AT_OBSERVATION:
        stamp = ctx.observed_at
    for section, form in sections:
        if form is None or form not in forms:
            continue
        page = Page(ctx, directory, form, stamp, refusals)
        yield from _read_page(page, form, text[section.start : section.end], section.first_line)
        stamp = max(stamp, page.stamp)
        masked.update({uuid: line for uuid, line in page.masked.items() if uuid not in masked})


def _section_form(section: Section, text: str) -> str | None:
    if section.command and section.form is None:
        return None
    found = sniff(text[section.start : min(section.end, section.start + 65_536)].encode("utf-8", "replace"))
    return section.form if found is None or found == "smi_capture" else found
