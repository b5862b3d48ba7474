"""Who may come in: the one dependency that every route has.

``building`` puts an ``Admit`` before each endpoint, with the roles that the endpoint declares, and refuses to build an app that has a route
without one. The trick to know: a request is the owner's only where the *transport* says so (``protocol`` marks connections of the local
socket in a place that no request can write); everybody else needs a bearer token.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fastapi import Request

from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.problems import Problem
from steelyard.surfaces.shared.service_ports import Gate, Principal, Role, Tokens

LOCAL: Final = "steelyard_local"
"""The key in the connection's state that says: came over the local socket."""

EVERYBODY: Final[frozenset[Role]] = frozenset({"viewer", "operator", "finance", "admin"})
ESTATE: Final[frozenset[Role]] = frozenset({"operator", "finance", "admin"})
"""Those who may see all tenants."""

OPERATORS: Final[frozenset[Role]] = frozenset({"operator", "admin"})
AGENTS: Final[frozenset[Role]] = frozenset({"agent", "operator", "admin"})
"""Those who may deliver what a node agent sees. The role agent may do nothing else."""

FINANCE: Final[frozenset[Role]] = frozenset({"finance", "admin"})
"""Those who may declare what money is: prices, the tenancy tree, rates."""

ADMINS: Final[frozenset[Role]] = frozenset({"admin"})

_SECRET_CHARACTERS_MAX: Final = 512
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="steelyard"'}


class Admit:
    """Lets the roles in, and leaves the ``Principal`` in ``request.state.principal``. 401 without a valid token, 403 for another role."""

    def __init__(self, gate: Gate, roles: Collection[Role]) -> None:
        self._gate = gate
        self.roles = frozenset(roles)

    async def __call__(self, request: Request) -> None:
        """Admit or raise a Problem."""
        principal = self._principal(request)
        if principal.role not in self.roles:
            raise Problem(
                "forbidden",
                _("this needs one of the roles {roles}; the token has {role}").format(
                    roles=", ".join(sorted(self.roles)), role=principal.role
                ),
            )
        request.state.principal = principal

    def _principal(self, request: Request) -> Principal:
        if getattr(request.state, LOCAL, False) is True:
            return Principal("admin")
        given = request.headers.getlist("authorization")
        if not given:
            raise Problem("unauthenticated", _("a bearer token is needed"), headers=_CHALLENGE)
        scheme, _space, secret = given[0].strip().partition(" ")
        found = None
        if len(given) == 1 and scheme.lower() == "bearer" and len(secret) <= _SECRET_CHARACTERS_MAX:
            found = self._gate.principal(secret.strip())
        if found is None:
            challenge = {"WWW-Authenticate": f'{_CHALLENGE["WWW-Authenticate"]}, error="invalid_token"'}
            raise Problem("unauthenticated", _("the token is not valid (any more)"), headers=challenge)
        return found


def principal_of(request: Request) -> Principal:
    """Who was admitted."""
    principal: Principal = request.state.principal
    return principal


def declarer_of(request: Request, tokens: Tokens) -> str | None:
    """The name under which an act is recorded: that of the token; None for the owner over the local socket."""
    token_id = principal_of(request).token_id
    return next((token.name for token in tokens.listed() if token.token_id == token_id), None) if token_id else None
