"""A real server in a process of its own, started and ended by a test, and commands that meet it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAIN = "import sys; from steelyard.app.main import main; sys.argv[0] = 'steelyard'; main()"
DEADLINE_SECONDS = 120

MARK = b"mark\n"
MARKED = f"""
import os
from steelyard.store import Store
real = Store._run
def marked(self, sql, parameters):
    os.write(1, b"mark\\n")  # in one piece, whatever other threads write
    return real(self, sql, parameters)
Store._run = marked
{MAIN}
"""
"""The program, saying so on stdout before every statement of the store, so that a blow can fall at any of them."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command: nothing of the tester's settings, English."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("STEELYARD_")}
    return {**plain, "STEELYARD_LANG": "en", **(more or {})}


def steelyard(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    standard_input: bytes | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """One command, as a person runs it; its output in bytes."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        cwd=cwd,
        env=environment(env),
        input=standard_input,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@dataclass
class Running:
    """A server that takes requests. ``address``: its HTTP address; ``socket``: the path of its socket file."""

    process: subprocess.Popen[bytes]
    said: dict[str, Any]

    @property
    def port(self) -> int:
        """The port of its HTTP address."""
        return int(self.said["address"].rsplit(":", 1)[1])

    def end(self, how: int = signal.SIGTERM) -> tuple[int, bytes]:
        """Send the signal and wait: the exit status, and what stood on stderr."""
        self.process.send_signal(how)
        _out, errors = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, errors


@contextmanager
def serving(
    data: Path, *arguments: str, program: str = MAIN, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Running]:
    """A server of the directory on a free port, killed at the end if the test has not ended it."""
    command: Sequence[str] = [
        sys.executable, "-c", program, "serve", "--data", str(data), "--listen", "127.0.0.1:0", "--json", *arguments,
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(env), cwd=cwd
    ) as process:
        try:
            yield Running(process, _announced(process))
        except AssertionError as error:  # the other half of the story stands in the server's log
            process.kill()
            _out, errors = process.communicate()
            error.add_note(f"the server said: {errors.decode(errors='replace')}")
            raise
        finally:
            if process.poll() is None:
                process.kill()


def _announced(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What the server says when it takes requests: one line of JSON, before anything else on stdout."""
    assert process.stdout is not None
    for line in process.stdout:
        if line != MARK:
            found: dict[str, Any] = json.loads(line)
            return found
    _out, errors = process.communicate()
    raise AssertionError(f"the server did not start: {errors.decode()}")
