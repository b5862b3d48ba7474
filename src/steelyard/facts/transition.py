"""Changes of state, one by one: what an object's latest word no longer tells."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Transition(Fact, frozen=True, kw_only=True):
    """One change of one condition or phase of an object. natural_key: ``<object_uid>/<aspect>[/<item>]/<value>/<instant>/<digest>``, where the
    digest stands for reason and message (conditions alone: their text may change under an old stamp). The key alone is the identity, so a
    change that is seen again, in a dump or over a watch, is the same fact, dated as it was first.

    object_kind, object_group: what changed (``Workload``, ``kueue.x-k8s.io``; the core group is empty). aspect: ``condition`` (item: its
    type; value: ``True``, ``False``, ``Unknown``), ``phase`` (value: the phase; no item), ``admission_check`` (item: the check; value: its
    state), ``requeue`` (value: the count; the message says until when). Of a card or node, as its driver tells (no item): ``state``
    (``present``, ``lost``, ``missing``), ``driver_call`` (``stuck``, ``answering``), ``driver``, ``driver_version``, ``mig_mode``,
    ``mig_layout``, ``recovery_action``; of a ``Slot`` (``<node>/<PCI address>``): ``device`` (the UUID that sits there now). reason,
    message: as written, the message cut to 4,096 characters.
    time_basis of occurred_at: ``stated`` (the object dates the change), ``inferred`` (from other stamps of the object, such as a
    container's start), ``observed`` (the object does not say; it was so when it was first seen).
    """

    TABLE: ClassVar[str] = "transition"
    IDENTITY: ClassVar[tuple[str, ...]] = ("cluster", "source", "natural_key")
    UNSTAMPED: ClassVar[str | None] = "time_basis = 'observed'"

    object_kind: str
    object_group: str = ""
    object_uid: str
    namespace: str | None = None
    object_name: str | None = None
    aspect: str = "condition"
    item: str | None = None
    value: str
    reason: str | None = None
    message: str | None = None
    time_basis: str = "stated"
