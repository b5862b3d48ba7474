"""Quota: how much of one resource a queue may use, and what its controller claims is reserved and used."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Quota(Fact, frozen=True, kw_only=True):
    """One resource of one queue at one sighting. natural_key: ``<queue's natural key>[/<flavor>]/<resource>``.

    queue_kind: as in ``Queue``, and ``tenant`` (a trace that tells a tenant's quota and use minute by minute). Amounts are thousandths of the
    resource's own unit (a GPU, a core, a byte, a MiB of ``nvidia.com/gpumem``), so that Kubernetes' ``m`` suffix stays whole; None = not said,
    which for a limit means unlimited. nominal: what is the queue's own. deserved, guarantee, capability: Volcano's three. reserved, used,
    borrowed, inqueue, pending, idle: as the controller or the trace claims them. refused: which of these amounts were written and could not
    be read, in the order of the alphabet, separated by commas (``borrowing_limit,nominal``): they are None, and no limit of theirs is unlimited;
    None = none of them. interval_us: so long the row speaks at most, where a source has a step of its own (a trace); None = as long as its listing
    or watch does.
    """

    TABLE: ClassVar[str] = "quota"

    queue_kind: str
    queue: str
    namespace: str | None = None
    parent: str | None = None
    flavor: str | None = None
    resource: str
    nominal_milli: int | None = None
    borrowing_limit_milli: int | None = None
    lending_limit_milli: int | None = None
    deserved_milli: int | None = None
    guarantee_milli: int | None = None
    capability_milli: int | None = None
    reserved_milli: int | None = None
    used_milli: int | None = None
    borrowed_milli: int | None = None
    inqueue_milli: int | None = None
    pending_milli: int | None = None
    idle_milli: int | None = None
    interval_us: int | None = None
    refused: str | None = None
