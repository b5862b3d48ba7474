"""``findings`` and ``devices``: plain listings of the estate, a page at a time, in a stable order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Response

from steelyard.surfaces.http_api.admission import ESTATE
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import PageParameters, cursor_of
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.server_ports import Page, ServerPorts


def listing_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """Both listings. They hold rows of all tenants and of none, so no viewer is let in."""

    def findings(parameters: Annotated[PageParameters, Query()]) -> Response:
        return _page("findings", ports.listings.findings(parameters.after(), parameters.limit))

    def devices(parameters: Annotated[PageParameters, Query()]) -> Response:
        return _page("devices", ports.listings.devices(parameters.after(), parameters.limit))

    yield Endpoint("GET", "/findings", findings, ESTATE, "Findings about the data, gravest first")
    yield Endpoint("GET", "/devices", devices, ESTATE, "The cards, by cluster, UUID and node")


def _page(name: str, page: Page) -> Response:
    return json_response({name: [dict(row) for row in page.rows], "next_cursor": cursor_of(page.after)})
