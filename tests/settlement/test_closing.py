"""Closing a period: what blocks it, what it writes, and that it is never half done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.service_use import ServiceUse
from steelyard.primitives.errors import StoreDamaged, UsageError
from steelyard.primitives.instant import HOUR_US
from steelyard.settlement.blockers import NEVER_WAIVED
from steelyard.settlement.closing import CloseReport, CloseRequest, close_report, recover
from steelyard.settlement.documents import Documents
from steelyard.settlement.periods import PeriodRules
from steelyard.settlement.registers import period_row, period_rows, statement_rows
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.snapshot import closed_statements, differences, read_manifest
from steelyard.store import Store
from steelyard.store.scratch import UnderWay, scratch_beside
from steelyard.surfaces.reports.document_set import DocumentSet
from tests.conftest import REPOSITORY
from tests.settlement.conftest import Site
from tests.settlement.estate import (
    PlainDocuments,
    at,
    book,
    cards,
    closed,
    drafts,
    micro,
    pod,
    posted,
    rate,
    story,
    watched,
)


def judged(site: Site, label: str = "2026-11", rules: SettlementRules | None = None, **more: object) -> CloseReport:
    with site.store.reader() as view:
        return close_report(view, site.directory, rules or SettlementRules(), CloseRequest(label, "bob", **more))  # type: ignore[arg-type]  # each test names fields of the request


def codes(report: CloseReport) -> list[str]:
    return [each.code for each in report.blockers]


def folder_of(site: Site, name: str = "2026-11") -> Path:
    return site.directory / "periods" / name


def verified(site: Site, tmp_path: Path, documents: Documents | None = None) -> list[str]:
    row = period_row(site.store, "2026-11")
    assert row is not None
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with site.store.reader() as view:
        return differences(view, folder_of(site), row.manifest_sha256, documents or PlainDocuments(), scratch)


def snapshot_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_nothing_speaks_against_a_month_that_is_over_seen_and_priced(site: Site) -> None:
    report = judged(site)
    assert (codes(report), report.state) == ([], "open")
    assert not (site.directory / "periods").exists()


def test_a_close_freezes_rows_prices_statements_and_hashes(site: Site) -> None:
    before = drafts(site.store)
    report = closed(site.store, site.directory)
    assert [(each.number, each.tenant, each.amount_micro) for each in report.statements] == [
        ("2026-11-0001", "team-a", micro(528)),
        ("2026-11-0002", "team-b", micro(324)),
    ]
    manifest = read_manifest(folder_of(site))
    assert (manifest.closed_by, manifest.closed_at, manifest.shadow) == ("bob", at("12-02"), False)
    assert manifest.books == {"site": f"1 {1:064d}"}
    assert manifest.definitions["money"]
    assert {each.name for each in manifest.files} == snapshot_bytes(folder_of(site)).keys() - {"manifest.json"}
    with site.store.reader() as view:
        after = {each.tenant: each for each in closed_statements(view, folder_of(site))}
    assert {name: list(each.lines) for name, each in after.items()} == {
        name: list(each.lines) for name, each in before.items()
    }
    assert {each.state for each in after.values()} == {"closed"}


def test_the_rows_of_a_snapshot_are_those_of_the_ledgers_sorted(site: Site) -> None:
    closed(site.store, site.directory)
    charge = pq.read_table(folder_of(site) / "charge.parquet").to_pylist()
    assert sum(row["charge_micro"] for row in charge) == micro(852)
    assert [row["grain_at"] for row in charge] == sorted(row["grain_at"] for row in charge)
    cost = pq.read_table(folder_of(site) / "cost.parquet").to_pylist()
    assert sum(row["cost_micro"] for row in cost) == micro(2 * 720)
    assert sum(row["amount_gpu_us"] for row in cost) == 2 * 720 * HOUR_US


def test_a_close_again_tells_the_same_and_changes_nothing(site: Site) -> None:
    first = closed(site.store, site.directory)
    before = snapshot_bytes(folder_of(site))
    again = closed(site.store, site.directory, now="12-03", actor="carl")
    assert (again.closed_at, again.manifest_sha256) == (first.closed_at, first.manifest_sha256)
    assert snapshot_bytes(folder_of(site)) == before
    assert len(statement_rows(site.store)) == 2


def test_a_snapshot_renders_to_the_same_bytes_with_every_document(site: Site, tmp_path: Path) -> None:
    from steelyard.primitives.clock import FixedClock
    from steelyard.settlement.closing import close

    close(
        site.store,
        site.directory,
        SettlementRules(),
        CloseRequest("2026-11", "bob"),
        DocumentSet(),
        FixedClock(at("12-02")),
    )
    posted(site.store, [*book(2, charge=micro(9)), *pod("team-a/late", "11-15", "11-16", "GPU-a")], "12-03")
    assert verified(site, tmp_path, DocumentSet()) == []


@pytest.mark.parametrize(
    "name", ["charge.parquet", "lines.parquet", "documents/2026-11-0001/statement.csv", "manifest.json"]
)
def test_a_changed_byte_of_a_snapshot_is_found(site: Site, tmp_path: Path, name: str) -> None:
    closed(site.store, site.directory)
    path = folder_of(site) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    try:
        assert any(name in each for each in verified(site, tmp_path))
    except StoreDamaged:
        assert name == "manifest.json"


def test_a_file_that_went_and_one_that_came_are_found(site: Site, tmp_path: Path) -> None:
    closed(site.store, site.directory)
    (folder_of(site) / "rates.parquet").unlink()
    (folder_of(site) / "more.txt").write_text("x")
    found = verified(site, tmp_path)
    assert any("rates.parquet" in each for each in found)
    assert any("more.txt" in each for each in found)


def test_a_document_that_another_program_would_write_is_found(site: Site, tmp_path: Path) -> None:
    class Others(PlainDocuments):
        def write(self, statement, folder, formats=()):  # type: ignore[no-untyped-def]  # as its parent's
            folder.write("statement.csv", b"other")
            return ["statement.csv"]

    closed(site.store, site.directory)
    assert [each.split(":")[0] for each in verified(site, tmp_path, Others())] == [
        "documents/2026-11-0001/statement.csv",
        "documents/2026-11-0002/statement.csv",
    ]


def test_whoever_declared_the_prices_does_not_close(site: Site) -> None:
    with pytest.raises(UsageError, match="two people"):
        closed(site.store, site.directory, actor="ann")
    posted(site.store, book(2, declared_by="bob"))
    with pytest.raises(UsageError, match="bob declared the price book site"):
        closed(site.store, site.directory)
    assert period_rows(site.store) == []
    closed(site.store, site.directory, actor="ann")  # whose version does not count any more


def test_a_month_that_is_not_over_is_never_closed(site: Site) -> None:
    assert codes(judged(site, "2026-12"))[0] == "period_not_over"
    with pytest.raises(UsageError, match="period_not_over"):
        closed(
            site.store,
            site.directory,
            "2026-12",
            accepted={"period_not_over": "we are in a hurry", "late_sources": "x"},
        )
    assert not folder_of(site, "2026-12").exists()
    assert period_rows(site.store) == []


def site_of(tmp_path: Path, facts: list[Fact], now: str = "12-02") -> Site:
    store = Store.open(tmp_path / "data")
    posted(store, facts, now)
    return Site(tmp_path / "data", store)


BLOCKED: dict[str, list[Fact]] = {
    "nothing_posted": [watched(), *cards(), *pod("team-a/train", "11-01", "11-02")],
    "unpriced": [watched(), *cards(), *pod("team-a/train", "11-01", "11-02"), *book(charge=None)],
    "provisional_prices": [watched(), *cards(), *pod("team-a/train", "11-01", "11-02"), *book(provisional=True)],
    "tokens_untold": [
        *story(),
        ServiceUse(source="x", natural_key="x", occurred_at=at("11-05"), observed_at=at("11-05"), service="team-a/chat", caller="b",
                   started_at=at("11-05"), ended_at=at("11-06"), prompt_tokens=7),
    ],
    "coverage_low": [watched("11-01", "11-20"), watched("12-01", "12-02"), *cards(), *book()],
    "late_sources": [
        watched(), *cards(), *book(), *pod("team-a/train", "11-01", "11-02"),
        *[watched("11-01", "11-10").__class__(**{**{n: getattr(watched("11-01", "11-10"), n) for n in watched().__struct_fields__}, "source": "dcgm",
                                                 "kind": "dcgm"})],
    ],
    "open_incidents": [
        *story(),
        Finding(source="x", natural_key="broken/x", occurred_at=at("11-05"), observed_at=at("11-05"), code="broken", severity="error",
                subject="node n1", message="broken"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(BLOCKED))
def test_a_blocker_is_named_with_what_to_do_and_waived_by_its_code_alone(tmp_path: Path, code: str) -> None:
    site = site_of(tmp_path, BLOCKED[code])
    with site.store:
        found = judged(site).blockers
        assert [each.code for each in found] == [code]
        assert found[0].todo
        assert found[0].can_be_waived == (code not in NEVER_WAIVED)
        with pytest.raises(UsageError, match=code):
            closed(site.store, site.directory, accepted={"previous_open": "no"})
        with pytest.raises(UsageError, match="say why"):
            closed(site.store, site.directory, accepted={code: "  "})
        if code in NEVER_WAIVED:
            with pytest.raises(UsageError, match=code):
                closed(site.store, site.directory, accepted={code: "please"})
            return
        report = closed(site.store, site.directory, accepted={code: "known to finance", "previous_open": "never mind"})
        assert report.waived == {code: "known to finance"}
        assert read_manifest(folder_of(site)).waived == {code: "known to finance"}


def test_a_waiver_of_what_is_no_blocker_is_refused_with_those_that_are(site: Site) -> None:
    with pytest.raises(UsageError, match=r"--accept 'unpriced_rows': expected one of .*late_sources.*unpriced"):
        closed(site.store, site.directory, accepted={"unpriced_rows": "a slip of the pen"})
    assert period_rows(site.store) == []


def test_a_statement_in_a_currency_without_a_rate_cannot_be_closed_by_anybody(site: Site) -> None:
    rules = SettlementRules(tenant_currencies={"team-a": "JPY"})
    with pytest.raises(UsageError, match=r"no_exchange_rate: .*USD/JPY; import rates"):
        closed(site.store, site.directory, rules=rules)
    with pytest.raises(UsageError, match="no_exchange_rate"):
        closed(site.store, site.directory, rules=rules, accepted={"no_exchange_rate": "it will be 0 then"})
    posted(site.store, [rate("USD/JPY", 150_000_000_000, "12-01")])
    with pytest.raises(UsageError, match="no_exchange_rate"):
        closed(site.store, site.directory, rules=rules)  # the rate came after the month
    posted(site.store, [rate("USD/JPY", 150_000_000_000, "11-30")])
    found = {each.tenant: each for each in closed(site.store, site.directory, rules=rules).statements}
    assert (found["team-a"].currency, found["team-a"].amount_micro) == ("JPY", micro(528 * 150))
    assert found["team-b"].currency == "USD"


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York"])
def test_a_tenants_hours_are_neither_asked_for_twice_nor_never_when_its_zone_changes(site: Site, zone: str) -> None:
    closed(site.store, site.directory)
    later = "2027-01-02T12:00:00Z"
    posted(site.store, [watched("12-02", later), *cards(later, later)], later)
    moved = SettlementRules(periods=PeriodRules(tenant_zones={"team-b": zone}))
    with pytest.raises(
        UsageError, match=r"window_moved: hours would be asked for twice or never: team-b: 2026-11-0002"
    ):
        closed(site.store, site.directory, "2026-12", moved, later, accepted={"window_moved": "they asked for it"})
    other = SettlementRules(periods=PeriodRules(tenant_zones={"team-z": zone}))
    assert closed(site.store, site.directory, "2026-12", other, later).state == "closed"


def test_an_incident_of_another_month_blocks_nothing(tmp_path: Path) -> None:
    incident = Finding(
        source="x",
        natural_key="b",
        occurred_at=at("12-01"),
        observed_at=at("12-01"),
        code="broken",
        severity="error",
        subject="n",
        message="m",
    )
    site = site_of(tmp_path, [*story(), incident])
    with site.store:
        assert codes(judged(site)) == []


def test_books_that_do_not_close_are_never_closed(site: Site) -> None:
    site.store.execute(
        "UPDATE ledger.cost_entry SET amount_gpu_us = amount_gpu_us + 1 WHERE grain_at = '2026-11-05' AND account = 'tenant'"
    )
    assert codes(judged(site)) == ["ledger_residual"]
    with pytest.raises(UsageError, match="ledger_residual"):
        closed(site.store, site.directory, accepted={"ledger_residual": "a millionth"})


def test_a_month_is_not_closed_over_an_open_one_before_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    with store:
        posted(
            store, [watched("09-01", "12-02"), *cards("09-01"), *pod("team-a/train", "09-01", None), *book(1)], "12-02"
        )
        closed(store, tmp_path / "data", "2026-09")
        report = judged(Site(tmp_path / "data", store), "2026-11")
        assert codes(report) == ["previous_open"]
        closed(store, tmp_path / "data", "2026-10")
        assert codes(judged(Site(tmp_path / "data", store), "2026-11")) == []
        assert closed(store, tmp_path / "data", "2026-11").statements[0].number == "2026-11-0001"


def test_a_shadow_period_is_closed_the_same_way_and_counts_for_nothing(site: Site) -> None:
    report = closed(site.store, site.directory, shadow=True)
    assert [each.number for each in report.statements] == ["S-2026-11-0001", "S-2026-11-0002"]
    assert folder_of(site, "2026-11-shadow").is_dir()
    with site.store.reader() as view:
        assert {each.state for each in closed_statements(view, folder_of(site, "2026-11-shadow"))} == {"shadow"}
    assert judged(site).state == "open"
    assert [each.number for each in closed(site.store, site.directory).statements] == ["2026-11-0001", "2026-11-0002"]


def test_a_zone_that_the_grain_does_not_fit_closes_nothing(site: Site) -> None:
    rules = SettlementRules(periods=PeriodRules(tenant_zones={"team-b": "Asia/Kolkata"}))
    with pytest.raises(UsageError, match="grain_minutes = 30"):
        closed(site.store, site.directory, rules=rules)
    assert period_rows(site.store) == []


def test_two_closes_at_once_are_one(site: Site) -> None:
    (site.directory / "periods").mkdir()
    with scratch_beside(folder_of(site)), pytest.raises(UnderWay):
        closed(site.store, site.directory)
    assert period_rows(site.store) == []
    closed(site.store, site.directory)


def test_a_document_that_fails_leaves_the_period_open(site: Site) -> None:
    class Failing(PlainDocuments):
        def write(self, statement, folder, formats=()):  # type: ignore[no-untyped-def]  # as its parent's
            raise OSError(28, "no space")

    from steelyard.primitives.clock import FixedClock
    from steelyard.settlement.closing import close

    with pytest.raises(OSError, match="no space"):
        close(
            site.store,
            site.directory,
            SettlementRules(),
            CloseRequest("2026-11", "bob"),
            Failing(),
            FixedClock(at("12-02")),
        )
    assert period_rows(site.store) == []
    assert list((site.directory / "periods").iterdir()) == []


def test_a_format_that_is_not_installed_is_left_out_and_said(site: Site) -> None:
    class Without(PlainDocuments):
        def write(self, statement, folder, formats=()):  # type: ignore[no-untyped-def]  # as its parent's
            if "pdf" in formats:
                raise UsageError("pip install steelyard[report]")
            return super().write(statement, folder, formats)

    from steelyard.primitives.clock import FixedClock
    from steelyard.settlement.closing import close

    report = close(
        site.store,
        site.directory,
        SettlementRules(),
        CloseRequest("2026-11", "bob"),
        Without(),
        FixedClock(at("12-02")),
    )
    assert report.left_out == {"pdf": "pip install steelyard[report]"}
    assert "pdf" not in read_manifest(folder_of(site)).formats
    assert (folder_of(site) / "documents/2026-11-0002/statement.csv").is_file()


KILLED = """
import os, signal, sys
from pathlib import Path
from steelyard.settlement import closing, snapshot
from steelyard.store import Store
from tests.settlement.estate import closed

