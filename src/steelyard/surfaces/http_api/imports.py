"""``import``: files in one request, spooled to disk within bounds, then taken in by the same rules as from the command line.

The body is a stream of files (``upload_stream``), or one file as it is. The trick to know: nothing is read by the importer before the whole
body has come, so a connection that breaks in the middle stores nothing; and spooled files have numbers for names, whatever they are called.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, BinaryIO, Final

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.i18n import _
from steelyard.surfaces.http_api.admission import FINANCE, OPERATORS, declarer_of, principal_of
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.parameters import ImportParameters
from steelyard.surfaces.http_api.problems import Problem, json_response
from steelyard.surfaces.shared.import_text import import_json
from steelyard.surfaces.shared.server_ports import ReceivedFile, ServerPorts
from steelyard.surfaces.shared.upload_stream import MEDIA_TYPE, FileHead, FrameParser

UPLOAD_BYTES_MAX: Final = 8 << 30
"""8 GiB in one request; each file has the importer's own bound too."""

UPLOADS_MAX: Final = 4
"""So many requests may spool at once; each may fill its bound of the disk."""

_BODY: Final = {
    "content": {
        MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
    "required": True,
}


def import_endpoints(ports: ServerPorts) -> Iterator[Endpoint]:
    """The one route. Imports follow each other; the next may already be spooling."""
    turn, spooling = asyncio.Semaphore(1), asyncio.Semaphore(UPLOADS_MAX)

    async def import_files(request: Request, parameters: Annotated[ImportParameters, Query()]) -> Response:
        wanted = replace(
            parameters.request(),
            declared_by=declarer_of(request, ports.tokens),
            may_declare=principal_of(request).role in FINANCE,
        )
        if spooling.locked():
            raise Problem("busy", _("other imports are under way: try again soon"), retry_after_seconds=5)
        async with spooling:
            folder = Path(await run_in_threadpool(tempfile.mkdtemp, dir=ports.spool))
            try:
                spool = Spool(folder, ports.receiver.file_bytes_max)
                try:
                    framed = request.headers.get("content-type", "").split(";")[0].strip().lower() == MEDIA_TYPE
                    await spool.take(request.stream(), None if framed else parameters)
                finally:
                    spool.close()
                async with turn:
                    report = await run_in_threadpool(ports.receiver.import_received, wanted, spool.files)
            finally:
                await run_in_threadpool(shutil.rmtree, folder, True)
        return json_response(import_json(report))

    yield Endpoint(
        "POST",
        "/import",
        import_files,
        OPERATORS,
        "Take files in and post the ledgers: all of it, or nothing",
        body_bytes_max=UPLOAD_BYTES_MAX,
        request_body=_BODY,
    )


@dataclass(slots=True)
class Spool:
    """The files of one request as they come in: on disk under their number, cut one byte beyond the importer's bound."""

    folder: Path
    file_bytes_max: int
    files: list[ReceivedFile] = field(default_factory=list)
    _head: FileHead | None = None
    _open: BinaryIO | None = None
    _kept: int = 0

    async def take(self, body: AsyncIterator[bytes], single: ImportParameters | None) -> None:
        """Spool the whole body; ``single``: it is one file. Raises SourceMalformed where a stream of files is none or is cut off."""
        parser = FrameParser()
        if single is not None:
            self._begin(FileHead(single.name, single.name, single.kind))
        async for piece in body:
            if single is not None:
                await run_in_threadpool(self._write, piece)
            else:
                await run_in_threadpool(self._feed, parser, piece)
        if single is None:
            parser.close()
        self._end()
        if not self.files:
            raise SourceMalformed(_("no file was sent"))

    def close(self) -> None:
        """Let go of the file that is being written."""
        if self._open is not None:
            self._open.close()

    def _feed(self, parser: FrameParser, piece: bytes) -> None:
        for part in parser.feed(piece):
            if isinstance(part, FileHead):
                self._end()
                self._begin(part)
            else:
                self._write(part)

    def _begin(self, head: FileHead) -> None:
        self._head, self._kept = head, 0
        self._open = (self.folder / str(len(self.files))).open("xb")

    def _write(self, part: bytes) -> None:
        if self._open is None:
            raise SourceMalformed(_("no stream of files: content before the first file"))
        kept = part[: max(0, self.file_bytes_max + 1 - self._kept)]
        self._open.write(kept)
        self._kept += len(kept)

    def _end(self) -> None:
        head = self._head
        if head is None or self._open is None:
            return
        self._open.close()
        self._open, self._head = None, None
        self.files.append(
            ReceivedFile(
                path=head.path,
                name=head.name,
                kind=head.kind,
                spooled=None if head.refusal else self.folder / str(len(self.files)),
                size=head.size,
                cut=self._kept > self.file_bytes_max,
                modified_at=head.modified_at,
                refusal=head.refusal,
            )
        )
