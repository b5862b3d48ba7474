"""``fragmentation``, ``fits`` and ``rightsize`` over HTTP.

How fragmented the estate is concerns everybody's cards, so a viewer of one tenant is not told. What fits, a viewer learns in counts and by node,
and which of its own pods would move; of others only how many. Right-sizing shows a viewer its own workloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from steelyard.answers.fits import FitsSpec
from steelyard.answers.fragmentation import FragmentationSpec
from steelyard.answers.right_sizing import RightSizingSpec
from steelyard.definitions.fragmentation import TYPICAL_DAYS
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Window
from steelyard.surfaces.http_api.admission import ESTATE, EVERYBODY, principal_of
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import Text
from steelyard.surfaces.http_api.problems import Problem, json_response
from steelyard.surfaces.shared.options import instant_of
from steelyard.surfaces.shared.server_ports import ServerPorts

_Name = Annotated[str, Field(max_length=253)]


class FragmentationParameters(BaseModel):
    """Of which instant, and of what."""

    model_config = ConfigDict(extra="forbid")

    at: Text | None = Field(None, description="The instant, RFC 3339; default: the last that is known.")
    days: int = Field(TYPICAL_DAYS, description="Typical are the requests of so many days before.")
    cluster: _Name | None = Field(None, description="Which cluster; default: all.")
    node: _Name | None = Field(None, description="Which node; default: all.")
    model: _Name | None = Field(None, description="Cards of this model alone.")
    explain: bool = Field(False, description="Add definitions and the SQL as it ran.")


class FitsParameters(BaseModel):
    """The request that is to be placed."""

    model_config = ConfigDict(extra="forbid")

    gpus: int = Field(1, description="How many cards, instances or slots.")
    gpumem: int | None = Field(None, description="Memory of each, MiB; default: whole cards.")
    cores: int | None = Field(None, description="Compute of each, percent of a card.")
    cpu: float | None = Field(None, allow_inf_nan=False, description="CPU cores of the whole request.")
    mig: Text | None = Field(None, description="Instances of this MIG profile.")
    model: _Name | None = Field(None, description="Cards of this model alone.")
    cluster: _Name | None = Field(None, description="Which cluster; default: all.")
    at: Text | None = Field(None, description="The instant, RFC 3339; default: the last that is known.")
    explain: bool = Field(False, description="Add definitions and the SQL as it ran.")


class RightSizingParameters(BaseModel):
    """Over which window, and of what."""

    model_config = ConfigDict(extra="forbid")

    start: Text | None = Field(None, alias="from", description="Start of the window; default: seven days.")
    end: Text | None = Field(None, alias="to", description="End of the window, not within it.")
    cluster: _Name | None = Field(None, description="Which cluster; default: all.")
    namespace: _Name | None = Field(None, description="Workloads of one namespace.")
    explain: bool = Field(False, description="Add definitions and the SQL as it ran.")

    def window(self) -> Window | None:
        """The window. Raises UsageError for what is no time or half a window."""
        start, end = instant_of(self.start, "from"), instant_of(self.end, "to")
        if start is None and end is None:
            return None
        if start is None or end is None:
            raise UsageError(_("from and to go together: both, or neither for all known time"))
        if end <= start:
            raise UsageError(
                _("to must be later than from: found {start} and {end}").format(start=self.start, end=self.end)
            )
        return Window(start, end)


def capacity_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """One route for each question."""

    def fragmentation(parameters: Annotated[FragmentationParameters, Query()]) -> Response:
        asked = parameters.model_dump(exclude={"at"})
        spec = FragmentationSpec(at=instant_of(parameters.at, "at"), **asked)
        return json_response(ports.capacity.capacity(spec).to_json())

    def fits(request: Request, parameters: Annotated[FitsParameters, Query()]) -> Response:
        asked = parameters.model_dump(exclude={"at"})
        spec = FitsSpec(at=instant_of(parameters.at, "at"), **asked, tenant=_tenant(request))
        return json_response(ports.capacity.capacity(spec).to_json())

    def rightsize(request: Request, parameters: Annotated[RightSizingParameters, Query()]) -> Response:
        spec = RightSizingSpec(
            parameters.window(), parameters.cluster, parameters.namespace, parameters.explain, _tenant(request)
        )
        return json_response(ports.capacity.capacity(spec).to_json())

    yield Endpoint("GET", "/fragmentation", fragmentation, ESTATE, "Free share that no typical request can use")
    yield Endpoint("GET", "/fits", fits, EVERYBODY, "Where a request fits now, or what would have to move")
    yield Endpoint("GET", "/rightsize", rightsize, EVERYBODY, "Granted against needed, as a patch")


def _tenant(request: Request) -> str | None:
    """The tenant that a viewer sees; None where everybody's is seen. Raises Problem (403) for a viewer without one."""
    principal = principal_of(request)
    if principal.role != "viewer":
        return None
    if not principal.tenant:
        raise Problem("forbidden", _("this token sees no tenant"))
    return principal.tenant
