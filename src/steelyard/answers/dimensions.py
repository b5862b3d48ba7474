"""What answers can be grouped and filtered by: the columns of ``dim.*`` under the words that people use, and any label.

Questions call ``chosen`` with the words of ``--by`` and the keys of ``--where``. The trick to know: a word that is no dimension is
looked up as a label key, then as an annotation key; a word that is none of the three is refused with the list of those that are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeAlias

from steelyard.answers.reading import Reading, Record
from steelyard.definitions import gpu_state, over_use
from steelyard.definitions.models import model_tokens
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _

SQL: Final = Path(__file__).with_suffix(".sql")
_LISTED_MAX: Final = 24
_COMPARED_MAX: Final = 5000
_NEAR_MAX: Final = 5
_NAME_MAX: Final = 80
_NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "gpu": ("known_cards", "card"),
    "device": ("known_cards", "card"),
    "pod": ("known_pods", "pod"),
    "pod_uid": ("known_pods", "pod"),
    "tenant": ("known_pods", "tenant"),
}
"""Conditions that name one thing: the statement that lists all there are, and what kind of thing."""

Pick: TypeAlias = "Callable[[Record], str | None]"
"""How a record yields the value of a dimension; None = not set."""

Known: TypeAlias = "Mapping[str, Pick]"
"""Dimensions by the word that names them."""


def _joined(*names: str) -> Pick:
    def pick(record: Record) -> str | None:
        parts = [record.get(name) for name in names]
        return "/".join(str(part) for part in parts) if all(part is not None for part in parts) else None

    return pick


def _column(name: str) -> Pick:
    def pick(record: Record) -> str | None:
        value = record.get(name)
        return None if value is None else str(value)

    return pick


_POD: Final[Known] = {
    "pod": _joined("namespace", "pod"),
    "namespace": _column("namespace"),
    "tenant": _column("tenant"),
    "workload": _joined("workload_kind", "workload_name"),
    "owner": _joined("workload_kind", "workload_name"),
    "queue": _column("queue"),
    "qos": _column("qos"),
    "scheduler": _column("scheduler"),
    "phase": _column("phase"),
    "pod_uid": _column("pod_uid"),
}
PLACE: Final[Known] = {
    "gpu": _column("device_uuid"),
    "device": _column("device_uuid"),
    "node": _column("node"),
    "model": _column("model"),
    "vendor": _column("vendor"),
    "cluster": _column("cluster"),
}
"""Dimensions of the place alone: a card has them also when nobody holds it."""

_HOLDING: Final[Known] = {
    "unit": _column("unit_id"),
    "unit_kind": _column("unit_kind"),
    "profile": _column("profile"),
    "scheme": _column("scheme"),
    "occupancy": _column("occupancy"),
    "evidence": _column("evidence_grade"),
}

POD_AND_PLACE: Final = {**_POD, **PLACE}
"""Dimensions of consumption: of the pod and of the place."""

HOLDING: Final = {**POD_AND_PLACE, **_HOLDING}
"""Dimensions of holdings: those, and the holding's own."""

STATE: Final = {
    **POD_AND_PLACE,
    **{name: _column(name) for name in ("person", "state", "cause", "basis")},
}
"""Dimensions of where GPU-time went: those of consumption, who stands behind a pod, and the state itself."""

OVER_USE: Final = {
    **POD_AND_PLACE,
    **{name: _column(name) for name in ("person", "rule", "severity", "basis")},
}
"""Dimensions of over-use: those of consumption, who stands behind a pod, and the episode itself."""

COST: Final = {
    **POD_AND_PLACE,
    **{
        name: _column(name)
        for name in ("account", "unit_kind", "commitment", "service", "department", "team", "project", "cost_centre")
    },
}
"""Dimensions of money: those of consumption, the account, how the place is paid for, the service, and the tenancy tree."""

VOCABULARIES: Final[Mapping[str, Sequence[str]]] = {
    "state": gpu_state.STATES,
    "severity": over_use.SEVERITIES,
    "rule": over_use.RULES,
    "occupancy": ("held", "reserved", "in_suspense"),
}
"""Dimensions whose words are all known beforehand: another word can match nothing, today or ever."""

DEMAND: Final = ("cluster", "queue", "namespace", "tenant", "priority", "workload", "person")
"""Dimensions of what waits as one. They are grouped in SQL, where demands come by the million."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One chosen dimension: the word as asked, and how a record yields its value (None = not set)."""

    name: str
    value: Pick


def chosen(names: Iterable[str], known: Known, reading: Reading) -> tuple[Dimension, ...]:
    """The dimensions behind the words, in the order asked, each once.

    ``label:<key>`` and ``annotation:<key>`` say which kind is meant. Raises UsageError for a word that is neither a dimension nor
    a label or annotation of any pod.
    """
    found: dict[str, Dimension] = {}
    for word in names:
        name = word.strip()
        if name and name not in found:
            found[name] = Dimension(name, known[name] if name in known else _tag(name, known, reading))
    return tuple(found.values())


