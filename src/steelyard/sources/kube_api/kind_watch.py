"""One kind of one cluster: listed, then followed, then listed again where the server has forgotten our version.

``watch.ClusterWatch`` runs ``KindWatch.run`` in a thread and ``drain`` from the thread of the rounds. The trick to know: everything that
``drain`` hands over changes under one lock, and coverage moves only after the object that proves it is in the queue, so a round never
claims to have seen what it does not hold.
"""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections import deque
from typing import Final

import msgspec

from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.sources.kube_api.client import METADATA_LIST, ApiRefusal, ClusterClient, lines_of
from steelyard.sources.kube_api.object_index import ObjectIndex, version_of
from steelyard.sources.kube_api.resource_kinds import ResourceKind
from steelyard.sources.kube_api.watch_round import (
    FAILED,
    FORBIDDEN,
    NOT_INSTALLED,
    OK,
    RELIST,
    STARTING,
    WATCH_DELETED,
    WATCH_RESUMED,
    GoneObject,
    KindStatus,
    SeenObject,
    WatchBounds,
)

LIST_RESTARTS_MAX: Final = 5
STRETCHES_MAX: Final = 1_000
DISCOVERY_BYTES_MAX: Final = 8 * 1024 * 1024
REST_SECONDS: Final = 0.1
_GONE_BYTES: Final = 200
_PLAIN: Final = "application/json"


class Stopped(Exception):
    """The watch is being stopped: the thread ends."""


class _Metadata(msgspec.Struct):
    uid: str | None = None
    name: str | None = None
    namespace: str | None = None
    resourceVersion: str = ""  # noqa: N815 (the field's name on the wire)


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int | None = None
    message: str | None = None
    reason: str | None = None


