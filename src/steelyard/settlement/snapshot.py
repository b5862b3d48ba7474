"""The files of a closed period: written once, read for ever after, and rendered again to the same bytes.

``closing`` writes one, everything about a closed period reads one. The tricks to know: lines and documents are made from the files that were just
written, never from the ledgers, so that ``verify`` does years later exactly what the close did; and nothing of the clock or of the machine is in a
file but the close instant, which the manifest carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final

import msgspec

from steelyard.primitives.errors import StoreDamaged, UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant
from steelyard.settlement.assembly import Sheet, statements
from steelyard.settlement.documents import FORMATS, Documents, Format
from steelyard.settlement.rules import SettlementRules, rules_of
from steelyard.settlement.statement import Statement, StatementLine
from steelyard.settlement.tables import NAMED, ROWS, lay_out_files
from steelyard.store import Store
from steelyard.store.durable import sha256_of, sync
from steelyard.store.memory import memory_bounded
from steelyard.store.rewriting import quoted

FOLDER: Final = "periods"
MANIFEST: Final = "manifest.json"
DOCUMENTS: Final = "documents"
FORMAT_VERSION: Final = 1
SORT_BYTES_MAX: Final = 2_000 << 20
"""What the engine may hold while the rows of a month are sorted: the rest spills to the disk."""

_ORDER: Final = "grain_at, place_no, holder_no, tariff_no"
_FORM: Final = "FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 122880"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a snapshot: its name below the folder, its hash and size."""

    name: str
    sha256: str
    bytes_count: int


@dataclass(frozen=True, slots=True)
class StatementEntry:
    """A statement of a snapshot, without its lines."""

    number: str
    tenant: str
    currency: str
    time_zone: str
    start: Instant
    end: Instant
    lines_count: int
    unpriced_count: int
    amount_micro: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot says of itself.

    ``definitions``: of the posting run. ``books``: name -> version and hash. ``rules``: ``SettlementRules`` as JSON. ``waived``: what blocked and was
    let pass: code -> reason. ``previous``: tenant -> total of the period before. ``left_out``: formats that could not be written, with why.
    """

    format: int
    label: str
    shadow: bool
    closed_at: Instant
    closed_by: str
    as_of: Instant
    run_id: int | None
    definitions: Mapping[str, str]
    posting_settings_sha256: str
    books: Mapping[str, str]
    rules: str
    waived: Mapping[str, str]
    previous: Mapping[str, int]
    statements: Sequence[StatementEntry]
    files: Sequence[FileEntry]
    formats: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    document_style: str = ""

    def settlement_rules(self) -> SettlementRules:
        """The rules of the close."""
        return rules_of(self.rules)


def encoded(manifest: Manifest) -> bytes:
    """The bytes of ``manifest.json``."""
    found = {each.name: getattr(manifest, each.name) for each in fields(manifest)}
    found["statements"] = [asdict(each) for each in manifest.statements]
    found["files"] = [asdict(each) for each in manifest.files]
    return (json.dumps(found, sort_keys=True, indent=1, ensure_ascii=True) + "\n").encode("ascii")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a snapshot. Raises StoreDamaged where there is none that can be read."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreDamaged(_("{path}: no manifest of a closed period").format(path=folder / MANIFEST)) from error


def write_inputs(store: Store, folder: Path) -> None:
    """The tables of ``tables`` as files, sorted. The two of rows go straight from the ledgers to the disk."""
    for name in NAMED:
        store.execute(
            f"COPY (SELECT {_columns(name)} FROM settling_{name} ORDER BY ALL) TO {quoted(str(folder / f'{name}s.parquet'))} ({_FORM})"
        )
    for name in ROWS:
        target = quoted(str(folder / f"{name}.parquet"))
        with memory_bounded(store, SORT_BYTES_MAX):
            store.execute(f"COPY (SELECT * FROM settling_{name} ORDER BY {_ORDER}) TO {target} ({_FORM})")


def _columns(name: str) -> str:
    """What a file of names holds: all but the hashes, which are the engine's own."""
    return "* EXCLUDE (key_hash)" if name == "tariff" else "*"


def write_corrections(folder: Path, corrections: Sequence[tuple[str, StatementLine]]) -> None:
    """The correction lines that the close carries over, as one JSON document a line."""
    lines = [msgspec.json.encode({"tenant": tenant, "line": line}, order="sorted") for tenant, line in corrections]
    (folder / "corrections.jsonl").write_bytes(b"".join(each + b"\n" for each in lines))


def read_corrections(folder: Path) -> list[tuple[str, StatementLine]]:
    """The correction lines of a snapshot."""
    found = []
    for text in (folder / "corrections.jsonl").read_bytes().splitlines():
        row = msgspec.json.decode(text, type=_Correction)
        found.append((row.tenant, row.line))
    return found


class _Correction(msgspec.Struct):
    tenant: str
    line: StatementLine


def render(store: Store, folder: Path, sheet: Sheet, rules: SettlementRules) -> list[Statement]:
    """The statements that the files in ``folder`` make. ``sheet`` without numbers: those come from the tenants' order."""
    lay_out_files(store, folder)
    return statements(store, rules, sheet)


