"""Who asked the API server to change what, and what it said: the only lasting trace of binds, evictions, refusals and changed quotas."""

from __future__ import annotations

from typing import ClassVar, Final

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant

_NUMBERED_BY_THE_SOURCE: Final = ("cluster", "source", "natural_key", "occurred_at")


class AuditEvent(Fact, frozen=True, kw_only=True):
    """One stage of one API request; ``occurred_at`` = the stage's stamp. natural_key: ``<audit id>/<stage>``, which with that stamp is the
    whole identity: the file's and the webhook's word for it are one fact, even where one of them was cut.

    stage: ``RequestReceived``, ``ResponseStarted``, ``ResponseComplete``, ``Panic``. user: who is charged with it; impersonated_user: as whom.
    field_manager: of a patch or apply (``kueue-admission``). uid, name: None where the object had none yet at this stage. response_*: None
    before the response. decision: of authorization, ``allow`` or ``forbid`` (a refusal by quota or by a webhook is an ``allow`` with 403 or 400).
    details: JSON object of the little that is kept of the bodies: ``node`` (binding), ``conditions``, ``spec`` (queues, quotas, nodes: as
    asked), ``spec_after`` (as answered), ``cut`` (names of what was too large).
    """

    TABLE: ClassVar[str] = "audit_event"
    IDENTITY: ClassVar[tuple[str, ...]] = _NUMBERED_BY_THE_SOURCE

    audit_id: str
    stage: str
    verb: str
    user: str | None = None
    user_groups: str = "[]"
    impersonated_user: str | None = None
    user_agent: str | None = None
    field_manager: str | None = None
    api_group: str | None = None
    api_version: str | None = None
    resource: str
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    response_code: int | None = None
    response_reason: str | None = None
    response_message: str | None = None
    decision: str | None = None
    received_at: Instant | None = None
    details: str = "{}"
