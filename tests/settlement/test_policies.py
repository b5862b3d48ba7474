"""What a policy lays on tenants beside their grants, from facts to the lines of their statements."""

from __future__ import annotations

from steelyard.settlement.assembly import Sheet, statements
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.statement import Statement
from steelyard.settlement.tables import lay_out_ledgers
from steelyard.store import Store
from tests.ledgers.facts_of import at
from tests.ledgers.money_facts import HOUR, discount, estate, held, measured, policy, posted, price

PRICE = 3_600_000
BOOK = [price("p", PRICE), price("c", 2 * PRICE, "charge")]


def drafts_of(store: Store) -> dict[str, Statement]:
    rules = SettlementRules()
    label = rules.periods.label_at(at(0))
    with store.reader() as view:
        lay_out_ledgers(view, rules.periods, label)
        return {each.tenant: each for each in statements(view, rules, Sheet(label, at(180)))}


def test_what_an_owner_leaves_unused_of_its_node_is_a_line_of_its_own_statement_with_its_discount() -> None:
    facts = [*estate(), *held(percent=50, end=HOUR), *BOOK, discount("vision", 500_000)]
    with posted(facts, policy(dedicated=(("n1", "vision"),), reserved_unused="charged")) as store:
        found = drafts_of(store)
    (line,) = found["vision"].lines
    assert (line.kind, line.description) == ("reserved_unused", "vision (reserved_unused)")
    assert (line.quantity_gpu_us, line.list_micro, line.amount_micro) == (150 * 60_000_000, 5 * PRICE, 5 * PRICE // 2)
    assert [(each.kind, each.amount_micro) for each in found["team-a"].lines] == [("usage", PRICE)]
    assert sum(each.amount_micro for each in found.values()) == PRICE + 5 * PRICE // 2


def test_what_is_only_shown_is_on_no_statement() -> None:
    facts = [*estate(), *held(percent=50, end=HOUR), *BOOK]
    with posted(facts, policy(dedicated=(("n1", "vision"),), reserved_unused="shown")) as store:
        assert set(drafts_of(store)) == {"team-a"}


def test_use_above_a_forced_grant_is_a_line_beside_the_grant() -> None:
    facts = [*estate(), *held(percent=25, core_policy="force"), *measured(0, 60, 0.9), *BOOK]
    with posted(facts, policy(burst="charged")) as store:
        lines = {line.kind: line for line in drafts_of(store)["team-a"].lines}
    assert {kind: line.amount_micro for kind, line in lines.items()} == {"usage": 5_400_000, "burst": 4_680_000}
    assert lines["burst"].pod == lines["usage"].pod
    assert lines["burst"].line_id != lines["usage"].line_id