class _ListMetadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 (the field's name on the wire)
    next: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


_OBJECT: Final = msgspec.json.Decoder(_Object)
_EVENT: Final = msgspec.json.Decoder(_Event)
_STATUS: Final = msgspec.json.Decoder(_Status)
_PAGE: Final = msgspec.json.Decoder(_Page)
_RESOURCES: Final = msgspec.json.Decoder(_Resources)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class KindWatch:
    """The state of one kind. ``run`` and what it calls belong to one thread, ``drain`` to another; ``_lock`` stands between."""

    def __init__(
        self, kind: ResourceKind, client: ClusterClient, bounds: WatchBounds, clock: Clock, stopping: threading.Event
    ) -> None:
        self.word = kind.word
        self._kind = kind
        self._client = client
        self._bounds = bounds
        self._clock = clock
        self._stopping = stopping
        self._index = ObjectIndex(bounds.index_entries_max)
        self._limit = bounds.page_limit
        self._resume = ""
        self._interrupted_us = 0
        self._connected_at: Instant = 0
        # the rest is shared with drain, under the lock
        self._lock = threading.Condition()
        self._queue: deque[SeenObject | GoneObject] = deque()
        self._queue_bytes = 0
        self._was_full = False
        self._status = STARTING
        self._api_version: str | None = None
        self._listed_at: Instant | None = None
        self._first_listing_at: Instant | None = None
        self._stretch: tuple[Instant, Instant] | None = None
        self._reported_to: Instant | None = None
        self._earlier: deque[tuple[Instant, Instant]] = deque(maxlen=STRETCHES_MAX)
        self._error: str | None = None
        self._grant: str | None = None
        self._relists = self._reconnects = self._refused = self._objects = 0
        self._complete = False

    # -- the thread of the rounds

    @property
    def is_settled(self) -> bool:
        """Whether a single collection has nothing more to wait for: it is listed, or is known to be out of reach."""
        with self._lock:
            return self._status in (NOT_INSTALLED, FORBIDDEN, FAILED) or self._listed_at is not None

    def drain(self, at: Instant) -> tuple[list[SeenObject], list[GoneObject], KindStatus, bool]:
        """What came in since the last drain, how the kind is doing, and whether the queue was full meanwhile."""
        with self._lock:
            items, self._queue, self._queue_bytes = self._queue, deque(), 0
            was_full, self._was_full = self._was_full, False
            status = self._report(at)
            self._lock.notify_all()
        seen = [item for item in items if isinstance(item, SeenObject)]
        return seen, [item for item in items if isinstance(item, GoneObject)], status, was_full

    def _report(self, at: Instant) -> KindStatus:
        since = until = None
        if self._stretch is not None:
            since = self._stretch[0] if self._reported_to is None else self._reported_to
            until = self._stretch[1]
            self._reported_to = until
        earlier, first = tuple(self._earlier), self._first_listing_at
        self._earlier.clear()
        self._first_listing_at = None
        moved = since is not None and until is not None and until > since
        return KindStatus(
            word=self.word,
            status=self._status,
            api_version=self._api_version,
            objects_count=self._objects,
            complete=self._complete,
            listed_at=self._listed_at,
            healthy_since_at=self._stretch[0] if self._stretch and self._status == OK else None,
            observed_from_at=since if moved else None,
            observed_to_at=until if moved else None,
            earlier=earlier,
            first_listing_at=first,
            lag_us=max(0, at - until) if until is not None else None,
            last_error=self._error,
            grant=self._grant,
            relists_count=self._relists,
            reconnects_count=self._reconnects,
            refused_count=self._refused,
        )

    # -- the thread of the kind

    def run(self) -> None:
        """List and follow until the watch is stopped. Whatever goes wrong is the kind's status; nothing of it reaches the other kinds."""
        with contextlib.suppress(Stopped):
            self._run()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            wait: float | None = None
            try:
                version = self._served_version()
                if version is None:
                    self._out_of_reach(NOT_INSTALLED, None)
                    self._pause(self._bounds.recheck_seconds)
                    continue
                self._list(version)
                error = self._follow(version)
                if error is None:
                    failures = 0
                    continue
            except Stopped:
                raise
            except ApiRefusal as refusal:
                if refusal.code == 403 and self._kind.fallback is not None:
                    self._kind = self._kind.fallback
                    continue
                if refusal.code == 403:
                    self._pause(self._bounds.recheck_seconds)
                    continue
                error, wait = str(refusal), refusal.retry_after_seconds
            except SourceUnavailable as unavailable:
                error, wait = str(unavailable), unavailable.retry_after_seconds
            except Exception as mistake:  # a thread that dies in silence would look like a quiet cluster
                error = f"{type(mistake).__name__}: {str(mistake)[:200]}"
            failures += 1
            self._fail(error)
            self._back_off(failures, wait)

    def _served_version(self) -> str | None:
        """The first of our versions that the cluster serves this kind in; None where it serves none. What discovery does not tell, the list
        itself will."""
        for version in self._kind.versions:
            try:
                body = self._client.read(self._kind.prefix(version), {}, DISCOVERY_BYTES_MAX)
                names = {resource.name for resource in _RESOURCES.decode(body).resources}
            except ApiRefusal as refusal:
                if refusal.code == 404:
                    continue
                if refusal.code in (401, 429) or refusal.code >= 500:
                    raise
                return version
            except (*_UNREADABLE, OverflowError):
                return version
            if self._kind.plural in names:
                return version
        return None

    def _list(self, version: str) -> None:
        """All objects, page by page; a continuation that has expired begins anew."""
        for _ in range(LIST_RESTARTS_MAX):
            if self._listed_at is None:
                self._index.clear()
            if self._list_once(version):
                return
        raise SourceUnavailable(f"the list of {self.word} expired {LIST_RESTARTS_MAX} times before its last page")

    def _list_once(self, version: str) -> bool:
        kind, count, next_page, began_at, resume = self._kind, 0, "", None, ""
        while True:
            page = self._page(version, next_page)
            if page is None:
                return False
            if began_at is None:
                began_at = self._clock.now()
                resume = page.metadata.resourceVersion
                if not resume:
                    raise SourceUnavailable(f"the list of {self.word} has no resource version to go on from")
                self._index.begin_listing(version_of(resume))
            if page.items is None:  # something between us and the server answers in its place: nothing ends by that
                raise SourceUnavailable(f"the list of {self.word} has no items: expected an array, found none")
            items = page.items
            for raw in items:
                self._take_item(raw, began_at, kind.api_version(version))
            count += max(1, len(items))
            if count > 2 * self._bounds.index_entries_max:
                raise SourceUnavailable(f"the list of {self.word} does not end after {count} objects")
            if not page.metadata.next:
                break
            next_page = page.metadata.next
        self._end_listing(began_at, version)
        self._resume = resume
        return True

    def _page(self, version: str, next_page: str) -> _Page | None:
        """One page; None where the continuation has expired or the page was too big for its bound (the next ones are smaller)."""
        params = {"limit": str(self._limit), **({"continue": next_page} if next_page else {})}
        try:
            body = self._client.read(self._kind.path(version), params, self._bounds.page_bytes_max, self._accept)
            return _PAGE.decode(body)
        except OverflowError as error:
            if self._limit == 1:
                raise SourceUnavailable(str(error)) from error
            self._limit = max(1, self._limit // 4)
            return None
        except ApiRefusal as refusal:
            if refusal.code == 410:
                return None
            if refusal.code == 403:
                self._out_of_reach(FORBIDDEN, refusal.message, "list")
            raise
        except _UNREADABLE as error:
            raise SourceUnavailable(f"the list of {self.word} cannot be read: {str(error)[:200]}") from error

    def _take_item(self, raw: msgspec.Raw, at: Instant, api_version: str) -> None:
        metadata = self._metadata_of(raw)
        if metadata is None:
            return
        uid = _uid_of(metadata)
        if self._index.note(uid, version_of(metadata.resourceVersion), at):
            self._put(SeenObject(self.word, self._kind.kind, api_version, bytes(raw), at))

    def _end_listing(self, at: Instant, version: str) -> None:
        before = self._stretch[1] if self._stretch is not None else None
        for uid, seen_at in self._index.end_listing():
            if self._kind.tracks_gone:
                last = max(seen_at, before) if before is not None else seen_at
                self._put(GoneObject(self.word, self._kind.kind, uid, min(last, at), at, RELIST))
        with self._lock:
            if self._stretch is not None:
                self._end_stretch()
            if self._listed_at is None:
                self._first_listing_at = at
            else:
                self._relists += 1
            self._listed_at = at
            self._stretch, self._reported_to = (at, at), None
            self._status, self._grant = OK, None
            self._api_version = self._kind.api_version(version)
            self._objects = len(self._index)
            self._complete = self._index.is_complete

    def _end_stretch(self) -> None:
        """What of the present stretch no round has told yet is told as an earlier one. Under the lock."""
        if self._stretch is not None:
            since = self._stretch[0] if self._reported_to is None else self._reported_to
            if self._stretch[1] > since:
                self._earlier.append((since, self._stretch[1]))
        self._stretch = self._reported_to = None

    def _follow(self, version: str) -> str | None:
        """Watch from the list's version, again and again from the last one seen, until everything has to be listed anew.

        None where the version was forgotten after something was learnt; else the trouble after which the next list had better wait.
        """
        attempts, learnt, trouble = 0, False, "the server forgot the version of its own list"
        while True:
            before, wait, error = self._proved_to(), None, None
            try:
                if self._watch_once(version):
                    return None if learnt or self._proved_to() != before else trouble
            except ApiRefusal as refusal:
                if refusal.code == 410:
                    return None if learnt else trouble
                if refusal.code == 403:
                    self._out_of_reach(FORBIDDEN, refusal.message, "watch")
                if refusal.code in (401, 403, 404):
                    raise
                error, wait = str(refusal), refusal.retry_after_seconds
            except SourceUnavailable as unavailable:
                error = str(unavailable)
            moved = self._proved_to() != before
            learnt = learnt or moved
            attempts = 0 if moved else attempts + 1
            if error is not None:
                self._fail(error)
                self._count_reconnect()
            elif moved:
                self._pause(min(REST_SECONDS, self._bounds.backoff_seconds))
                continue
            if attempts > self._bounds.reconnects_max:
                return error or "the server ends each watch at once"
            self._back_off(max(1, attempts), wait)

    def _watch_once(self, version: str) -> bool:
        """One watch to its end; True where the server has forgotten our version. An orderly end proves that nothing was held back."""
        bounds = self._bounds
        params = {
            "watch": "true",
            "resourceVersion": self._resume,
            "timeoutSeconds": str(bounds.timeout_seconds),
            "allowWatchBookmarks": "true",
        }
        silence = bounds.timeout_seconds + bounds.silence_seconds
        api_version = self._kind.api_version(version)
        with self._client.stream(self._kind.path(version), params, silence, self._accept) as chunks:
            self._connected()
            began = time.monotonic()
            for line in lines_of(chunks, bounds.object_bytes_max):
                if line is None:
                    self._refuse(f"an object of more than {bounds.object_bytes_max} bytes")
                elif line.strip() and self._take_line(line, api_version):
                    return True
                if self._stopping.is_set():
                    raise Stopped
        if time.monotonic() - began >= min(1.0, bounds.timeout_seconds / 2):
            self._prove(self._clock.now())
        return False

    def _take_line(self, line: bytes, api_version: str) -> bool:
        """One event of a watch; True where it says that our version is forgotten. Raises SourceUnavailable for any other error event."""
        try:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                status = _STATUS.decode(event.object)
        except _UNREADABLE as error:
            self._refuse(f"an event that cannot be read: {str(error)[:200]}")
            return False
        if event.type == "ERROR":
            if status.code == 410 or status.reason in ("Expired", "Gone"):
                return True
            raise SourceUnavailable(f"the watch ended with {status.code}: {(status.message or '')[:300]}")
        metadata = self._metadata_of(event.object, needs_name=event.type != "BOOKMARK")
        if metadata is None:
            return False
        now = self._clock.now()
        uid, resource_version = _uid_of(metadata), version_of(metadata.resourceVersion)
        if event.type == "BOOKMARK":
            self._index.advance(resource_version)
        elif event.type in ("ADDED", "MODIFIED"):
            if self._index.note(uid, resource_version, now):
                self._put(SeenObject(self.word, self._kind.kind, api_version, bytes(event.object), now))
        elif event.type == "DELETED":
            if self._index.bury(uid, resource_version):
                self._put(SeenObject(self.word, self._kind.kind, api_version, bytes(event.object), now))
                if self._kind.tracks_gone:
                    self._put(self._deleted(uid, now))
        else:
            self._refuse(f"an event of the unknown type {event.type[:40]!r}")
            return False
        if metadata.resourceVersion:
            self._resume = metadata.resourceVersion
        self._prove(now)
        return False

    def _deleted(self, uid: str, now: Instant) -> GoneObject:
        late_us = int(self._bounds.late_seconds * SECOND_US)
        if self._interrupted_us > late_us and now - self._connected_at <= late_us:
            return GoneObject(
                self.word, self._kind.kind, uid, self._connected_at - self._interrupted_us, now, WATCH_RESUMED
            )
        return GoneObject(self.word, self._kind.kind, uid, now, now, WATCH_DELETED)

    def _metadata_of(self, raw: msgspec.Raw, *, needs_name: bool = True) -> _Metadata | None:
        try:
            metadata = _OBJECT.decode(raw).metadata
        except _UNREADABLE as error:
            self._refuse(f"an object that cannot be read: {str(error)[:200]}")
            return None
        if needs_name and not metadata.uid and not metadata.name:
            self._refuse("an object without uid and name")
            return None
        return metadata

    # -- what drain sees

    def _put(self, item: SeenObject | GoneObject) -> None:
        """Queue an item; wait while the queue is full, which makes the server wait. Raises Stopped."""
        size = len(item.raw) if isinstance(item, SeenObject) else _GONE_BYTES
        bounds = self._bounds
        with self._lock:
            while self._queue and (
                self._queue_bytes + size > bounds.queue_bytes_max or len(self._queue) >= bounds.queue_objects_max
            ):
                self._was_full = True
                if self._stopping.is_set():
                    raise Stopped
                self._lock.wait(1.0)
            self._queue.append(item)
            self._queue_bytes += size

    def _proved_to(self) -> Instant | None:
        with self._lock:
            return self._stretch[1] if self._stretch is not None else None

    def _prove(self, at: Instant) -> None:
        """Everything until ``at`` is in the queue or was drained."""
        with self._lock:
            if self._stretch is not None:
                self._stretch = (self._stretch[0], max(at, self._stretch[1]))
            self._objects = len(self._index)
            self._complete = self._complete and self._index.is_complete

    def _connected(self) -> None:
        now = self._clock.now()
        proved = self._proved_to()
        self._connected_at, self._interrupted_us = now, now - proved if proved is not None else 0
        with self._lock:
            self._status = OK

    def _count_reconnect(self) -> None:
        with self._lock:
            self._reconnects += 1

    def _refuse(self, what: str) -> None:
        with self._lock:
            self._refused += 1
            self._complete = False
            self._error = f"refused: {what}"
        self._index.spoil()

    def _fail(self, error: str) -> None:
        with self._lock:
            if not self._stopping.is_set():
                self._status, self._error = FAILED, error

    def _out_of_reach(self, status: str, message: str | None, verb: str | None = None) -> None:
        with self._lock:
            self._status = status
            self._error = message or self._error
            self._grant = f"{verb} {self.word}" if verb else None
            self._complete = False
            self._end_stretch()

    @property
    def _accept(self) -> str:
        return METADATA_LIST if self._kind.metadata_only else _PLAIN

    def _back_off(self, failures: int, wait_seconds: float | None) -> None:
        """Longer after each failure, and not at the same moment as the other kinds."""
        bounds = self._bounds
        part = zlib.crc32(f"{self.word}/{failures}".encode()) / 2**32
        wait = min(bounds.backoff_seconds * 2 ** min(failures - 1, 16), bounds.backoff_seconds_max)
        self._pause(max(wait * (0.5 + part / 2), wait_seconds or 0.0))

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped


def _uid_of(metadata: _Metadata) -> str:
    return metadata.uid or f"name:{metadata.namespace or 'default'}/{metadata.name}"
