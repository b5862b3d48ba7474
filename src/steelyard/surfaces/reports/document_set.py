"""All documents of one statement: which files, what is in them, their hashes in a manifest.

Called through ``settlement.documents.Documents`` when a period is closed and by ``steelyard bill``. The trick to know: nothing here asks a clock; the
instant that documents carry is the statement's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from steelyard.primitives.instant import format_instant
from steelyard.settlement.documents import FORMATS, Folder, Format
from steelyard.settlement.focus import FocusTerms, billing_periods, cost_and_usage
from steelyard.settlement.focus_columns import VERSIONS
from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports.columnar import safe_text, statement_parquet
from steelyard.surfaces.reports.delimited import statement_csv
from steelyard.surfaces.reports.erp_profile import ErpProfile, profile_csv
from steelyard.surfaces.reports.focus_files import focus_csv, focus_parquet
from steelyard.surfaces.reports.pdf import statement_pdf
from steelyard.surfaces.reports.wording import LANGUAGES, Language
from steelyard.surfaces.reports.workbook import statement_xlsx

MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class DocumentStyle:
    """How a site wants its documents.

    csv_bom: ``statement.csv`` begins with a byte order mark, by which Excel knows UTF-8. languages: one PDF in each. font_folder: where the font
    that PDFs embed lies, None = where the system keeps one. focus_terms: who sells, in FOCUS's words. profiles: each becomes
    ``erp-<name>.csv`` beside ``statement.csv``.
    """

    csv_bom: bool = False
    languages: Sequence[Language] = LANGUAGES
    font_folder: Path | None = None
    focus_terms: FocusTerms = field(default_factory=FocusTerms)
    profiles: Sequence[ErpProfile] = ()


@dataclass(frozen=True, slots=True)
class DiskFolder:
    """A folder of the disk as a ``Folder``."""

    path: Path

    def write(self, name: str, content: bytes) -> None:
        """Write the file whole, or not at all; the folder is made where it is missing."""
        self.path.mkdir(parents=True, exist_ok=True)
        draft = self.path / f".{name}.part"
        draft.write_bytes(content)
        draft.replace(self.path / name)


@dataclass(frozen=True, slots=True)
class DocumentSet:
    """``settlement.documents.Documents`` in the style of a site."""

    style: DocumentStyle = DocumentStyle()

    def write(self, statement: Statement, folder: Folder, formats: Collection[Format] = FORMATS) -> Sequence[str]:
        """The documents in the order of ``FORMATS``, each written once it is whole, the manifest last."""
        digests: dict[str, dict[str, Any]] = {}
        for each in FORMATS:
            if each not in formats:
                continue
            for name, content in _WRITERS[each](statement, self.style).items():
                folder.write(name, content)
                digests[name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        folder.write(MANIFEST, manifest_bytes(statement, digests))
        return [*digests, MANIFEST]


def manifest_bytes(statement: Statement, digests: Mapping[str, Mapping[str, Any]]) -> bytes:
    """What the set says of itself: number, totals in micro-units, hash of each file."""
    document = {
        "statement": None if statement.number is None else safe_text(statement.number),
        "period": safe_text(statement.period),
        "tenant": safe_text(statement.tenant),
        "state": statement.state,
        "closed_at": None if statement.closed_at is None else format_instant(statement.closed_at),
        "currency": safe_text(statement.currency),
        "totals": totals(statement),
        "versions": {safe_text(name): safe_text(version) for name, version in sorted(statement.versions.items())},
        "files": dict(digests),
    }
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode("utf-8")


def totals(statement: Statement) -> dict[str, Any]:
    """The sums that a recomputation must meet, integers: micro-units of the currency and GPU-microseconds."""
    by_kind: dict[str, int] = {}
    for line in statement.lines:
        if line.amount_micro is not None:
            by_kind[line.kind] = by_kind.get(line.kind, 0) + line.amount_micro
    return {
        "amount_micro": statement.amount_micro,
        "list_micro": sum(line.list_micro for line in statement.lines if line.list_micro is not None),
        "discount_micro": sum(line.discount_micro for line in statement.lines if line.discount_micro is not None),
        "amount_micro_by_kind": dict(sorted(by_kind.items())),
        "quantity_gpu_us": sum(line.quantity_gpu_us for line in statement.lines),
        "lines_count": len(statement.lines),
        "unpriced_count": statement.unpriced_count,
    }


def _csv(statement: Statement, style: DocumentStyle) -> dict[str, bytes]:
    exports = {f"erp-{profile.name}.csv": profile_csv(statement, profile) for profile in style.profiles}
    return {"statement.csv": statement_csv(statement, bom=style.csv_bom), **exports}


def _parquet(statement: Statement, style: DocumentStyle) -> dict[str, bytes]:
    del style
    script = files("steelyard.surfaces.reports").joinpath("recompute.py").read_bytes()
    return {"statement.parquet": statement_parquet(statement), "recompute.py": script}


def _xlsx(statement: Statement, style: DocumentStyle) -> dict[str, bytes]:
    return {"statement.xlsx": statement_xlsx(statement, style.languages[0] if len(style.languages) == 1 else "both")}


def _pdf(statement: Statement, style: DocumentStyle) -> dict[str, bytes]:
    digest = hashlib.sha256(statement_csv(statement, bom=style.csv_bom)).hexdigest()
    return {
        f"statement-{language}.pdf": statement_pdf(statement, language, digest, font_folder=style.font_folder)
        for language in style.languages
    }


def _focus(statement: Statement, style: DocumentStyle) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for version in VERSIONS:
        table = cost_and_usage([statement], version, style.focus_terms)
        files[f"focus-{version}-cost-and-usage.csv"] = focus_csv(table)
        files[f"focus-{version}-cost-and-usage.parquet"] = focus_parquet(table, version)
    periods = billing_periods([statement], style.focus_terms)
    files["focus-1.4-billing-period.csv"] = focus_csv(periods)
    files["focus-1.4-billing-period.parquet"] = focus_parquet(periods, "1.4")
    return files


_WRITERS: Final[Mapping[Format, Callable[[Statement, DocumentStyle], dict[str, bytes]]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "xlsx": _xlsx,
    "pdf": _pdf,
    "focus": _focus,
}
