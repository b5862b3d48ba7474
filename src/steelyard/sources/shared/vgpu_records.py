"""Device records of the soft-partition layers: ``UUID,TYPE,memMiB,cores`` joined by ``:`` per container slot, slots by ``;``.

HAMi and Volcano vGPU write the same record; HAMi ends every slot with ``;``, Volcano vGPU joins them. The trick to know: an
empty slot and the padding ``,,0,0`` both mean "this container has no card" and still count as a slot, because slots are matched
to containers by their number. Anything that is neither padding nor a readable record stays as a BadRecord in its slot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from steelyard.primitives.errors import SourceMalformed

FIELDS_MIN: Final = 4
SLOTS_MAX: Final = 1_024
RECORDS_MAX: Final = 1_024
CHARACTERS_MAX: Final = 1_048_576

_UUID: Final = re.compile(r"[!-+\--9<-~]{1,160}\Z")  # printable ASCII without blank, comma, colon and semicolon
_NUMBER: Final = re.compile(r"[0-9]{1,15}\Z")
_SUFFIX: Final = re.compile(r"([0-9]{1,4})-([0-9]{1,4})\Z")


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """One readable record. ``uuid`` is the physical card, without a MIG suffix ``[T-P]``, which is kept in ``suffix`` as written.

    ``cores`` is in the layer's own unit: percent of one card for NVIDIA, another count for some vendors. ``geometry_index`` (T)
    and ``slot_index`` (P) are None where there is no suffix or it is no pair of numbers.
    """

    uuid: str
    kind: str
    memory_mib: int
    cores: int
    suffix: str | None = None
    geometry_index: int | None = None
    slot_index: int | None = None


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be read: how many fields it has, why, and the UUID where at least that could be made out."""

    fields_count: int
    reason: str
    uuid: str | None
    excerpt: str


Record: TypeAlias = DeviceRecord | BadRecord
Slot: TypeAlias = tuple[Record, ...]


def parse_slots(text: str, *, terminated: bool) -> tuple[Slot, ...]:
    """The slots of an allocation, one per container; an empty tuple of records where a container has no card.

    ``terminated``: every slot ends with ``;`` (HAMi), so exactly one empty piece after the last is no slot. Raises
    SourceMalformed where the text has more characters, slots or records than any real pod.
    """
    if len(text) > CHARACTERS_MAX:
        raise SourceMalformed(
            f"expected an allocation of at most {CHARACTERS_MAX} characters, found {len(text)}", excerpt=text
        )
    if not text:
        return ()
    pieces = text.split(";", SLOTS_MAX + 1)
    if terminated and pieces[-1] == "":
        pieces.pop()
    if len(pieces) > SLOTS_MAX:
        raise SourceMalformed(f"expected at most {SLOTS_MAX} slots, found more", excerpt=text)
    slots: list[Slot] = []
    records = 0
    for piece in pieces:
        parts = [part for part in piece.split(":", RECORDS_MAX + 1) if part]
        records += len(parts)
        if records > RECORDS_MAX:
            raise SourceMalformed(f"expected at most {RECORDS_MAX} device records, found more", excerpt=text)
        slots.append(tuple(record for record in map(parse_record, parts) if record is not None))
    return tuple(slots)


def parse_record(text: str) -> Record | None:
    """One record; None where it is the padding ``,,0,0`` of a container without a card."""
    fields = text.split(",", FIELDS_MIN + 60)
    count = len(fields)
    uuid, suffix = _split_suffix(fields[0])
    readable = uuid if _UUID.match(uuid) else None
    if count < FIELDS_MIN:
        return BadRecord(count, f"device record has {count} fields, at least {FIELDS_MIN} needed", readable, text[:200])
    kind, memory, cores = fields[1:4]
    if not (_NUMBER.match(memory) and _NUMBER.match(cores)):
        return BadRecord(count, "memory and cores of a device record must be whole numbers", readable, text[:200])
    if not fields[0] and int(memory) == 0 and int(cores) == 0:
        return None
    if readable is None:
        return BadRecord(count, "device record has no readable UUID", None, text[:200])
    pair = _SUFFIX.match(suffix) if suffix is not None else None
    return DeviceRecord(
        uuid=readable,
        kind=kind[:80],
        memory_mib=int(memory),
        cores=int(cores),
        suffix=suffix,
        geometry_index=int(pair.group(1)) if pair else None,
        slot_index=int(pair.group(2)) if pair else None,
    )


def _split_suffix(text: str) -> tuple[str, str | None]:
    opening = text.find("[")
    if opening > 0 and text.endswith("]"):
        return text[:opening], text[opening + 1 : -1]
    return text, None
