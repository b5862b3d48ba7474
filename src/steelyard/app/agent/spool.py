"""The spool: what the server has not acknowledged yet, one file per batch, in order, on disk before anything is sent.

``loop`` puts rounds in, ``delivery`` takes the oldest out; both from threads of their own. A file is written beside its place, synced and
renamed, so it is whole or not there. The trick to know: how far the logs were read travels within the batch that holds what was read, so
that after a crash neither is without the other. A file's name is ``<ordinal>-<level>.batch``, the level saying how much it was thinned.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from steelyard.app.agent.batch import PROTOCOL, Batch, Head, decode, encode
from steelyard.app.agent.thinning import LEVELS, Loss, Thinning, events_in, given_up, loss_of
from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.facts.finding import Finding
from steelyard.facts.transition import Transition
from steelyard.primitives.errors import SourceMalformed, SourceUnsupported, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain

FACTS_PER_BATCH: Final = 5_000
THINNED_AT_ONCE_MAX: Final = 64
HAPPENED: Final = (Event, Transition, Finding)
BYTES_MAX: Final = 64 << 20
ASIDE_MAX: Final = 20
"""Files that were set aside (corrupt, or refused by the server) and are kept to be looked at."""

_NAME: Final = re.compile(r"([0-9]{12})-([0-9])\.batch\Z", re.ASCII)
_KEPT_RATIO: Final = 0.99
_ASIDE: Final = "aside"
_CURSORS: Final = "cursors.json"
_TEMPORARY: Final = ".tmp"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch that lies in the spool: ``size`` in bytes, ``level`` of thinning."""

    ordinal: int
    level: int
    size: int

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.ordinal:012d}-{self.level}.batch"


@dataclass(frozen=True, slots=True)
class Speaker:
    """For whom batches are written; see ``batch.Head``."""

    agent: str
    cluster: str | None = None
    version: str = ""


