"""What nvidia-smi prints when it cannot do its work: a card that is lost, a driver that does not answer, no cards at all.

Each is the finding ``smi_failed``; where the text names the place of a lost card and the directory knows which card that is, the card
is a Device in state ``lost`` as well. One such line ends the whole listing on older drivers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.primitives.unknown import Unknown
from steelyard.sources.nvidia_smi.card_facts import card_facts
from steelyard.sources.nvidia_smi.reading import CardReading, Page
from steelyard.sources.shared.pci import pci_or_none

_HANDLE: Final = re.compile(
    r"Unable to determine the device handle for (?:gpu|GPU)\s?([0-9A-Fa-f:.]{5,20}?)\s?: (.{1,200})\Z"
)
_WHOLE: Final = (
    "NVIDIA-SMI has failed",
    "Failed to initialize NVML",
    "No devices were found",
    "No devices found",
    "Failed to process command line",
    "Unable to determine the device handle",
    "Not supported on the device",
    "nvidia-smi: command not found",
    "GPU is lost",
    "GPU access blocked by the operating system",
)


def is_failure(text: str) -> bool:
    """Whether the line tells that the tool failed."""
    head = text.strip()[:200]
    return any(words in head for words in _WHOLE)


def failure_facts(page: Page, line: int, text: str) -> Iterator[Fact]:
    """The finding of a line that tells a failure, and the lost card where it is known; nothing for any other line."""
    if not is_failure(text):
        return
    page.failures.append(text.strip()[:200])
    handle = _HANDLE.match(text.strip()[:400])
    pci = pci_or_none(handle.group(1)) if handle else None
    yield from page.refusals.find(
        "smi_failed",
        f"PCI {pci}" if pci else f"file {page.ctx.file}",
        f"nvidia-smi failed: {text.strip()[:200]}",
        severity="error",
        evidence={"pci_address": pci, "node": page.ctx.node},
        line=line,
        excerpt=text,
    )
    if handle is None or pci is None or "lost" not in handle.group(2).casefold():
        return
    if not isinstance(page.directory.uuid_of(page.ctx.node, pci=pci), Unknown):
        yield from card_facts(CardReading(line, {"pci": pci, "state": "GPU is lost"}), page)


def read_failures(page: Page, lines: Iterator[tuple[int, str]]) -> Iterator[Fact]:
    """The facts of a text that holds nothing but failures; any other line is refused."""
    for line, text in lines:
        if text.strip():
            found = list(failure_facts(page, line, text))
            yield from found or page.refusals.refuse("expected a failure of nvidia-smi", line, text)
