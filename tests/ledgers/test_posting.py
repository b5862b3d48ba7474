"""Posting: by difference, in one transaction, twice the same is nothing."""

from __future__ import annotations

import pytest

from steelyard.definitions.tenant import TenantRule
from steelyard.ledgers import posting
from steelyard.ledgers.posting import ModelWeight, PostingParameters, ensure_ledgers, post_ledgers
from steelyard.ledgers.registry import HOLDING, LEDGERS, SUPPLY, Ledger, LedgerColumn, model_text
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.errors import InvariantError, UsageError
from steelyard.primitives.instant import MINUTE_US
from steelyard.store import Store
from tests.ledgers.facts_of import at, card, grant, listing, pod, post, vgpu


def test_an_empty_store_has_every_ledger_and_dimension_to_read() -> None:
    with Store.open_memory() as store:
        ensure_ledgers(store)
        ensure_ledgers(store)
        for ledger in LEDGERS:
            assert store.rows(f"SELECT count(*) FROM ledger.{ledger.name}") == [(0,)]
        for table in (
            "dim.parameter",
            "dim.pod",
            "dim.device",
            "dim.slot",
            "dim.unit",
            "dim.node",
            "dim.tenant_rule",
            "dim.model_weight",
        ):
            assert store.rows(f"SELECT count(*) FROM {table}")[0][0] in (0, 1)
        assert store.rows("SELECT count(*) FROM ledger.posting_run") == [(0,)]


def test_posting_without_facts_knows_no_instant() -> None:
    with Store.open_memory() as store:
        result = post_ledgers(store, PostingParameters(), clock=FixedClock(at(1)))
        assert (result.as_of, result.findings) == (None, 0)


def test_the_same_facts_posted_twice_append_nothing() -> None:
    with Store.open_memory() as store:
        store.append([pod(scheduled_at=1), vgpu(), card()])
        first, second = post(store), post(store)
        assert (first.run_id, first.changes["holding"].posted) == (1, 1)
        assert (second.run_id, second.changes["holding"].posted, second.changes["holding"].reversed) == (None, 0, 0)
        store.append([pod(scheduled_at=1), vgpu(), card()])
        assert post(store).run_id is None
        assert store.rows("SELECT count(*) FROM ledger.posting_run") == [(1,)]


def test_a_late_fact_reverses_the_settled_row_it_restates_and_posts_the_new_one() -> None:
    with Store.open_memory() as store:
        store.append([pod(40, phase="Succeeded", scheduled_at=1, last_container_end_at=35), vgpu(), card()])
        post(store)
        store.append([pod(50, phase="Succeeded", scheduled_at=1, last_container_end_at=33)])
        change = post(store).changes["holding"]
        assert (change.posted, change.reversed, change.replaced) == (1, 1, 0)
        entries = store.rows(
            "SELECT run_id, sign, epoch_us(ended_at), entry_id FROM ledger.holding_entry ORDER BY run_id, sign"
        )
        assert [entry[:3] for entry in entries] == [(1, 1, at(35)), (2, -1, at(35)), (2, 1, at(33))]
        posted, reversed_, restated = (entry[3] for entry in entries)
        assert posted == reversed_ != restated
        assert store.rows("SELECT epoch_us(ended_at) FROM ledger.holding") == [(at(33),)]


def test_a_settled_row_that_no_fact_supports_any_more_leaves_a_reversal_behind() -> None:
    with Store.open_memory() as store:
        store.append([pod(40, phase="Succeeded", scheduled_at=1, last_container_end_at=35), vgpu(), card()])
        post(store)
        store.append([pod(50, phase="Failed", rejected=True)])
        change = post(store).changes["holding"]
        assert (change.posted, change.reversed, change.replaced) == (0, 1, 0)
        assert store.rows("SELECT count(*) FROM ledger.holding") == [(0,)]


def test_an_interval_without_an_end_is_replaced_and_settles_once_when_it_ends() -> None:
    with Store.open_memory() as store:
        store.append([pod(scheduled_at=1), vgpu(), card()])
        post(store)
        for minute in (35, 40, 45):
            store.append([pod(minute, scheduled_at=1), listing(minute)])
            change = post(store).changes["holding"]
            assert (change.posted, change.reversed, change.replaced) == (1, 0, 1)
        store.append([pod(50, phase="Succeeded", scheduled_at=1, last_container_end_at=47), listing(50)])
        change = post(store).changes["holding"]
        assert (change.posted, change.reversed, change.replaced) == (1, 0, 1)
        assert store.rows("SELECT run_id, sign, epoch_us(ended_at), is_open FROM ledger.holding_entry") == [
            (5, 1, at(47), False)
        ]


def test_an_hour_settles_once_when_it_is_over_however_often_it_was_looked_at() -> None:
    with Store.open_memory() as store:
        store.append([card(0), vgpu()])
        for minute in range(5, 140, 5):
            store.append([pod(minute, scheduled_at=1), listing(minute)])
            post_ledgers(store, PostingParameters(), clock=FixedClock(at(600)), ledgers=(HOLDING, SUPPLY))
        hours = store.rows(
            "SELECT epoch_us(grain_at), account, count(*), bool_or(is_open) FROM ledger.supply_entry GROUP BY ALL"
        )
        assert {row[2] for row in hours} == {1}
        assert {row[0] for row in hours if row[3]} == {at(120)}
        assert {row[0] for row in hours if not row[3]} == {at(0), at(60)}


