"""That an object was still there: one row per object and complete listing, so that a vanished object has two bounds."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Sighting(Fact, frozen=True, kw_only=True):
    """``object_uid`` of ``object_kind`` (``pod``, ``node``, ``device``) existed at ``occurred_at``. natural_key: object_uid."""

    TABLE: ClassVar[str] = "sighting"

    object_kind: str
    object_uid: str
