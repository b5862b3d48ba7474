"""The one writer: rounds into the store, each whole or not at all, and postings between them at a bearable pace.

Collectors' threads call ``store`` and wait; since each waits for its own round, no more rounds are held than there are collectors. The
trick to know: a round is acknowledged when its transaction is, cursor included; a disk that is full makes everybody wait and nothing lost.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from steelyard.app.collectors.pace import Moment, PostingPace
from steelyard.app.collectors.rounds import Round
from steelyard.primitives.errors import StoreFailed
from steelyard.primitives.instant import SECOND_US
from steelyard.store import Store

RETRY_SECONDS: Final = 1.0
RETRY_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS_MIN: Final = 0.5
_LOOK_SECONDS_MAX: Final = 2.0


@dataclass(slots=True)
class Written:
    """What became of a round that was handed over: ``new_count`` facts were new; or ``error``, and nothing of it is stored."""

    new_count: int = 0
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class PostingRequest:
    """Somebody waits for a posting of all that was stored before; ``count``: the rows that it appended."""

    count: int = 0
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


class RoundWriter:
    """Writes into one store from a thread of its own, between ``start`` and ``stop``. ``post`` returns how many rows it appended."""

    def __init__(self, store: Store, post: Callable[[Store], int], pace: PostingPace, queue_max: int) -> None:
        self._store = store
        self._post = post
        self._pace = pace
        self._queue: queue.Queue[tuple[Round, Written] | PostingRequest | None] = queue.Queue(max(1, queue_max))
        self._thread = threading.Thread(target=self._run, name="steelyard-writer", daemon=True)
        self._stopping = threading.Event()
        self._unposted = store.has_collected()
        self._look_at: Moment = 0
        self.trouble: str | None = None
        """Why the store takes nothing just now; None = it does."""

    def start(self) -> None:
        """Begin to take rounds."""
        self._thread.start()

    def hurry(self) -> None:
        """Try no more than once from now on: the end is near."""
        self._stopping.set()

    def stop(self) -> None:
        """Write what was handed over, post it, and end. A round that the store does not take now is given back with its error."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()

    def store(self, found: Round) -> Written:
        """Store a round; returns when that is done, or has failed for good."""
        written = Written()
        self._queue.put((found, written))
        written.done.wait()
        return written

    def post_now(self) -> int:
        """Post all that was stored before this call; how many rows that appended. Raises what the posting raised."""
        request = PostingRequest()
        self._queue.put(request)
        request.done.wait()
        if request.error is not None:
            raise request.error
        return request.count

    def _run(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=self._patience())
            except queue.Empty:
                self._post_what_is_due()
                continue
            if item is None:
                break
            if isinstance(item, PostingRequest):
                self._post_for(item)
            else:
                self._write(*item)
                self._post_what_is_due()
        self._look_for_others()
        if self._unposted:
            self._post_quietly()

    def _patience(self) -> float:
        """Seconds until a posting is due, or until it is time to look whether others left something to post."""
        due = self._pace.due(_moment()) if self._unposted else self._look_at
        return max(0.0, (due - _moment()) / SECOND_US)

    def _post_what_is_due(self) -> None:
        """Post where facts wait, this writer's or pushed ones, and their time has come. Rounds that bring nothing must not keep it from looking."""
        if not self._unposted and self._look_at <= _moment():
            self._look_for_others()
        if self._unposted and self._pace.due(_moment()) <= _moment():
            self._post_quietly()

    def _look_for_others(self) -> None:
        """Facts may come in that were pushed, past this writer."""
        seconds = min(max(_LOOK_SECONDS_MIN, self._pace.interval_us / SECOND_US), _LOOK_SECONDS_MAX)
        self._look_at = _moment() + round(seconds * SECOND_US)
        try:
            with self._store.reader() as reader:
                self._unposted = self._unposted or reader.has_collected()
        except StoreFailed as error:
            self.trouble = str(error)

    def _write(self, found: Round, written: Written) -> None:
        wait = RETRY_SECONDS
        while True:
            try:
                written.new_count = self._append(found)
                self.trouble = None
                break
            except (StoreFailed, OSError) as error:  # the disk may have room again
                self.trouble = str(error)
                if self._stopping.wait(wait):
                    written.error = error
                    break
                wait = min(2 * wait, RETRY_SECONDS_MAX)
            except (
                BaseException
            ) as error:  # ours: whoever handed it over is told, and the writer goes on for the others
                written.error = error
                break
        written.done.set()

    def _append(self, found: Round) -> int:
        tables = found.joined()
        if not tables and found.cursor is None:
            return 0
        with self._store.transaction():
            result = self._store.append_tables(tables)
            if found.cursor is not None:
                self._store.keep_cursor(found.name, found.cursor)
            if result.new:
                self._store.mark_collected()
        self._unposted = self._unposted or result.new > 0
        return result.new

    def _post_for(self, request: PostingRequest) -> None:
        try:
            request.count = self._posted()
        except BaseException as error:  # for whoever waits
            request.error = error
        request.done.set()

    def _post_quietly(self) -> None:
        """Post; a failure is said on stderr and tried again at the next turn."""
        try:
            self._posted()
        except (StoreFailed, OSError) as error:
            self.trouble = str(error)
            sys.stderr.write(f"steelyard: {error}\n")
        except Exception:  # a mistake of ours in the posting must not end the collection: the facts are kept
            traceback.print_exc()

    def _posted(self) -> int:
        began = _moment()
        try:
            count = self._post(self._store)
        finally:
            self._pace.posted(began, _moment())
        self._unposted = False
        return count


def _moment() -> Moment:
    return time.monotonic_ns() // 1_000
