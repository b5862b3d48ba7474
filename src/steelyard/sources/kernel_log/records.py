"""Where a live kernel log is read: ``/dev/kmsg``, a file that a syslog daemon writes, or the journal. Each yields lines as they come.

``follow`` asks one of them each round. The tricks to know: ``/dev/kmsg`` hands out one record per read, numbers them, and says with EPIPE that it
overwrote some; whoever may write there may not forge a driver's line, for such records have a facility other than the kernel's; and a file that
was rotated has its rest in another file of the same inode.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, format_instant

RECORD_BYTES_MAX: Final = 16_384
ROUND_BYTES_MAX: Final = 8 << 20
"""So much of a log is read in one round; the rest is the next round's."""

ROUND_RECORDS_MAX: Final = 50_000
JOURNAL_SECONDS: Final = 20.0
_KERNEL_FACILITY: Final = 0
_RECORD: Final = re.compile(rb"([0-9]{1,6}),([0-9]{1,20}),([0-9]{1,18}),[^;]{0,80};([^\n]{0,16384})")
_ESCAPED: Final = re.compile(rb"\\x([0-9a-f]{2})")
_ROTATED_MAX: Final = 1_000


class Position(msgspec.Struct, frozen=True):
    """How far a log was read. ``boot``: the kernel's boot id and ``boot_at`` its instant (kmsg); ``sequence``: the last record;
    ``inode``, ``offset``: of a file; ``journal``: the journal's own cursor. ``begun``: something was read before."""

    begun: bool = False
    boot: str = ""
    boot_at: Instant = 0
    sequence: int = -1
    inode: int = 0
    offset: int = 0
    journal: str = ""


class LogSource(Protocol):
    """A live log. ``name``: where it is read, for people."""

    name: str

    def read(self, since: Position) -> tuple[Sequence[str], Position, str | None]:
        """The lines after a position, the new position, and what was lost in between (None: nothing). Raises SourceUnavailable."""
        ...

    def close(self) -> None:
        """Let it go; a later ``read`` opens it again."""
        ...


def boot_id(proc_root: Path = Path("/proc")) -> str:
    """The kernel's id of this boot; empty where it does not say. Check with ``cat /proc/sys/kernel/random/boot_id``."""
    try:
        return (proc_root / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:64]
    except (OSError, UnicodeDecodeError):
        return ""


def booted_at() -> Instant:
    """When the kernel's log began to count its time, by the clocks of now."""
    return (time.time_ns() - time.monotonic_ns()) // 1_000


