"""A simulated estate on loopback: an API server of Kubernetes and an exporter per node, for the live demo.

It speaks as much of the API as watching needs: lists, watches with bookmarks, pods that are created and deleted by hand. The trick to know:
an object is compared with how it looked a moment ago, and each difference is an event with a version of its own, kept for those who watch.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from steelyard.primitives.clock import Clock
from steelyard.primitives.instant import SECOND_US, Instant, format_instant
from steelyard.simulation.live import LiveEstate

STEP_SECONDS: Final = 0.5
NODES_EVERY_US: Final = 30 * SECOND_US
EVENTS_KEPT: Final = 100_000
BOOKMARK_SECONDS: Final = 1.0
BODY_BYTES_MAX: Final = 1 << 20
UNCHANGING: Final = "the cluster of the demo creates and deletes pods and changes none: delete it and create it again"
KINDS: Final = {"pods": "Pod", "nodes": "Node", "events": "Event"}
_PATCH_OF_PODS: Final = {
    "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Pod"},
    "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
    "responses": {},
}
"""As much of the OpenAPI document as ``kubectl apply`` looks for: that fields are checked here and need not be before."""
_DISCOVERY: Final = {
    "/openapi/v3": {"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"}}},
    "/openapi/v3/api/v1": {
        "openapi": "3.0.0",
        "info": {"title": "demo", "version": "1"},
        "paths": {"/api/v1/namespaces/{namespace}/pods/{name}": {"patch": _PATCH_OF_PODS}},
    },
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
}
_LIST: Final = re.compile(r"/api/v1/(pods|nodes|events)\Z")
_PODS: Final = re.compile(r"/api/v1/namespaces/([a-z0-9-]{1,63})/pods(?:/([a-z0-9.-]{1,253}))?\Z")
_METRICS: Final = re.compile(r"/exporters/([^/]{1,253})/metrics\Z")


class DemoCluster:
    """The estate behind a port of loopback, between ``start`` and ``stop``."""

    def __init__(self, estate: LiveEstate, clock: Clock) -> None:
        self._estate = estate
        self._clock = clock
        self._changed = threading.Condition()
        self._version = 1
        self._objects: dict[str, dict[str, tuple[str, int]]] = {word: {} for word in KINDS}
        self._log: deque[tuple[int, str, str, str]] = deque(maxlen=EVENTS_KEPT)
        self._by_hand: dict[tuple[str, str], dict[str, Any]] = {}
        self._nodes_at: Instant = 0
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def exporters(self) -> list[str]:
        """The addresses of all exporters."""
        return [f"{self.url}/exporters/{node}/metrics" for node in self._estate.nodes]

    def start(self) -> None:
        """Begin to live."""
        self.step()
        threading.Thread(target=self._server.serve_forever, name="demo-cluster", daemon=True).start()
        threading.Thread(target=self._live, name="demo-life", daemon=True).start()

    def stop(self) -> None:
        """End; whoever watches is told so by the end of the stream."""
        self._over.set()
        with self._changed:
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def step(self) -> None:
        """Look at the estate now and note what changed."""
        at = self._clock.now()
        view = self._estate.cluster
        with self._changed:
            pods = view.pods(at)
            pods.update(
                {pod["metadata"]["uid"]: json.dumps(pod, separators=(",", ":")) for pod in self._by_hand.values()}
            )
            self._take("pods", pods)
            self._take("events", view.events(at))
            if at - self._nodes_at >= NODES_EVERY_US:
                self._nodes_at = at
                self._take("nodes", view.nodes(at))
            self._changed.notify_all()

    def create(self, namespace: str, pod: dict[str, Any]) -> dict[str, Any] | None:
        """Start a pod now, on the node it names, else on the first one; None where there is one of its name."""
        at = format_instant(self._clock.now())
        metadata = pod.setdefault("metadata", {})
        name = metadata.get("name")
        if not isinstance(name, str) or (namespace, name) in self._by_hand:
            return None
        metadata.update(namespace=namespace, uid=str(uuid.uuid4()), creationTimestamp=at)
        pod.update(apiVersion="v1", kind="Pod")
        pod.setdefault("spec", {}).setdefault("nodeName", self._estate.nodes[0])
        pod["status"] = {
            "phase": "Running",
            "startTime": at,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}],
            "containerStatuses": [
                {"name": each.get("name", "main"), "state": {"running": {"startedAt": at}}, "restartCount": 0}
                for each in pod["spec"].get("containers", [])
            ],
        }
        with self._changed:
            self._by_hand[namespace, name] = pod
        self.step()
        return pod

    def delete(self, namespace: str, name: str) -> bool:
        """End a pod that was started by hand; whether there was one."""
        with self._changed:
            found = self._by_hand.pop((namespace, name), None)
        self.step()
        return found is not None

    def listed(self, word: str) -> bytes:
        """The List of a kind."""
        with self._changed:
            items = [_versioned(text, version) for text, version in self._objects[word].values()]
            version = self._version
        head = f'{{"kind":"{KINDS[word]}List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":['
        return (head + ",".join(items) + "]}").encode()

    def watched(self, word: str, since: int, seconds: float) -> Iterator[bytes]:
        """The events of a kind after a version, as they come, with bookmarks between them."""
        until = time.monotonic() + seconds
        with self._changed:
            oldest = self._log[0][0] if self._log and len(self._log) == EVENTS_KEPT else 0
        if since < oldest:
            status = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}
            yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
            return
        while not self._over.is_set() and time.monotonic() < until:
            with self._changed:
                if self._version <= since:
                    self._changed.wait(BOOKMARK_SECONDS)
                fresh = list(takewhile(lambda each, seen=since: each[0] > seen, reversed(self._log)))  # type: ignore[misc]  # a default that binds the loop's value
                since = self._version
            for version, of, kind, text in reversed(fresh):
                if of != word:
                    continue
                yield f'{{"type":"{kind}","object":{_versioned(text, version)}}}\n'.encode()
            mark = {"kind": KINDS[word], "apiVersion": "v1", "metadata": {"resourceVersion": str(since)}}
            yield json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n"

    def pods_of(self, namespace: str, name: str | None) -> bytes | None:
        """The List of a namespace's pods, or the one pod; None where there is none of the name."""
        with self._changed:
            found = [(json.loads(text), version) for text, version in self._objects["pods"].values()]
            version = self._version
        pods = []
        for pod, changed_at in found:
            metadata = pod["metadata"]
            if metadata.get("namespace") == namespace and name in (None, metadata.get("name")):
                metadata["resourceVersion"] = str(changed_at)
                pods.append({"kind": "Pod", "apiVersion": "v1", **pod})
        if name is not None:
            return json.dumps(pods[0]).encode() if pods else None
        listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}, "items": pods}
        return json.dumps(listed).encode()

    def exporter_text(self, node: str) -> str | None:
        """What the exporter of a node prints now."""
        return self._estate.exporter_text(node, self._clock.now())

    def _live(self) -> None:
        while not self._over.wait(STEP_SECONDS):
            self.step()

    def _take(self, word: str, texts: dict[str, str]) -> None:
        known = self._objects[word]
        for uid, text in texts.items():
            before = known.get(uid)
            if before is None or before[0] != text:
                self._version += 1
                known[uid] = (text, self._version)
                self._log.append((self._version, word, "ADDED" if before is None else "MODIFIED", text))
        for uid in known.keys() - texts.keys():
            self._version += 1
            self._log.append((self._version, word, "DELETED", known.pop(uid)[0]))


