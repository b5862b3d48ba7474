"""What is declared, as it is stored: which version holds, which rate counts, what a version changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.facts.exchange_rate import ExchangeRate
from steelyard.facts.price import BookWeight, Discount, Price, PriceBook
from steelyard.facts.tenancy import Tenancy
from steelyard.primitives.instant import parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.settlement.declared import rows
from steelyard.settlement.declared.changes import changes_of_books, decimal_text, percent_text
from steelyard.settlement.tables import filled
from steelyard.store import Store

DAY = parse_instant("2026-11-01T00:00:00Z")
COMMON = {"source": "declared", "occurred_at": DAY, "observed_at": DAY}


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def book(version: int, name: str = "list") -> PriceBook:
    return PriceBook(
        **COMMON, natural_key=f"{name}@{version}", book=name, version=version, sha256=f"{version}", lines_count=1
    )


def price(version: int, price_id: str, micro: int | None, **more: object) -> Price:
    found = {"side": "charge", "currency": "USD", "price_micro": micro, **COMMON, **more}
    return Price(**found, natural_key=f"list@{version}/{price_id}", book="list", version=version, price_id=price_id)  # type: ignore[arg-type]


def rate(nano: int, seen_us: int) -> ExchangeRate:
    return ExchangeRate(
        source="declared",
        natural_key="USD/CNY",
        occurred_at=DAY,
        observed_at=DAY + seen_us,
        base_currency="USD",
        quote_currency="CNY",
        rate_nano=nano,
    )


def test_of_several_rates_for_one_instant_the_one_declared_last_counts(store: Store) -> None:
    store.append([rate(7_900_000_000, 1), rate(7_100_000_000, 2)])
    assert store.rows(f"SELECT rate_nano FROM ({filled('rates', {'to_us': DAY + 1})})") == [(7_100_000_000,)]
    assert store.rows(f"SELECT rate_nano FROM ({filled('rates', {'to_us': DAY})})") == []
    assert rows.rates_declared(store) == {("USD/CNY", DAY): [7_900_000_000, 7_100_000_000]}


def test_the_highest_version_of_each_book_holds(store: Store) -> None:
    store.append([book(2), book(10), book(9), book(1, "other")])
    assert [(each.book, each.version) for each in rows.current_books(store)] == [("list", 10), ("other", 1)]


def test_a_line_that_two_clusters_declare_stands_once(store: Store) -> None:
    store.append([price(1, "a", 5), price(1, "a", 5, cluster="east")])
    assert len(rows.book_rows(store, "list", 1)["prices"]) == 1


def test_a_version_is_compared_line_by_line_and_field_by_field(store: Store) -> None:
    store.append(
        [
            price(1, "a", 2_000_000), price(2, "a", 2_500_000), price(1, "b", 1), price(2, "c", None),
            price(1, "d", None), price(2, "d", 1_000_000), price(1, "e", 0), price(2, "e", 5), price(1, "f", 7), price(2, "f", 7),
            Discount(**COMMON, natural_key="list@1/t/1", book="list", version=1, tenant="t", discount_ppm=100_000),
            Discount(**COMMON, natural_key="list@2/t/1", book="list", version=2, tenant="t", discount_ppm=50_000),
            BookWeight(**COMMON, natural_key="list@2/m/1", book="list", version=2, model="m", weight_ppm=500_000),
        ]
    )  # fmt: skip
    table = changes_of_books(rows.book_rows(store, "list", 1), rows.book_rows(store, "list", 2))
    found = {(row[0], row[1], row[2]): row[3:] for row in table.rows}
    assert found["changed", "prices", "a"] == ("price", "2.00", "2.50", 25)
    assert found["changed", "discounts", "t"] == ("discount_percent", "10.00", "5.00", -50)
    assert {key[:2] for key in found if key[0] != "changed"} == {
        ("added", "prices"),
        ("removed", "prices"),
        ("added", "weights"),
    }
    assert isinstance(found["changed", "prices", "d"][1], Unknown)
    assert isinstance(found["changed", "prices", "d"][3], Unknown)
    assert found["changed", "prices", "e"][3] == Unknown("the old one is 0")
    assert ("changed", "prices", "f") not in found


def test_the_last_version_of_the_tree_holds_whole(store: Store) -> None:
    def line(version: int, position: int, match: str) -> Tenancy:
        return Tenancy(
            **COMMON,
            natural_key=f"{version}/{position}",
            version=version,
            position=position,
            by="namespace",
            match=match,
            team="x",
        )

    store.append([line(1, 1, "a"), line(1, 2, "b"), line(2, 1, "c")])
    version = rows.tree_version(store)
    assert (version, [row["match"] for row in rows.tree_rows(store, version)]) == (2, ["c"])
    assert rows.tree_rows(store, 3) == []


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0.00"), (1, "0.000001"), (2_500_000, "2.50"), (-1_234_567, "-1.234567"), (10**15, "1000000000.00")],
)
def test_an_amount_is_told_exactly(amount: int, text: str) -> None:
    assert decimal_text(amount) == text


def test_parts_per_million_are_told_as_percent() -> None:
    assert [percent_text(ppm) for ppm in (0, 1, 125_000, 1_000_000)] == ["0.00", "0.0001", "12.50", "100.00"]
