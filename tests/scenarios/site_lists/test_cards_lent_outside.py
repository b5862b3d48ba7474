"""A site lends cards outside Kubernetes and keeps an asset list: both come in as CSV and stand in the books."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.app.importer import FileImporter
from steelyard.app.settings import Settings
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import parse_instant
from steelyard.store import Store
from steelyard.surfaces.shared.ports import ImportReport, ImportRequest

NOW = parse_instant("2026-02-10T00:00:00Z")

ASSETS = """serial,uuid,node,rack,owner,model,purchase date,warranty,price,currency,status
S-1,GPU-aaaaaaaa-0000-4000-8000-000000000001,metal-1,R1,ml,NVIDIA A100-SXM4-80GB,2024-01-01,2027-01-01,98000,CNY,in use
S-2,GPU-aaaaaaaa-0000-4000-8000-000000000002,metal-1,R1,ml,NVIDIA A100-SXM4-80GB,2024-01-01,2027-01-01,98000,CNY,in use
S-3,GPU-aaaaaaaa-0000-4000-8000-000000000003,metal-2,R2,ml,NVIDIA A100-SXM4-80GB,2024-01-01,2027-01-01,98000,CNY,in use
"""
LENT = """device_uuid,serial,holder,kind,from,to,approver
GPU-aaaaaaaa-0000-4000-8000-000000000001,,physics,bare metal,2026-02-01,2026-02-05,c.li
,S-2,chemistry,vm,2026-02-03T12:00:00Z,,c.li
GPU-aaaaaaaa-0000-4000-8000-000000000003,,biology,slurm,2026-02-01,2027-02-01,
"""
LISTING = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000002)
GPU 2: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000009)
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ImportReport, Store]]:
    folder = tmp_path_factory.mktemp("site")
    for name, text in (("assets.csv", ASSETS), ("lent.csv", LENT), ("smi.txt", LISTING)):
        (folder / name).write_text(text)
    importer = FileImporter(folder / "data", Settings(), post, FixedClock(NOW))
    request = ImportRequest(
        [folder / name for name in ("assets.csv", "lent.csv", "smi.txt")], as_of=NOW, node="metal-1"
    )
    report = importer.import_paths(request, lambda *_: None)
    with Store.open(Path(folder / "data")) as store:
        yield report, store


def post(store: Store) -> int:
    result = post_ledgers(store, PostingParameters(), clock=FixedClock(NOW))
    return sum(change.posted for change in result.changes.values())


def test_both_lists_are_recognised_by_their_headers(imported: tuple[ImportReport, Store]):
    report, _ = imported
    assert [(Path(file.path).name, file.kind, file.status) for file in report.files] == [
        ("assets.csv", "inventory", "imported"), ("lent.csv", "holdings", "imported"), ("smi.txt", "nvidia_smi", "imported"),
    ]  # fmt: skip
    assert report.findings_by_code["holding_without_approver"] == 1
    assert report.findings_by_code["holding_open_ended"] == 1


def test_a_lent_card_is_held_for_its_validity_by_uuid_or_by_serial(imported: tuple[ImportReport, Store]):
    _, store = imported
    rows = store.rows(
        "SELECT right(device_uuid, 1), pod, occupancy, share_ppm, epoch_us(started_at), epoch_us(ended_at) FROM ledger.holding ORDER BY 1"
    )
    day = {number: parse_instant(f"2026-02-0{number}T00:00:00Z") for number in (1, 5)}
    assert rows[:2] == [
        ("1", "bare_metal/physics", "held", 1_000_000, day[1], day[5]),
        ("2", "vm/chemistry", "held", 1_000_000, parse_instant("2026-02-03T12:00:00Z"), None),
    ]


def test_a_loan_that_nobody_approved_is_in_suspense_and_does_not_reach_beyond_now(imported: tuple[ImportReport, Store]):
    _, store = imported
    rows = store.rows(
        "SELECT occupancy, epoch_us(started_at), epoch_us(coalesce(ended_at, known_to_at)) FROM ledger.holding WHERE pod = 'slurm/biology'"
    )
    assert rows == [("in_suspense", parse_instant("2026-02-01T00:00:00Z"), NOW)]


def test_paper_and_racks_are_compared(imported: tuple[ImportReport, Store]):
    _, store = imported
    rows = store.rows(
        "SELECT code, right(subject, 1) FROM ledger.finding WHERE source = 'ledger.inventory' ORDER BY ALL"
    )
    assert rows == [("asset_never_seen", "3"), ("card_not_on_asset_list", "9")]


def test_the_books_close_over_lent_cards(imported: tuple[ImportReport, Store]):
    _, store = imported
    assert (
        store.rows(
            "SELECT place_id FROM ledger.supply GROUP BY place_kind, place_id, grain_at HAVING sum(CASE account WHEN 'supply' "
            "THEN amount_gpu_us WHEN 'overcommitted' THEN 0 ELSE -amount_gpu_us END) <> 0"
        )
        == []
    )
