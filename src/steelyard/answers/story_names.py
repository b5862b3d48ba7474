"""Which request a person means: by name, ``namespace/name`` or uid, of a pod, a job or a workload.

``story`` calls ``named``. One name may stand for a pod, for the Workload that Kueue made of it and for the job behind both: where one of them
includes all that the others are, that one is meant. The trick to know: who is confined to a tenant asks among that tenant's requests
alone, so neither an ambiguity nor a near match tells that another name exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.answers.reading import Reading
from steelyard.primitives.errors import NotFound, UsageError
from steelyard.primitives.i18n import _

KINDS: Final = ("pod", "job", "workload")
_NEAR_MAX: Final = 5
_SHOWN_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Named:
    """What a name stands for: an object, and the demands that are its requests."""

    cluster: str
    kind: str
    namespace: str
    name: str
    demands: tuple[str, ...]

    @property
    def title(self) -> str:
        """``job team-a/train``."""
        return f"{self.kind} {self.namespace}/{self.name}"


def named(reading: Reading, typed: str, kind: str | None, cluster: str | None, tenant: str | None) -> Named | None:
    """The one thing of that name; None where there is none. Raises UsageError with those that it may be where there is more than one."""
    if kind is not None and kind not in KINDS:
        raise UsageError(
            _("a request is a {kinds}; found {found}").format(kinds=", ".join(KINDS), found=repr(kind[:_SHOWN_MAX]))
        )
    namespace, slash, name = typed.strip().rpartition("/")
    bound = {"typed": typed.strip(), "plain": name, "tenant": tenant}
    rows = reading.run("story_named", **bound, namespace=namespace if slash else None, kind=kind, cluster=cluster)
    found: dict[tuple[str, str, str, str], set[str]] = {}
    for row in rows:
        key = (row["cluster"], row["kind"], row["namespace"] or "", row["name"] or "")
        found.setdefault(key, set()).add(row["demand_id"])
    if not found:
        return None
    chosen = _all_of_them(found)
    if chosen is None:
        raise ambiguous(typed, sorted(found))
    return Named(*chosen, demands=tuple(sorted(found[chosen])))


def nothing_so_called(reading: Reading, typed: str, tenant: str | None) -> UsageError:
    """The refusal of a name that nothing has, with the nearest names."""
    plain = typed.strip().rpartition("/")[2]
    near = reading.run("story_near", typed=typed.strip(), plain=plain, tenant=tenant, listed_max=_NEAR_MAX)
    shown = ", ".join(row["shown"] for row in near)
    return NotFound(
        _("no request is called {name}; the nearest are: {near}").format(
            name=repr(typed[:_SHOWN_MAX]), near=shown or _("none")
        )
    )


def _all_of_them(found: dict[tuple[str, str, str, str], set[str]]) -> tuple[str, str, str, str] | None:
    """The one that has the requests of all others; the most telling kind where several have the same."""
    order = sorted(
        found, key=lambda key: (-len(found[key]), key[1] in ("workload", "pod_group", "pod"), key[1] != "workload", key)
    )
    first = order[0]
    same_place = all(key[0] == first[0] and key[2] == first[2] for key in order)
    return first if same_place and all(found[key] <= found[first] for key in order) else None


def ambiguous(typed: str, keys: Sequence[tuple[str, str, str, str]]) -> UsageError:
    """Which things a name may be: cluster, kind, namespace and name of each."""
    clusters = {key[0] for key in keys}
    shown = [
        f"{kind} {namespace}/{name}" + (f" ({cluster})" if len(clusters) > 1 else "")
        for cluster, kind, namespace, name in keys
    ]
    listed = ", ".join(shown[:_NEAR_MAX]) + (f" (+{len(shown) - _NEAR_MAX})" if len(shown) > _NEAR_MAX else "")
    return UsageError(
        _("{name} may be any of: {names}; name it with its namespace, its --kind, its --cluster or its uid").format(
            name=repr(typed[:_SHOWN_MAX]), names=listed
        )
    )