class KmsgSource:
    """``/dev/kmsg`` of this machine. ``node`` stands in the lines, which are dated by the boot's instant as it was first seen.

    Check with ``dmesg --time-format iso``."""

    def __init__(
        self,
        path: Path = Path("/dev/kmsg"),
        node: str = "-",
        boot: Callable[[], tuple[str, Instant]] = lambda: (boot_id(), booted_at()),
    ) -> None:
        self.name = str(path)
        self._path = path
        self._node = node
        self._boot = boot
        self._descriptor: int | None = None

    def read(self, since: Position) -> tuple[Sequence[str], Position, str | None]:
        """See ``LogSource``. After a restart the buffer is read from its beginning, and what was seen is passed over."""
        boot, boot_at = self._boot()
        if since.boot == boot and since.begun:
            boot_at = since.boot_at
        last = since.sequence if since.boot == boot else -1
        lines: list[str] = []
        overwritten = False
        expected = last + 1 if last >= 0 else None
        missed = 0
        for record in self._records():
            if record is None:
                overwritten = True
                continue
            found = _RECORD.match(record)
            if found is None:
                continue
            number = int(found.group(2))
            if number <= last:
                continue
            if expected is not None and number > expected:
                missed += number - expected
            last, expected = number, number + 1
            if int(found.group(1)) >> 3 == _KERNEL_FACILITY:
                stamp = format_instant(boot_at + int(found.group(3)))
                lines.append(f"{stamp} {self._node} kernel: {_text(found.group(4))}")
        lost = _lost(missed, overwritten)
        return lines, Position(True, boot, boot_at, last), lost

    def close(self) -> None:
        """Close the device."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _records(self) -> Iterator[bytes | None]:
        """Records until there is none; None where the kernel overwrote some before they were read."""
        descriptor = self._opened()
        for _number in range(ROUND_RECORDS_MAX):
            try:
                record = os.read(descriptor, RECORD_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:
                    yield None
                    continue
                if error.errno == errno.EINVAL:  # a record longer than is read: none of ours is
                    continue
                self.close()
                raise _unavailable(self.name, error) from None
            if not record:
                return
            yield record

    def _opened(self) -> int:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise _unavailable(self.name, error) from None
        return self._descriptor


class FileSource:
    """A file that grows, such as ``/var/log/kern.log`` or an export of the journal, followed through rotation and truncation."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def read(self, since: Position) -> tuple[Sequence[str], Position, str | None]:
        """See ``LogSource``. Only whole lines are taken. A file is first read from its beginning, and at most its last 8 MiB."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                lost, rest = None, b""
                offset = since.offset
                if not since.begun:
                    offset = max(0, status.st_size - ROUND_BYTES_MAX)
                elif status.st_ino != since.inode:
                    rest, lost = self._rest_of_rotated(since)
                    offset = 0
                elif status.st_size < offset:
                    lost, offset = "the file was cut short: what stood in it after the last round is lost", 0
                file.seek(offset)
                text = file.read(ROUND_BYTES_MAX)
        except OSError as error:
            raise _unavailable(self.name, error) from None
        end = text.rfind(b"\n") + 1
        if end == 0 and len(text) == ROUND_BYTES_MAX:
            end = len(text)  # no line is that long
        lines = (rest + text[:end]).decode("utf-8", "replace").splitlines()
        return lines, Position(True, inode=status.st_ino, offset=offset + end), lost

    def close(self) -> None:
        """Nothing is kept open."""

    def _rest_of_rotated(self, since: Position) -> tuple[bytes, str | None]:
        """What the file that was renamed still holds, by its inode, beside the new one."""
        try:
            for number, path in enumerate(self._path.parent.iterdir()):
                if number >= _ROTATED_MAX:
                    break
                if path.name.startswith(self._path.name) and path.stat().st_ino == since.inode:
                    with path.open("rb") as file:
                        file.seek(since.offset)
                        rest = file.read(ROUND_BYTES_MAX)
                    more = (
                        "the rotated file was larger than is read in a round" if len(rest) == ROUND_BYTES_MAX else None
                    )
                    return rest + (b"" if rest.endswith(b"\n") or not rest else b"\n"), more
        except OSError:
            pass
        return b"", "the file was rotated, and where its rest lies was not found"


class JournalSource:
    """The journal's kernel messages, by ``journalctl``. Check with ``journalctl --dmesg``."""

    def __init__(self, command: Sequence[str] = ("journalctl",)) -> None:
        self.name = "journal"
        self._command = tuple(command)

    def read(self, since: Position) -> tuple[Sequence[str], Position, str | None]:
        """See ``LogSource``. First the present boot."""
        place = [f"--after-cursor={since.journal}"] if since.journal else ["--boot"]
        command = [*self._command, "--dmesg", "--output=json", "--no-pager", "--quiet", *place]
        try:
            done = subprocess.run(command, capture_output=True, timeout=JOURNAL_SECONDS, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceUnavailable(_("journal: {reason}").format(reason=error)) from None
        if done.returncode != 0:
            reason = done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit {done.returncode}"
            raise SourceUnavailable(_("journal: {reason}").format(reason=reason))
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return lines, Position(True, journal=_last_cursor(lines) or since.journal), None

    def close(self) -> None:
        """Nothing is kept open."""


class _Cursor(msgspec.Struct):
    cursor: str = msgspec.field(name="__CURSOR", default="")


def _last_cursor(lines: Sequence[str]) -> str | None:
    for line in reversed(lines):
        try:
            found = msgspec.json.decode(line, type=_Cursor).cursor
        except (msgspec.MsgspecError, RecursionError):
            continue
        if found:
            return found
    return None


def _text(text: bytes) -> str:
    """A record's text; the kernel writes what is not printable as ``\\xHH``."""
    return _ESCAPED.sub(lambda found: bytes([int(found.group(1), 16)]), text).decode("utf-8", "replace")


def _lost(missed: int, overwritten: bool) -> str | None:
    if missed:
        return f"{missed} records of the kernel's buffer were overwritten before they were read"
    return "records of the kernel's buffer were overwritten before they were read" if overwritten else None


def _unavailable(name: str, error: OSError) -> SourceUnavailable:
    hint = ""
    if error.errno in (errno.EPERM, errno.EACCES):
        hint = _(
            " (it needs root, and CAP_SYSLOG where kernel.dmesg_restrict is set; or name a file with --kernel-log)"
        )
    return SourceUnavailable(f"{name}: {error.strerror or error}{hint}")
