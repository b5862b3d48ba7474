"""``Endpoint``: a route before it is one: where, how, for whom, and what it does.

Every module of routes yields endpoints; only ``building`` turns them into routes. So a route without declared roles cannot be written down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steelyard.surfaces.shared.service_ports import Role


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route below ``/api/v1``. ``call``: as the framework takes it. ``roles``: who is let in. ``summary``: one line for OpenAPI.
    ``aliases``: further paths from the root, where convention wants them. ``body_bytes_max``: None = what every request may have."""

    method: str
    path: str
    call: Callable[..., Any]
    roles: frozenset[Role]
    summary: str
    aliases: tuple[str, ...] = ()
    body_bytes_max: int | None = None
    request_body: dict[str, Any] | None = None
