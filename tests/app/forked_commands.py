"""Commands in children of a process that has everything imported, so that a test can start a server in a moment, and kill it at any statement.

The parent is fresh: it has opened no store and has no threads, so its children are as good as processes of their own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.app.served_directory import DEADLINE_SECONDS, environment

PARENT = """
import json, os, signal, sys
import steelyard.app.serving, steelyard.app.wiring, steelyard.store, uvicorn, pyarrow.compute, httpx
import steelyard.ledgers.posting, steelyard.answers.registry, steelyard.app.collectors.configured
from steelyard.app import main
from steelyard.store import Store

def run(argv, kill_at, output):
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(out, 1); os.dup2(out, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    real, left = Store._run, [kill_at]
    def counted(self, sql, parameters):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, sql, parameters)
    if kill_at:
        Store._run = counted
    sys.argv = ["steelyard", *argv]
    code = 1
    try:
        main.main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(code)

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        run(asked["argv"], asked["kill_at"], asked["output"])
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass
class Commands:
    """Runs commands one after the other; what they print is in ``output``."""

    parent: subprocess.Popen[bytes]
    output: Path
    running: int | None = None

    def start(self, argv: Sequence[str | Path], kill_at: int = 0) -> int:
        """Start one, to be killed at its n-th statement of the store (0: never); its process id. ``wait`` for it before the next."""
        asked = {"argv": list(map(str, argv)), "kill_at": kill_at, "output": str(self.output)}
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(json.dumps(asked).encode() + b"\n")
        self.parent.stdin.flush()
        self.running = int(self.parent.stdout.readline())
        return self.running

    def wait(self) -> int:
        """Its exit status, -9 where it was killed."""
        assert self.parent.stdout is not None
        status = int(self.parent.stdout.readline())
        self.running = None
        return status

    def end(self) -> None:
        """End a command that nobody waited for, such as a server whose test failed. It is still the parent's child, so the id is its own."""
        if self.running is not None and _parent_of(self.running) == self.parent.pid:
            os.kill(self.running, signal.SIGKILL)


def _parent_of(process: int) -> int | None:
    try:
        return int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


@contextmanager
def commands(folder: Path) -> Iterator[Commands]:
    """The parent, ended with the test, and before it the command that is still running, whatever became of the test."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as parent:
        run = Commands(parent, folder / "output.txt")
        try:
            yield run
        finally:
            assert parent.stdin is not None
            run.end()
            parent.stdin.close()
            try:
                parent.wait(DEADLINE_SECONDS)
            finally:
                parent.kill()