def blow(*_args, **_more):
    os.kill(os.getpid(), signal.SIGKILL)

where, directory = sys.argv[1], Path(sys.argv[2])
if where == "rows":
    closing.write_lines = blow
elif where == "documents":
    closing.write_documents = blow
elif where == "manifest":
    closing.write_whole = blow
elif where == "rename":
    closing.rename = blow
elif where == "row":
    closing._finish = blow
elif where == "commit":
    real = closing.finish
    def half(*args, **more):
        real(*args, **more)
        blow()
    closing.finish = half
with Store.open(directory) as store:
    closed(store, directory)
"""


@pytest.mark.parametrize(
    ("where", "state"),
    [
        ("rows", "open"),
        ("documents", "open"),
        ("manifest", "open"),
        ("rename", "open"),
        ("row", "closed"),
        ("commit", "closed"),
    ],
)
def test_a_close_that_is_killed_leaves_the_period_open_or_closed_and_never_half(
    posted_directory: Path, tmp_path: Path, where: str, state: str
) -> None:
    directory = Path(shutil.copytree(posted_directory, tmp_path / "data"))
    command = [sys.executable, "-c", KILLED, where, str(directory)]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=120, check=False)
    assert result.returncode == -9, result.stderr
    with Store.open(directory) as store:
        assert [row.state for row in period_rows(store)] == ["closing"]
        assert len(recover(store, directory)) == 1
        assert recover(store, directory) == []
        rows = period_rows(store)
        assert [row.state for row in rows] == (["closed"] if state == "closed" else [])
        assert len(statement_rows(store)) == (2 if state == "closed" else 0)
        assert [path.name for path in (directory / "periods").iterdir()] == (["2026-11"] if state == "closed" else [])
        report = closed(store, directory)
        assert [each.amount_micro for each in report.statements] == [micro(528), micro(324)]
        site = Site(directory, store)
        assert verified(site, tmp_path) == []


def test_the_manifest_says_it_all_in_one_readable_file(site: Site) -> None:
    closed(site.store, site.directory)
    found = json.loads((folder_of(site) / "manifest.json").read_text())
    assert found["label"] == "2026-11"
    assert json.loads(found["rules"])["coverage_min_ppm"] == 950_000