class Spool:
    """One directory, held by one process. ``bytes_max`` bounds the batches in it.

    Raises UsageError where the directory cannot be made or written, or another agent holds it.
    """

    def __init__(
        self, directory: Path, speaker: Speaker, now: Callable[[], Instant], bytes_max: int = BYTES_MAX
    ) -> None:
        self._directory = directory
        self._speaker = speaker
        self._now = now
        self._bytes_max = bytes_max
        self._boot = secrets.token_hex(8)
        self._sequence = 0
        self._changed = threading.Condition(threading.RLock())
        self._entries: dict[int, Entry] = {}
        self._thinning = Thinning()
        self._lock = _held(directory)
        try:
            self._scan()
            self._ordinal = max(self._entries, default=0)
            self._cursors = self._known_cursors()
        except OSError as error:
            os.close(self._lock)
            raise UsageError(_("the spool {directory}: {reason}").format(directory=directory, reason=error)) from None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    @property
    def boot(self) -> str:
        """The id of this process, under which its batches are numbered."""
        return self._boot

    @property
    def cursors(self) -> dict[str, str]:
        """How far logs were read, as of the last round that was kept."""
        with self._changed:
            return dict(self._cursors)

    def size(self) -> tuple[int, int]:
        """(batches that wait, bytes of them)."""
        with self._changed:
            return len(self._entries), sum(entry.size for entry in self._entries.values())

    def put(self, facts: Iterable[Fact], cursors: dict[str, str] | None = None) -> list[int]:
        """Keep the facts of a round, on disk when this returns; the sequence numbers of their batches. Raises OSError where the disk does not
        take them: then some may be kept (they are the same facts when they come again).

        What happened comes first, in one batch with ``cursors``, however much that is and however many samples follow."""
        ordered = sorted(facts, key=lambda fact: not isinstance(fact, HAPPENED))
        first = max(FACTS_PER_BATCH, sum(isinstance(fact, HAPPENED) for fact in ordered))
        parts = [ordered[:first]] if ordered else []
        parts += [ordered[at : at + FACTS_PER_BATCH] for at in range(first, len(ordered), FACTS_PER_BATCH)]
        with self._changed:
            merged = {**self._cursors, **(cursors or {})}
            numbers = [self._put(part, merged) for part in parts]
            if merged != self._cursors:
                self._write(_CURSORS, msgspec.json.encode(merged))
                self._cursors = merged
            self._keep_within_bound()
            self._changed.notify_all()
        return numbers

    def oldest(self) -> tuple[Entry, bytes] | None:
        """The oldest batch with its bytes; None where nothing waits. One that cannot be read is set aside, and said."""
        while True:
            with self._changed:
                if not self._entries:
                    return None
                entry = self._entries[min(self._entries)]
                try:
                    body = (self._directory / entry.name).read_bytes()
                    decode(body)
                    return entry, body
                except (OSError, SourceMalformed, SourceUnsupported) as error:
                    self._set_aside(entry, "spool_file_unreadable", str(error))

    def wait(self, seconds: float) -> None:
        """Until something is put in, or so long."""
        with self._changed:
            if not self._entries:
                self._changed.wait(seconds)

    def wake(self) -> None:
        """Let whoever waits look again."""
        with self._changed:
            self._changed.notify_all()

    def acknowledge(self, ordinal: int) -> None:
        """The server has it: let it go, whatever became of it here meanwhile."""
        with self._changed:
            entry = self._entries.pop(ordinal, None)
            if entry is not None:
                with suppress(FileNotFoundError):
                    (self._directory / entry.name).unlink()

    def refuse(self, ordinal: int, reason: str) -> None:
        """The server will never take it: set it aside and say so, in the server's words."""
        with self._changed:
            entry = self._entries.get(ordinal)
            if entry is not None:
                self._set_aside(entry, "agent_batch_refused", reason)

    def _put(self, facts: Sequence[Fact], cursors: dict[str, str]) -> int:
        self._sequence += 1  # also where the disk does not take it: a number never means two things
        head = Head(
            protocol=PROTOCOL,
            agent=self._speaker.agent,
            boot=self._boot,
            sequence=self._sequence,
            made_at=self._now(),
            cluster=self._speaker.cluster,
            version=self._speaker.version,
            cursors=cursors,
        )
        body = encode(head, facts)
        entry = Entry(self._ordinal + 1, 0, len(body))
        self._write(entry.name, body)
        self._ordinal = entry.ordinal
        self._entries[entry.ordinal] = entry
        return head.sequence

    def _write(self, name: str, body: bytes) -> None:
        """A file that is whole, or not there, whatever happens; durable when this returns."""
        temporary = self._directory / f"{name}{_TEMPORARY}"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._directory / name)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync(self._directory)

    def _keep_within_bound(self) -> None:
        """Thin, oldest first, until there is room again; the newest batch is left as it is. A little at a time: no round waits for all of it."""
        size = self.size()[1]
        if size <= self._bytes_max:
            return
        enough, left = int(self._bytes_max * _KEPT_RATIO), THINNED_AT_ONCE_MAX
        for level in LEVELS:
            for ordinal in sorted(self._entries)[:-1]:
                if size <= enough or not left:
                    return
                entry = self._entries[ordinal]
                if entry.level < level:
                    size -= self._thin(entry, level)
                    left -= 1
        self._give_up(size, enough)

    def _thin(self, entry: Entry, level: int) -> int:
        """How many bytes that freed."""
        batch = self._read(entry)
        if batch is None:
            return entry.size
        body = encode(batch.head, self._thinning.thinned(batch, level))
        thinner = Entry(entry.ordinal, level, len(body))
        self._write(thinner.name, body)
        self._entries[entry.ordinal] = thinner
        with suppress(FileNotFoundError):
            (self._directory / entry.name).unlink()
        return entry.size - thinner.size

    def _give_up(self, size: int, enough: int) -> None:
        """Let whole batches go, those without events first, oldest first, and say how much that was."""
        for with_events in (False, True):
            gone = Loss()
            for ordinal in sorted(self._entries)[:-1]:
                if size <= enough:
                    break
                entry = self._entries[ordinal]
                batch = self._read(entry)
                if batch is None:
                    size -= entry.size
                elif with_events or not events_in(batch):
                    gone += loss_of(batch)
                    size -= entry.size
                    self.acknowledge(ordinal)
            if gone.batches:
                self._put([given_up(gone, self._context())], self._cursors)

    def _read(self, entry: Entry) -> Batch | None:
        try:
            return decode((self._directory / entry.name).read_bytes())
        except (OSError, SourceMalformed, SourceUnsupported) as error:
            self._set_aside(entry, "spool_file_unreadable", str(error))
            return None

    def _set_aside(self, entry: Entry, code: str, reason: str) -> None:
        """Say it in a batch of its own, then move the file out of the way: a crash between the two says it twice rather than never."""
        with suppress(OSError):  # a disk that takes nothing must not keep the rest from being sent
            self._put([self._finding(entry, code, reason)], self._cursors)
        self._entries.pop(entry.ordinal, None)
        aside = self._directory / _ASIDE
        with suppress(OSError):
            aside.mkdir(mode=0o700, exist_ok=True)
            (self._directory / entry.name).replace(aside / f"{self._boot}-{entry.name}")
            kept = sorted(aside.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in kept[:-ASIDE_MAX]:
                path.unlink()

    def _finding(self, entry: Entry, code: str, reason: str) -> Finding:
        subject = f"node {self._speaker.agent}: spool {entry.name}"
        message = f"{plain(reason)[:300]}; the batch is set aside, the others go on"
        return self._context().finding("agent", code, subject, message, severity="error")

    def _context(self) -> ReadContext:
        speaker = self._speaker
        return ReadContext(
            cluster=speaker.cluster or "default", file="spool", node=speaker.agent, observed_at=self._now()
        )

    def _scan(self) -> None:
        """What an earlier process left: of one batch in two states the thinner one is the later."""
        for path in sorted(self._directory.iterdir()):
            if path.name.endswith(_TEMPORARY):
                path.unlink()
                continue
            found = _NAME.match(path.name)
            if found is None:
                continue
            entry = Entry(int(found.group(1)), int(found.group(2)), path.stat().st_size)
            known = self._entries.get(entry.ordinal)
            if known is not None:
                (self._directory / known.name).unlink()
            self._entries[entry.ordinal] = entry

    def _known_cursors(self) -> dict[str, str]:
        """Those of the last batch that is here, else of the file, which is written after the batch."""
        for ordinal in sorted(self._entries, reverse=True):
            with suppress(OSError, SourceMalformed, SourceUnsupported):
                return decode((self._directory / self._entries[ordinal].name).read_bytes()).head.cursors
        try:
            return msgspec.json.decode((self._directory / _CURSORS).read_bytes(), type=dict[str, str])
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}


def _held(directory: Path) -> int:
    """The directory, made where needed, as a lock that ends with this process."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            _("the spool {directory} cannot be written: {reason}; name another with --spool").format(
                directory=directory, reason=error.strerror
            )
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise UsageError(
            _("another agent uses the spool {directory}: give each its own with --spool").format(directory=directory)
        ) from None
    return lock


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
