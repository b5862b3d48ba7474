"""``nvidia-smi -q -x``: XML without a DTD and with nvsmi_device v10 to v13.

Read as a stream, one ``<gpu>`` in memory at a time, with expat. Nothing is ever fetched: the DOCTYPE's system identifier is only
noted, an internal DTD subset, entity declarations and undefined entities are refused, depth, elements per card and text per element
are bounded. The trick to know: a loop (``-l 5``) writes several documents into one file, so the text is cut at ``<?xml`` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.parsers import expat

from steelyard.facts.base import Fact
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.unknown import known
from steelyard.sources.nvidia_smi import values
from steelyard.sources.nvidia_smi.card_facts import card_facts
from steelyard.sources.nvidia_smi.reading import Page, ProcessReading
from steelyard.sources.nvidia_smi.tree import XML_MAP, Branch, card_of, mig_of

CHUNK_CHARACTERS: Final = 65_536
DEPTH_MAX: Final = 64
ELEMENTS_MAX: Final = 200_000
DOCUMENTS_MAX: Final = 100_000
TEXT_CHARACTERS_MAX: Final = 65_536
_SKIPPED: Final = frozenset({"supported_clocks", "accounted_processes"})
_VERSION: Final = re.compile(r"nvsmi_device_(v[0-9]{1,3})\.dtd\Z")
_GPU: Final = re.compile(r"<gpu[\s>]")


class _Document:
    """Builds branches of finished ``<gpu>`` elements and of the texts beside them; refuses what no nvidia-smi writes."""

    def __init__(self) -> None:
        self.finished: list[Branch] = []
        self.version: str | None = None
        self._open: list[Branch] = []
        self._elements_count = 0
        self._skip_depth = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.ExternalEntityRefHandler = self._refuse_external
        self.parser.SkippedEntityHandler = self._refuse_entity
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: bool) -> None:
        if has_internal_subset:
            raise SourceMalformed("an internal DTD subset is refused", self.parser.CurrentLineNumber, f"DOCTYPE {name}")
        match = _VERSION.search(system_id or "")
        self.version = match.group(1) if match else None

    def _refuse_entity(self, *names: object) -> None:
        raise SourceMalformed("an entity is refused", self.parser.CurrentLineNumber, str(names[0])[:200])

    def _refuse_external(self, context: str, base: str | None, system_id: str | None, public_id: str | None) -> int:
        self._refuse_entity(system_id or context)
        return 0

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self._elements_count += 1
        if len(self._open) >= DEPTH_MAX:
            raise SourceMalformed(f"elements deeper than {DEPTH_MAX} are refused", line, name)
        if self._elements_count > ELEMENTS_MAX:
            raise SourceMalformed(f"more than {ELEMENTS_MAX} elements of one card are refused", line, name)
        branch = Branch(name.casefold()[:200], line)
        if branch.name == "gpu" and "id" in attributes:
            branch.branches.append(Branch("@id", line, attributes["id"][:200]))
        if self._open and branch.name not in _SKIPPED and self._skip_depth == 0 and len(self._open) > 1:
            self._open[-1].branches.append(branch)
        self._skip_depth += 1 if self._skip_depth or branch.name in _SKIPPED else 0
        self._open.append(branch)

    def _end(self, name: str) -> None:
        branch = self._open.pop()
        self._skip_depth -= 1 if self._skip_depth else 0
        branch.text = branch.text.strip()
        if len(self._open) == 1:
            self.finished.append(branch)
            self._elements_count = 0
        elif not self._open and branch.name != "nvidia_smi_log":
            raise SourceMalformed("expected the element nvidia_smi_log", branch.line, name)

    def _text(self, text: str) -> None:
        if self._skip_depth == 0 and self._open:
            branch = self._open[-1]
            if len(branch.text) + len(text) > TEXT_CHARACTERS_MAX:
                raise SourceMalformed(
                    f"a text longer than {TEXT_CHARACTERS_MAX} characters is refused",
                    self.parser.CurrentLineNumber,
                    text,
                )
            branch.text += text


def read_xml(page: Page, text: str) -> Iterator[Fact]:
    """The facts of one or several XML documents; a broken one ends in a finding with its line, after the cards before it."""
    start, line, documents_count = 0, 1, 0
    while start < len(text):
        documents_count += 1
        if documents_count > DOCUMENTS_MAX:
            yield from page.refusals.refuse(
                f"more than {DOCUMENTS_MAX} documents are refused", line, text[start : start + 200]
            )
            return
        after = text.find("<?xml", start + 1)
        end = after if after >= 0 else len(text)
        if text[start : start + 200].strip() or end - start > 200:
            yield from _read_document(page, text, start, end, line)
        line += text.count("\n", start, end)
        start = end


def _read_document(page: Page, text: str, start: int, end: int, first_line: int) -> Iterator[Fact]:
    document = _Document()
    driver: str | None = None
    attached: int | None = None
    position, gpus_count = 0, _count_gpus(text, start, end)
    begin = start + len(text[start : start + 4_096]) - len(text[start : start + 4_096].lstrip())
    first_line += text.count("\n", start, begin)
    while begin <= end:
        error = _feed(document, text[begin : min(begin + CHUNK_CHARACTERS, end)], begin + CHUNK_CHARACTERS > end)
        begin += CHUNK_CHARACTERS
        for branch in document.finished:
            _shift_lines(branch, first_line - 1)
            if branch.name == "timestamp":
                yield from page.set_stamp(branch.text, branch.line)
            elif branch.name == "driver_version":
                driver = branch.text
            elif branch.name == "attached_gpus":
                attached = _integer(branch.text)
                page.stated_count = attached
            elif branch.name == "gpu":
                index = position if attached == gpus_count else None
                position += 1
                yield from _gpu_facts(page, branch, driver, index, document.version)
        document.finished.clear()
        if error is not None:
            yield from page.refusals.refuse(error.message, error.line + first_line - 1, error.excerpt)
            return


def _feed(document: _Document, chunk: str, final: bool) -> SourceMalformed | None:
    try:
        document.parser.Parse(chunk.encode("utf-8", "replace"), final)
    except expat.ExpatError as error:
        return SourceMalformed(f"expected well-formed XML: {expat.ErrorString(error.code)}", error.lineno)
    except SourceMalformed as error:
        return error
    return None


def _gpu_facts(page: Page, gpu: Branch, driver: str | None, index: int | None, version: str | None) -> Iterator[Fact]:
    card = card_of(gpu, XML_MAP)
    identity = gpu.text_at(("@id",))
    if identity is not None and values.is_missing(card.cells.get("pci", "")):
        card.cells["pci"] = identity
    if driver is not None:
        card.cells["driver"] = driver
    if index is not None:
        card.cells["index"] = str(index)
    devices = gpu.at(("mig_devices",))
    if devices is not None:
        card.migs = [mig_of(branch, XML_MAP) for branch in devices.all_at("mig_device")]
    processes = gpu.at(("processes",))
    if processes is not None:
        card.processes = [_process(branch) for branch in processes.all_at("process_info")]
    page.form = f"xml-{version}" if version else "xml"
    yield from card_facts(card, page)


def _process(branch: Branch) -> ProcessReading:
    return ProcessReading(
        pid=branch.text_at(("pid",)) or "",
        line=branch.line,
        name=branch.text_at(("process_name",)),
        process_type=branch.text_at(("type",)),
        gi=branch.text_at(("gpu_instance_id",)),
        ci=branch.text_at(("compute_instance_id",)),
        memory=branch.text_at(("used_memory",)),
    )


def _shift_lines(branch: Branch, by: int) -> None:
    stack = [branch] if by else []
    while stack:
        here = stack.pop()
        here.line += by
        stack.extend(here.branches)


def _count_gpus(text: str, start: int, end: int) -> int:
    return sum(1 for _ in _GPU.finditer(text, start, end))


def _integer(text: str) -> int | None:
    value = known(values.count(text, 65_535))
    return int(value) if value is not None else None
