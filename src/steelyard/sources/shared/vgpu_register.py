"""The lists of cards that device plugins of the soft-partition layers write on their node, one shape for all encodings.

Comma-separated cards end with ``:`` each (7 or 9 fields from HAMi, 5 or 6 from Volcano vGPU), JSON lists hold one object a card.
The trick to know: the JSON writer leaves out zero values, so a missing ``health`` means false and a missing ``index`` means 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from steelyard.primitives.errors import SourceMalformed

CARDS_MAX: Final = 1_024
CHARACTERS_MAX: Final = 1_048_576

_UUID: Final = re.compile(r"[!-+\--9<-~]{1,160}\Z")
_INTEGER: Final = re.compile(r"-?[0-9]{1,15}\Z")
_INTEGER_MAX: Final = 10**15
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

HAMI_7: Final = ("uuid", "slots", "memory", "cores", "kind", "numa", "healthy")
HAMI_9: Final = (*HAMI_7, "index", "mode")
VOLCANO_5: Final = ("uuid", "slots", "memory", "kind", "healthy")
VOLCANO_6: Final = (*VOLCANO_5, "mode")


@dataclass(frozen=True, slots=True)
class Registered:
    """One card as registered. ``kind`` is the model as written; ``memory_mib`` is schedulable; None: not said or not readable."""

    uuid: str
    encoding: str
    kind: str | None
    memory_mib: int | None
    slots_count: int | None = None
    cores: int | None = None
    numa: int | None = None
    healthy: bool | None = None
    index: int | None = None
    mode: str | None = None
    mig_profiles: str | None = None


Problems = list[tuple[str, str]]
"""Code and message of each lesser trouble: a field that cannot be read, a card that stands there twice."""


def parse_csv_register(
    text: str, layouts: Mapping[str, Sequence[str]] | None = None
) -> tuple[Sequence[Registered], Problems]:
    """Cards of a comma-separated register. layouts: field names by the name of the encoding (default: HAMi's csv7 and csv9).

    Raises SourceMalformed where a card has another number of fields (the layer's own decoder then refuses the node as a whole),
    where it has no readable UUID, or beyond the limits.
    """
    by_count = {
        len(names): (encoding, names) for encoding, names in (layouts or {"csv7": HAMI_7, "csv9": HAMI_9}).items()
    }
    _check_size(text)
    pieces = [piece for piece in text.split(":", CARDS_MAX + 1) if piece.strip()]
    if len(pieces) > CARDS_MAX:
        raise SourceMalformed(f"expected at most {CARDS_MAX} cards, found more", excerpt=text)
    cards: list[Registered] = []
    problems: Problems = []
    for position, piece in enumerate(pieces):
        fields = piece.split(",", 64)
        if len(fields) not in by_count:
            raise SourceMalformed(
                f"card {position} has {len(fields)} fields, expected {' or '.join(map(str, sorted(by_count)))}: the node's register is refused",
                excerpt=piece,
            )
        encoding, names = by_count[len(fields)]
        if not _UUID.match(fields[0]):
            raise SourceMalformed(
                f"card {position} has no readable UUID: the node's register is refused", excerpt=piece
            )
        cards.append(_from_fields(encoding, dict(zip(names, fields, strict=True)), problems))
    return _once(cards, problems), problems


def _from_fields(encoding: str, fields: Mapping[str, str], problems: Problems) -> Registered:
    def integer(name: str) -> int | None:
        written = fields.get(name)
        if written is None:
            return None
        if not _INTEGER.match(written):
            problems.append(
                ("register_field_unreadable", f"{fields['uuid']}: {name} is no whole number: {written[:40]!r}")
            )
            return None
        return int(written)

    def count(name: str) -> int | None:
        return _not_negative(integer(name), name, problems, fields["uuid"])

    healthy = _TRUTH.get(fields["healthy"])
    if healthy is None:
        problems.append(
            (
                "register_field_unreadable",
                f"{fields['uuid']}: health is neither true nor false: {fields['healthy'][:40]!r}",
            )
        )
    return Registered(
        uuid=fields["uuid"],
        encoding=encoding,
        kind=fields["kind"][:200] or None,
        memory_mib=count("memory"),
        slots_count=count("slots"),
        cores=count("cores"),
        numa=_numa(integer("numa")),
        healthy=healthy,
        index=count("index"),
        mode=fields.get("mode", "")[:40] or None,
    )


def parse_json_register(text: str) -> tuple[Sequence[Registered], Problems]:
    """Cards of a JSON register. Raises SourceMalformed where it is no JSON list or beyond the limits; an entry without an id is a problem."""
    _check_size(text)
    try:
        entries = orjson.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceMalformed(f"the register is no JSON list: {str(error)[:120]}", excerpt=text) from error
    if not isinstance(entries, list) or len(entries) > CARDS_MAX:
        raise SourceMalformed(f"expected a JSON list of at most {CARDS_MAX} cards", excerpt=text)
    cards: list[Registered] = []
    problems: Problems = []
    for position, entry in enumerate(entries):
        uuid = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(uuid, str) or not _UUID.match(uuid):
            problems.append(("register_malformed", f"entry {position} is no card with a readable id"))
            continue
        cards.append(_from_entry(uuid, entry, problems))
    return _once(cards, problems), problems


def _from_entry(uuid: str, entry: Mapping[str, Any], problems: Problems) -> Registered:
    def typed(name: str, kind: type, default: Any) -> Any:
        value: Any = entry.get(name, default)
        if type(value) is not kind or (isinstance(value, int) and abs(value) > _INTEGER_MAX):
            problems.append(("register_field_unreadable", f"{uuid}: {name} is no {kind.__name__}: {str(value)[:40]!r}"))
            return None
        return value

    profiles = entry.get("migProfiles")
    if profiles is not None and not isinstance(profiles, list):
        problems.append(("register_field_unreadable", f"{uuid}: migProfiles is no list"))
        profiles = None
    kind, mode = typed("type", str, ""), typed("mode", str, "")
    return Registered(
        uuid=uuid,
        encoding="json+migProfiles" if profiles else "json",
        kind=kind[:200] or None if kind else None,
        memory_mib=_not_negative(typed("devmem", int, 0), "devmem", problems, uuid),
        slots_count=_not_negative(typed("count", int, 0), "count", problems, uuid),
        cores=_not_negative(typed("devcore", int, 0), "devcore", problems, uuid),
        numa=_numa(typed("numa", int, 0)),
        healthy=typed("health", bool, False),
        index=_not_negative(typed("index", int, 0), "index", problems, uuid),
        mode=mode[:40] or None if mode else None,
        mig_profiles=_as_text(profiles, problems, uuid) if profiles else None,
    )


def _as_text(profiles: Sequence[Any], problems: Problems, uuid: str) -> str | None:
    try:
        return orjson.dumps(profiles).decode()
    except (TypeError, ValueError) as error:
        problems.append(("register_field_unreadable", f"{uuid}: migProfiles cannot be kept: {str(error)[:80]}"))
        return None


def _not_negative(value: int | None, name: str, problems: Problems, uuid: str) -> int | None:
    if value is not None and value < 0:
        problems.append(("register_field_unreadable", f"{uuid}: {name} is below zero: {value}"))
        return None
    return value


def _numa(value: int | None) -> int | None:
    """The NUMA node; the kernel's -1 means that it is not known."""
    return value if value is not None and value >= 0 else None


def _once(cards: Sequence[Registered], problems: Problems) -> Sequence[Registered]:
    """The first entry of each UUID; a card that stands there twice is one card."""
    first: dict[str, Registered] = {}
    for card in cards:
        if card.uuid in first:
            problems.append(
                ("register_duplicate_device", f"{card.uuid} stands there more than once; the first entry counts")
            )
        else:
            first[card.uuid] = card
    return list(first.values())


def _check_size(text: str) -> None:
    if len(text) > CHARACTERS_MAX:
        raise SourceMalformed(
            f"expected a register of at most {CHARACTERS_MAX} characters, found {len(text)}", excerpt=text
        )
