"""The tenancy tree as a CSV: which namespaces, labels, owners, tenants or queues belong to which department, team, project and cost centre.

Called by ``app.declaring``. The trick to know: the order of the rows is the rule, the first that holds and matches decides, so a row that
an earlier one hides for ever is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.facts.tenancy import Tenancy
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.money.entries import SOURCE, Entry, Held, Refusals, csv_entries, overlapping
from steelyard.sources.money.price_book import Declaration
from steelyard.sources.shared.context import ReadContext

BY: Final = ("namespace", "label", "owner", "tenant", "queue")
LEVELS: Final = ("department", "team", "project", "cost_centre")
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "by": (),
    "key": (),
    "match": (),
    "department": ("部门",),
    "team": ("团队",),
    "project": ("项目",),
    "cost_centre": ("cost_center", "costcentre", "costcenter", "成本中心"),
    "valid_from": (),
    "valid_to": (),
    "zone": (),
}
_KEY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9./_-]{0,251}[A-Za-z0-9])?\Z", re.ASCII)


@dataclass(slots=True)
class DeclaredTree:
    """What a file declares: the lines of a tree in their order, without a version; none where anything was refused."""

    lines: list[Tenancy] = field(default_factory=list)
    refusals: Refusals = field(default_factory=Refusals)


def read_tenancy(text: str, ctx: ReadContext) -> DeclaredTree:
    """The tree; ``refusals`` tell all that is wrong, and then no line is taken."""
    found = DeclaredTree()
    held: list[Held] = []
    for position, entry in enumerate(csv_entries(text, ctx, _KNOWN, _needed, found.refusals), start=1):
        try:
            found.lines.append(_line(entry, position, ctx, held))
        except SourceMalformed as error:
            found.refusals.add(error)
    for refusal in overlapping(held):
        found.refusals.add(refusal)
    if found.refusals:
        found.lines.clear()
    return found


def _needed(_columns: Collection[str]) -> Collection[str]:
    return ("by", "match")


def _line(entry: Entry, position: int, ctx: ReadContext, held: list[Held]) -> Tenancy:
    by = entry.one_of("by", BY)
    if by is None:
        raise entry.refused(f"by: expected one of {', '.join(BY)}, found none")
    key, match = entry.get("key"), entry.need("match")
    if (by == "label") != (key is not None):
        raise entry.refused("key: a label has one (its name), nothing else has")
    if key is not None and _KEY.match(key) is None:
        raise entry.refused(f"key: expected the name of a label such as app.kubernetes.io/part-of; found {key[:60]!r}")
    names = {level: entry.get(level) for level in LEVELS}
    if not any(names.values()):
        raise entry.refused(f"expected at least one of {', '.join(LEVELS)}, found none")
    start, end = entry.validity()
    held.append(Held((by, key, match), start, end, entry, f"a second line for {by} {match[:60]}"))
    return Tenancy(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key="",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        version=0,
        position=position,
        by=by,
        key=key,
        match=match,
        valid_from_at=start,
        valid_to_at=end,
        **names,
    )


def numbered_tree(lines: Sequence[Tenancy], version: int, declaration: Declaration) -> list[Tenancy]:
    """The facts of a version of the tree."""
    return [
        msgspec.structs.replace(
            line,
            natural_key=f"{version}/{line.position}",
            version=version,
            occurred_at=declaration.at,
            observed_at=declaration.at,
            declared_by=declaration.declared_by,
        )
        for line in lines
    ]
