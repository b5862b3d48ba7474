"""All documents of one statement: which files, their hashes, the same bytes each time, totals that a bare Python recomputes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from steelyard.primitives.errors import UsageError
from steelyard.settlement.documents import FORMATS, Documents, Format
from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports import extra, fonts
from steelyard.surfaces.reports.document_set import DiskFolder, DocumentSet, DocumentStyle
from tests.settlement.statements import every_kind, line, many, statement

DATA: Sequence[Format] = ("csv", "parquet", "focus")


def written(folder: Path, whole: Statement, formats: Sequence[Format] = DATA) -> dict[str, bytes]:
    documents: Documents = DocumentSet()
    names = documents.write(whole, DiskFolder(folder), formats)
    assert sorted(names) == sorted(path.name for path in folder.iterdir())
    return {name: (folder / name).read_bytes() for name in names}


def test_every_format_has_its_files(tmp_path: Path) -> None:
    try:
        fonts.choose_font()
    except UsageError as error:
        pytest.skip(str(error))
    assert list(written(tmp_path, statement(), FORMATS)) == [
        "statement.csv", "statement.parquet", "recompute.py", "statement.xlsx", "statement-en.pdf", "statement-zh.pdf",
        "statement-both.pdf", "focus-1.2-cost-and-usage.csv", "focus-1.2-cost-and-usage.parquet",
        "focus-1.4-cost-and-usage.csv", "focus-1.4-cost-and-usage.parquet", "focus-1.4-billing-period.csv",
        "focus-1.4-billing-period.parquet", "manifest.json",
    ]  # fmt: skip


def test_the_manifest_has_the_hash_of_each_file_and_the_totals(tmp_path: Path) -> None:
    files = written(tmp_path, statement())
    manifest = json.loads(files.pop("manifest.json"))
    assert {name: file["sha256"] for name, file in manifest["files"].items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }
    assert manifest["totals"]["amount_micro"] == statement().amount_micro
    assert sum(manifest["totals"]["amount_micro_by_kind"].values()) == statement().amount_micro
    assert manifest["totals"]["unpriced_count"] == 1


def test_the_same_statement_gives_the_same_bytes(tmp_path: Path) -> None:
    assert written(tmp_path / "a", statement()) == written(tmp_path / "b", statement())


def test_only_what_is_asked_for_is_written(tmp_path: Path) -> None:
    assert list(written(tmp_path, statement(), ["csv"])) == ["statement.csv", "manifest.json"]


def test_a_missing_library_ends_in_a_line_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(UsageError, match=r"needs xlsxwriter.*pip install 'steelyard\[report\]'"):
        DocumentSet().write(statement(), DiskFolder(tmp_path), ["xlsx"])
    with pytest.raises(UsageError, match="needs no_such_library"):
        extra.report_library("no_such_library")


def test_csv_and_parquet_need_no_library_of_the_extra(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('typst', 'xlsxwriter', 'altair', 'vl_convert')));"
        "from pathlib import Path; from tests.settlement.statements import statement;"
        "from steelyard.surfaces.reports.document_set import DiskFolder, DocumentSet;"
        f"DocumentSet().write(statement(), DiskFolder(Path({str(tmp_path)!r})), ['csv', 'parquet', 'focus'])"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert (tmp_path / "manifest.json").is_file()


def test_the_style_decides_the_bom(tmp_path: Path) -> None:
    DocumentSet(DocumentStyle(csv_bom=True)).write(statement(), DiskFolder(tmp_path), ["csv"])
    assert (tmp_path / "statement.csv").read_bytes().startswith(b"\xef\xbb\xbf")


def test_a_number_that_is_hostile_is_json(tmp_path: Path) -> None:
    files = written(tmp_path, statement(number='S"\n\ud800', tenant="\ud800"))
    assert json.loads(files["manifest.json"])["statement"] == 'S"\n\\ud800'


def recompute(folder: Path) -> subprocess.CompletedProcess[str]:
    """The shipped script by an interpreter that sees pyarrow and nothing of ours: isolated, without the editable install's hooks."""
    packages = sysconfig.get_paths()["purelib"]
    program = (
        f"import sys; sys.path.append({packages!r}); sys.modules['steelyard'] = None;"
        f"import runpy; sys.argv = ['recompute.py']; runpy.run_path({str(folder / 'recompute.py')!r}, run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("whole", [statement(), statement([]), statement(number=None, state="draft"), many(70_000)],
                         ids=["every kind", "empty", "draft", "two batches"])  # fmt: skip
def test_a_bare_python_recomputes_the_totals_from_the_parquet(tmp_path: Path, whole: Statement) -> None:
    written(tmp_path, whole, ["csv", "parquet"])
    ran = recompute(tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    amount = f"{whole.amount_micro // 10**6}.{whole.amount_micro % 10**6:06d}"
    assert ran.stdout == f"statement {whole.number or 'draft'}: {len(whole.lines)} lines, {amount} CNY: agrees\n"


def test_a_total_that_was_changed_is_seen(tmp_path: Path) -> None:
    files = written(tmp_path, statement(), ["parquet"])
    said = json.loads(files["manifest.json"])
    said["totals"]["amount_micro"] += 1
    (tmp_path / "manifest.json").write_text(json.dumps(said), encoding="utf-8")
    ran = recompute(tmp_path)
    assert ran.returncode == 1
    assert f"amount_micro: the manifest says {said['totals']['amount_micro']}, the lines come to" in ran.stdout


def test_a_parquet_of_other_lines_is_seen(tmp_path: Path) -> None:
    written(tmp_path, statement(), ["parquet"])
    written(tmp_path / "other", statement(every_kind()[:3], number="S-2"), ["parquet"])
    (tmp_path / "other" / "statement.parquet").replace(tmp_path / "statement.parquet")
    ran = recompute(tmp_path)
    assert ran.returncode == 1
    assert "statement.parquet: its SHA-256 is not the manifest's" in ran.stdout
    assert "lines of another statement" in ran.stdout


def test_a_line_that_does_not_add_up_is_seen(tmp_path: Path) -> None:
    written(tmp_path, statement([line("1", amount_micro=54_000_001)]), ["parquet"])
    ran = recompute(tmp_path)
    assert (ran.returncode, "1 lines do not keep" in ran.stdout) == (1, True)


def test_a_missing_parquet_is_no_agreement(tmp_path: Path) -> None:
    written(tmp_path, statement(), ["parquet"])
    (tmp_path / "statement.parquet").unlink()
    assert recompute(tmp_path).returncode == 2
