"""A cluster of pods that come and go at a steady rate, as an API server tells it: pages of a list, and a watch that can be resumed.

Served over plain HTTP/1.1 on a loopback port by one asyncio loop, without any Kubernetes library, so that a bench measures the reader and not
the server. A third of the way through it cuts every watch; two thirds through it forgets all versions (410), so that everything is listed
anew under churn. Run by itself it prints its port: ``python -m bench.churning_cluster --pods 50000 --rate 200 --seconds 120``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import deque
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

SENT_AT = "bench.example/sent-at"
TICK_SECONDS = 0.02
HISTORY_EVENTS = 50_000
CHANGING_SECONDS = 5
"""As many pods change in turn as changes are made in this time; a pod's whole life is five changes."""
_PADDING = "x" * 1_500
_STATES = ("Pending", "Bound", "Running", "Succeeded")


def pod_json(slot: int, generation: int, version: int, state: int, sent_at: int) -> bytes:
    """One pod of about 3 KB in one of its states; ``sent_at``: microseconds, as an annotation."""
    phase = "Pending" if state < 2 else _STATES[state]
    stamp = f"2027-03-05T10:{version // 60 % 60:02d}:{version % 60:02d}Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": stamp, "lastProbeTime": None}
        for kind in ("PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready")[
            : 1 + 2 * state
        ]
    ]
    running = {"running": {"startedAt": stamp}}
    ended = {"terminated": {"startedAt": stamp, "finishedAt": stamp, "exitCode": 0, "reason": "Completed"}}
    status = [{"name": "main", "restartCount": 0, "state": running if state == 2 else ended}] if state >= 2 else []
    found = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"pod-{slot}-{generation}",
            "namespace": f"team-{slot % 40}",
            "uid": f"00000000-{slot:08d}-{generation:08d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2027-03-05T10:00:00Z",
            "labels": {"app": f"app-{slot % 400}", "pod-template-hash": "6d4cf56db6"},
            "annotations": {SENT_AT: str(sent_at), "example.com/words": _PADDING},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": f"app-{slot % 400}-6d4cf56db6", "uid": "r", "controller": True}
            ],
        },
        "spec": {
            "nodeName": f"node-{slot % 1250}",
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "env": [{"name": f"NAME_{number}", "value": f"value-{number}"} for number in range(10)],
                    "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}},
                }
            ],
        },
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": status},
    }
    return json.dumps(found, separators=(",", ":")).encode()


