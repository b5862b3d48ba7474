"""Whether what is asked about may include a holder whose card is not known: yes, no, or nobody can tell.

Q1 and Q2 call ``Homes.meets`` for each holder. The trick to know: such a holder sits on one of the cards of its node, or of its cluster
where not even the node is known. Where all of these meet the conditions it is in, where none does it is out, else it may be either, and
then what is held of the cards asked about is unknown: it is never called free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from steelyard.answers import dimensions
from steelyard.answers.dimensions import Filter
from steelyard.answers.reading import Record

OF_CARD: Final = frozenset({"gpu", "device", "model", "vendor"})
"""Dimensions of a card that its node does not tell."""
_BY_NAME: Final = frozenset({"gpu", "device"})
_SHOWN: Final = 3

Home: TypeAlias = "tuple[str, str | None]"
"""Cluster and node; None = any node of the cluster."""


@dataclass(slots=True)
class Homes:
    """The cards by the home of which they may be: ``cards`` by UUID, ``unnamed`` the places whose cards have no UUID that is known."""

    cards: dict[Home, list[Record]] = field(default_factory=dict)
    unnamed: dict[Home, list[Record]] = field(default_factory=dict)
    blind: bool = False
    """Whoever asks may not learn which cards there are: then every card that could be named may be a holder's."""
    _verdicts: dict[tuple[Home, tuple[Filter, ...]], bool | None] = field(default_factory=dict)

    @classmethod
    def of(cls, cards: Iterable[Record], unnamed: Iterable[Record]) -> Homes:
        """From the records of cards (``cluster``, ``node``, ``model`` and so on) and of places."""
        homes = cls()
        for kept, records in ((homes.cards, cards), (homes.unnamed, unnamed)):
            for record in records:
                for node in {record["node"], None}:
                    kept.setdefault((record["cluster"], node), []).append(record)
        return homes

    def only(self, home: Home, name: str) -> str | None:
        """What all cards of a home have in a column; None where they differ or one does not tell."""
        found = {record.get(name) for record in (*self.cards.get(home, ()), *self.unnamed.get(home, ()))}
        return found.pop() if len(found) == 1 else None

    def meets(self, record: Record, where: Sequence[Filter]) -> bool | None:
        """Whether a holder meets the conditions; None = it hangs on a card that is not known, or of which the condition's word is not."""
        missed = [condition for condition in where if not condition.admits(record)]
        if not missed:
            return True
        if record["device_uuid"] is not None:
            return fits(record, missed, named=True)
        home = (record["cluster"], record["node"])
        hanging = OF_CARD if record["node"] is not None else OF_CARD | {"node"}
        if any(condition.dimension.name not in hanging for condition in missed):
            return False
        conditions = tuple(c for c in where if c.dimension.name in dimensions.PLACE)
        key = (home, conditions)
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(home, conditions)
        return self._verdicts[key]

    def _verdict(self, home: Home, conditions: Sequence[Filter]) -> bool | None:
        if self.blind:
            return None
        met = {fits(card, conditions, named=True) for card in self.cards.get(home, ())}
        met |= {fits(place, conditions, named=False) for place in self.unnamed.get(home, ())}
        if not met:
            return False if any(c.dimension.name in _BY_NAME for c in conditions) else None
        return met.pop() if len(met) == 1 else None


def fits(record: Record, conditions: Iterable[Filter], named: bool) -> bool | None:
    """Whether a card, or with ``named`` False a place whose cards have no known UUID, meets conditions; None = its word is not known."""
    verdict: bool | None = True
    for condition in conditions:
        name = condition.dimension.name
        if name in _BY_NAME and not named:
            return False
        if not condition.admits(record):
            if name not in ("model", "vendor") or condition.dimension.value(record) is not None:
                return False
            verdict = None
    return verdict


def names_shown(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    found = sorted(set(names))
    more = len(found) - _SHOWN
    return ", ".join(found[:_SHOWN]) + (f" (+{more})" if more > 0 else "")
