"""Delivery: in order, kept until acknowledged, refused only in the server's own words, the token never in the clear by accident."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.agent.batch import PATH, decode
from steelyard.app.agent.delivery import FAULTS_MAX, Delivery, ServerLink, address_of, token_of
from steelyard.app.agent.spool import Speaker, Spool
from steelyard.facts.event import Event
from steelyard.primitives.errors import UsageError
from tests.app.agent.batches import AT, NODE, event

SECRET = "sty_0123456789ab_secret"


@dataclass
class Peer:
    """A server that answers what it is told to: (status, body, headers) in turn, then 200. ``None`` closes without an answer."""

    answers: list[tuple[int, bytes, dict[str, str]] | None] = field(default_factory=list)
    got: list[bytes] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0


@contextmanager
def peer(certificate: Path | None = None, answers: list[Any] | None = None) -> Iterator[Peer]:
    found = Peer(list(answers or []))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.asked.append((self.path, self.headers.get("Authorization")))
            answer = found.answers.pop(0) if found.answers else (200, b"{}", {})
            if answer is None:
                self.close_connection = True
                return
            status, text, headers = answer
            if status == 200:
                found.got.append(body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_arguments: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def problem(status: int, kind: str) -> tuple[int, bytes, dict[str, str]]:
    document = {"type": f"urn:steelyard:problem:{kind}", "title": "x", "status": status, "detail": "because"}
    return status, json.dumps(document).encode(), {"Content-Type": "application/problem+json"}


@contextmanager
def delivering(tmp_path: Path, url: str, **more: Any) -> Iterator[Delivery]:
    token = tmp_path / "token"
    token.write_text(SECRET + "\n")
    link = ServerLink(address_of(url), token, more.get("ca_file"))
    with Spool(tmp_path / "spool", Speaker(NODE), lambda: AT) as spool:
        yield Delivery(spool, link, say=lambda line: said.append(line))
    link.close()


said: list[str] = []


def step(delivery: Delivery) -> float:
    found = delivery.spool.oldest()
    assert found is not None
    return delivery.step(*found)


def events(bodies: list[bytes]) -> list[str | None]:
    return [fact.message for body in bodies for fact in decode(body).facts if isinstance(fact, Event)]


def test_batches_go_out_in_order_over_one_connection_with_the_token(tmp_path: Path) -> None:
    with peer() as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}/behind/") as delivery:
        for number in range(3):
            delivery.spool.put([event(number)])
        assert [step(delivery) for _ in range(3)] == [0.0, 0.0, 0.0]
        assert events(server.got) == ["line 0", "line 1", "line 2"]
        assert set(server.asked) == {("/behind" + PATH, f"Bearer {SECRET}")}
        assert delivery.spool.size() == (0, 0)


def test_a_thread_delivers_and_the_end_waits_for_what_is_left(tmp_path: Path) -> None:
    with peer() as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery:
        delivery.start()
        for number in range(20):
            delivery.spool.put([event(number)])
        delivery.stop(30.0)
        assert len(server.got) == 20


@pytest.mark.parametrize(
    "answer",
    [
        None,
        problem(503, "busy"),
        problem(507, "no_space"),
        problem(401, "unauthenticated"),
        problem(403, "forbidden"),
        problem(413, "too_large"),
        problem(415, "unsupported"),
        problem(500, "internal"),
        (422, b"not json", {}),
        (422, b'{"type": "https://elsewhere/malformed"}', {}),
        (400, b"<html>a proxy's page</html>", {}),
        (404, b"", {}),
        (502, b"", {}),
        (302, b"", {"Location": "http://elsewhere/"}),
        (200 + 4, b"", {}),
    ],
)
def test_whatever_may_pass_is_waited_for_and_nothing_is_lost(tmp_path: Path, answer: Any) -> None:
    with peer(answers=[answer]) as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery:
        delivery.spool.put([event(1)])
        assert 0.5 < step(delivery) < 2
        assert delivery.standing.trouble
        assert step(delivery) == 0.0
        assert events(server.got) == ["line 1"]
        assert delivery.standing.trouble is None


def test_a_server_that_is_away_is_asked_ever_more_rarely_within_a_bound(tmp_path: Path) -> None:
    said.clear()
    with delivering(tmp_path, "http://127.0.0.1:9") as delivery:
        delivery.spool.put([event(1)])
        waits = [step(delivery) for _ in range(12)]
    assert waits[0] < 1.3 and 45 <= waits[-1] <= 75
    assert len(said) == 1  # the same trouble is said once


def test_the_server_says_how_long_to_wait(tmp_path: Path) -> None:
    status, text, headers = problem(503, "busy")
    answer = (status, text, {**headers, "Retry-After": "20"})
    with peer(answers=[answer]) as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery:
        delivery.spool.put([event(1)])
        assert 15 <= step(delivery) <= 25


def test_a_batch_that_the_server_calls_wrong_is_set_aside_and_the_next_goes_on(tmp_path: Path) -> None:
    answers = [problem(422, "malformed")]
    with peer(answers=answers) as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery:
        delivery.spool.put([event(1)])
        delivery.spool.put([event(2)])
        while delivery.spool.size()[0]:
            assert step(delivery) == 0.0
        assert events(server.got) == ["line 2"]
        assert b"agent_batch_refused" in b"".join(str(decode(body).facts).encode() for body in server.got)


def test_a_batch_at_which_the_server_fails_each_time_does_not_stop_the_rest_for_ever(tmp_path: Path) -> None:
    answers = [problem(500, "internal")] * FAULTS_MAX
    with peer(answers=answers) as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery:
        delivery.spool.put([event(1)])
        delivery.spool.put([event(2)])
        waits = [step(delivery) for _ in range(FAULTS_MAX)]
        assert min(waits[:-1]) > 0 and waits[-1] == 0
        assert step(delivery) == 0.0
        assert events(server.got) == ["line 2"]


def test_a_kept_connection_that_was_closed_meanwhile_is_made_anew_at_once(tmp_path: Path) -> None:
    with (
        peer(answers=[(200, b"{}", {}), None]) as server,
        delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery,
    ):
        delivery.spool.put([event(1)])
        delivery.spool.put([event(2)])
        assert [step(delivery), step(delivery)] == [0.0, 0.0]
        assert events(server.got) == ["line 1", "line 2"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h",
        "h:8780",
        "http://",
        "https://user:pw@h",
        "https://h/?a=1",
        "https://h:99999",
        "https://h#x",
        "http://10.0.0.1:1",
    ],
)
def test_an_address_that_is_none_or_in_the_clear_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--server"):
        address_of(url)


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1", "https://10.0.0.1"])
def test_http_is_taken_on_this_machine_alone(url: str) -> None:
    assert address_of(url).host in url
    assert address_of("http://steelyard.svc:8780", insecure_http=True).port == 8780


@pytest.mark.parametrize("text", [b"", b" \n", b"two words", b"\xff\xfe", b"x" * 5_000, b"a\nb"])
def test_a_token_file_without_one_token_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "token").write_bytes(text)
    with pytest.raises(UsageError, match="--token-file"):
        token_of(tmp_path / "token")


def test_a_token_that_is_rotated_is_used_from_then_on(tmp_path: Path) -> None:
    with peer() as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery:
        delivery.spool.put([event(1)])
        step(delivery)
        (tmp_path / "token").write_text("another")
        delivery.spool.put([event(2)])
        step(delivery)
        (tmp_path / "token").unlink()
        delivery.spool.put([event(3)])
        assert step(delivery) > 0
        assert [token for _path, token in server.asked] == [f"Bearer {SECRET}", "Bearer another"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("tls") / "server.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", found.with_suffix(".key"), "-out", found,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return found


def test_over_tls_the_server_is_verified(tmp_path: Path, certificate: Path) -> None:
    with peer(certificate) as server:
        with delivering(tmp_path, f"https://localhost:{server.port}", ca_file=certificate) as delivery:
            delivery.spool.put([event(1)])
            assert step(delivery) == 0.0
            delivery.spool.put([event(2)])
        for url, ca_file in (
            (f"https://localhost:{server.port}", None),
            (f"https://127.0.0.1:{server.port}", certificate),
        ):
            with delivering(tmp_path, url, ca_file=ca_file) as delivery:
                assert step(delivery) > 0
                assert "certificate" in str(delivery.standing.trouble).lower()
        assert events(server.got) == ["line 1"]


def test_a_file_of_authorities_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(UsageError, match="--ca-file"):
        ServerLink(address_of("https://h"), None, tmp_path / "ca.pem")


def test_a_mistake_of_ours_at_one_batch_does_not_end_the_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peer() as server, delivering(tmp_path, f"http://127.0.0.1:{server.port}") as delivery:
        real, calls = delivery.link.send, [0]

        def send(body: bytes) -> Any:
            calls[0] += 1
            if calls[0] == 1:
                raise ZeroDivisionError
            return real(body)

        monkeypatch.setattr(delivery.link, "send", send)
        monkeypatch.setattr(delivery, "backoff_seconds_max", 0.01)
        delivery.spool.put([event(1)])
        delivery.start()
        delivery.stop(30.0)
        assert events(server.got) == ["line 1"]
