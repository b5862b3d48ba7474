"""The tenancy tree: who belongs to which project, team, department and cost centre, and from when to when."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Tenancy(Fact, frozen=True, kw_only=True):
    """One line of a version of the tree; a version is the whole tree. natural_key: ``<version>/<line>``.

    by: what it looks at (``namespace``, ``label``, ``owner``, ``tenant``, ``queue``); key: the label's; match: a glob. The first line
    (``position``) that holds at an instant and matches decides. A name that is None is not told at that level; a pod that no
    line matches is ``unmapped``.
    """

    TABLE: ClassVar[str] = "tenancy"

    version: int
    position: int
    by: str
    key: str | None = None
    match: str
    department: str | None = None
    team: str | None = None
    project: str | None = None
    cost_centre: str | None = None
    valid_from_at: Instant | None = None
    valid_to_at: Instant | None = None
    declared_by: str | None = None
