"""The roots of owner chains in plain Python: slow, obvious, independent of the SQL. One cluster, facts in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from steelyard.facts.base import Fact
from steelyard.facts.owner import Owner
from steelyard.facts.ownership import Ownership

STEPS_MAX = 16


class Link(NamedTuple):
    """An object and what it belongs to; None = to nobody. ``several``: its owners, where none of them is the controller."""

    kind: str
    name: str | None
    owner: tuple[str, str | None, str | None] | None
    several: tuple[str, ...] = ()


class Root(NamedTuple):
    """Where a chain ends."""

    uid: str
    kind: str | None
    name: str | None
    is_seen: bool
    chain: tuple[str, ...]


def _kind(kind: str | None, group: str | None) -> str | None:
    return "vcjob" if (kind, group) == ("Job", "batch.volcano.sh") else kind


def _owner_of(rows: list[Ownership]) -> tuple[tuple[str, str | None, str | None] | None, tuple[str, ...]]:
    owned = [row for row in rows if row.owner_uid is not None]
    controllers = sorted((row for row in owned if row.is_controller), key=lambda row: row.occurred_at)
    if controllers:
        last = controllers[-1]
        if last.owner_kind in ("Node", "Workload"):
            return None, ()
        return (str(last.owner_uid), _kind(last.owner_kind, last.owner_group), last.owner_name), ()
    return None, tuple(str(row.owner_uid) for row in owned)


def links_of(facts: Sequence[Fact]) -> dict[str, Link]:
    by_uid: dict[str, list[Ownership]] = {}
    for fact in facts:
        if isinstance(fact, Ownership):
            by_uid.setdefault(fact.object_uid, []).append(fact)
    links: dict[str, Link] = {}
    for uid, rows in by_uid.items():
        owner, several = _owner_of(rows)
        kind = _kind(rows[0].object_kind, rows[0].object_group)
        links[uid] = Link(str(kind), rows[0].object_name, owner, several)
    for fact in facts:
        if isinstance(fact, Owner) and fact.pod_uid not in links:
            named = fact.owner_uid is not None and fact.owner_kind not in ("Node", "Workload")
            owner = (str(fact.owner_uid), fact.owner_kind, fact.owner_name) if named else None
            links[fact.pod_uid] = Link("Pod", fact.pod_uid, owner)
    return links


def root_of(uid: str, links: dict[str, Link]) -> Root | None:
    """The end of the chain from a seen object; None where it runs in a circle or too far."""
    link = links[uid]
    if link.several:
        roots = [root_of(each, links) if each in links else None for each in link.several]
        first = roots[0]
        if first is not None and all(root is not None and root.uid == first.uid for root in roots):
            return first._replace(is_seen=all(root.is_seen for root in roots if root))
        return Root(uid, link.kind, link.name, True, (f"{link.kind}/{link.name}",))
    chain = [f"{link.kind}/{link.name}"]
    at = uid
    while link.owner is not None:
        at, kind, name = link.owner
        if len(chain) > STEPS_MAX:
            return None
        if at not in links:
            return Root(at, kind, name, False, (*chain, f"{kind}/{name}"))
        link = links[at]
        chain.append(f"{link.kind}/{link.name}")
    return Root(at, link.kind, link.name, True, tuple(chain))


def workload_of(owner: Owner, links: dict[str, Link]) -> tuple[str | None, str | None, str]:
    """(kind, name, basis) of a pod."""
    told = f"{owner.workload_kind}/{owner.workload_name}"
    if owner.owner_uid is None or owner.owner_kind in ("Node", "Workload"):
        basis = "chain" if owner.workload_kind == "Pod" and owner.owner_kind is None else "name"
        return owner.workload_kind, owner.workload_name, basis
    if owner.owner_uid in links:
        root = root_of(owner.owner_uid, links)
    else:
        kind = "vcjob" if (owner.owner_kind, owner.workload_kind) == ("Job", "vcjob") else owner.owner_kind
        root = Root(owner.owner_uid, kind, owner.owner_name, False, (f"{kind}/{owner.owner_name}",))
    if root is None or root.kind is None:
        return owner.workload_kind, owner.workload_name, "name"
    if root.is_seen:
        return root.kind, root.name, "chain"
    if told in root.chain:
        return root.kind, root.name, "reference"
    return owner.workload_kind, owner.workload_name, "name"