def _versioned(text: str, version: int) -> str:
    """The object with its version, put in without parsing it."""
    return text.replace('"metadata":{', f'"metadata":{{"resourceVersion":"{version}",', 1)


def _handler_of(cluster: DemoCluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if metrics := _METRICS.match(parts.path):
                text = cluster.exporter_text(metrics[1])
                self._answer(503 if text is None else 200, (text or "").encode(), "text/plain; version=0.0.4")
            elif parts.path in _DISCOVERY:
                self._answer(200, json.dumps(_DISCOVERY[parts.path]).encode())
            elif parts.path == "/api/v1":
                resources = [
                    {"name": word, "kind": kind, "namespaced": word != "nodes"} for word, kind in KINDS.items()
                ]
                found = {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}
                self._answer(200, json.dumps(found).encode())
            elif listed := _LIST.match(parts.path):
                asked = parse_qs(parts.query)
                if asked.get("watch", ["false"])[0] in ("true", "1"):
                    self._stream(listed[1], asked)
                else:
                    self._answer(200, cluster.listed(listed[1]))
            elif of_namespace := _PODS.match(parts.path):
                pods = cluster.pods_of(of_namespace[1], of_namespace[2])
                if pods is None:
                    self._refuse(404, "NotFound", f'pods "{of_namespace[2]}" not found')
                else:
                    self._answer(200, pods)
            else:
                self._refuse(404, "NotFound")

        def do_PATCH(self) -> None:
            self.close_connection = True  # the body is not read
            self._refuse(405, "MethodNotAllowed", UNCHANGING)

        def do_PUT(self) -> None:
            self.do_PATCH()

        def do_POST(self) -> None:
            found = _PODS.match(urlsplit(self.path).path)
            try:
                size = int(self.headers.get("Content-Length", "0"))
                self.close_connection = self.close_connection or size > BODY_BYTES_MAX
                body = json.loads(self.rfile.read(size)) if 0 < size <= BODY_BYTES_MAX else None
            except (ValueError, RecursionError):
                body = None
            if found is None or found[2] or not isinstance(body, dict):
                self._refuse(400, "BadRequest")
                return
            made = cluster.create(found[1], body)
            if made is None:
                self._refuse(409, "AlreadyExists", "a pod of this name is there, or the pod has no name")
            else:
                self._answer(201, json.dumps(made).encode())

        def do_DELETE(self) -> None:
            found = _PODS.match(urlsplit(self.path).path)
            if found is not None and found[2] and cluster.delete(found[1], found[2]):
                self._answer(200, b'{"kind":"Status","apiVersion":"v1","status":"Success"}')
            else:
                self._refuse(404, "NotFound")

        def log_message(self, format: str, *args: Any) -> None:
            """A demo says nothing of each request."""

        def _stream(self, word: str, asked: dict[str, list[str]]) -> None:
            since, seconds = (asked.get(name, [""])[0] for name in ("resourceVersion", "timeoutSeconds"))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for line in cluster.watched(word, int(since or 0), float(seconds or 60)):
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")
            except (OSError, ValueError):
                self.close_connection = True

        def _refuse(self, code: int, reason: str, message: str | None = None) -> None:
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": code,
                "reason": reason,
                "message": message or reason,
            }
            self._answer(code, json.dumps(status).encode())

        def _answer(self, code: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:  # said, so that nobody sends the next request into it
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

    return Handler
