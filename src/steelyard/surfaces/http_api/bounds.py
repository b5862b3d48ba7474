"""Bounds of every request, before any route sees it: how many at once, how large, how slow; the language; the counting.

``Bounds`` wraps the whole app. The trick to know: the body's bound hangs on the route that the path will meet, so it is looked up by path
here, and a body is counted as it comes, whatever its Content-Length said. Whether the process is alive must be answered however many ask
other things, else a server with much to do is taken for a dead one and restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.primitives.i18n import _, speaking
from steelyard.surfaces.http_api.admission import LOCAL
from steelyard.surfaces.http_api.exposition import Traffic
from steelyard.surfaces.http_api.problems import Problem, problem_response
from steelyard.surfaces.shared import problems

BODY_BYTES_MAX: Final = 1 << 20
HEAD_BYTES_MAX: Final = 32 << 10
UNDER_WAY_MAX: Final = 64
_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client may take, in seconds: for the pause between two pieces of a body, and for a small body as a whole."""

    piece_seconds: float = 30.0
    body_seconds: float = 30.0


class Bounds:
    """The app within its bounds. ``body_bytes_max``: by path, for the routes that take more than ``BODY_BYTES_MAX``. ``uncounted``: paths that
    are answered at once whatever else is under way, and take nobody's place."""

    def __init__(
        self,
        app: ASGIApp,
        traffic: Traffic,
        body_bytes_max: Mapping[str, int],
        patience: Patience | None = None,
        uncounted: Collection[str] = (),
    ) -> None:
        self._app = app
        self._traffic = traffic
        self._limits = body_bytes_max
        self._patience = patience or Patience()
        self._uncounted = frozenset(uncounted)
        self._under_way = {True: 0, False: 0}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; websockets and the like are not served."""
        if scope["type"] != "http":
            return
        status: list[int] = []

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        local = scope.get("state", {}).get(LOCAL, False) is True
        place = 0 if scope["path"] in self._uncounted else 1
        self._under_way[local] += place
        self._traffic.under_way += 1
        try:
            with speaking(_header(scope, b"accept-language")):
                await self._bounded(scope, receive, counted, place * self._under_way[local])
        except BaseException:
            status.append(500)  # what the framework answers once this has passed
            raise
        finally:
            self._under_way[local] -= place
            self._traffic.under_way -= 1
            self._traffic.answered[_route(scope), _method(scope), status[0] if status else 0] += 1

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, under_way: int) -> None:
        limit = self._limits.get(scope["path"], BODY_BYTES_MAX)
        refused = None
        if under_way > UNDER_WAY_MAX:
            refused = problems.document("busy", _("too many requests at once: try again soon"))
        elif _head_bytes(scope) > HEAD_BYTES_MAX:
            refused = problems.document(
                "headers_too_large", _("the request's head is larger than {limit} bytes").format(limit=HEAD_BYTES_MAX)
            )
        elif _declared(scope) > limit:
            refused = problems.document("too_large", _too_large(limit))
        if refused is not None:
            await problem_response(refused)(scope, receive, send)
            return
        await self._app(scope, self._counting(receive, limit, limit == BODY_BYTES_MAX), send)

    def _counting(self, receive: Receive, limit: int, small: bool) -> Receive:
        """``receive`` that raises a Problem for a body beyond its bound or its time."""
        size = 0
        ended = False
        started = asyncio.get_running_loop().time()

        async def counted() -> Message:
            nonlocal size, ended
            if ended:  # what follows a body is the client's leaving, for which anybody may wait
                return await receive()
            seconds = self._patience.piece_seconds
            if small:
                passed = asyncio.get_running_loop().time() - started
                seconds = max(0.0, min(seconds, self._patience.body_seconds - passed))
            try:
                message = await asyncio.wait_for(receive(), seconds)
            except TimeoutError:
                raise Problem("timeout", _("the request's body came too slowly")) from None
            size += len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if size > limit:
                raise Problem("too_large", _too_large(limit))
            return message

        return counted


def _too_large(limit: int) -> str:
    return _("the request's body is larger than {limit} bytes").format(limit=limit)


def _head_bytes(scope: Scope) -> int:
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return target + sum(len(name) + len(value) for name, value in scope["headers"])


def _declared(scope: Scope) -> int:
    text = _header(scope, b"content-length") or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _header(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    path: Callable[[], str] | str | None = getattr(route, "path", None)
    return path if isinstance(path, str) else "none"


def _method(scope: Scope) -> str:
    return (
        scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH") else "other"
    )
