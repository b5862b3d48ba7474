"""``nvidia-smi -L``: cards by index and UUID, and the MIG devices on them.

The trick to know: drivers before R470 print ``MIG-GPU-<uuid>/<gi>/<ci>`` instead of a UUID, which names card and instances at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from steelyard.facts.base import Fact
from steelyard.sources.nvidia_smi import values
from steelyard.sources.nvidia_smi.card_facts import card_facts
from steelyard.sources.nvidia_smi.failures import failure_facts
from steelyard.sources.nvidia_smi.reading import CardReading, MigReading, Page

LIST_GPU: Final = re.compile(r"GPU ([0-9]{1,5}): (.{1,200}) \(UUID: ([^()]{1,80})\)\s*\Z")
_MIG: Final = re.compile(r"\s{1,8}MIG (\S{1,40})\s{1,10}Device\s{1,4}([0-9]{1,5}): \(UUID: ([^()]{1,80})\)\s*\Z")


def read_list(page: Page, lines: Iterator[tuple[int, str]]) -> Iterator[Fact]:
    """The facts of a listing; a line that is neither a card nor a MIG device is refused."""
    card: CardReading | None = None
    for line, text in lines:
        if not text.strip():
            continue
        gpu = LIST_GPU.match(text) if len(text) <= 400 else None
        mig = _MIG.match(text) if len(text) <= 400 else None
        if gpu is not None:
            if card is not None:
                yield from card_facts(card, page)
            index, name, uuid = gpu.groups()
            card = CardReading(line, {"index": index, "name": name, "uuid": uuid})
        elif mig is not None and card is not None:
            card.migs.append(_mig(mig, line))
        else:
            found = list(failure_facts(page, line, text))
            yield from found or page.refusals.refuse(
                "expected a line such as GPU 0: NAME (UUID: GPU-...) or   MIG 1g.10gb Device 0: (UUID: MIG-...)",
                line,
                text,
            )
    if card is not None:
        yield from card_facts(card, page)


def _mig(match: re.Match[str], line: int) -> MigReading:
    profile, index, text = match.groups()
    old = values.old_mig_id(text)
    if old is None:
        return MigReading(line, index, unit_id=values.mig_uuid(text), profile=profile)
    parent, gi, ci = old
    return MigReading(line, index, str(gi), str(ci), f"{parent}/gi{gi}/ci{ci}", profile)