def _tag(name: str, known: Known, reading: Reading) -> Pick:
    kind, colon, key = name.partition(":")
    if not colon or kind not in ("label", "annotation"):
        kind, key = "", name
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    for statement in ("label", "annotation"):
        if kind in ("", statement):
            rows = reading.run(statement, pointer=pointer)
            if rows:
                return _lookup({(row["cluster"], row["pod_uid"]): str(row["value"]) for row in rows})
    keys = [str(row["key"]) for row in reading.run("label_keys", listed_max=_LISTED_MAX + 1)]
    listed = ", ".join(keys[:_LISTED_MAX]) + (", ..." if len(keys) > _LISTED_MAX else "")
    raise UsageError(
        _("no dimension, label or annotation is called {name!r}; dimensions: {dimensions}; labels: {labels}").format(
            name=name[:80], dimensions=", ".join(sorted(known)), labels=listed or _("none")
        )
    )


def _lookup(values: Mapping[tuple[str, str], str]) -> Pick:
    return lambda record: values.get((record["cluster"], record["pod_uid"]))


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition: a dimension and the text its value must have."""

    dimension: Dimension
    wanted: str

    def admits(self, record: Record) -> bool:
        """Whether a record meets it.

        A GPU may be named by its whole UUID, by the first 8 characters or more of it, by a unit id on it or as ``node/index``; a pod with
        or without its namespace, or by its uid; a model is the same with dashes or blanks. Everything else must be equal.
        """
        wanted, value = self.wanted, self.dimension.value(record)
        if self.dimension.name in ("gpu", "device"):
            place = f"{record.get('node')}/{record.get('device_index')}"
            return wanted in (value, record.get("unit_id"), place) or (
                len(wanted) >= 8 and value is not None and value.startswith(wanted)
            )
        if self.dimension.name == "pod":
            return wanted in (value, record.get("pod"), record.get("pod_uid"))
        if self.dimension.name == "model" and value and wanted:
            return value == wanted or model_tokens(value) == model_tokens(wanted)
        return (value or "") == wanted


def filters(where: Mapping[str, str], known: Known, reading: Reading) -> tuple[Filter, ...]:
    """The conditions of a question. Raises UsageError as ``chosen`` does, and for a word that a closed vocabulary has not."""
    found = tuple(Filter(chosen([name], known, reading)[0], wanted) for name, wanted in where.items() if name.strip())
    for condition in found:
        name = condition.dimension.name
        words = VOCABULARIES.get(name, ()) if name in known else ()
        if words and condition.wanted not in ("", *words):
            raise UsageError(
                _("{name}: expected one of {words}; found {found!r}").format(
                    name=name, words=", ".join(words), found=condition.wanted[:_NAME_MAX]
                )
            )
    return found


def require_known(where: Sequence[Filter], met: Iterable[Record], reading: Reading) -> None:
    """Refuse a card, pod or tenant that nobody knows, rather than answer that it holds nothing.

    ``met``: the records of the answer before it is narrowed; a name that one of them has is known without a look into the tables. Raises
    UsageError with the nearest names there are. A name that is known and holds nothing passes.
    """
    named = [condition for condition in where if condition.dimension.name in _NAMED]
    if not named:
        return
    records = list(met)
    for condition in named:
        statement, kind = _NAMED[condition.dimension.name]
        if any(condition.admits(record) for record in records):
            continue
        known = reading.run(statement)
        if any(condition.admits(record) for record in known):
            continue
        value = condition.dimension.value
        names = sorted({str(value(record)) for record in known[:_COMPARED_MAX] if value(record) is not None})
        if kind == "card":
            names += [
                f"{row['node']}/{row['device_index']}"
                for row in known[:_COMPARED_MAX]
                if row["device_index"] is not None
            ]
        near = get_close_matches(condition.wanted[:_NAME_MAX], names, n=_NEAR_MAX, cutoff=0.3) or names[:_NEAR_MAX]
        refusal = {
            "card": _("no card is called {name!r}; the nearest are: {near}"),
            "pod": _("no pod is called {name!r}; the nearest are: {near}"),
            "tenant": _("no tenant is called {name!r}; the nearest are: {near}"),
        }
        raise UsageError(refusal[kind].format(name=condition.wanted[:_NAME_MAX], near=", ".join(near) or _("none")))


def grouped(records: Iterable[Record], dimensions: Sequence[Dimension]) -> dict[tuple[str | None, ...], list[Record]]:
    """The records by the values of the dimensions, in the order of the values (not set comes last)."""
    groups: dict[tuple[str | None, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(dimension.value(record) for dimension in dimensions), []).append(record)
    return dict(sorted(groups.items(), key=lambda item: [(value is None, value or "") for value in item[0]]))