MODELS = {
    "broken.sql": "SELECT 1 AS other",
    "one.sql": "SELECT 'a' AS word",
    "two.sql": "SELECT unnest(['b', 'b']) AS word",
}


@pytest.fixture
def made_up_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "model_text", lambda file: MODELS.get(file) or model_text(file))


def made_up(name: str, file: str) -> Ledger:
    return Ledger(name, (LedgerColumn("word", "VARCHAR"),), file, open_when="FALSE")


@pytest.mark.usefixtures("made_up_models")
def test_a_run_that_fails_leaves_everything_as_it_was() -> None:
    with Store.open_memory() as store:
        store.append([pod(scheduled_at=1), vgpu(), card()])
        post(store)
        store.append([pod(40, phase="Failed", rejected=True)])
        with pytest.raises(Exception, match="word"):
            post_ledgers(
                store, PostingParameters(), clock=FixedClock(at(1)), ledgers=(HOLDING, made_up("broken", "broken.sql"))
            )
        assert store.rows("SELECT count(*), sum(sign)::BIGINT FROM ledger.holding_entry") == [(1, 1)]
        assert store.rows("SELECT phase FROM dim.pod") == [("Running",)]


@pytest.mark.usefixtures("made_up_models")
def test_a_ledger_whose_rows_are_not_all_different_is_our_own_mistake() -> None:
    with Store.open_memory() as store:
        post_ledgers(store, PostingParameters(), clock=FixedClock(at(1)), ledgers=(made_up("words", "one.sql"),))
        with pytest.raises(InvariantError, match="words"):
            post_ledgers(store, PostingParameters(), clock=FixedClock(at(2)), ledgers=(made_up("words", "two.sql"),))
        assert store.rows("SELECT word FROM ledger.words") == [("a",)]


def test_settings_stand_as_tables_beside_the_facts() -> None:
    parameters = PostingParameters(
        grain_us=15 * MINUTE_US,
        tenant_rules=(TenantRule("label", key="team"), TenantRule("namespace", pattern="team-*", tenant="teams")),
        model_weights=(ModelWeight("h100 80gb", 2_500_000, at(0), None),),
    )
    with Store.open_memory() as store:
        store.append([pod(scheduled_at=1), listing(31)])
        result = post(store, parameters)
        assert result.as_of == at(31)
        assert store.rows("SELECT grain_us, floor_by_slots, epoch_us(as_of_at) FROM dim.parameter") == [
            (15 * MINUTE_US, False, at(31))
        ]
        assert store.rows("SELECT model, weight_ppm, epoch_us(valid_from_at), valid_to_at FROM dim.model_weight") == [
            ("h100 80gb", 2_500_000, at(0), None)
        ]
        assert store.rows("SELECT tenant FROM dim.pod") == [("teams",)]
        run = store.rows("SELECT run_id, epoch_us(posted_at), definitions, settings_hash FROM ledger.posting_run")
        assert (run[0][:2], '"share":"1"' in run[0][2], run[0][3]) == ((1, at(600)), True, parameters.settings_hash())
        assert post(store).run_id == 2


def test_other_settings_have_another_hash_and_a_wrong_grain_is_refused() -> None:
    assert PostingParameters(floor_by_slots=True).settings_hash() != PostingParameters().settings_hash()
    with pytest.raises(UsageError):
        PostingParameters(grain_us=7 * MINUTE_US)


def test_a_reversal_and_a_posting_never_share_an_entry_number_by_accident() -> None:
    with Store.open_memory() as store:
        for minute in range(10, 40, 5):
            store.append([pod(minute, f"u{number}", scheduled_at=1) for number in range(minute // 5)])
            store.append([grant(minute, f"u{number}") for number in range(minute // 5)])
            post(store)
        wrong = store.rows(
            "SELECT entry_id FROM ledger.holding_entry GROUP BY entry_id "
            "HAVING count(*) > 2 OR sum(sign) NOT IN (0, 1) OR count(DISTINCT pod_uid) > 1"
        )
        assert wrong == []
        assert store.rows("SELECT count(*) FROM ledger.holding") == [(7,)]


def test_two_postings_under_one_number_are_our_own_mistake() -> None:
    with Store.open_memory() as store:
        ended = {"phase": "Succeeded", "scheduled_at": 1, "last_container_end_at": 35}
        store.append([pod(40, **ended), pod(40, "u2", **ended), vgpu(), grant(10, "u2"), card()])
        post(store)
        assert store.rows("SELECT count(*) FROM ledger.holding_entry") == [(2,)]
        store.execute("UPDATE ledger.holding_entry SET entry_id = 7")
        store.append([pod(50, phase="Succeeded", scheduled_at=1, last_container_end_at=33)])
        with pytest.raises(InvariantError):
            post(store)
