"""No request is larger, slower or more numerous than the bounds allow, whatever its headers say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import Request, Response

from steelyard.surfaces.http_api import Endpoint, bounds
from steelyard.surfaces.http_api.admission import ADMINS
from steelyard.surfaces.http_api.bounds import BODY_BYTES_MAX, UNDER_WAY_MAX, Bounds, Patience
from steelyard.surfaces.http_api.exposition import Traffic
from steelyard.surfaces.http_api.problems import json_response
from tests.surfaces.http_api.estate import over_socket, problem, world


async def echo(request: Request) -> Response:
    return json_response({"size": len(await request.body())})


ECHO = Endpoint("POST", "/echo", echo, ADMINS, "the size of the body")


def test_a_body_is_bounded_whether_its_length_is_said_or_not(tmp_path: Path) -> None:
    async def pieces(size: int) -> Any:
        for _ in range(size // 65_536):
            yield b"x" * 65_536

    with world(tmp_path, further=(ECHO,)) as served:
        for content, size in ((b"x" * BODY_BYTES_MAX, BODY_BYTES_MAX), (pieces(BODY_BYTES_MAX), BODY_BYTES_MAX)):
            assert served.ask("POST", "/api/v1/echo", local=True, content=content).json() == {"size": size}
        for content in (b"x" * (BODY_BYTES_MAX + 1), pieces(BODY_BYTES_MAX + 65_536)):
            problem(served.ask("POST", "/api/v1/echo", local=True, content=content), 413, "too_large")
        lied = {"Content-Length": "99999999999999999999999"}
        assert served.ask("POST", "/api/v1/echo", local=True, content=b"x", headers=lied).status_code == 200
        problem(served.ask("POST", "/api/v1/tokens", local=True, content=b"[" * (BODY_BYTES_MAX + 1)), 413, "too_large")
        headers = {"Content-Type": "application/json"}
        for hostile in (b"[" * 100_000, b"1" * 100_000, b"\xff", b'{"name": "\\ud800", "role": "admin"}', b"{", b""):
            response = served.ask("POST", "/api/v1/tokens", local=True, content=hostile, headers=headers)
            assert response.status_code in (201, 400, 422)
            if response.status_code != 201:
                assert response.headers["content-type"] == "application/problem+json"


def scope_of(path: str, method: str = "POST") -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "scheme": "http",
        "server": ("t", 1),
        "client": ("c", 1),
        "http_version": "1.1",
        "asgi": {"version": "3.0"},
        "state": {},
    }


def test_a_body_that_stops_coming_ends_the_request(tmp_path: Path) -> None:
    sent: list[Any] = []

    async def drive(app: Any) -> None:
        first = [{"type": "http.request", "body": b"x", "more_body": True}]

        async def receive() -> Any:
            if first:
                return first.pop()
            await asyncio.Event().wait()
            return None

        async def send(message: Any) -> None:
            sent.append(message)

        await over_socket(app)(scope_of("/api/v1/echo"), receive, send)

    with world(tmp_path, further=(ECHO,), patience=Patience(piece_seconds=0.01)) as served:
        asyncio.run(drive(served.app))
    assert sent[0]["status"] == 408


def test_a_small_body_that_trickles_for_ever_ends_too(tmp_path: Path) -> None:
    sent: list[Any] = []

    async def drive(app: Any) -> None:
        async def receive() -> Any:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": b"", "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        await over_socket(app)(scope_of("/api/v1/echo"), receive, send)

    with world(tmp_path, further=(ECHO,), patience=Patience(body_seconds=0.05)) as served:
        asyncio.run(drive(served.app))
    assert sent[0]["status"] == 408


def test_beyond_so_many_at_once_others_are_told_to_come_again_and_the_owner_is_not() -> None:
    traffic = Traffic()
    release = asyncio.Event()
    sent: list[tuple[int, int]] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = Bounds(slow, traffic, {})

    async def one(number: int, local: bool) -> None:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                sent.append((number, message["status"]))

        scope = {**scope_of("/x"), "state": {bounds.LOCAL: local}}
        await app(scope, asyncio.Event().wait, send)

    async def all_of_them() -> None:
        tasks = [asyncio.create_task(one(number, False)) for number in range(UNDER_WAY_MAX + 2)]
        tasks.append(asyncio.create_task(one(-1, True)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert sorted(sent) == [(UNDER_WAY_MAX, 503), (UNDER_WAY_MAX + 1, 503)]
        assert traffic.under_way == UNDER_WAY_MAX + 1
        release.set()
        await asyncio.gather(*tasks)

    asyncio.run(all_of_them())
    assert (-1, 200) in sent
    assert traffic.under_way == 0
    assert traffic.answered == {("none", "POST", 200): UNDER_WAY_MAX + 1, ("none", "POST", 503): 2}


def test_a_server_with_all_places_taken_still_says_that_it_is_alive(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def wait(request: Request) -> Response:
        await release.wait()
        return json_response({})

    async def drive(app: Any) -> None:
        statuses: dict[str, list[int]] = {}

        async def one(path: str, method: str) -> None:
            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    statuses.setdefault(path, []).append(message["status"])

            async def receive() -> Any:
                return {"type": "http.request", "body": b"", "more_body": False}

            await over_socket(app)(scope_of(path, method), receive, send)

        waiting = [asyncio.create_task(one("/api/v1/wait", "POST")) for _ in range(UNDER_WAY_MAX + 1)]
        while not statuses:  # the one that finds no place is the first to be answered
            await asyncio.sleep(0)
        for path in ("/healthz", "/api/v1/healthz"):
            for _ in range(2):
                await one(path, "GET")
        await one("/readyz", "GET")
        assert statuses == {
            "/api/v1/wait": [503],
            "/healthz": [200, 200],
            "/api/v1/healthz": [200, 200],
            "/readyz": [503],
        }
        release.set()
        await asyncio.gather(*waiting)

    with world(tmp_path, further=(Endpoint("POST", "/wait", wait, ADMINS, "waits"),)) as served:
        asyncio.run(drive(served.app))


def test_what_is_no_http_is_not_served() -> None:
    reached: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    for kind in ("websocket", "lifespan"):
        asyncio.run(Bounds(app, Traffic(), {})({"type": kind}, None, None))  # type: ignore[arg-type]
    assert reached == []
