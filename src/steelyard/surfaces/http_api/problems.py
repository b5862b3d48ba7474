"""Every refusal as a problem document (RFC 9457), whoever raises it: a route, the framework, or a mistake of ours.

``add_problems`` is called once by ``create``. The trick to know: a ``Problem`` is an HTTPException, so it passes unharmed through the
framework's own handling of bodies, and what a client sent is quoted back only in short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as FrameworkException
from starlette.requests import ClientDisconnect

from steelyard.primitives.errors import SourceUnavailable, SteelyardError
from steelyard.primitives.i18n import _
from steelyard.surfaces.shared import problems

_SHOWN_CHARACTERS = 80
_FRAMEWORK_KINDS = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
}


class Problem(HTTPException):
    """A refusal of a kind, with one line for people. ``status`` differs from the kind's own where a route says so."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        self.document = problems.document(kind, detail, status=status, **more)
        super().__init__(self.document["status"], detail, headers=dict(headers or {}))


def json_response(value: Any, status: int = 200) -> Response:
    """A JSON answer in ASCII, so that any text from the world can stand in it; NaN is refused."""
    return Response(dumped(value), status, media_type="application/json")


def dumped(value: Any) -> bytes:
    """The JSON bytes that the server answers with."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def problem_response(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A problem document as an answer, with a Retry-After where it says when to come again."""
    more = dict(headers or {})
    if document["status"] in (503, 507) and "Retry-After" not in more:
        more["Retry-After"] = str(max(1, round(document.get("retry_after_seconds", 1))))
    return Response(dumped(document), document["status"], more, media_type=problems.MEDIA_TYPE)


def add_problems(app: FastAPI) -> None:
    """Let every error of the app end as a problem document."""
    app.add_exception_handler(FrameworkException, _of_framework)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(SteelyardError, _of_ours)
    app.add_exception_handler(OSError, _of_system)
    app.add_exception_handler(ClientDisconnect, _of_gone)
    app.add_exception_handler(Exception, _of_mistake)


async def _of_framework(request: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return problem_response(error.document, error.headers)
    status = getattr(error, "status_code", 400)
    kind = _FRAMEWORK_KINDS.get(status, "bad_request")
    details = {
        "not_found": _("nothing is served at {path}").format(path=_short(request.url.path)),
        "method_not_allowed": _("{path} takes no {method}").format(
            path=_short(request.url.path), method=_short(request.method)
        ),
    }
    detail = details.get(kind, _("the request's body cannot be read"))
    return problem_response(problems.document(kind, detail, status=status), getattr(error, "headers", None))


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 (what it is registered for)
    items = [(".".join(str(part) for part in item["loc"]), str(item["msg"])) for item in error.errors()[:20]]
    lines = [_short(f"{where}: {message.removeprefix('Value error, ')}", 200) for where, message in items]
    return problem_response(problems.document("usage", "; ".join(lines), errors=lines))


async def _of_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, SteelyardError)  # noqa: S101 (what it is registered for)
    return problem_response(problems.document_of(error))


async def _of_system(request: Request, error: Exception) -> Response:
    """The disk of the server is full or out of order: said without the path."""
    code = getattr(error, "errno", None)
    reason = getattr(error, "strerror", None) or _("no reason given")
    if code in (28, 122):  # ENOSPC, EDQUOT
        return problem_response(problems.document("no_space", _("the data directory's disk is full")))
    return problem_response(problems.document_of(SourceUnavailable(_("the disk: {reason}").format(reason=reason))))


async def _of_gone(request: Request, error: Exception) -> Response:
    """Nobody hears this: the client has left in the middle of its request."""
    return problem_response(problems.document("bad_request", _("the request was cut off")))


async def _of_mistake(request: Request, error: Exception) -> Response:
    """The framework logs the traceback after this; the client learns nothing of it."""
    return problem_response(problems.document("internal", _("a mistake of this program: its log says more")))


def _short(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
