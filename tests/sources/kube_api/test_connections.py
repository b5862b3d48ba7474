"""An API server that sends a byte now and then holds a request for its time and no longer, over real sockets."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.primitives.errors import SourceUnavailable
from steelyard.sources.kube_api.client import ApiRefusal, ClusterClient, ClusterTarget
from tests.sources.kube_api.played_cluster import PATIENCE_SECONDS
from tests.sources.scrape.wild_server import Behaviour, answer, drips, drips_headers, wild_server

Serve = Callable[[socket.socket, threading.Event], None]
GOOD = answer(b"{}")
QUICK_SECONDS = 0.3


def client_of(port: int, seconds: float = QUICK_SECONDS, token_file: Path | None = None) -> ClusterClient:
    return ClusterClient(ClusterTarget(address=f"http://127.0.0.1:{port}", token_file=token_file), seconds)


def drip(begin: bytes) -> Serve:
    """Begins so and goes on with a byte now and then until the connection ends, or far beyond the time it has."""

    def serve(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(begin)
        for _ in range(int(PATIENCE_SECONDS * 50)):
            if over.wait(0.02):
                return
            connection.sendall(b"x")

    return serve


def in_turn(*answers: bytes | Serve, seen: list[int] | None = None) -> Behaviour:
    """One connection after the other, and on each one request after the other, get the answers in turn; ``seen``: which connection each came on."""
    left = list(answers)
    ports = [] if seen is None else seen

    def behave(connection: socket.socket, _head: bytes, over: threading.Event) -> None:
        while left:
            ports.append(connection.getpeername()[1])
            said = left.pop(0)
            if callable(said):
                said(connection, over)
                return
            connection.sendall(said)
            if not connection.recv(65_536):
                return

    return behave


HEAD = "HTTP/1.1 {} X\r\nContent-Type: application/json\r\n{}"
WAYS = {
    "a head that does not end": (HEAD.format(200, "X: ").encode(), "no whole head of an answer within 0.3 s"),
    "a status that does not end": (b"HTTP/1.1 200 ", "no whole head of an answer within 0.3 s"),
    "heads of no answer": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 ", "no whole head of an answer within 0.3 s"),
    "a body that does not end": (HEAD.format(200, "Content-Length: 1000000\r\n\r\n").encode(), "still being sent after 1.2 s"),
    "a body whose end is the connection's": (HEAD.format(200, "\r\n").encode(), "still being sent after 1.2 s"),
    "the length of a chunk": (HEAD.format(200, "Transfer-Encoding: chunked\r\n\r\n5;").encode(), "still being sent after 1.2 s"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_dribbles_is_none_after_its_time(way: str) -> None:
    begin, words = WAYS[way]
    with wild_server(in_turn(drip(begin))) as port:
        client = client_of(port)
        with pytest.raises(SourceUnavailable, match=words):
            client.read("version", {}, 2**30)
        client.close()


@pytest.mark.parametrize("before", [(), (GOOD,)], ids=["first", "again"])
@pytest.mark.parametrize("way", ["a head that does not end", "the length of a chunk"])
def test_an_answer_that_dribbles_through_tls_is_none_after_its_time(
    way: str, before: tuple[bytes, ...], tmp_path: Path
) -> None:
    key, certificate = tmp_path / "server.key", tmp_path / "server.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    begin, words = WAYS[way]
    with wild_server(in_turn(*before, drip(begin)), context) as port:
        client = ClusterClient(ClusterTarget(address=f"https://127.0.0.1:{port}", insecure=True), QUICK_SECONDS)
        for _ in before:
            client.read("version", {}, 100)
        with pytest.raises(SourceUnavailable, match=words):
            client.read("version", {}, 2**30)
        client.close()


def test_a_head_that_dribbles_over_a_connection_of_before_is_ended_too() -> None:
    seen: list[int] = []
    with wild_server(in_turn(GOOD, drip(WAYS["a head that does not end"][0]), GOOD, seen=seen)) as port:
        client = client_of(port)
        assert client.read("version", {}, 100) == b"{}"
        with pytest.raises(SourceUnavailable, match="no whole head"):
            client.read("version", {}, 100)
        assert client.read("version", {}, 100) == b"{}", "and the next request has a connection of its own"
        client.close()
    assert seen[0] == seen[1] != seen[2]


def test_a_refusal_that_dribbles_is_a_refusal() -> None:
    with wild_server(in_turn(drip(HEAD.format(503, "Content-Length: 60000\r\n\r\nbusy").encode()))) as port:
        client = client_of(port)
        with pytest.raises(ApiRefusal, match="HTTP 503: busyx"):
            client.read("version", {}, 100)
        client.close()


def test_a_request_for_another_token_that_dribbles_is_ended_too(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t", encoding="utf-8")
    with wild_server(in_turn(drip(HEAD.format(401, "Content-Length: 60000\r\n\r\n").encode()))) as port:
        client = client_of(port, token_file=token)
        with pytest.raises(SourceUnavailable, match="no whole head"):
            client.read("version", {}, 100)
        client.close()


@pytest.mark.parametrize("of_before", [False, True], ids=["its own connection", "a connection of before"])
def test_a_stream_that_is_open_beside_it_goes_on(of_before: bool) -> None:
    """The server tells streams, which it holds open, from what it dribbles to, by their path."""
    done = threading.Event()

    def behave(connection: socket.socket, head: bytes, over: threading.Event) -> None:
        if b"/stream" in head:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfir")
            assert done.wait(PATIENCE_SECONDS)
            connection.sendall(b"st\n")
            over.wait(PATIENCE_SECONDS)
        elif of_before:
            connection.sendall(GOOD)
            connection.recv(65_536)
            drips_headers(connection, head, over)
        else:
            drips_headers(connection, head, over)

    with wild_server(behave) as port:
        client = client_of(port)
        with client.stream("stream", {}, PATIENCE_SECONDS) as chunks:
            assert next(chunks) == b"fir"
            if of_before:
                assert client.read("version", {}, 100) == b"{}"
            with pytest.raises(SourceUnavailable, match="no whole head"):
                client.read("version", {}, 100)
            done.set()
            assert b"".join(chunks) == b"st\n"
        client.close()


@pytest.mark.parametrize("behave", [drips, drips_headers], ids=["body", "head"])
def test_closing_ends_a_request_that_dribbles_at_once(behave: Behaviour) -> None:
    asked, found = threading.Event(), list[str]()

    def noted(connection: socket.socket, head: bytes, over: threading.Event) -> None:
        asked.set()
        behave(connection, head, over)

    with wild_server(noted) as port:
        client = client_of(port, 600.0)

        def ask() -> None:
            try:
                client.read("version", {}, 2**30)
            except SourceUnavailable as error:
                found.append(str(error))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        assert asked.wait(PATIENCE_SECONDS)
        client.close()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert found == ["the connection was closed"]


def test_no_connection_is_kept_alive_by_being_known() -> None:
    with wild_server(in_turn(*[answer(b"{}", Connection="close")] * 3)) as port:
        client = client_of(port)
        for _ in range(3):
            client.read("version", {}, 100)
        assert len(client._connections._users) <= 1
        client.close()
