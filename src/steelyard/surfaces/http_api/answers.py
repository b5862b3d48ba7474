"""``answers/{q}``: the questions of the registry, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import Query, Request, Response

from steelyard.answers.registry import ANSWERS
from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.admission import EVERYBODY, principal_of
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import AnswerParameters
from steelyard.surfaces.http_api.problems import Problem, json_response
from steelyard.surfaces.http_api.tenant_wall import scoped, walled
from steelyard.surfaces.shared.server_ports import ServerPorts

_NAME: Final = re.compile(r"q[1-9][0-9]?\Z")


def answer_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """One route for all questions; a viewer's question is narrowed to the viewer's tenant."""

    def answer(q: str, request: Request, parameters: Annotated[AnswerParameters, Query()]) -> Response:
        entry = next((entry for entry in ANSWERS if entry.name == q and _NAME.match(q)), None)
        if entry is None:
            built = ", ".join(entry.name for entry in ANSWERS)
            raise Problem(
                "not_found", _("no question is called {name}; these are: {built}").format(name=q[:20], built=built)
            )
        principal = principal_of(request)
        question = scoped(entry, parameters.question(), principal)
        return json_response(walled(entry, ports.query.answer(entry.number, question), principal).to_json())

    yield Endpoint("GET", "/answers/{q}", answer, EVERYBODY, "The answer to a question: q1, q2, ...")
