"""A real Prometheus in a process of its own, scraping texts that a loopback server hands out; ended by its own handle."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from steelyard.primitives.instant import Instant

SCRAPES_SECONDS = 60
JOB = "recorded"
_LISTENING = re.compile(rb'msg="Listening on" address=127\.0\.0\.1:(\d+)')


@dataclass
class Exporters:
    """Texts served on loopback, one address for each. ``scraped`` counts the requests for each."""

    texts: Mapping[str, bytes]
    servers: dict[str, ThreadingHTTPServer] = field(default_factory=dict)
    scraped: dict[str, int] = field(default_factory=dict)
    scraped_at: dict[str, Instant] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def address(self, name: str) -> str:
        """Where the text is served, as Prometheus will call the instance."""
        return f"127.0.0.1:{self.servers[name].server_port}"

    def await_scrapes(self, more: int = 3) -> Instant:
        """Until each text was asked for so many more times: what was asked for before the last time is stored by then. Returns an instant
        before which every scrape is complete."""
        with self.changed:
            wanted = {name: self.scraped.get(name, 0) + more for name in self.texts}
            there = self.changed.wait_for(
                lambda: all(self.scraped.get(name, 0) >= count for name, count in wanted.items()), SCRAPES_SECONDS
            )
            assert there, f"not scraped {wanted}, but {self.scraped}"
            return min(self.scraped_at.values()) - 100_000


@contextmanager
def exporters(texts: Mapping[str, bytes]) -> Iterator[Exporters]:
    """Serve each text at an address of its own."""
    site = Exporters(texts)

    def handler(name: str) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with site.changed:
                    site.scraped[name] = site.scraped.get(name, 0) + 1
                    site.scraped_at[name] = time.time_ns() // 1_000
                    site.changed.notify_all()
                body = site.texts[name]
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                pass

        return Handler

    try:
        for name in texts:
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler(name))
            site.servers[name] = server
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield site
    finally:
        for server in site.servers.values():
            server.shutdown()
            server.server_close()


@contextmanager
def prometheus(
    folder: Path,
    site: Exporters,
    *,
    remote_write: Mapping[str, Any] | None = None,
    arguments: tuple[str, ...] = (),
    more: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """The address of a Prometheus that scrapes the texts four times a second. Skips, and says so, where none is installed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus here: on Debian, apt-get install prometheus")
    targets = [{"targets": [site.address(name)]} for name in site.texts]
    config = {  # JSON is YAML
        "global": {"scrape_interval": "250ms"},
        "scrape_configs": [{"job_name": JOB, "static_configs": targets, **(more or {})}],
        **({"remote_write": [remote_write]} if remote_write else {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder) as process:
        try:
            yield f"http://127.0.0.1:{_port(process)}"
        finally:
            process.kill()
            process.wait()


@contextmanager
def history(folder: Path, lines: Iterable[str]) -> Iterator[str]:
    """The address of a Prometheus that remembers these lines (series, value, seconds) and scrapes nothing. Skips where none is installed."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("no promtool here: on Debian, apt-get install prometheus")
    text = folder / "history.om"
    text.write_text("".join(f"{line}\n" for line in sorted(lines)) + "# EOF\n", encoding="utf-8")
    made = [tool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "tsdb")]
    subprocess.run(made, check=True, capture_output=True)
    with prometheus(folder, Exporters({}), arguments=("--storage.tsdb.retention.time=100y",)) as url:
        yield url


def _port(process: subprocess.Popen[bytes]) -> int:
    """The port it says it listens on, once it says that it is ready, in either order; its further words are read and dropped: it never waits."""
    assert process.stderr is not None
    said, port, ready = [], None, False
    for line in process.stderr:
        said.append(line)
        found = _LISTENING.search(line)
        port = int(found.group(1)) if found else port
        ready = ready or b"Server is ready" in line
        if ready and port is not None:
            threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
            return port
    raise AssertionError(f"prometheus did not start: {b''.join(said[-5:])!r}")


def _drain(stream: Any) -> None:
    while True:
        try:
            if not stream.read(65_536):
                return
        except ValueError:
            return
