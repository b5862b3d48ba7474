"""``collectors`` and ``collect``: how the collectors are doing, and one round of them on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from steelyard.surfaces.http_api.admission import ESTATE, OPERATORS
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.problems import json_response
from steelyard.surfaces.shared.collect_text import collect_json, collector_json
from steelyard.surfaces.shared.server_ports import ServerPorts


class CollectParameters(BaseModel):
    """Which collectors."""

    model_config = ConfigDict(extra="forbid")

    only: list[Annotated[str, Field(max_length=200)]] = Field(
        [], max_length=64, description="Names of collectors, repeated; default: all."
    )


def collection_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """Both routes."""

    def collectors() -> Response:
        return json_response({"collectors": [collector_json(each) for each in ports.collectors.status()]})

    def collect(parameters: Annotated[CollectParameters, Query()]) -> Response:
        return json_response(collect_json(ports.collectors.collect_now(parameters.only)))

    yield Endpoint("GET", "/collectors", collectors, ESTATE, "How the collectors are doing")
    yield Endpoint("POST", "/collect", collect, OPERATORS, "One round of the collectors, now, stored and posted")
