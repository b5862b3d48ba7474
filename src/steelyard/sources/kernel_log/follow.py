"""A kernel log followed round by round: each message once, over restarts, bursts as one event.

``app.agent`` makes one ``KernelLogFollower`` and keeps its ``cursor`` with the facts of each round. The tricks to know: a card that falls off the
bus is often told twice, in words and as Xid 79, so words are held back for a while to see whether a 79 follows, and the cursor carries what is held;
and the card at an address is what the log or the driver said last, for a card that is lost can no longer be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.primitives.instant import AT_OBSERVATION, SECOND_US, Instant
from steelyard.sources.kernel_log.grammar import find_message
from steelyard.sources.kernel_log.read import OFF_BUS_CODE, SAME_FALL_US, SOURCE, read_kernel_log
from steelyard.sources.kernel_log.records import LogSource, Position
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_directory import DeviceDirectory
from steelyard.sources.shared.plain_text import plain

HOLD_US: Final = 20 * SECOND_US
HELD_MAX: Final = 200
CARDS_MAX: Final = 256
_WORDS: Final = ("NVRM", "nvswitch", "Linux version ")
_FALL_KINDS: Final = frozenset({"fell_off_bus", "off_bus_begin", "off_bus_end"})
_COALESCED: Final = frozenset({"xid", "sxid"})


class _State(msgspec.Struct):
    """What the next round, or the next process, needs. ``held``: (line, since). ``falls``: address -> the last fall that was told."""

    position: Position = Position()
    held: list[tuple[str, Instant]] = []
    falls: dict[str, Instant] = {}
    cards: dict[str, str] = {}


class KernelLogFollower:
    """One log of one node. ``cursor``: what ``cursor()`` returned when its facts were last kept; None, or rubbish, begins anew."""

    def __init__(self, source: LogSource, cursor: str | None = None) -> None:
        self._source = source
        self._state = _decoded(cursor)

    def cursor(self) -> str:
        """Where it stands: to be kept together with the facts of the rounds before."""
        return msgspec.json.encode(self._state).decode()

    def round(self, ctx: ReadContext, directory: DeviceDirectory | None = None) -> Iterator[Fact]:
        """Events, cards that are lost, findings, and one status. Raises SourceUnavailable where the log cannot be read: then nothing has changed.

        ``directory``: the cards as the driver names them now."""
        state = self._state
        lines, position, lost = self._source.read(state.position)
        cards = {} if position.boot != state.position.boot else dict(state.cards)
        cards |= {
            pci: next(iter(uuids))
            for (_, pci), uuids in (directory or DeviceDirectory()).by_pci.items()
            if len(uuids) == 1
        }
        ready, held = _held_back([(line, ctx.observed_at) for line in lines], state.held, ctx.observed_at)
        found = list(read_kernel_log(ready, ctx, _directory(cards, ctx.node)))
        falls = dict(list(state.falls.items())[-CARDS_MAX:])
        facts = _coalesced(_once(found, falls))
        for fact in facts:
            if isinstance(fact, Event) and fact.kind == "pci_map" and fact.pci_address and fact.device_uuid:
                cards[fact.pci_address] = fact.device_uuid
        cards = dict(list(cards.items())[-CARDS_MAX:])
        self._state = _State(position, held, falls, cards)
        if lost is not None:
            yield ctx.finding(SOURCE, "kernel_log_gap", f"node {ctx.node}", f"{self._source.name}: {lost}")
        yield from facts

    def close(self) -> None:
        """Let the log go."""
        self._source.close()


def _decoded(cursor: str | None) -> _State:
    try:
        return msgspec.json.decode(cursor, type=_State) if cursor else _State()
    except (msgspec.MsgspecError, RecursionError):
        return _State()


def _held_back(
    lines: list[tuple[str, Instant]], held: list[tuple[str, Instant]], now: Instant
) -> tuple[list[str], list[tuple[str, Instant]]]:
    """(lines to be read now, lines to be read later). Words of a fall wait for a real Xid 79, until one comes or their time has passed."""
    ready: list[str] = []
    waiting: list[tuple[str, Instant]] = []
    for line, since in (*held, *lines):
        if not any(word in line for word in _WORDS):
            continue
        found = find_message(plain(line))
        if found is not None and found[1].kind in _FALL_KINDS:
            waiting.append((line, since))
        else:
            ready.append(line)
    due = any(since <= now - HOLD_US for _, since in waiting) or len(waiting) > HELD_MAX
    real = any(_is_real_fall(line) for line in ready)
    if due or real:
        return [*ready, *(line for line, _ in waiting)], []
    return ready, waiting


def _is_real_fall(line: str) -> bool:
    found = find_message(plain(line))
    return found is not None and found[1].kind == "xid" and found[1].code == OFF_BUS_CODE


def _once(found: Iterable[Fact], falls: dict[str, Instant]) -> Iterator[Fact]:
    """Falls that earlier rounds have not told; ``falls`` learns of those that are told now."""
    for fact in found:
        if isinstance(fact, Event) and fact.code == OFF_BUS_CODE and fact.pci_address is not None:
            told = falls.get(fact.pci_address)
            same = told is not None and abs(fact.occurred_at - told) <= SAME_FALL_US
            if fact.kind == "fell_off_bus" and same:
                continue
            falls[fact.pci_address] = fact.occurred_at
        yield fact


def _coalesced(found: Iterable[Fact]) -> list[Fact]:
    """Events of one kind, card, code and process in one round are one event with their count: its time is the last one's."""
    facts: list[Fact] = []
    places: dict[tuple[object, ...], int] = {}
    for fact in found:
        if not isinstance(fact, Event) or fact.kind not in _COALESCED or fact.occurred_at == AT_OBSERVATION:
            facts.append(fact)
            continue
        key = (
            fact.kind,
            fact.node,
            fact.pci_address,
            fact.subject_name,
            fact.code,
            fact.pid,
            fact.process_name,
            fact.severity,
        )
        place = places.get(key)
        if place is None:
            places[key] = len(facts)
            facts.append(fact)
            continue
        known = facts[place]
        assert isinstance(known, Event)  # noqa: S101 (only events have a place)
        first_at = min(known.first_at or known.occurred_at, fact.occurred_at)
        later = fact if fact.occurred_at >= known.occurred_at else known
        facts[place] = msgspec.structs.replace(
            later, natural_key=known.natural_key, count=known.count + 1, first_at=first_at
        )
    return facts


def _directory(cards: dict[str, str], node: str | None) -> DeviceDirectory:
    return DeviceDirectory(by_pci={(node, pci): frozenset((uuid,)) for pci, uuid in cards.items()})
