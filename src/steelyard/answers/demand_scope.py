"""Whose demands are asked about, and by which of their dimensions they are grouped: the words of Q6 as values that its statements bind.

``scope_of`` reads the words of ``--by`` and ``--where``. The trick to know: demands come by the million, so conditions and groups are applied where
the rows are; a statement binds one list per dimension (empty = all) and the list of the words to group by, and is the same text for all questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from steelyard.answers.contract import Column, Value
from steelyard.answers.dimensions import DEMAND
from steelyard.answers.reading import Reading, Record
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Window

OF_PODS: Final = ("pod", "node", "gpu")
"""What narrows by the pods of a demand: one of them by ``namespace/name``, name or uid, where one was bound, which card one held."""
CONDITIONS: Final = (*DEMAND, *OF_PODS)
"""What narrows: these, and any label or annotation of the demand's pods."""
_SYNONYMS: Final = {"device": "gpu"}

DEMAND_ID: Final = "demand_id"
_OF_WAITS: Final = frozenset({"cluster", "queue", "namespace", DEMAND_ID})

_NAME_MAX: Final = 80
_COMPARED_MAX: Final = 5_000
_NEAR_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class DemandScope:
    """Demands of ``window`` that have one of the values of every dimension in ``wanted`` ('' = not set; no entry = all), grouped ``by``.

    ``words``: the conditions as they were asked, which may be others than the dimensions that they come down to.
    """

    window: Window
    by: Sequence[str] = ()
    wanted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    words: Sequence[str] = ()

    @property
    def is_narrowed(self) -> bool:
        """Whether anything but time narrows it."""
        return bool(self.wanted)

    def bound(self) -> Mapping[str, object]:
        """The values that every statement over demands of the window binds."""
        return {"from_us": self.window.start, "to_us": self.window.end, **self.conditions()}

    def conditions(self) -> Mapping[str, object]:
        """Those without the window."""
        return {f"{name}_wanted": list(self.wanted.get(name, ())) for name in (*DEMAND, DEMAND_ID)}

    def asks_demands(self, names: Iterable[str] = ()) -> bool:
        """Whether a condition, or one of the named dimensions, is one that a wait itself does not have."""
        return any(name not in _OF_WAITS for name in (*self.wanted, *names))

    def admits(self, record: Record, names: Iterable[str]) -> bool:
        """Whether a record has a wanted value in each of the named columns; the other dimensions are not looked at."""
        return all(
            ("" if record[name] is None else str(record[name])) in self.wanted[name]
            for name in names
            if name in self.wanted
        )

    def columns(self) -> tuple[Column, ...]:
        """The columns of the groups."""
        return tuple(Column(name) for name in self.by)

    def group(self, record: Record) -> tuple[Value, ...]:
        """The values of the groups of a record whose columns are the dimensions."""
        return tuple(record[name] for name in self.by)


def scope_of(
    window: Window, by: Sequence[str], where: Mapping[str, str], reading: Reading, *, confined: bool = False
) -> DemandScope:
    """The scope behind the words; ``reading`` has the statements ``demands_of_*`` and ``tags_known``.

    ``confined``: a refusal names no label. Raises UsageError for a word that tells no requests apart, naming those that do.
    """
    names = tuple(dict.fromkeys(name.strip() for name in by if name.strip()))
    for name in names:
        if name not in DEMAND:
            raise UsageError(
                _(
                    "requests are not grouped by {name!r}: group by {names}; narrow with --where also by {more}, or any"
                    " label or annotation of their pods"
                ).format(name=name[:_NAME_MAX], names=", ".join(DEMAND), more=", ".join(OF_PODS))
            )
    wanted: dict[str, Sequence[str]] = {}
    words: list[str] = []
    for word, value in where.items():
        if not (typed := word.strip()):
            continue
        name = _SYNONYMS.get(typed, typed)
        words.append(typed)
        if name in DEMAND:
            wanted[name] = (value,)
            continue
        found = _demands_of(name, value, reading, confined)
        earlier = wanted.get(DEMAND_ID)
        both = found if earlier is None else sorted(set(found) & set(earlier))
        wanted[DEMAND_ID] = tuple(both) or ("",)
    return DemandScope(window, names, wanted, words)


def _demands_of(name: str, value: str, reading: Reading, confined: bool) -> Sequence[str]:
    """The demands of which a pod is the named one, was there, held that, or bears that tag."""
    if name in OF_PODS:
        rows = reading.run(f"demands_of_{name}", **{name: value})
    else:
        kind, colon, key = name.partition(":")
        if not colon or kind not in ("label", "annotation"):
            kind, key = "", name
        pointer = "/" + key.replace("~", "~0").replace("/", "~1")
        known = reading.run("tags_known", pointer=pointer)[0]
        kinds = [tag for tag in ("label", "annotation") if kind in ("", tag) and known[f"is_{tag}"]]
        if not kinds:
            labels = (
                [str(row["key"]) for row in reading.run("label_keys", listed_max=_NEAR_MAX)] if not confined else []
            )
            raise UsageError(
                _(
                    "requests are not told apart by {name!r}; these words do: {names}, or a label or annotation of their pods{such}"
                ).format(
                    name=name[:_NAME_MAX],
                    names=", ".join(CONDITIONS),
                    such=_(", such as {labels}").format(labels=", ".join(labels)) if labels else "",
                )
            )
        rows = reading.run("demands_of_tag", tag=kinds[0], pointer=pointer, value=value)
    return tuple(str(row[DEMAND_ID]) for row in rows)


def require_known(scope: DemandScope, reading: Reading) -> None:
    """Refuse a name that no request and no queue has, rather than answer that it waits for nothing; ``reading`` has ``known_values``.

    Raises UsageError with the nearest names there are.
    """
    for name, values in scope.wanted.items():
        asked = [value for value in values if value]
        if name == DEMAND_ID:
            if not asked:
                names = ", ".join(word for word in scope.words if word not in DEMAND)
                raise UsageError(_("no request that was seen has a pod as asked for by {names}").format(names=names))
            continue
        if not asked:
            continue
        known = [str(row["value"]) for row in reading.run("known_values", dimension=name)]
        for value in asked:
            if value not in known:
                near = get_close_matches(value[:_NAME_MAX], known[:_COMPARED_MAX], n=_NEAR_MAX, cutoff=0.3)
                raise UsageError(
                    _("no {dimension} is called {name!r}; the nearest are: {near}").format(
                        dimension=name, name=value[:_NAME_MAX], near=", ".join(near or known[:_NEAR_MAX]) or _("none")
                    )
                )
