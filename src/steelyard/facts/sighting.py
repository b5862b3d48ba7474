"""That an object was still there: one row per object and complete listing, so that a vanished object has two bounds."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Sighting(Fact, frozen=True, kw_only=True):
    """``object_uid`` of ``object_kind`` existed at ``occurred_at``. natural_key: object_uid.

    object_kind: ``pod``, ``node``, ``device``; ``workload`` (Kueue's), ``podgroup`` and ``job`` (Volcano's). A watch has ``pod_gone``, ``node_gone``,
    ``workload_gone`` and so on too: at ``occurred_at`` the object was no more. With a sighting of it at the same instant its deletion was reported
    live; otherwise it ended somewhere after its last sighting.
    """

    TABLE: ClassVar[str] = "sighting"

    object_kind: str
    object_uid: str
