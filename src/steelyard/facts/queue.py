"""Queues as their objects tell of them: who feeds whom, by which policy, in which state, and what they claim to hold."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Queue(Fact, frozen=True, kw_only=True):
    """One queue, or an object that queues are made of, as seen once (``occurred_at`` = the snapshot). natural_key: its uid, else
    ``name:<kind>/<namespace>/<name>``.

    queue_kind: ``cluster_queue``, ``local_queue``, ``cohort``, ``flavor``, ``admission_check``, ``priority_class``, ``topology`` (Kueue),
    ``volcano_queue``, ``resource_quota`` (Kubernetes). queue: its name. parent: what it draws on: the cluster queue of a local one, the cohort of
    a cluster queue, the parent of a cohort or a Volcano queue. strategy: as written (``StrictFIFO``, ``traverse``). weight: of fair sharing, in
    thousandths. state: ``active``, ``inactive``, ``closing``, ``closed``, ``unknown``; stop_policy: as written. policies: JSON object of the rest
    that a rule audit needs (preemption, reclaimable, admission checks, fungibility; of a flavor its node labels and taints). pending_claimed,
    reserving_claimed, admitted_claimed: counts as its status claims them, None = it does not say. A claim is evidence, never the truth:
    controllers leave them stale.
    """

    TABLE: ClassVar[str] = "queue"

    queue_kind: str
    queue: str
    namespace: str | None = None
    parent: str | None = None
    strategy: str | None = None
    weight_milli: int | None = None
    priority: int | None = None
    state: str = "unknown"
    state_reason: str | None = None
    state_message: str | None = None
    stop_policy: str | None = None
    policies: str = "{}"
    created_at: Instant | None = None
    deletion_at: Instant | None = None
    pending_claimed: int | None = None
    reserving_claimed: int | None = None
    admitted_claimed: int | None = None
