"""Preemptions: who had to go, for whom, by which rule."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Preemption(Fact, frozen=True, kw_only=True):
    """One word for one preemption, dated at the decision (the release comes later). natural_key: ``<victim>/<instant to the second>/<evidence>``.

    Several sources tell of one preemption (the victim's condition, both events, the audit log): each is a fact, the ledger makes them one.
    decided_by: ``kueue``, ``kube-scheduler``, ``volcano``. cause: ``priority`` (within one queue or cluster), ``reclaim`` (quota taken back),
    ``fair_sharing``, ``reclaim_while_borrowing``, ``unknown``. victim_*, preemptor_*: uid and name as far as they are told; a uid that no
    object has stays as it stands. *_queue: the (cluster) queues; *_priority: the effective priorities. evidence: ``condition``,
    ``victim_event``, ``eviction_event``, ``preemptor_event``, ``audit``. time_basis of occurred_at: ``stated``, or ``before``: the words were
    overwritten or written down at that instant, so it was then or earlier.
    """

    TABLE: ClassVar[str] = "preemption"

    decided_by: str
    cause: str = "unknown"
    victim_kind: str
    victim_uid: str | None = None
    victim_namespace: str | None = None
    victim_name: str | None = None
    victim_queue: str | None = None
    victim_priority: int | None = None
    preemptor_kind: str | None = None
    preemptor_uid: str | None = None
    preemptor_job_uid: str | None = None
    preemptor_namespace: str | None = None
    preemptor_name: str | None = None
    preemptor_queue: str | None = None
    preemptor_priority: int | None = None
    node: str | None = None
    message: str | None = None
    evidence: str = "condition"
    time_basis: str = "stated"
