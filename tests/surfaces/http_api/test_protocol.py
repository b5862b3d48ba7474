"""Raw bytes on the server's sockets: what is no HTTP is refused, what dawdles is dropped, and the server goes on."""

from __future__ import annotations

import json
import re
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.app.served_directory import MAIN, Running, serving

IMPATIENT = f"""
from steelyard.surfaces.http_api.protocol import BoundedProtocol
BoundedProtocol.head_seconds = 1.0
BoundedProtocol.write_seconds = 1.0
BoundedProtocol.connections_max = 40
{MAIN}
"""
HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("data") / "d", program=IMPATIENT) as running:
        yield running
        status, errors = running.end()
        assert (status, errors) == (0, b""), "nothing that a client sends is worth a line in the log"


def connected(server: Running, local: bool = False) -> socket.socket:
    if local:
        found = socket.socket(socket.AF_UNIX)
        found.connect(server.said["socket"])
    else:
        found = socket.create_connection(("127.0.0.1", server.port))
    found.settimeout(60)
    return found


def answered(server: Running, sent: bytes, local: bool = False) -> bytes:
    """Everything that the server answers before it closes, which it must."""
    with connected(server, local) as connection:
        found = b""
        try:
            connection.sendall(sent)
            while piece := connection.recv(65_536):
                found += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
        return found


def parts(answer: bytes) -> tuple[int, dict[str, str], Any]:
    head, _blank, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status.split()[1]), headers, json.loads(body) if body else None


def read_one(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    """One answer with a JSON object, on a connection that stays open."""
    answer = b""
    while not answer.endswith(b"}"):
        piece = connection.recv(65_536)
        assert piece, answer
        answer += piece
    return parts(answer)


def lives(server: Running) -> None:
    for local in (False, True):
        status, headers, body = parts(answered(server, HEAD + b"Connection: close\r\n\r\n", local))
        assert (status, body) == (200, {"status": "ok"})
        assert "server" not in headers


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100 + b"\r\n\r\n", 400),
        (b"\r\n\r\nnonsense\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA\x00: y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"GET /" + b"x" * 400_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"x" * 400_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 100_000 + b"\r\n", 431),
    ],
)
def test_what_is_no_http_is_refused_with_a_problem_and_closed(server: Running, sent: bytes, status: int) -> None:
    for local in (False, True):
        answer = answered(server, sent, local)
        if not answer and len(sent) > 65_536:
            continue  # closed before all of it had come, which may cut the answer off
        found, headers, body = parts(answer)
        assert found == status
        assert headers["content-type"] == "application/problem+json"
        assert headers["connection"] == "close"
        assert body["status"] == status
    lives(server)


@pytest.mark.parametrize(
    "path",
    [b"/../../etc/passwd", b"/api/v1/../../etc/passwd", b"//etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"http://evil/healthz", b"/healthz/", b"*",
     b"/api/v1/answers/q1%00", b"/api/v1/answers/%2e%2e", b"/HEALTHZ", b"/healthz;x", b"/api/v1/answers/%ff"],
)  # fmt: skip
def test_a_path_is_what_it_says_and_nothing_is_served_beside_the_routes(server: Running, path: bytes) -> None:
    answer = answered(server, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", local=True)
    status, headers, body = parts(answer)
    assert (status, headers["content-type"]) == (404, "application/problem+json")
    assert "root:" not in str(body)


@pytest.mark.parametrize("host", [b"evil.example", b"", b"127.0.0.1:1", b"x" * 500, b"[::1]"])
def test_the_host_header_changes_nothing(server: Running, host: bytes) -> None:
    for path, status in ((b"/healthz", 200), (b"/healthz/", 404), (b"/api/v1/tokens", 401)):
        sent = (
            b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nX-Forwarded-Proto: unix\r\nConnection: close\r\n\r\n"
        )
        found, headers, _body = parts(answered(server, sent))
        assert (found, "location" in headers) == (status, False)


@pytest.mark.parametrize(
    "body",
    [
        b"5\r\nabcdeXX0\r\n\r\n",
        b"zz\r\n",
        b"-1\r\n\r\n",
        b"fffffffffffffffffffff\r\n",
        b"5;" + b"x" * 40_000,
        b"\r\n\r\n\r\n",
    ],
)
def test_a_broken_chunk_ends_the_import_and_not_the_server(server: Running, body: bytes) -> None:
    head = b"POST /api/v1/import HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = answered(server, head + body, local=True)
    if answer:
        assert parts(answer)[0] in (400, 431)
    lives(server)


def test_two_requests_in_one_piece_get_two_answers_in_order(server: Running) -> None:
    sent = HEAD + b"\r\n" + b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = answered(server, sent)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"200", b"404"]


def test_a_head_that_came_in_one_piece_is_bounded_too(server: Running) -> None:
    for sent in (b"GET /" + b"x" * 33_000 + b" HTTP/1.1\r\nHost: x\r\n", HEAD + b"Cookie: " + b"x" * 33_000 + b"\r\n"):
        status, headers, _body = parts(answered(server, sent + b"Connection: close\r\n\r\n", local=True))
        assert (status, headers["content-type"]) == (431, "application/problem+json")


def test_a_head_that_trickles_in_is_not_waited_for(server: Running) -> None:
    for opening in (b"", b"GET", HEAD):
        with connected(server) as connection:
            connection.sendall(opening)
            assert connection.recv(10) == b""
    with connected(server) as connection:  # after an answer, too, and bytes that trickle do not set the time back
        connection.sendall(HEAD + b"\r\n")
        assert read_one(connection)[0] == 200
        received = b"?"
        connection.settimeout(0.1)
        for _ in range(600):
            try:
                connection.sendall(b"G")
                received = connection.recv(10)
                break
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                received = b""
                break
        assert received == b""


def test_an_answer_that_nobody_takes_is_given_up(server: Running) -> None:
    with connected(server, local=True) as connection:
        connection.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 400)
        assert _hangs_up(connection)
    with connected(server, local=True) as connection:  # nor are the last bytes before a close waited for
        connection.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 18 + b"nonsense\r\n\r\n")
        assert _hangs_up(connection)
    lives(server)


def _hangs_up(connection: socket.socket) -> bool:
    """Whether the server drops the connection although nothing is read from it."""
    watch = select.poll()
    watch.register(connection, 0)
    return bool(watch.poll(60_000))


def test_so_many_connections_and_no_more_and_the_owner_is_not_counted(server: Running) -> None:
    held = [connected(server) for _ in range(60)]
    try:
        dropped = 0
        for connection in held:
            try:
                connection.sendall(HEAD + b"\r\n")
                dropped += not connection.recv(100)
            except (BrokenPipeError, ConnectionResetError):
                dropped += 1
        assert dropped == 20
        status, _headers, _body = parts(answered(server, HEAD + b"Connection: close\r\n\r\n", local=True))
        assert status == 200
    finally:
        for connection in held:
            connection.close()
    lives(server)


def test_a_body_that_no_route_reads_does_not_keep_the_connection(server: Running) -> None:
    head = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    with connected(server) as connection:
        connection.sendall(head + b"x" * 10)
        assert read_one(connection)[0] == 405
        assert connection.recv(65_536) == b""


def test_expect_continue_is_answered_only_where_the_body_is_wanted(server: Running) -> None:
    head = b"POST /api/v1/import HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    assert parts(answered(server, head))[0] == 401
    with connected(server, local=True) as connection:
        connection.sendall(head)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 100")
        connection.sendall(b"abc")
        assert read_one(connection)[0] == 200
