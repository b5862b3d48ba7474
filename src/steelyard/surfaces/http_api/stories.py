"""``why``: the story of one request, over HTTP.

A viewer asks among the requests of its own tenant: the story itself keeps others' names out, since only it knows which words name whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Request, Response

from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.admission import EVERYBODY, principal_of
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import NamedStoryParameters, StoryParameters
from steelyard.surfaces.http_api.problems import Problem, json_response
from steelyard.surfaces.shared.server_ports import ServerPorts


def story_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """By name or uid in the path, by namespace and name, or by ``?name=``."""

    def told(name: str, request: Request, parameters: StoryParameters) -> Response:
        principal = principal_of(request)
        if principal.role == "viewer" and not principal.tenant:
            raise Problem("forbidden", _("this token sees no tenant"))
        tenant = principal.tenant if principal.role == "viewer" else None
        return json_response(ports.stories.why(parameters.request(name, tenant)).to_json())

    def of_parameter(request: Request, parameters: Annotated[NamedStoryParameters, Query()]) -> Response:
        return told(parameters.name, request, parameters)

    def of_name(name: str, request: Request, parameters: Annotated[StoryParameters, Query()]) -> Response:
        return told(name, request, parameters)

    def of_namespaced(
        namespace: str, name: str, request: Request, parameters: Annotated[StoryParameters, Query()]
    ) -> Response:
        return told(f"{namespace}/{name}", request, parameters)

    summary = "The story of a request: why it waits, since when, what would have to change"
    yield Endpoint("GET", "/why", of_parameter, EVERYBODY, summary)
    yield Endpoint("GET", "/why/{name}", of_name, EVERYBODY, summary)
    yield Endpoint("GET", "/why/{namespace}/{name}", of_namespaced, EVERYBODY, summary)
