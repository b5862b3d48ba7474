"""Things that happened: Kubernetes events, Xid and SXid lines, cards that fell off the bus."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Event(Fact, frozen=True, kw_only=True):
    """One event; ``occurred_at`` = its last time. natural_key: the event's uid, else a key made of its own fields.

    kind: ``kubernetes``, ``xid``, ``sxid``, ``fell_off_bus``, ``pci_map``, ``xid_last_seen`` (DCGM's sticky
    gauge: a hint, not a count). code: the Xid or SXid number. subject_*: what it is about.
    details: JSON object of whatever the grammar yields beyond the columns.
    """

    TABLE: ClassVar[str] = "event"

    kind: str
    reason: str | None = None
    message: str | None = None
    component: str | None = None
    severity: str | None = None
    count: int = 1
    first_at: Instant | None = None
    node: str | None = None
    subject_kind: str | None = None
    subject_namespace: str | None = None
    subject_name: str | None = None
    subject_uid: str | None = None
    device_uuid: str | None = None
    pci_address: str | None = None
    code: int | None = None
    pid: int | None = None
    process_name: str | None = None
    details: str = "{}"
