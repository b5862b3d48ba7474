"""``reconcile``: what was requested to what the device reports, over HTTP.

A viewer sees the pods of its own tenant: the comparison itself leaves out cards, and what findings say of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Request, Response

from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.admission import EVERYBODY, principal_of
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import AnswerParameters
from steelyard.surfaces.http_api.problems import Problem, json_response
from steelyard.surfaces.shared.ports import ReconcileRequest
from steelyard.surfaces.shared.server_ports import ServerPorts


def reconcile_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """One route."""

    def reconcile(request: Request, parameters: Annotated[AnswerParameters, Query()]) -> Response:
        principal = principal_of(request)
        if principal.role == "viewer" and not principal.tenant:
            raise Problem("forbidden", _("this token sees no tenant"))
        tenant = principal.tenant if principal.role == "viewer" else None
        asked = parameters.question()
        wanted = ReconcileRequest(asked.at, asked.window, asked.by, asked.where, asked.explain, tenant)
        return json_response(ports.reconciler.reconcile(wanted).to_json())

    yield Endpoint(
        "GET", "/reconcile", reconcile, EVERYBODY, "Requested, granted, enforced, counted and device, side by side"
    )
