"""Files of a simulation: what each is, and the folder that they are written to."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from steelyard.primitives.instant import Instant, to_datetime


class EmittedFile(msgspec.Struct, frozen=True):
    """A file of the simulation. ``path`` is relative to the directory; ``system``: kube, pod_resources, smi_list, smi_query, smi_apps,
    smi_xml, kernel, an exporter (dcgm, agent, cadvisor, hami), or money: what is declared. ``as_of_at``: the instant it shows where it does not
    say so itself. ``node``: where it was taken. ``every_seconds``: how far apart its rounds, or such files, lie; None = it stands alone.
    ``cluster``: whose it is, None = the estate's."""

    path: str
    system: str
    as_of_at: Instant | None = None
    node: str | None = None
    every_seconds: int | None = None
    cluster: str | None = None


@dataclass(slots=True)
class Output:
    """A folder and the files that were written to it, in order."""

    folder: Path
    files: list[EmittedFile] = field(default_factory=list)

    def write(self, file: EmittedFile, payload: bytes) -> None:
        """The payload, gzipped where its name says so; always the same bytes for the same payload."""
        target = self.folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(payload, compresslevel=1, mtime=0) if file.path.endswith(".gz") else payload)
        self.files.append(file)


def file_name(at: Instant) -> str:
    """How an instant is spelled in a file's name."""
    return f"{to_datetime(at):%Y-%m-%dT%H%M%SZ}"
