"""``prices``, ``tenancy`` and ``rates``: declared by finance and admins, seen by whoever may see the estate.

The body of a declaration is the file as it is. Who declares is the token's name, or over the local socket the user of the server's machine; a
request cannot say so itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from steelyard.surfaces.http_api.admission import ESTATE, FINANCE, declarer_of
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import Text
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.money_ports import PATHS, DeclaredKind, DeclareRequest, Money
from steelyard.surfaces.shared.options import instant_of
from steelyard.surfaces.shared.service_ports import Tokens

BODY_BYTES_MAX: Final = 16 << 20
_BODY: Final = {
    "content": {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "text/csv": {"schema": {"type": "string"}},
    },
    "required": True,
}
_Book = Annotated[str, Field(max_length=100)]


class DeclareParameters(BaseModel):
    """What a declaration is told beside its file."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(max_length=1_000)] = Field("upload", description="What the file is called.")
    dry_run: bool = Field(False, description="Only say what would change.")


class BookParameters(DeclareParameters):
    """The same for a price book."""

    book: _Book | None = Field(None, description="Which book; default: what the file says, else `default`.")
    reason: Annotated[str, Field(max_length=1_000)] | None = Field(None, description="Why, for the audit.")


class InstantParameters(BaseModel):
    """Of which instant."""

    model_config = ConfigDict(extra="forbid")

    at: Text | None = Field(None, description="The instant, RFC 3339; default: the last one that is known.")


class PriceParameters(InstantParameters):
    """Of which instant and book."""

    book: _Book | None = Field(None, description="One book; default: all.")


class ChangeParameters(BaseModel):
    """Which versions are compared."""

    model_config = ConfigDict(extra="forbid")

    older: int | None = Field(None, ge=0, le=10**9, description="Default: the version before.")
    newer: int | None = Field(None, ge=1, le=10**9, description="Default: the last version.")
    book: _Book | None = Field(None, description="Which book; default: `default`.")


def money_endpoints(money: Money, tokens: Tokens) -> Iterator[Endpoint]:
    """All routes about what is declared."""

    async def take(request: Request, kind: DeclaredKind, parameters: DeclareParameters) -> Response:
        content = await request.body()
        more = parameters.model_dump(exclude_none=True)
        wanted = DeclareRequest(kind=kind, content=content, declared_by=declarer_of(request, tokens), **more)
        report = await run_in_threadpool(money.declare, wanted)
        return json_response(report.to_json(), 201 if report.status == "declared" else 200)

    async def declare_prices(request: Request, parameters: Annotated[BookParameters, Query()]) -> Response:
        return await take(request, "price_book", parameters)

    async def declare_tree(request: Request, parameters: Annotated[DeclareParameters, Query()]) -> Response:
        return await take(request, "tenancy", parameters)

    async def declare_rates(request: Request, parameters: Annotated[DeclareParameters, Query()]) -> Response:
        return await take(request, "exchange_rates", parameters)

    def prices(parameters: Annotated[PriceParameters, Query()]) -> Response:
        return json_response(money.prices(instant_of(parameters.at, "at"), parameters.book).to_json())

    def changes(parameters: Annotated[ChangeParameters, Query()]) -> Response:
        return json_response(money.price_changes(parameters.older, parameters.newer, parameters.book).to_json())

    def unpriced() -> Response:
        return json_response(money.unpriced().to_json())

    def tree(parameters: Annotated[InstantParameters, Query()]) -> Response:
        return json_response(money.tree(instant_of(parameters.at, "at")).to_json())

    def unmapped() -> Response:
        return json_response(money.unmapped().to_json())

    def rates(parameters: Annotated[InstantParameters, Query()]) -> Response:
        return json_response(money.rates(instant_of(parameters.at, "at")).to_json())

    yield _post("price_book", declare_prices, "Declare a version of a price book: all of it, or nothing")
    yield _post("tenancy", declare_tree, "Declare a version of the tenancy tree: all of it, or nothing")
    yield _post("exchange_rates", declare_rates, "Declare exchange rates: all of them, or none")
    yield Endpoint("GET", "/prices", prices, ESTATE, "The prices that hold at an instant")
    yield Endpoint("GET", "/prices/diff", changes, ESTATE, "What a version of a price book changed")
    yield Endpoint("GET", "/prices/unpriced", unpriced, ESTATE, "What no line prices, and why")
    yield Endpoint("GET", "/tenancy", tree, ESTATE, "The tenancy tree as it holds at an instant")
    yield Endpoint("GET", "/tenancy/check", unmapped, ESTATE, "Namespaces that the tenancy tree does not map")
    yield Endpoint("GET", "/rates", rates, ESTATE, "The exchange rates that hold at an instant")


def _post(kind: DeclaredKind, call: Callable[..., object], summary: str) -> Endpoint:
    return Endpoint("POST", PATHS[kind], call, FINANCE, summary, body_bytes_max=BODY_BYTES_MAX, request_body=_BODY)
