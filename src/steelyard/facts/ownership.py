"""Whose an object is: one step of an owner chain, so that a pod's workload is found by reference and not by how names are formed."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Ownership(Fact, frozen=True, kw_only=True):
    """That an object belongs to another, or that it was seen and belongs to none (``owner_*`` None). natural_key: object_uid.

    One row per object and owner, dated as it was first seen: seen again it is the same fact, whatever else changed of the object. A pod's
    own step stands in ``fact.owner``.

    object_kind, object_group: what it is (``Job``, ``batch``; the core group is empty). owner_group None = not said. is_controller: the owner
    is the object's controller; False for one of several owners without a controller (the pods of a Kueue pod group).
    """

    TABLE: ClassVar[str] = "ownership"
    IDENTITY: ClassVar[tuple[str, ...]] = (
        "cluster", "source", "object_uid", "owner_uid", "owner_kind", "owner_group", "owner_name", "is_controller",
    )  # fmt: skip
    UNSTAMPED: ClassVar[str | None] = "object_uid IS NOT NULL"

    object_uid: str
    object_kind: str
    object_group: str = ""
    namespace: str | None = None
    object_name: str | None = None
    owner_uid: str | None = None
    owner_kind: str | None = None
    owner_group: str | None = None
    owner_name: str | None = None
    is_controller: bool = True
