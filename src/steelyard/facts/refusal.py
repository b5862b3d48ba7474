"""Refusals at the door: requests that the API server, a webhook, a quota or a disruption budget turned away."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Refusal(Fact, frozen=True, kw_only=True):
    """One refused API request; ``occurred_at`` = the answer. natural_key: ``<audit id>`` (or the event's uid, where only an event tells of it);
    of a workload that its queue turned away ``<workload's uid>/<refused_by>``, whether its object or an event tells of it.

    refused_by: ``quota``, ``quota_must_specify``, ``rbac``, ``webhook``, ``disruption_budget``, ``queue_closed``, ``admission_check``,
    ``misconfigured``, ``admission`` (another plugin of the API server). verb: what was asked (``create``, ``evict``). user: who asked.
    subject_*: what for; subject_name None where the name was still to be made. owner: the controller object on whose behalf a controller asked
    again and again (``ReplicaSet web-6f``), None where a person asked: retries of one owner are one demand. quota, resource, asked_milli,
    used_milli, limit_milli: of a refusal by quota. rule: the webhook, quota or budget that refused.
    """

    TABLE: ClassVar[str] = "refusal"

    refused_by: str
    verb: str = "create"
    user: str | None = None
    subject_kind: str
    namespace: str | None = None
    subject_name: str | None = None
    owner: str | None = None
    rule: str | None = None
    quota: str | None = None
    resource: str | None = None
    asked_milli: int | None = None
    used_milli: int | None = None
    limit_milli: int | None = None
    response_code: int | None = None
    message: str | None = None
    count: int = 1
