"""What must hold of any month: statements are the charge ledger, and a close with its corrections is what all facts at once would have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from steelyard.facts.base import Fact
from steelyard.primitives.instant import HOUR_US, MINUTE_US, format_instant
from steelyard.settlement.corrections import corrections_due
from steelyard.settlement.rules import PPM, SettlementRules, TaxRule
from steelyard.settlement.snapshot import closed_statements
from steelyard.settlement.statement import Statement
from steelyard.store import Store
from tests.settlement.conftest import Site
from tests.settlement.estate import CARDS, at, book, cards, closed, discount, drafts, pod, posted, watched
from tests.settlement.test_closing import folder_of
from tests.settlement.test_drafts import rate, used

NEXT = "2027-01-02T00:00:00Z"
TAXED = SettlementRules(taxes=(TaxRule("VAT", 87_500, tenant="team-*"), TaxRule("levy", 3, tenant="team-a")))
FEW = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
"""Each example posts a month, so what fails is shown as it was found, not made smaller for minutes."""


@st.composite
def pods(draw: st.DrawFn, prefix: str, least: int) -> list[Fact]:
    """Up to four pods of three tenants, each for a part of a card and some minutes of November."""
    facts: list[Fact] = []
    for number in range(draw(st.integers(least, 4))):
        start = at("11-01") + draw(st.integers(0, 28 * 24 * 60)) * MINUTE_US
        end = start + draw(st.integers(1, 40 * 60)) * MINUTE_US
        facts += pod(
            f"team-{draw(st.sampled_from('abc'))}/{prefix}{number}", format_instant(start), format_instant(min(end, at("12-01"))),
            draw(st.sampled_from(CARDS)), draw(st.integers(1, 1024)),
        )  # fmt: skip
    return facts


prices = st.integers(0, 99_999_999)
discounts = st.integers(0, PPM)


def month(held: Sequence[Fact], price: int, ppm: int, version: int = 1) -> list[Fact]:
    return [*held, *book(version, charge=price), discount("team-b", ppm, version)]


def seen(end: str = "12-02") -> list[Fact]:
    return [watched("11-01", end), *cards(last=end)]


def booked(store: Store) -> int:
    found: int = store.rows(
        "SELECT coalesce(sum(charge_micro), 0)::BIGINT FROM ledger.charge WHERE grain_at >= '2026-11-01' AND grain_at < '2026-12-01'"
    )[0][0]
    return found


def amounts(found: Mapping[str, Statement], *kinds: str) -> dict[str, int]:
    """Tenant -> what its lines of the kinds come to; every line is an integer that its list amount and its discount make."""
    sums: dict[str, int] = {}
    for tenant, each in found.items():
        for line in each.lines:
            assert line.amount_micro is not None
            if line.kind == "usage":
                assert (line.list_micro or 0) - (line.discount_micro or 0) == line.amount_micro
            if line.kind in kinds:
                sums[tenant] = sums.get(tenant, 0) + line.amount_micro
    return sums


@FEW
@given(pods("p", 1), prices, discounts)
def test_statements_are_the_charge_ledger_and_tax_is_one_rounding_of_each_rate(
    held: list[Fact], price: int, ppm: int
) -> None:
    with Store.open_memory() as store:
        posted(store, [*seen(), *month(held, price, ppm)])
        found = drafts(store, rules=TAXED)
        usage = amounts(found, "usage")
        assert sum(usage.values()) == booked(store)
    for tenant, each in found.items():
        taxes = [line.amount_micro for line in each.lines if line.kind == "tax"]
        rates = [rule.rate_ppm for rule in TAXED.taxes if rule.tenant in ("team-*", tenant)]
        assert taxes == [(2 * usage[tenant] * ppm + PPM) // (2 * PPM) for ppm in rates]
        assert each.amount_micro == usage[tenant] + sum(amount for amount in taxes if amount is not None)


@FEW
@given(pods("p", 1), pods("late", 0), prices, prices, discounts, discounts)
def test_what_was_closed_and_its_corrections_are_what_all_facts_at_once_say(
    early: list[Fact], late: list[Fact], price: int, new_price: int, ppm: int, new_ppm: int
) -> None:
    with TemporaryDirectory() as scratch, Store.open(Path(scratch) / "data") as store:
        site = Site(Path(scratch) / "data", store)
        posted(store, [*seen(), *month(early, price, ppm)])
        closed(store, site.directory)
        with store.reader() as view:
            before = {each.tenant: each for each in closed_statements(view, folder_of(site))}
        posted(store, [*seen(NEXT), *month(late, new_price, new_ppm, 2)], NEXT)
        closed(store, site.directory, "2026-12", now=NEXT)
        with store.reader() as view:
            after = {each.tenant: each for each in closed_statements(view, folder_of(site, "2026-12"))}
            assert corrections_due(view, site.directory).corrections == []
        carried, usual = amounts(after, "correction"), amounts(before, "usage")
        assert sum(usual.values()) + sum(carried.values()) == booked(store)
    with Store.open_memory() as store:
        posted(store, [*seen(), *month([*early, *late], new_price, new_ppm, 2)])
        wanted = amounts(drafts(store), "usage")
    found = {tenant: usual.get(tenant, 0) + carried.get(tenant, 0) for tenant in {*usual, *carried}}
    assert {tenant: amount for tenant, amount in found.items() if amount} == {
        tenant: amount for tenant, amount in wanted.items() if amount
    }


@FEW
@given(pods("p", 1), prices, st.integers(1, 10**12))
def test_another_currency_converts_each_line_once_and_moves_no_gpu_time(
    held: list[Fact], price: int, nano: int
) -> None:
    with Store.open_memory() as store:
        posted(store, [*seen(), *month(held, price, 0), rate("USD/CNY", nano, "11-01")])
        plain = drafts(store)
        found = drafts(store, rules=SettlementRules(currency="CNY"))
    assert {each.currency for each in found.values()} == {"CNY"}
    for tenant, each in plain.items():
        pairs = list(zip(each.lines, found[tenant].lines, strict=True))
        assert [line.quantity_gpu_us for line, _other in pairs] == [line.quantity_gpu_us for _line, line in pairs]
        for line, other in pairs:
            assert line.amount_micro is not None
            assert other.amount_micro == (2 * line.amount_micro * nano + 10**9) // (2 * 10**9)


@FEW
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["team-b", "team-c", None]),
            st.none() | st.integers(0, 10**9),
            st.none() | st.integers(0, 10**9),
        ),
        min_size=1,
        max_size=5,
    ),
    prices,
)
def test_a_service_is_split_to_the_micro_unit_as_a_slow_count_of_its_tokens_says(
    uses: list[tuple[str | None, int | None, int | None]], price: int
) -> None:
    served = pod("team-a/chat-1", "11-01", "11-11")
    taken = [used(caller, prompt, done, f"11-{day:02}") for day, (caller, prompt, done) in enumerate(uses, start=2)]
    with Store.open_memory() as store:
        posted(store, [*seen(), *month(served, price, 0), *taken])
        store.execute("UPDATE dim.pod SET workload_name = 'chat' WHERE pod_uid = 'chat-1'")
        found = drafts(store)
        whole = booked(store)
    assert sum(each.amount_micro for each in found.values()) == whole == price * 240
    owner = "team-a"
    weights: dict[str, int] = {}
    untold = any(prompt is None or done is None for _caller, prompt, done in uses)
    for caller, prompt, done in uses:
        name = owner if untold or caller is None else caller
        weights[name] = weights.get(name, 0) + (1 if untold else (prompt or 0) + 4 * (done or 0))
    total = sum(weights.values())
    shares = {name: each.amount_micro for name, each in found.items()}
    if total == 0:
        assert shares == {owner: whole}
        return
    for name, weight in weights.items():
        assert 0 <= shares[name] - whole * weight // total <= 1
    assert set(shares) == {owner, *weights}
    marked = [line for line in found[owner].lines if line.reason == "unattributed"]
    assert bool(marked) == (owner in weights)


def test_hours_of_the_strategy_are_hours_of_the_ledger() -> None:
    with Store.open_memory() as store:
        posted(store, [*seen(), *month(pod("team-a/one", "11-01", "11-02"), 7, 0)])
        (line,) = drafts(store)["team-a"].lines
    assert (line.quantity_gpu_us, line.amount_micro) == (24 * HOUR_US, 7 * 24)