def write_lines(folder: Path, found: Sequence[Statement]) -> None:
    """``lines.parquet``: the lines of all statements, by tenant, in their order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"int": pa.int64(), "str": pa.string(), "bool": pa.bool_(), "Kind": pa.string(), "Instant": pa.int64()}
    columns = [(each.name, kinds[str(each.type).split(" |")[0]]) for each in fields(StatementLine)]
    lines = [line for statement in found for line in statement.lines]
    arrays = [
        pa.array([statement.number for statement in found for _line in statement.lines], pa.string()),
        pa.array([statement.tenant for statement in found for _line in statement.lines], pa.string()),
        pa.array([statement.currency for statement in found for _line in statement.lines], pa.string()),
        *(pa.array([getattr(line, name) for line in lines], kind) for name, kind in columns),
    ]
    names = ["number", "tenant", "currency", *(name for name, _kind in columns)]
    arrays = [
        array.cast(pa.timestamp("us")) if name.endswith("_at") else array
        for name, array in zip(names, arrays, strict=True)
    ]
    pq.write_table(pa.table(arrays, names=names), folder / "lines.parquet", compression="zstd")


class _FolderOfFiles:
    """Implements ``documents.Folder``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True)

    def write(self, name: str, content: bytes) -> None:
        (self._path / name).write_bytes(content)


def write_documents(
    folder: Path, found: Sequence[Statement], documents: Documents, formats: Sequence[Format]
) -> dict[str, str]:
    """The documents of all statements, one folder each. What could not be written: format -> why."""
    left_out: dict[str, str] = {}
    for statement in found:
        place = folder / DOCUMENTS / str(statement.number)
        wanted = [each for each in formats if each not in left_out]
        while True:
            try:
                documents.write(statement, _FolderOfFiles(place), wanted)
                break
            except UsageError as error:
                failing = _failing(statement, documents, wanted)
                left_out.update(dict.fromkeys(failing, str(error)))
                wanted = [each for each in wanted if each not in failing]
                _remove(place)
    return left_out


def _failing(statement: Statement, documents: Documents, formats: Sequence[Format]) -> list[Format]:
    """The formats that cannot be written here, each tried by itself."""

    class Nowhere:
        def write(self, name: str, content: bytes) -> None: ...

    failing: list[Format] = []
    for each in formats:
        try:
            documents.write(statement, Nowhere(), [each])
        except UsageError:
            failing.append(each)
    return failing or list(formats)


def _remove(place: Path) -> None:
    for path in place.iterdir():
        path.unlink()
    place.rmdir()


def entries(folder: Path) -> list[FileEntry]:
    """All files of a folder but the manifest, by name, each on the disk when this returns."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    for path in paths:
        sync(path)
    for place in sorted({path.parent for path in paths}):
        sync(place)
    return [FileEntry(str(path.relative_to(folder)), sha256_of(path), path.stat().st_size) for path in paths]


def sheet_of(manifest: Manifest, folder: Path) -> Sheet:
    """What the statements of a snapshot say beside their lines."""
    return Sheet(
        label=manifest.label,
        as_of=manifest.as_of,
        shadow=manifest.shadow,
        closed_at=manifest.closed_at,
        numbers={each.tenant: each.number for each in manifest.statements},
        previous=manifest.previous,
        corrections=read_corrections(folder),
        versions={
            **manifest.definitions,
            **{f"price book {name}": version for name, version in manifest.books.items()},
        },
    )


def closed_statements(store: Store, folder: Path) -> list[Statement]:
    """The statements of a snapshot, made again from its files."""
    manifest = read_manifest(folder)
    return render(store, folder, sheet_of(manifest, folder), manifest.settlement_rules())


def all_formats(names: Sequence[str]) -> list[Format]:
    """The formats of these names, in the order in which they are written."""
    return [each for each in FORMATS if each in names]


def differences(
    store: Store, folder: Path, manifest_sha256: str | None, documents: Documents, scratch: Path
) -> list[str]:
    """What of a snapshot is not what the close wrote, or does not come out of its files again; empty = all is well. ``scratch``: an empty folder."""
    found = []
    if manifest_sha256 is not None and sha256_of(folder / MANIFEST) != manifest_sha256:
        found.append(_("{name}: not the manifest that the close wrote").format(name=MANIFEST))
    manifest = read_manifest(folder)
    known = {each.name: each.sha256 for each in manifest.files}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
    found += [_("{name}: is not there any more").format(name=name) for name in sorted(known.keys() - there)]
    found += [_("{name}: was not written by the close").format(name=name) for name in sorted(there - known.keys())]
    found += [
        _("{name}: not the bytes that the close wrote").format(name=name)
        for name in sorted(known.keys() & there)
        if sha256_of(folder / name) != known[name]
    ]
    if found:
        return found
    again = closed_statements(store, folder)
    write_lines(scratch, again)
    write_documents(scratch, again, documents, all_formats(manifest.formats))
    rendered = {str(path.relative_to(scratch)): sha256_of(path) for path in scratch.rglob("*") if path.is_file()}
    return [
        _("{name}: comes out of the snapshot with other bytes").format(name=name)
        for name in sorted(name for name in known if name == "lines.parquet" or name.startswith(f"{DOCUMENTS}/"))
        if rendered.get(name) != known[name]
    ]
