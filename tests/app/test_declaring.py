"""Declarations in a data directory: versions, who and why, and what comes in by an import among other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.app.declaring import Declaring, machine_user
from steelyard.app.importer import FileImporter
from steelyard.app.money_doors import OwnMoney
from steelyard.app.settings import Settings
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import SourceMalformed, UsageError
from steelyard.primitives.instant import parse_instant
from steelyard.store import Store
from steelyard.store.store import FILE_NAME
from steelyard.surfaces.shared.money_ports import DeclareRequest
from steelyard.surfaces.shared.ports import ImportReport, ImportRequest

NOW = parse_instant("2026-03-01T14:00:00Z")
BOOK = b"side,model,currency,price,per\ncharge,H100,USD,2.50,hour\ncost,,USD,,month\n"
DEARER = BOOK.replace(b"2.50", b"2.75")
TREE = b"by,match,department\nnamespace,team-a,research\n"
RATES = b"base_currency,quote_currency,rate,valid_from\nUSD,CNY,7.1,2026-01-01\n"


def declaring(store: Store) -> Declaring:
    return Declaring(store, Settings(), lambda store: 0, FixedClock(NOW))


def imported(folder: Path, *files: tuple[str, bytes], **more: Any) -> ImportReport:
    paths = []
    for name, content in files:
        (folder / name).write_bytes(content)
        paths.append(folder / name)
    importer = FileImporter(folder / "data", Settings(), lambda store: 0, FixedClock(NOW))
    return importer.import_paths(ImportRequest(paths, as_of=NOW, **more), lambda *_told: None)


def rows(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with Store.open(folder / "data", read_only=True) as store:
        return store.rows(sql)


BOOKS = "SELECT book, version, declared_by, reason, lines_count FROM fact.price_book ORDER BY book, version"


def test_versions_count_from_1_within_a_book_and_say_who_and_why():
    with Store.open_memory() as store:
        for content, book, reason in ((BOOK, None, "first"), (DEARER, None, "dearer"), (BOOK, "other", None)):
            declaring(store).declare(DeclareRequest("price_book", content, "p.csv", book, reason, declared_by="ann"))
        assert store.rows(BOOKS) == [
            ("default", 1, "ann", "first", 2),
            ("default", 2, "ann", "dearer", 2),
            ("other", 1, "ann", None, 2),
        ]
        assert store.rows("SELECT count(*) FROM fact.price WHERE version = 2") == [(2,)]
        assert store.rows("SELECT kind, count(*) FROM fact.import_file GROUP BY kind") == [("price_book", 2)]


def test_a_declaration_that_fails_to_post_leaves_nothing():
    def broken(store: Store) -> int:
        raise UsageError("no")

    with Store.open_memory() as store:
        with pytest.raises(UsageError):
            Declaring(store, Settings(), broken, FixedClock(NOW)).declare(DeclareRequest("price_book", BOOK, "p.csv"))
        assert store.rows("SELECT (SELECT count(*) FROM fact.price), (SELECT count(*) FROM fact.price_book)") == [
            (0, 0)
        ]
        assert not store.has_unposted()


def test_the_same_tree_again_is_no_version_whatever_bytes_it_comes_in():
    with Store.open_memory() as store:
        for content, version in (
            (TREE, 1),
            (b"\xef\xbb\xbf" + TREE.replace(b",", b";"), 1),
            (TREE + b"tenant,x,products\n", 2),
            (TREE, 3),
        ):
            assert declaring(store).declare(DeclareRequest("tenancy", content, "t.csv")).version == version
        assert store.rows("SELECT version, count(*), any_value(declared_by) FROM fact.tenancy GROUP BY version ORDER BY version") == [
            (1, 1, machine_user()), (2, 2, machine_user()), (3, 1, machine_user()),
        ]  # fmt: skip


def test_what_moved_in_a_tree_is_told_line_by_line():
    with Store.open_memory() as store:
        declaring(store).declare(DeclareRequest("tenancy", TREE, "t.csv"))
        report = declaring(store).declare(
            DeclareRequest("tenancy", TREE.replace(b"research", b"products"), "t.csv", dry_run=True)
        )
        assert report.changes.rows == [
            ("changed", "tenancy", "namespace/team-a", "department", "research", "products", None)
        ]


@pytest.mark.parametrize(
    ("book", "reason", "words"),
    [("a b", None, "--book"), ("", None, "--book"), ("x" * 101, None, "--book"), ("list", "x" * 1_001, "--reason")],
)
def test_a_name_or_reason_that_is_none_is_refused(book, reason, words):
    with Store.open_memory() as store, pytest.raises(UsageError, match=words):
        declaring(store).declare(DeclareRequest("price_book", BOOK, "p.csv", book, reason))


def test_a_dry_run_on_a_directory_without_data_makes_none(tmp_path: Path):
    money = OwnMoney(tmp_path / "data", Settings())
    report = money.declare(DeclareRequest("price_book", BOOK, "p.csv", dry_run=True))
    assert (report.status, report.version, len(report.changes.rows)) == ("dry_run", 1, 2)
    assert not (tmp_path / "data" / FILE_NAME).exists()
    with pytest.raises(UsageError, match="no data in"):
        money.prices(None, None)


def test_books_in_an_import_are_numbered_in_the_order_of_the_files_and_again_they_change_nothing(tmp_path: Path):
    files = (("1.csv", BOOK), ("2.csv", DEARER), ("rates.csv", RATES), ("tree.csv", TREE))
    first = imported(tmp_path, *files, declared_by="ann")
    assert {file.status for file in first.files} == {"imported"}
    before = rows(tmp_path, BOOKS)
    assert before == [("default", 1, "ann", None, 2), ("default", 2, "ann", None, 2)]
    again = imported(tmp_path, *files, declared_by="bob")
    assert {(file.status, file.new_count) for file in again.files} == {("unchanged", 0)}
    assert rows(tmp_path, BOOKS) == before


def test_a_book_with_a_mistake_in_an_import_declares_nothing_and_stops_no_other_file(tmp_path: Path):
    report = imported(tmp_path, ("bad.csv", BOOK + b"charge,X,RMB,1,hour\n"), ("tree.csv", TREE))
    assert {Path(file.path).name: (file.status, file.refused_count) for file in report.files} == {
        "bad.csv": ("refused", 1),
        "tree.csv": ("imported", 0),
    }
    assert report.findings_by_code == {"nothing_declared": 1, "source_malformed": 1}
    assert rows(tmp_path, "SELECT (SELECT count(*) FROM fact.price), (SELECT count(*) FROM fact.tenancy)") == [(0, 1)]


def test_who_may_not_declare_imports_all_but_what_is_declared(tmp_path: Path):
    use = b"service,started_at,ended_at,prompt_tokens\na/b,2026-03-01T10:00:00Z,2026-03-01T11:00:00Z,5\n"
    report = imported(tmp_path, ("p.csv", BOOK), ("u.csv", use), ("t.csv", TREE), ("r.csv", RATES), may_declare=False)
    assert [file.status for file in report.files] == ["refused", "imported", "refused", "refused"]
    assert report.findings_by_code == {"not_allowed": 3}


def test_bills_and_use_of_services_do_not_date_a_snapshot(tmp_path: Path):
    bill = b"BillingCurrency,BilledCost,ChargeCategory,ChargePeriodStart,ChargePeriodEnd\nUSD,1,Usage,2026-03-01T00:00:00Z,2026-04-01T00:00:00Z\n"
    (tmp_path / "bill.csv").write_bytes(bill)
    importer = FileImporter(tmp_path / "data", Settings(), lambda store: 0, FixedClock(NOW))
    report = importer.import_paths(ImportRequest([tmp_path / "bill.csv"]), lambda *_told: None)
    assert report.as_of_basis == "file_time"
    assert report.findings_by_code == {}


def test_every_mistake_is_a_line_on_stderr_and_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bad.csv"
    path.write_bytes(BOOK + b"charge,X,RMB,1,hour\ncharge,Y,USD,NaN,hour\n")
    assert run(["prices", "import", str(path), "--data", str(tmp_path / "data")]) == 3
    told = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in told] == ["steelyard", "steelyard"]
    assert "bad.csv: nothing was taken, 2 mistakes: line 4" in told[0]
    assert told[1].startswith("steelyard: line 5: price")
    assert not (tmp_path / "data" / FILE_NAME).exists() or rows(tmp_path, BOOKS) == []


def test_the_commands_show_what_was_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, content in (("p.csv", BOOK), ("t.csv", TREE), ("r.csv", RATES), ("d.csv", DEARER)):
        (tmp_path / name).write_bytes(content)
    data = ["--data", str(tmp_path / "data")]
    for words in (
        "prices import p.csv --reason start",
        "prices import d.csv",
        "tenancy import t.csv",
        "rates import r.csv",
    ):
        *command, file = words.replace(" --reason start", "").split()
        assert (
            run([*command, str(tmp_path / file), *(["--reason", "start"] if "--reason" in words else []), *data]) == 0
        )
    capsys.readouterr()
    for words, expected in (
        ("prices list", "2.75"), ("prices diff", "10"), ("prices diff 0 1", "added"),
        ("prices unpriced", "everything that was weighed has its price"),
        ("tenancy show", "research"), ("tenancy check", "0 namespaces are mapped"), ("rates list", "7.10"),
    ):  # fmt: skip
        assert run([*words.split(), *data]) == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        "prices import none.csv",
        "prices diff 1",
        "prices diff 1 2 3",
        "prices list --at noon",
        "prices import .",
        "tenancy import none.csv",
        "rates import none.csv",
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str):
    assert run([*words.split(), "--data", str(tmp_path / "data")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def run(arguments: list[str]) -> int:
    from steelyard.app.wiring import ports
    from steelyard.surfaces.cli.building import run as run_command

    return run_command(ports(), arguments)


def test_a_price_book_is_refused_with_all_its_mistakes_as_an_error():
    with Store.open_memory() as store, pytest.raises(SourceMalformed) as caught:
        declaring(store).declare(DeclareRequest("price_book", BOOK + b"x\n" * 200, "p.csv"))
    assert len(caught.value.others) == 100
    assert caught.value.others[-1] == "and 100 more"
