"""What callers took of a shared model service, as its gateway or engine counted it."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class ServiceUse(Fact, frozen=True, kw_only=True):
    """Tokens of one caller of one service between two instants. natural_key: ``<service>/<caller>/<model>/<start>``.

    service: ``<namespace>/<workload>`` of the pods that serve. caller: the API key's name or tenant as the gateway knows it, None = it does not tell;
    tenant: whose the caller is, None = the caller is taken as the tenant's name. prompt_tokens: prefill, cached ones in them (``cached_tokens``,
    None = not told); completion_tokens: decode. None = not told, which is not 0.
    """

    TABLE: ClassVar[str] = "service_use"

    service: str
    model: str | None = None
    caller: str | None = None
    tenant: str | None = None
    started_at: Instant
    ended_at: Instant
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    requests_count: int | None = None
