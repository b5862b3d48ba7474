"""What a MIG profile takes of its card: compute slices and memory slices.

Readers call ``mig_slices`` where a source names a profile but not its slices. The trick to know: a profile's name alone is not
enough (``1g.10gb`` is one eighth of the memory of an 80 GB card and two eighths of a 40 GB one), so the card's memory or model
is asked for, and where neither is known the other profiles seen on the same card (``siblings``) may settle it.

Sceptic's command: ``nvidia-smi mig -lgip`` on the card, and the MIG user guide's table of profiles.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final

from steelyard.definitions.models import memory_mib_of, model_tokens
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = "slices of a MIG profile by the vendor's table; an unlisted profile: g/7 and the nearest eighth of the card's memory (estimated)"

_PROFILE: Final = re.compile(r"(?:mig-)?(?:(\d{1,2})c\.)?(\d{1,2})g\.(\d{1,4})gb([+.-][a-z0-9.+-]{1,16})?\Z")
_MEMORY_TOLERANCE_PERCENT: Final = 2
_USABLE_PERCENT: Final = 85
"""Of its slices' part of the card's memory, what an instance offers at least."""


@dataclass(frozen=True, slots=True)
class MigSlices:
    """``compute`` of ``compute_total`` slices and ``memory`` of ``memory_total``. ``estimated``: the profile is in no table of ours.

    ``starts``: the memory slices at which such an instance may begin, None where no table lists them.
    """

    compute: int
    compute_total: int
    memory: int
    memory_total: int
    estimated: bool = False
    starts: tuple[int, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class _Profile:
    """A name taken apart: ``1c.3g.20gb+me`` is 1 compute instance slice of a ``3g.20gb`` GPU instance."""

    base: str
    compute_instance: int | None
    compute: int
    memory_gb: int


@dataclass(frozen=True, slots=True)
class _Board:
    tokens: frozenset[str]
    memory_mib: int | None
    compute_total: int
    memory_total: int
    profiles: dict[str, MigSlices]


def mig_slices(
    profile: str,
    model: str | None = None,
    memory_mib: int | None = None,
    *,
    siblings: Collection[str] = (),
) -> MigSlices | Unknown:
    """The slices of a profile on a card of this model or physical memory (MiB, unscaled).

    Media variants (``+me``, ``.me``, ``+gfx``, ``-me``) take the same slices as the plain profile. A compute instance ``<c>c.<g>g``
    takes c compute slices and c/g of its GPU instance's memory. Unknown where the name is no profile, or where the card is not
    known and the cards that offer the profile differ. An unlisted profile of a known card comes back ``estimated``.
    """
    parsed = _parse(profile)
    if parsed is None:
        return Unknown(f"{profile[:40]!r} is no MIG profile such as 1g.10gb")
    memory = memory_mib
    if memory is None and model is not None:
        listed = memory_mib_of(model)
        memory = None if isinstance(listed, Unknown) else listed
    boards = _boards_like(model, memory)
    if not boards and memory is None:
        boards = _boards_offering({parsed.base, *(sibling.base for sibling in map(_parse, siblings) if sibling)})
    offers = {board.profiles[parsed.base] for board in boards if parsed.base in board.profiles}
    if len({(offer.compute / offer.compute_total, offer.memory / offer.memory_total) for offer in offers}) == 1:
        return _of_instance(min(offers, key=lambda offer: offer.compute_total), parsed)
    if offers:
        return Unknown(
            f"{parsed.base} takes different parts of different cards, and neither memory nor model of this card is known"
        )
    if memory is None:
        return Unknown(f"{parsed.base} is in no table, and the memory of its card is not known")
    return _estimate(parsed, memory, boards)


def is_profile(name: str) -> bool:
    """Whether the name has the form of a MIG profile, such as ``1g.10gb`` or ``2g.20gb+me``."""
    return _parse(name) is not None


def smallest_profile(
    memory_mib: int, compute: int, model: str | None, card_memory_mib: int | None
) -> tuple[str, int] | Unknown:
    """The smallest profile of the card with at least so much memory (MiB) and compute slices, with its memory; of two of the same memory that with
    less compute. Its memory is reckoned as its memory slices of the card's, of which an instance has been seen to offer 85 % and more.

    Unknown where the card is in no table or has no such profile.
    """
    boards = _boards_like(model, card_memory_mib)
    if not boards:
        return Unknown("the profiles of this card are in no table")
    board = boards[0]
    whole = board.memory_mib or card_memory_mib
    if whole is None:
        return Unknown("the memory of this card is not known")
    offers = sorted((slices.memory, slices.compute, name) for name, slices in board.profiles.items())
    for memory_slices, compute_slices, name in offers:
        usable = whole * memory_slices // board.memory_total * _USABLE_PERCENT // 100
        if usable >= memory_mib and compute_slices >= compute:
            return name, usable
    return Unknown(f"no profile of this card has {memory_mib} MiB")


def legal_starts(slices: MigSlices) -> tuple[int, ...]:
    """The memory slices at which an instance of these slices may begin, as ``nvidia-smi mig -lgipp`` lists them.

    Of an unlisted profile (``estimated``): the multiples of its size at which it ends on the card.
    """
    if slices.starts is not None:
        return slices.starts
    size = slices.memory
    return tuple(range(0, slices.memory_total - size + 1, size)) if 0 < size <= slices.memory_total else ()


def _parse(profile: str) -> _Profile | None:
    match = _PROFILE.match(profile.strip().casefold()) if len(profile) <= 64 else None
    if match is None:
        return None
    instance, compute, memory_gb = match.group(1), int(match.group(2)), int(match.group(3))
    if compute < 1 or memory_gb < 1 or (instance is not None and not 1 <= int(instance) <= compute):
        return None
    return _Profile(f"{compute}g.{memory_gb}gb", int(instance) if instance else None, compute, memory_gb)


def _boards_like(model: str | None, memory_mib: int | None) -> Sequence[_Board]:
    if memory_mib is not None:
        tolerance = memory_mib * _MEMORY_TOLERANCE_PERCENT // 100
        near = [board for board in _boards() if board.memory_mib and abs(board.memory_mib - memory_mib) <= tolerance]
        if near:
            return near
    tokens = model_tokens(model) if model is not None else frozenset()
    return [board for board in _boards() if board.tokens <= tokens and (memory_mib is None or board.memory_mib is None)]


def _boards_offering(profiles: set[str]) -> Sequence[_Board]:
    return [board for board in _boards() if profiles <= board.profiles.keys()]


def _of_instance(slices: MigSlices, parsed: _Profile) -> MigSlices:
    if parsed.compute_instance is None or parsed.compute_instance == parsed.compute:
        return slices
    return MigSlices(
        parsed.compute_instance,
        slices.compute_total,
        slices.memory * parsed.compute_instance,
        slices.memory_total * parsed.compute,
        slices.estimated,
    )


def _estimate(parsed: _Profile, memory_mib: int, boards: Sequence[_Board]) -> MigSlices | Unknown:
    compute_total, memory_total = (boards[0].compute_total, boards[0].memory_total) if boards else (7, 8)
    if parsed.compute > compute_total or parsed.memory_gb * 1000 > memory_mib * 1.1:
        return Unknown(f"{parsed.base} is larger than a card of {memory_mib} MiB")
    memory = max(1, min(memory_total, round(parsed.memory_gb * 1024 * memory_total / memory_mib)))
    return _of_instance(MigSlices(parsed.compute, compute_total, memory, memory_total, estimated=True), parsed)


@cache
def _boards() -> tuple[_Board, ...]:
    text = (files(__package__) / "mig_profiles.csv").read_text(encoding="utf-8")
    boards: dict[str, _Board] = {}
    for row in csv.DictReader(text.splitlines()):
        compute_total, memory_total = int(row["compute_total"]), int(row["memory_total"])
        board = boards.setdefault(
            row["board"],
            _Board(
                frozenset(row["tokens"].split()),
                int(row["memory_mib"]) if row["memory_mib"] else None,
                compute_total,
                memory_total,
                {},
            ),
        )
        starts = tuple(map(int, row["starts"].split()))
        board.profiles[row["profile"]] = MigSlices(
            int(row["compute"]), compute_total, int(row["memory"]), memory_total, starts=starts
        )
    return tuple(boards.values())
