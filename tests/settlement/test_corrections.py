"""Late facts, a wrong price and a changed formula: what was closed stays, and the next period carries the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from steelyard.definitions.tenant import TenantRule
from steelyard.facts.device import Device
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import HOUR_US
from steelyard.settlement.corrections import Correction, corrections_due
from steelyard.settlement.rules import SettlementRules, TaxRule
from steelyard.settlement.snapshot import closed_statements
from steelyard.store import Store
from steelyard.surfaces.reports.document_set import DocumentSet
from tests.settlement.conftest import Site
from tests.settlement.estate import NODE, at, book, cards, closed, discount, drafts, micro, pod, posted, watched
from tests.settlement.test_closing import folder_of, snapshot_bytes

DECEMBER = [watched("12-02", "2027-01-02T00:00:00Z"), *cards("2027-01-02T00:00:00Z", "2027-01-02T00:00:00Z")]


def due(site: Site, label: str | None = None) -> Sequence[Correction]:
    with site.store.reader() as view:
        return corrections_due(view, site.directory, label).corrections


def by_reason(found: Iterable[Correction], ledger: str = "charge") -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in found:
        if each.ledger == ledger:
            sums[each.reason] = sums.get(each.reason, 0) + each.amount_micro
    return sums


def booked(store: Store, ledger: str, column: str) -> int:
    found: int = store.rows(
        f"SELECT sum({column})::BIGINT FROM ledger.{ledger} WHERE grain_at >= '2026-11-01' AND grain_at < '2026-12-01'"
    )[0][0]
    return found


def snapshot_sum(site: Site, ledger: str, column: str) -> int:
    path = folder_of(site) / f"{ledger}.parquet"
    found: int = site.store.rows(f"SELECT sum({column})::BIGINT FROM read_parquet(?)", [str(path)])[0][0]
    return found


def test_nothing_is_corrected_where_nothing_came(site: Site) -> None:
    closed(site.store, site.directory)
    posted(site.store, [], "12-03")
    assert due(site) == []


def test_late_facts_and_a_wrong_price_are_told_apart_and_reconcile(site: Site) -> None:
    closed(site.store, site.directory)
    late = pod("team-a/late", "11-15", "11-16", "GPU-a")
    posted(site.store, [*late, *book(2, charge=micro(3)), discount("team-b", 100_000, 2)], "12-03")
    found = due(site)
    # price: 240 + 24 GPU-h of team-a and 180 x 0.9 of team-b at one more a GPU-h; late: 24 GPU-h at 3
    assert by_reason(found) == {"price": micro(240 + 24 + 162), "late_facts": micro(72)}
    assert snapshot_sum(site, "charge", "charge_micro") + sum(by_reason(found).values()) == booked(
        site.store, "charge", "charge_micro"
    )
    assert by_reason(found, "cost") == {"late_facts": 0}
    assert snapshot_sum(site, "cost", "cost_micro") == booked(site.store, "cost", "cost_micro")
    assert {each.number for each in found if each.ledger == "charge"} == {"2026-11-0001", "2026-11-0002"}


def test_what_is_closed_stays_byte_for_byte_and_the_next_period_carries_the_corrections(tmp_path: Path) -> None:
    from steelyard.settlement.closing import CloseRequest, close
    from tests.settlement.estate import story

    directory = tmp_path / "data"
    with Store.open(directory) as store:
        posted(store, story())
        site = Site(directory, store)
        request = CloseRequest("2026-11", "bob")
        close(store, directory, SettlementRules(), request, DocumentSet(), FixedClock(at("12-02")))
        before = snapshot_bytes(folder_of(site))
        assert {"statement.csv", "statement.parquet"} <= {name.rpartition("/")[2] for name in before}
        late = pod("team-a/late", "11-15", "11-16", "GPU-a")
        posted(
            store, [*late, *book(2, charge=micro(3)), discount("team-b", 100_000, 2), *DECEMBER], "2027-01-02T00:00:00Z"
        )
        wanted = sum(by_reason(due(site)).values())
        plain = {name: each.amount_micro for name, each in drafts(store, "2026-12").items()}
        report = close(
            store,
            directory,
            SettlementRules(),
            CloseRequest("2026-12", "bob"),
            DocumentSet(),
            FixedClock(at("2027-01-02T00:00:00Z")),
        )
        assert snapshot_bytes(folder_of(site)) == before
        with store.reader() as view:
            december = {each.tenant: each for each in closed_statements(view, folder_of(site, "2026-12"))}
        lines = [
            (line.reference, line.reason, line.amount_micro)
            for each in december.values()
            for line in each.lines
            if line.kind == "correction"
        ]
        assert sum(amount or 0 for _ref, _reason, amount in lines) == wanted
        assert {(reference, reason) for reference, reason, _amount in lines} == {
            ("2026-11-0001", "price"), ("2026-11-0001", "late_facts"), ("2026-11-0002", "price"),
        }  # fmt: skip
        assert sum(each.amount_micro for each in report.statements) == wanted + sum(plain.values())
        assert due(site) == []  # carried once
        assert snapshot_sum(site, "charge", "charge_micro") + wanted == booked(store, "charge", "charge_micro")
        posted(store, book(3, charge=micro(2)), "2027-01-03T00:00:00Z")
        back = due(site)
        assert snapshot_sum(site, "charge", "charge_micro") + wanted + sum(
            each.amount_micro for each in back if each.ledger == "charge" and each.label == "2026-11"
        ) == booked(store, "charge", "charge_micro")


def test_a_correction_is_taken_back_where_its_ground_goes(tmp_path: Path, site: Site) -> None:
    closed(site.store, site.directory)
    posted(site.store, [*book(2, charge=micro(3)), discount("team-b", 100_000, 2), *DECEMBER], "2027-01-02T00:00:00Z")
    closed(site.store, site.directory, "2026-12", now="2027-01-02T00:00:00Z")
    posted(site.store, [*book(3, charge=micro(2)), discount("team-b", 100_000, 3)], "2027-01-03T00:00:00Z")
    november = [each for each in due(site, "2026-11") if each.ledger == "charge"]
    assert sum(each.amount_micro for each in november) == -micro(240 + 24 + 162)


def test_a_reorganisation_corrects_nothing(site: Site) -> None:
    closed(site.store, site.directory)
    rules = (TenantRule("namespace", None, "team-*", "one-for-all"),)
    post_ledgers(site.store, PostingParameters(tenant_rules=rules), clock=FixedClock(at("12-03")))
    assert site.store.rows("SELECT DISTINCT tenant FROM ledger.charge") == [("one-for-all",)]
    found = due(site)
    assert [each for each in found if each.amount_micro or each.quantity_gpu_us] == []


def test_a_price_that_names_no_tenant_is_corrected_for_whom_it_was_closed_though_the_pods_are_anothers_now(
    site: Site,
) -> None:
    closed(site.store, site.directory)
    site.store.append(book(2, charge=micro(3)))
    rules = (TenantRule("namespace", None, "team-*", "one-for-all"),)
    post_ledgers(site.store, PostingParameters(tenant_rules=rules), clock=FixedClock(at("12-03")))
    found = [each for each in due(site) if each.ledger == "charge"]
    sums: dict[str | None, int] = {}
    for each in found:
        sums[each.tenant] = sums.get(each.tenant, 0) + each.amount_micro
    # 264 GPU-h of team-a at one more, 180 of team-b at 3 in place of 2 less a tenth
    assert sums == {"team-a": micro(264), "team-b": micro(540 - 324)}
    assert {each.reason for each in found} == {"price"}


def test_a_changed_policy_is_a_definition_and_no_late_fact(site: Site) -> None:
    from steelyard.definitions.money import MoneyPolicy

    closed(site.store, site.directory)
    late = pod("team-a/late", "11-15", "11-16", "GPU-a")
    posted(site.store, late, "12-03", MoneyPolicy(charge_start="bind"))
    assert set(by_reason(due(site))) == {"definition"}


@pytest.mark.parametrize(("is_listed", "lines"), [(True, [(0, 48.0)]), (False, [(-24, 0.0), (24, 48.0)])])
def test_a_price_that_comes_after_the_close_is_asked_for_in_the_next(
    tmp_path: Path, is_listed: bool, lines: list[tuple[int, float]]
) -> None:
    """A line of the book without a price, and no line at all: the latter has no currency either."""
    directory = tmp_path / "data"
    prices = [each for each in book(charge=None) if is_listed or getattr(each, "side", "") != "charge"]
    with Store.open(directory) as store:
        posted(store, [watched(), *cards(), *pod("team-a/train", "11-01", "11-02"), *prices])
        closed(store, directory, accepted={"unpriced": "the list comes next week"})
        posted(store, book(2), "12-03")
        assert by_reason(due(Site(directory, store))) == {"price": micro(48)}
        posted(store, DECEMBER, "2027-01-02T00:00:00Z")
        closed(store, directory, "2026-12", now="2027-01-02T00:00:00Z")
        with store.reader() as view:
            (december,) = closed_statements(view, directory / "periods" / "2026-12")
    found = [(line.quantity_gpu_us // HOUR_US, line.amount_micro) for line in december.lines]
    assert sorted(found) == [(hours, micro(amount)) for hours, amount in lines]
    assert (december.unpriced_count, december.amount_micro) == (0, micro(48))


def test_what_lost_its_price_is_no_correction_but_blocks_the_close_until_it_has_one(site: Site) -> None:
    closed(site.store, site.directory)
    posted(site.store, [*book(2, charge=None), discount("team-b", 100_000, 2), *DECEMBER], "2027-01-02T00:00:00Z")
    with site.store.reader() as view:
        found = corrections_due(view, site.directory)
    assert by_reason(found.corrections) == {}
    assert {(each.tenant, each.name, each.quantity_gpu_us) for each in found.untold} == {
        ("team-a", "team-a/train", 0), ("team-a", "team-a/infer", 0), ("team-b", "team-b/lab", 0)
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"corrections_unpriced: 3 differences .*2026-11 charge: team-a/train"):
        closed(site.store, site.directory, "2026-12", now="2027-01-02T00:00:00Z", accepted={"unpriced": "later"})
    waived = {"unpriced": "later", "corrections_unpriced": "later"}
    closed(site.store, site.directory, "2026-12", now="2027-01-02T00:00:00Z", accepted=waived)
    posted(site.store, [*book(3, charge=micro(3)), discount("team-b", 100_000, 3)], "2027-01-03T00:00:00Z")
    assert by_reason(due(site, "2026-11")) == {"price": micro(240 + 24 + 162)}


def test_late_facts_without_a_price_are_no_correction_of_nothing(site: Site) -> None:
    closed(site.store, site.directory)
    priced_model = {"model": "NVIDIA L40S"}
    stranger = Device(
        source="nvidia_smi", natural_key="GPU-x", device_uuid="GPU-x", node=NODE, memory_mib=1024, model="another", basis="inventory",
        device_index=7, occurred_at=at("11-01"), observed_at=at("11-01"),
    )  # fmt: skip
    late = pod("team-a/late", "11-15", "11-16", "GPU-x")
    posted(site.store, [stranger, *late, *book(2, **priced_model), discount("team-b", 100_000, 2)], "12-03")
    with site.store.reader() as view:
        found = corrections_due(view, site.directory)
    assert [
        (each.name, each.quantity_gpu_us // HOUR_US, each.reason) for each in found.untold if each.ledger == "charge"
    ] == [("team-a/late", 24, "late_facts")]
    assert [each for each in found.corrections if each.ledger == "charge"] == []


def test_a_correction_that_was_carried_is_not_taken_back_because_its_price_is_lost(site: Site) -> None:
    closed(site.store, site.directory)
    posted(site.store, [*book(2, charge=micro(3)), discount("team-b", 100_000, 2), *DECEMBER], "2027-01-02T00:00:00Z")
    closed(site.store, site.directory, "2026-12", now="2027-01-02T00:00:00Z")
    posted(site.store, [*book(3, charge=None), discount("team-b", 100_000, 3)], "2027-01-03T00:00:00Z")
    assert by_reason(due(site, "2026-11")) == {}


def test_corrections_are_taxed_by_the_rate_of_their_own_month(site: Site) -> None:
    rules = SettlementRules(
        taxes=(TaxRule("VAT", 60_000, valid_to_at=at("12-01")), TaxRule("VAT", 90_000, valid_from_at=at("12-01")))
    )
    closed(site.store, site.directory, rules=rules)
    posted(site.store, [*pod("team-a/late", "11-15", "11-16", "GPU-a"), *DECEMBER], "2027-01-02T00:00:00Z")
    closed(site.store, site.directory, "2026-12", rules, "2027-01-02T00:00:00Z")
    with site.store.reader() as view:
        found = {each.tenant: each for each in closed_statements(view, folder_of(site, "2026-12"))}
    taxes = [(line.description, line.amount_micro) for line in found["team-a"].lines if line.kind == "tax"]
    assert taxes == [("VAT 6 %", micro(48 * 0.06))]


def test_a_shadow_period_carries_no_corrections_and_is_not_corrected(site: Site) -> None:
    closed(site.store, site.directory, shadow=True)
    posted(site.store, pod("team-a/late", "11-15", "11-16", "GPU-a"), "12-03")
    assert due(site) == []
