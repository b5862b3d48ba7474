"""Decisions about requests: who decided what, by which rule, for which reason, read from the decider's own words by its grammar."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Decision(Fact, frozen=True, kw_only=True):
    """One decision; ``occurred_at`` = when it was last taken (a refusal repeats: ``count``, ``first_at``). natural_key: the event's uid, the
    audit id, or ``<object uid>/<condition>/<instant>/<digest of the text>``.

    subject_*: the request it is about. decided_by: the component or user (``kueue-admission``, ``default-scheduler``, ``volcano``,
    ``hami-scheduler``). verdict: ``reserved``, ``admitted``, ``scheduled``, ``bound``, ``not_now``, ``never_fits``, ``evicted``, ``requeued``,
    ``deactivated``, ``rejected``, ``misconfigured``. cause: ``quota``, ``capacity``, ``fragmentation``, ``gang``, ``placement`` (taints,
    affinity, topology), ``policy``, ``check``, ``gate``, ``scheduler``, ``other``; None where nothing is refused or the words do not tell.
    rule: the decider's own word for the rule (``InCohortReclamation``, ``ExceedsMaxQuota``, ``CardInsufficientMemory``). queue, node: where.
    resource, flavor, asked_milli, missing_milli, limit_milli: what the words say is short. nodes_count: how many nodes were looked at. details:
    JSON object of all that the grammar yields: ``reasons`` ({text: nodes}), ``preemption``, ``pod_sets`` ... ``unread``: true where the words
    fit no known sentence (the verdict still stands).
    """

    TABLE: ClassVar[str] = "decision"

    subject_kind: str
    subject_uid: str | None = None
    namespace: str | None = None
    subject_name: str | None = None
    decided_by: str | None = None
    verdict: str
    cause: str | None = None
    rule: str | None = None
    queue: str | None = None
    node: str | None = None
    resource: str | None = None
    flavor: str | None = None
    asked_milli: int | None = None
    missing_milli: int | None = None
    limit_milli: int | None = None
    nodes_count: int | None = None
    count: int = 1
    first_at: Instant | None = None
    reason: str | None = None
    message: str | None = None
    evidence: str = "event"
    details: str = "{}"
