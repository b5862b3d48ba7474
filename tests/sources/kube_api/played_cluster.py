"""A Kubernetes API server that plays what a test wrote down: kmock on a loopback socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import kmock

from steelyard.primitives.clock import WallClock
from steelyard.sources.kube_api.resource_kinds import PODS, ResourceKind
from steelyard.sources.kube_api.watch import ClusterTarget, ClusterWatch, WatchBounds, WatchRound

PATIENCE_SECONDS = 20.0
QUICK = WatchBounds(
    request_seconds=5.0,
    timeout_seconds=60,
    silence_seconds=5.0,
    backoff_seconds=0.01,
    backoff_seconds_max=0.05,
    recheck_seconds=0.05,
    reconnects_max=2,
)

Answer = Any
"""What kmock takes: a dict (one JSON), a tuple (a stream of lines), a kmock.Response, or a function of the request that makes one."""


def pod(name: str, version: int, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)},
        "status": {"phase": "Running", **status},
    }


def page(*objects: dict[str, Any], version: int, then: str | None = None) -> dict[str, Any]:
    metadata = {"resourceVersion": str(version), **({"continue": then} if then else {})}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(objects)}


def event(kind: str, thing: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **thing}}


def bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}}


def status(code: int, message: str = "no", reason: str = "Because") -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "message": message, "reason": reason}


def refusal(code: int, message: str = "no", reason: str = "Because", **headers: str) -> kmock.Response:
    return kmock.Response(status=code, payload=status(code, message, reason), headers=headers)


def drop(request: kmock.Request) -> None:
    """The connection is cut without an end."""
    request._raw_request.transport.abort()  # type: ignore[union-attr]


class PlayedCluster:
    """``with PlayedCluster() as cluster``: then ``lists`` and ``watches`` say what each request gets in turn; the last one is repeated."""

    def __init__(self) -> None:
        self.handler = kmock.KubernetesScaffold()
        self.asked: list[kmock.Request] = []
        self._loop = asyncio.new_event_loop()
        self._released = asyncio.Event()
        self._ready = threading.Event()
        self._over: asyncio.Event = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._released.set)
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_SECONDS)

    def _serve(self) -> None:
        async def serve() -> None:
            async with self.handler, kmock.Server(self.handler) as server:
                self.url = str(server.url).rstrip("/")
                self._ready.set()
                await self._over.wait()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(serve())
        self._loop.close()

    async def hold(self) -> None:
        """In a stream: nothing more comes, until the test is over."""
        await self._released.wait()

    def lists(self, *answers: Answer, kind: ResourceKind = PODS) -> None:
        self._play(kmock.action.LIST, kind, answers)

    def watches(self, *answers: Answer, kind: ResourceKind = PODS) -> None:
        self._play(kmock.action.WATCH, kind, answers)

    def quiet(self, kind: ResourceKind) -> None:
        """The kind exists, has no objects, and nothing happens to it."""
        self.lists(page(version=1), kind=kind)
        self.watches((b"", self.hold), kind=kind)

    def _play(self, action: kmock.action, kind: ResourceKind, answers: Sequence[Answer]) -> None:
        def answer(request: kmock.Request) -> Answer:
            self.asked.append(request)
            found = answers[min(len(self.requests(action, kind)), len(answers)) - 1]
            made = found(request) if isinstance(found, type(lambda: 0)) else found
            # kmock remembers a status across the answers of one reaction, so each answer says its own
            return made if isinstance(made, kmock.Response) else kmock.Response(status=200, payload=made)

        resource = kmock.resource(kind.group, kind.versions[0], kind.plural)
        self.handler[action, resource] << answer

    def requests(self, action: kmock.action, kind: ResourceKind = PODS) -> list[kmock.Request]:
        return [
            request
            for request in list(self.asked)
            if request.action == action and request.resource is not None and request.resource.plural == kind.plural
        ]

    def until(self, met: Callable[[], bool]) -> None:
        """Wait until that is so, without draining."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS * 100)):
            if met():
                return
            pause.wait(0.01)
        raise AssertionError(f"not within {PATIENCE_SECONDS} s: {self.asked}")

    def target(self, name: str = "default") -> ClusterTarget:
        return ClusterTarget(cluster=name, address=self.url, token="t")

    @contextmanager
    def watched(self, *kinds: ResourceKind, bounds: WatchBounds = QUICK, clock: Any = None) -> Iterator[Watched]:
        with ClusterWatch(self.target(), kinds or (PODS,), bounds, clock or WallClock()) as watch:
            yield Watched(watch)


class Watched:
    """What a watch handed over so far."""

    def __init__(self, watch: ClusterWatch) -> None:
        self.watch = watch
        self.rounds: list[WatchRound] = []

    def until(self, met: Callable[[Watched], bool]) -> Watched:
        """Drain until that is so."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS * 100)):
            self.rounds.append(self.watch.drain(WallClock().now()))
            if met(self):
                return self
            pause.wait(0.01)
        raise AssertionError(f"not within {PATIENCE_SECONDS} s: {self.seen} {self.rounds[-1].kinds}")

    def until_seen(self, *names: str) -> Watched:
        return self.until(lambda found: set(names) <= {name for name, _ in found.seen})

    @property
    def seen(self) -> list[tuple[str, str]]:
        """(name, version) of each object that was handed over, in order."""
        import orjson

        found = [orjson.loads(each.raw)["metadata"] for each in self.changed]
        return [(metadata["name"], metadata["resourceVersion"]) for metadata in found]

    @property
    def changed(self) -> list[Any]:
        return [each for taken in self.rounds for each in taken.changed]

    @property
    def gone(self) -> list[Any]:
        return [each for taken in self.rounds for each in taken.gone]

    def status(self, word: str = "pods") -> Any:
        return next(each for each in self.rounds[-1].kinds if each.word == word)

    def statuses(self, word: str = "pods") -> list[Any]:
        return [each for taken in self.rounds for each in taken.kinds if each.word == word]
