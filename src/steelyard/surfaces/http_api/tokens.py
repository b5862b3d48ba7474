"""``tokens``: made, listed and revoked by an admin."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Response

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.admission import ADMINS
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import TokenRequest
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.client import token_json
from steelyard.surfaces.shared.server_ports import ServerPorts
from steelyard.surfaces.shared.service_ports import ROLES


def token_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """The three routes."""

    def create(wanted: TokenRequest) -> Response:
        role = next((role for role in ROLES if role == wanted.role), None)
        if role is None:
            raise UsageError(_("role: expected one of {roles}").format(roles=", ".join(ROLES)))
        made = ports.tokens.create(wanted.name, role, wanted.tenant)
        return json_response({"token": token_json(made.token), "secret": made.secret}, 201)

    def listed() -> Response:
        return json_response({"tokens": [token_json(token) for token in ports.tokens.listed()]})

    def revoke(token_id: str) -> Response:
        return json_response(token_json(ports.tokens.revoke(token_id[:100])))

    yield Endpoint("POST", "/tokens", create, ADMINS, "Make a token; its secret is shown this once")
    yield Endpoint("GET", "/tokens", listed, ADMINS, "All tokens, without their secrets")
    yield Endpoint("DELETE", "/tokens/{token_id}", revoke, ADMINS, "Refuse a token from now on")
