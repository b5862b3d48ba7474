"""Servers on loopback that behave as a test tells them: real sockets, bytes as given, no manners."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behaviour = Callable[[socket.socket, bytes, threading.Event], None]
"""Given a connection, the head of its request, and the event that says that the test is over."""


@contextmanager
def wild_server(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server whose every connection is handed to ``behave``; its port. ``tls``: it speaks TLS."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with (
            suppress(OSError),
            connection if tls is None else tls.wrap_socket(connection, server_side=True) as connection,
        ):
            connection.settimeout(60)
            head = b""
            while b"\r\n\r\n" not in head and (part := connection.recv(65_536)):
                head += part
            behave(connection, head, over)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _address = listener.accept()
                threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(60)
        for thread in threads:
            thread.join(60)


def answer(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A whole HTTP answer."""
    lines = {"Content_Length": str(len(body)), "Content_Type": "text/plain; version=0.0.4", **headers}
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{named}\r\n".encode() + body


def says(data: bytes) -> Behaviour:
    """Sends the bytes and closes."""
    return lambda connection, _head, _over: connection.sendall(data)


def hangs(connection: socket.socket, _head: bytes, over: threading.Event) -> None:
    """Takes the request and says nothing."""
    over.wait(60)


def drips(connection: socket.socket, _head: bytes, over: threading.Event) -> None:
    """Begins well and then sends a byte now and then, for ever."""
    connection.sendall(answer(b"", Content_Length="1000000"))
    while not over.wait(0.02):
        connection.sendall(b"#")


def drips_headers(connection: socket.socket, _head: bytes, over: threading.Event) -> None:
    """As ``drips``, and never comes to the end of the head."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not over.wait(0.02):
        connection.sendall(b"x")