@dataclass
class ChurningCluster:
    """``pods`` pods, ``rate`` changes a second for ``seconds`` seconds from the first watch on."""

    pods: int
    rate: int
    seconds: float
    version: int = 0
    deleted_count: int = 0
    changes_count: int = 0
    port: int = 0
    _live: list[tuple[int, int, bytes]] = field(default_factory=list)
    _history: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=HISTORY_EVENTS))
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _started_at: float | None = None
    _epoch: int = 0
    _forgets: bool = False
    _next_slot: int = 0
    _listed: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        now = time.time_ns() // 1_000
        self.version = self.pods + 1_000
        self._live = [(0, 2, pod_json(number, 0, number + 1, 2, now)) for number in range(self.pods)]

    @property
    def is_over(self) -> bool:
        """Whether the last change was made."""
        return self._started_at is not None and time.monotonic() - self._started_at >= self.seconds

    async def serve(self, started: asyncio.Event | None = None) -> None:
        """Serve until cancelled. ``port`` is set before ``started``."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        if started is not None:
            started.set()
        async with server:
            await self._churn()

    async def _churn(self) -> None:
        made, cut, forgot = 0, False, False
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self._started_at is None or self.is_over:
                continue
            elapsed = time.monotonic() - self._started_at
            if not cut and elapsed >= self.seconds / 3:
                cut, self._epoch = True, self._epoch + 1
            if not forgot and elapsed >= 2 * self.seconds / 3:
                forgot, self._epoch, self._forgets = True, self._epoch + 1, True
            due = int(elapsed * self.rate)
            for _ in range(due - made):
                self._change()
            made = max(made, due)
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _change(self) -> None:
        """One change of the next pod: ended, deleted, created, bound or started."""
        slot = self._next_slot = (self._next_slot + 1) % min(self.pods, CHANGING_SECONDS * self.rate)
        generation, state, _ = self._live[slot]
        self.version += 1
        self.changes_count += 1
        now = time.time_ns() // 1_000
        if state == 3:
            self.deleted_count += 1
            self._say("DELETED", pod_json(slot, generation, self.version, 3, now))
            self._live[slot] = (generation + 1, -1, b"")
            return
        text = pod_json(slot, generation, self.version, state + 1, now)
        self._live[slot] = (generation, state + 1, text)
        self._say("ADDED" if state == -1 else "MODIFIED", text)

    def _say(self, word: str, thing: bytes) -> None:
        self._history.append((self.version, b'{"type":"%s","object":%s}\n' % (word.encode(), thing)))

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                target = line.split(b" ")[1].decode()
                while (await reader.readline()).strip():
                    pass
                parts = urlsplit(target)
                asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
                if asked.get("watch") == "true":
                    await self._watch(writer, int(asked["resourceVersion"]), float(asked["timeoutSeconds"]))
                elif parts.path == "/api/v1/pods":
                    self._answer(writer, self._page(int(asked.get("limit", "500")), asked.get("continue", "0:0")))
                elif parts.path == "/api/v1":
                    self._answer(writer, b'{"kind":"APIResourceList","resources":[{"name":"pods"}]}')
                elif parts.path == "/stats":
                    self._answer(writer, json.dumps(self.stats()).encode())
                else:
                    self._answer(writer, b"404 page not found", b"404 Not Found")
                await writer.drain()
        except (ConnectionError, IndexError):
            pass
        finally:
            writer.close()

    def stats(self) -> dict[str, int | bool]:
        """What there is and what happened."""
        live = sum(state >= 0 for _, state, _ in self._live)
        return {
            "live": live,
            "deleted": self.deleted_count,
            "changes": self.changes_count,
            "version": self.version,
            "over": self.is_over,
        }

    def _answer(self, writer: asyncio.StreamWriter, body: bytes, status: bytes = b"200 OK") -> None:
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
        )

    def _page(self, limit: int, token: str) -> bytes:
        """A page of the pods as of the list's own version, whatever changed since its first page, as an API server pages."""
        version, _, start_text = token.partition(":")
        start, at = int(start_text), int(version) or self.version
        if start == 0:
            self._listed = [text for _, _, text in self._live]
        end = min(start + limit, self.pods)
        then = b"" if end == self.pods else b',"continue":"%d:%d"' % (at, end)
        items = b",".join(text for text in self._listed[start:end] if text)
        return b'{"kind":"PodList","metadata":{"resourceVersion":"%d"%s},"items":[%s]}' % (at, then, items)

    async def _watch(self, writer: asyncio.StreamWriter, version: int, timeout_seconds: float) -> None:
        if self._started_at is None:
            self._started_at = time.monotonic()
        ends_at = time.monotonic() + timeout_seconds
        epoch = self._epoch
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        oldest = self._history[0][0] - 1 if self._history else self.version
        if self._forgets or version < oldest:
            self._forgets = False
            self._chunk(writer, b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n')
            writer.write(b"0\r\n\r\n")
            return
        while time.monotonic() < ends_at:
            fresh: list[bytes] = []
            for at, event in reversed(self._history):
                if at <= version:
                    break
                fresh.append(event)
            if self._history:
                version = max(version, self._history[-1][0])
            if fresh:
                self._chunk(writer, b"".join(reversed(fresh)))
                await writer.drain()
            news = self._news
            if self._epoch != epoch:
                writer.transport.abort()
                raise ConnectionError
            try:
                await asyncio.wait_for(news.wait(), max(0.01, ends_at - time.monotonic()))
            except TimeoutError:
                break
        writer.write(b"0\r\n\r\n")

    def _chunk(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        writer.write(b"%x\r\n%s\r\n" % (len(body), body))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120.0)
    asked = parser.parse_args(arguments)

    async def run() -> None:
        cluster = ChurningCluster(asked.pods, asked.rate, asked.seconds)
        started = asyncio.Event()
        serving = asyncio.create_task(cluster.serve(started))
        await started.wait()
        print(cluster.port, flush=True)
        await serving

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
