"""The files of an import request: found on this machine, or received from another that found them by the same rules.

The importer, the server and a command that sends its files to a server all start here. The trick to know: whatever a person may get wrong in
a request is refused here, before a byte is read or sent.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from steelyard.app.detect import kind_named
from steelyard.app.reading import CHUNK_BYTES, STDIN, FileRefused, InputFile, as_text, find_files
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN
from steelyard.surfaces.shared.client import Outgoing
from steelyard.surfaces.shared.ports import ImportRequest
from steelyard.surfaces.shared.server_ports import ReceivedFile
from steelyard.surfaces.shared.upload_stream import FileHead

COMPANIONS: Final[Mapping[str, str]] = {"nodes": "openb_nodes"}
"""Role of a companion file -> its kind."""


def files_of(request: ImportRequest) -> list[InputFile]:
    """All files that a request names. Raises UsageError where a path, kind or role does not exist, or the declared instant is none."""
    kind = _checked_kind(request)
    files = find_files(request.paths, kind)
    for role, path in request.companions.items():
        if role not in COMPANIONS:
            raise UsageError(
                _("no such companion file: {role}; expected one of {roles}").format(
                    role=role, roles=", ".join(COMPANIONS)
                )
            )
        files.extend(find_files([path], COMPANIONS[role]))
    return files


def received_files(request: ImportRequest, files: Sequence[ReceivedFile], bytes_max: int) -> list[InputFile]:
    """The files that a client sent, as files to read. Raises UsageError for a kind that does not exist or an instant that is none."""
    kind = _checked_kind(request)
    return [_received(file, kind, bytes_max) for file in files]


def _checked_kind(request: ImportRequest) -> str | None:
    kind = kind_named(request.kind).name if request.kind else None
    if request.as_of is not None and not INSTANT_MIN <= request.as_of <= INSTANT_MAX:
        raise UsageError(_("--as-of: expected an instant in the years 1 to 9999"))
    return kind


def _received(file: ReceivedFile, kind: str | None, bytes_max: int) -> InputFile:
    own = None
    if file.kind is not None:
        own = file.kind if file.kind in COMPANIONS.values() else kind_named(file.kind).name
    refusal = None
    if file.refusal is not None:
        refusal = FileRefused(*file.refusal)
    elif file.size is not None and file.size > bytes_max:
        refusal = FileRefused("file_too_large", f"expected at most {bytes_max} bytes, found {file.size}")
    elif file.cut:
        refusal = FileRefused("file_too_large", f"expected at most {bytes_max} bytes, found more")
    return InputFile(
        path=file.spooled or STDIN,  # a file without bytes has a refusal, so nothing is ever read there
        name=as_text(file.name),
        kind=own or kind,
        refusal=refusal,
        shown=file.path,
        modified_at=file.modified_at,
    )


def outgoing_files(request: ImportRequest) -> list[Outgoing]:
    """The files of a request, ready to be sent. Each is opened only when its turn comes; one that cannot be is sent as its refusal."""
    return [_outgoing(file) for file in files_of(request)]


def _outgoing(file: InputFile) -> Outgoing:
    head = FileHead(path=str(file.path), name=file.name, kind=file.kind)
    if file.refusal is not None:
        return _without_content(head, file.refusal)
    if file.path == STDIN:
        return head, partial(_pieces, sys.stdin.buffer.read)
    try:
        status = _probed(file)
    except FileRefused as refused:
        return _without_content(head, refused)
    return replace(head, size=status.st_size, modified_at=status.st_mtime_ns // 1000), partial(_content, file)


def _without_content(head: FileHead, refused: FileRefused) -> Outgoing:
    return replace(head, refusal=(refused.code, refused.message)), tuple


def _probed(file: InputFile) -> os.stat_result:
    """Open it once, as the importer would. Raises FileRefused where that fails, in the importer's words."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileRefused("unreadable_file", f"cannot be read: {error.strerror or error}") from error
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused("special_file", "expected a regular file, found a device, pipe or socket")
    return status


def _content(file: InputFile) -> Iterator[bytes]:
    with file.path.open("rb") as stream:
        yield from _pieces(stream.read)


def _pieces(read: Callable[[int], bytes]) -> Iterable[bytes]:
    return iter(lambda: read(CHUNK_BYTES), b"")
