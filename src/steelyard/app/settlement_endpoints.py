"""The server's side of periods, statements, disputes and budgets.

Every route hands a ``Look`` or an ``Act`` to the desk. The tricks to know: a viewer's look is narrowed to its tenant before anything is asked, and
what concerns everybody (control page, closes) is not for viewers; who acts over the network is the token's name, and only the owner of the
directory, over its socket, may say who it is.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import ESTATE, EVERYBODY, FINANCE, declarer_of, principal_of
from steelyard.surfaces.http_api.problems import Problem, dumped, json_response
from steelyard.surfaces.shared.service_ports import Tokens
from steelyard.surfaces.shared.settlement_ports import DOCUMENT_FORMATS, Act, ActKind, Look, LookKind, Settlement

BODY_BYTES_MAX = 64 << 10
_Text = Annotated[str, Field(max_length=400)]


class LookParameters(BaseModel):
    """Of which period, tenant and kind."""

    model_config = ConfigDict(extra="forbid")

    period: _Text | None = Field(None, description="Such as 2026-11; default: that of the last known instant.")
    tenant: _Text | None = Field(None, description="One tenant's; a viewer sees its own in any case.")
    shadow: bool = Field(False, description="The shadow period of that name.")
    declared: list[_Text] = Field(
        default_factory=list, max_length=100, description="Totals to tie to: NAME=AMOUNT CURRENCY."
    )
    accept: list[_Text] = Field(default_factory=list, max_length=100, description="Codes that a close would let pass.")


class DocumentParameters(LookParameters):
    """The same, and in which format."""

    format: str = Field(max_length=20, description="csv, xlsx, pdf, parquet, focus-1.2 or focus-1.4.")


class Body(BaseModel):
    """What every act may say of who does it."""

    model_config = ConfigDict(extra="forbid")

    actor: _Text | None = Field(None, description="Only the owner, over the local socket: who does it.")


class CloseBody(Body):
    """What a close is asked with."""

    shadow: bool = False
    accepted: dict[_Text, Annotated[str, Field(max_length=2_000)]] = Field(default_factory=dict, max_length=100)


class DisputeBody(Body):
    """What a dispute is opened with."""

    line: _Text
    reason: str = Field(max_length=2_000)
    owner: _Text
    deadline_at: _Text
    number: _Text | None = None


class DecisionBody(Body):
    """What a dispute is decided with."""

    decision: Annotated[str, Field(pattern="^(accept|reject)$")]
    reason: str = Field(max_length=2_000)
    amount_micro: int | None = Field(None, gt=-(2**62), lt=2**62)


class BudgetBody(Body):
    """A budget."""

    tenant: _Text
    period: _Text
    amount_micro: int = Field(ge=0, lt=2**62)
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]


class ApprovalBody(Body):
    """Which version of a budget shall count."""

    tenant: _Text
    period: _Text
    version: int = Field(ge=1, le=10**9)


def settlement_endpoints(desk: Settlement, tokens: Tokens) -> Iterator[Endpoint]:
    """All routes."""
    yield from _statement_endpoints(desk)
    yield from _period_endpoints(desk, tokens)
    yield from _dispute_endpoints(desk, tokens)
    yield from _budget_endpoints(desk, tokens)


def _statement_endpoints(desk: Settlement) -> Iterator[Endpoint]:
    def listed(request: Request, parameters: Annotated[LookParameters, Query()]) -> Response:
        return tagged(request, desk.look(_look("statements", request, parameters)))

    def of_tenant(tenant_id: str, request: Request, parameters: Annotated[LookParameters, Query()]) -> Response:
        wanted = parameters.model_copy(update={"tenant": tenant_id[:400]})
        return tagged(request, desk.look(_look("statements", request, wanted)))

    def line(line_id: str, request: Request, parameters: Annotated[LookParameters, Query()]) -> Response:
        return json_response(desk.look(_look("line", request, parameters, line_id)))

    def documents(request: Request, parameters: Annotated[DocumentParameters, Query()]) -> Response:
        form = next((each for each in DOCUMENT_FORMATS if each == parameters.format), None)
        if form is None:
            raise Problem("usage", _("format: expected one of {formats}").format(formats=", ".join(DOCUMENT_FORMATS)))
        found = desk.documents(_look("statements", request, parameters), form)
        return json_response(
            {
                "documents": [
                    {"name": name, "content": base64.b64encode(content).decode("ascii")} for name, content in found
                ]
            }
        )

    yield Endpoint(
        "GET", "/statements", listed, EVERYBODY, "Statements: drafts of an open period, closed ones of a closed"
    )
    yield Endpoint("GET", "/statements/documents", documents, EVERYBODY, "Statements as documents, base64")
    yield Endpoint("GET", "/statements/lines/{line_id}", line, EVERYBODY, "What a line of a statement is made of")
    yield Endpoint("GET", "/tenants/{tenant_id}/statement", of_tenant, EVERYBODY, "The statement of one tenant")


def _period_endpoints(desk: Settlement, tokens: Tokens) -> Iterator[Endpoint]:
    def looking(kind: LookKind) -> Any:
        def look(label: str, request: Request, parameters: Annotated[LookParameters, Query()]) -> Response:
            wanted = parameters.model_copy(update={"period": label[:400]})
            return tagged(request, desk.look(_look(kind, request, wanted)))

        return look

    def periods(request: Request) -> Response:
        return json_response(desk.look(Look("periods")))

    def close(label: str, request: Request, wanted: CloseBody) -> Response:
        return _acted(desk, tokens, request, "close", wanted, label, 201)

    def notices() -> Response:
        return json_response(desk.look(Look("notices")))

    def notify(request: Request, wanted: Body) -> Response:
        return _acted(desk, tokens, request, "notify", wanted)

    yield Endpoint("GET", "/periods", periods, ESTATE, "All periods, and how each stands")
    yield Endpoint(
        "GET",
        "/periods/{label}",
        looking("close"),
        ESTATE,
        "What speaks against closing a period, or what its close made",
    )
    yield Endpoint(
        "GET", "/periods/{label}/verification", looking("verify"), ESTATE, "Whether a snapshot is what was written"
    )
    yield Endpoint(
        "GET",
        "/periods/{label}/restatement",
        looking("restatement"),
        ESTATE,
        "What a closed period would be corrected by",
    )
    yield Endpoint("GET", "/periods/{label}/control", looking("control"), ESTATE, "The control page of a period")
    yield Endpoint("POST", "/periods/{label}/close", close, FINANCE, "Close a period", body_bytes_max=BODY_BYTES_MAX)
    yield Endpoint("GET", "/notices", notices, ESTATE, "Who was told of closes")
    yield Endpoint("POST", "/notices", notify, FINANCE, "Send what was not taken yet", body_bytes_max=BODY_BYTES_MAX)


def _dispute_endpoints(desk: Settlement, tokens: Tokens) -> Iterator[Endpoint]:
    def listed(request: Request, parameters: Annotated[LookParameters, Query()]) -> Response:
        return json_response(desk.look(_look("disputes", request, parameters)))

    def shown(dispute_id: str, request: Request, parameters: Annotated[LookParameters, Query()]) -> Response:
        return json_response(desk.look(_look("dispute", request, parameters, dispute_id)))

    def opened(request: Request, wanted: DisputeBody) -> Response:
        return _acted(desk, tokens, request, "dispute_open", wanted, None, 201)

    def decided(dispute_id: str, request: Request, wanted: DecisionBody) -> Response:
        return _acted(desk, tokens, request, "dispute_decide", wanted, dispute_id)

    yield Endpoint("GET", "/disputes", listed, EVERYBODY, "Disputes; a viewer sees its tenant's")
    yield Endpoint("GET", "/disputes/{dispute_id}", shown, EVERYBODY, "One dispute with its trail")
    yield Endpoint(
        "POST", "/disputes", opened, EVERYBODY, "Contest a line of a closed statement", body_bytes_max=BODY_BYTES_MAX
    )
    yield Endpoint(
        "POST",
        "/disputes/{dispute_id}/decision",
        decided,
        ESTATE,
        "Accept or reject a dispute",
        body_bytes_max=BODY_BYTES_MAX,
    )


def _budget_endpoints(desk: Settlement, tokens: Tokens) -> Iterator[Endpoint]:
    def looking(kind: LookKind) -> Any:
        def look(request: Request, parameters: Annotated[LookParameters, Query()]) -> Response:
            return json_response(desk.look(_look(kind, request, parameters)))

        return look

    def put(request: Request, wanted: BudgetBody) -> Response:
        return _acted(desk, tokens, request, "budget_set", wanted, None, 201)

    def approved(request: Request, wanted: ApprovalBody) -> Response:
        return _acted(desk, tokens, request, "budget_approve", wanted)

    yield Endpoint(
        "GET", "/budgets", looking("budgets"), EVERYBODY, "Budgets, version by version; a viewer sees its tenant's"
    )
    yield Endpoint(
        "GET", "/budgets/check", looking("budget_check"), EVERYBODY, "What is gone of budgets, with a forecast"
    )
    yield Endpoint("GET", "/approvals", looking("approvals"), EVERYBODY, "Who approves what")
    yield Endpoint("POST", "/budgets", put, FINANCE, "Put a budget down", body_bytes_max=BODY_BYTES_MAX)
    yield Endpoint(
        "POST", "/budgets/approval", approved, ESTATE, "Let a proposed budget count", body_bytes_max=BODY_BYTES_MAX
    )


def _look(kind: LookKind, request: Request, parameters: LookParameters, key: str | None = None) -> Look:
    """The look as the principal may have it: a viewer's is narrowed to its tenant. Raises Problem (403) where it asks for another's."""
    principal = principal_of(request)
    tenant = parameters.tenant
    if principal.role == "viewer":
        if not principal.tenant:
            raise Problem("forbidden", _("this token sees no tenant"))
        if tenant not in (None, principal.tenant):
            raise Problem("forbidden", _("this token sees the tenant {tenant} only").format(tenant=principal.tenant))
        tenant = principal.tenant
    named = None if key is None else key[:400]
    return Look(
        kind, parameters.period, tenant, parameters.shadow, named, tuple(parameters.declared), tuple(parameters.accept)
    )


def _acted(
    desk: Settlement,
    tokens: Tokens,
    request: Request,
    kind: ActKind,
    wanted: Body,
    key: str | None = None,
    status: int = 200,
) -> Response:
    principal = principal_of(request)
    actor = declarer_of(request, tokens)
    if principal.token_id is None:
        actor = wanted.actor
    elif wanted.actor is not None:
        raise Problem(
            "forbidden", _("who acts is the token's name; only the owner, over the local socket, may say who it is")
        )
    if principal.role == "viewer" and not principal.tenant:
        raise Problem("forbidden", _("this token sees no tenant"))
    body = wanted.model_dump(exclude={"actor"})
    tenant = principal.tenant if principal.role == "viewer" else None
    return json_response(
        desk.act(Act(kind, None if key is None else key[:400], actor, principal.role, tenant, body)), status
    )


def tagged(request: Request, found: dict[str, Any]) -> Response:
    """The answer with an ETag over its bytes, which stays for what is closed: 304 where the client has it already."""
    content = dumped(found)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if tag in [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, media_type="application/json")
