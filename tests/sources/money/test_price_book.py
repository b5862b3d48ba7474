"""Price books: what is read exactly, and what is refused with the whole file."""

from __future__ import annotations

import pytest

from steelyard.facts.price import BookWeight, Discount, Price, PriceBook
from steelyard.primitives.instant import parse_instant
from steelyard.sources.money import Declaration, numbered, read_price_book
from steelyard.sources.money.price_book import DeclaredBook
from steelyard.sources.shared.context import ReadContext

CTX = ReadContext(file="prices.csv")
HEADER = "side,model,currency,price,per"
FULL = (
    "table,price_id,side,component,cluster,model,unit_kind,commitment,tenant,currency,price,per,valid_from,valid_to,zone,provisional,"
    "discount_percent,weight"
)


def read(*rows: str, header: str = HEADER) -> DeclaredBook:
    return read_price_book("\n".join((header, *rows)) + "\n", CTX)


def prices(book: DeclaredBook) -> list[Price]:
    return [line for line in book.lines if isinstance(line, Price)]


def told(book: DeclaredBook) -> list[tuple[int, str]]:
    return [(refusal.line, refusal.message) for refusal in book.refusals.kept]


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("2.50", 2_500_000), ("2.5", 2_500_000), ("0", 0), ("0.000001", 1), ("2.50000000", 2_500_000), ("1000000000", 10**15),
        ("0.1", 100_000), ("4.35", 4_350_000), ("1.005", 1_005_000), ("", None), ("unknown", None),
    ],
)  # fmt: skip
def test_a_price_is_read_exactly_and_an_empty_one_is_not_known(text, micro):
    book = read(f"charge,H100,USD,{text},hour")
    assert told(book) == []
    assert [price.price_micro for price in prices(book)] == [micro]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.234.567", "no thousands separators"), ('"1,000.50"', "no thousands separators"), ('"2,50"', "decimal point"),
        ("1'000", "no thousands separators"), ("NaN", "plain decimal"), ("Infinity", "plain decimal"), ("1e400", "plain decimal"),
        ("2E1", "plain decimal"), ("-2", "no negative number"), ("$2", "plain decimal"), ("2 USD", "plain decimal"),
        ("0.0000001", "at most 6 decimals"), ("1000000000.01", "at most 1000000000"), ("9" * 40, "plain decimal"), ("+2", "plain decimal"),
        ("０.５", "plain decimal"), (".5", "plain decimal"),
    ],
)  # fmt: skip
def test_a_price_that_could_be_read_in_two_ways_refuses_the_book_with_its_line(text, words):
    book = read("charge,A100,USD,1,hour", f"charge,H100,USD,{text},hour")
    ((line, message),) = told(book)
    assert line == 3
    assert words in message
    assert book.lines == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("charge,H100,RMB,2,hour", "ISO 4217"), ("charge,H100,,2,hour", "currency: expected a value"),
        ("charge,H100,USD,2,week", "per: expected one of"),
        ("charge,H100,USD,2,", "per: expected a value"), ("sale,H100,USD,2,hour", "side: expected one of"),
        (",H100,USD,2,hour", "side: expected cost or charge"),
        ("charge,H100,USD,2", "expected 5 cells"), ("charge,\x1b[31m,USD,2,hour", "without control characters"),
        (f"charge,{'x' * 300},USD,2,hour", "at most 253"),
    ],
)  # fmt: skip
def test_a_wrong_cell_refuses_the_book_with_its_line(row, words):
    book = read("charge,A100,USD,1,hour", row)
    ((line, message),) = told(book)
    assert (line, words in message) == (3, True), message
    assert book.lines == []


def test_every_mistake_of_a_book_is_told_at_once():
    book = read("charge,A,RMB,1,hour", "charge,B,USD,x,hour", "charge,C,USD,1,hour", "charge,D,USD,1,fortnight")
    assert [line for line, _message in told(book)] == [2, 3, 5]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("side,model,currency,price", "expected the columns per"), ("side,model,currency,price,per,pirce", "'pirce' that is not known"),
        ("side,model,currency,price,per,price", "stands twice"), ("side,model,currency,price,per,Price", "stands twice"),
    ],
)  # fmt: skip
def test_a_header_that_lacks_or_misspells_a_column_refuses_the_book(header, words):
    book = read("charge,H100,USD,2,hour" + ",1" * (header.count(",") - 4), header=header)
    assert any(words in message for _line, message in told(book)), told(book)
    assert book.lines == []


def test_excel_with_semicolons_a_mark_and_a_sep_line_is_read_as_any_other():
    rows = ("side;model;currency;price;per", "charge;H100;usd;2.50;Hour", ";;;;")
    plain = read("charge,H100,USD,2.50,hour")
    for start in ("", "\ufeff", "sep=;\r\n", "\ufeffsep=;\r\n"):
        book = read_price_book(start + "\r\n".join(rows), CTX)
        assert told(book) == []
        assert book.lines == plain.lines


def test_a_second_price_for_the_same_at_the_same_time_is_refused_and_at_another_time_is_not():
    header = f"{HEADER},valid_from,valid_to"
    apart = read("charge,H100,USD,2,hour,,2026-02-01", "charge,H100,USD,3,hour,2026-02-01,", header=header)
    assert told(apart) == []
    together = read("charge,H100 SXM,USD,2,hour,,2026-02-02", "charge,sxm h100,USD,3,hour,2026-02-01,", header=header)
    ((line, message),) = told(together)
    assert line == 3
    assert "holds at the same time as line 2" in message


def test_an_early_short_price_does_not_hide_that_a_long_one_overlaps():
    header = f"{HEADER},valid_from,valid_to"
    rows = (
        "charge,X,USD,1,hour,2026-01-01,2027-01-01",
        "charge,Y,USD,1,hour,,",
        "charge,X,USD,1,hour,2026-02-01,2026-03-01",
        "charge,X,USD,1,hour,2026-06-01,2026-07-01",
    )
    assert [line for line, _message in told(read(*rows, header=header))] == [4, 5]


def test_the_same_price_of_two_components_sides_or_tenants_is_no_overlap():
    header = f"{HEADER},component,tenant"
    rows = (
        "cost,,USD,1,hour,card,",
        "cost,,USD,1,hour,power,",
        "charge,,USD,1,hour,card,",
        "charge,,USD,1,hour,card,team-a",
    )
    assert told(read(*rows, header=header)) == []


@pytest.mark.parametrize(
    ("start", "end", "zone", "expected"),
    [
        ("2026-01-01", "", "", "2026-01-01T00:00:00Z"), ("2026-01-01", "", "Asia/Shanghai", "2025-12-31T16:00:00Z"),
        ("2026-01-01T00:00:00+08:00", "", "", "2025-12-31T16:00:00Z"),
    ],
)  # fmt: skip
def test_a_day_is_its_midnight_in_the_named_zone_else_in_utc(start, end, zone, expected):
    (price,) = prices(read(f"charge,H100,USD,2,hour,{start},{end},{zone}", header=f"{HEADER},valid_from,valid_to,zone"))
    assert price.valid_from_at == parse_instant(expected)


@pytest.mark.parametrize(
    ("start", "end", "zone", "words"),
    [
        ("2026-01-01T00:00:00", "", "", "time with a zone"), ("01/02/2026", "", "", "expected a day"), ("2026-02-30", "", "", "no such day"),
        ("2026-01-01", "2026-01-01", "", "not after valid_from"), ("2026-01-01", "", "Mars/Base", "IANA"), ("0000-01-01", "", "", "no such day"),
    ],
)  # fmt: skip
def test_a_validity_that_is_none_refuses_the_book(start, end, zone, words):
    book = read(f"charge,H100,USD,2,hour,{start},{end},{zone}", header=f"{HEADER},valid_from,valid_to,zone")
    ((_line, message),) = told(book)
    assert words in message


def test_a_tenant_has_no_part_in_what_a_card_costs_us():
    book = read("cost,H100,USD,2,hour,team-a", header=f"{HEADER},tenant")
    assert "only side charge has tenants" in told(book)[0][1]


def test_ids_are_the_same_in_every_version_and_one_that_stands_twice_is_refused():
    (first,) = prices(read("charge,H100 SXM,USD,2,hour"))
    (second,) = prices(read("charge,H100 SXM,USD,3,hour"))
    assert first.price_id == second.price_id == "charge/card/any/H100-SXM/any/any/any"
    book = read("charge,A,USD,2,hour,sku-1", "charge,B,USD,2,hour,sku-1", header=f"{HEADER},price_id")
    assert told(book) == [(3, "price_id sku-1 stands in line 2 already")]


def test_a_list_with_a_column_table_holds_discounts_and_weights_beside_prices():
    book = read(
        "prices,,charge,,,,,,,USD,2,hour,,,,,,",
        "discounts,,,,,H100,,reserved,team-a,,,,2026-01-01,,,,12.5,",
        "weights,,,,,H100,,,,,,,,,,,,2.25",
        header=FULL,
    )
    assert told(book) == []
    _price, discount, weight = book.lines
    assert isinstance(discount, Discount) and isinstance(weight, BookWeight)
    assert (discount.tenant, discount.discount_ppm, discount.commitment) == ("team-a", 125_000, "reserved")
    assert (weight.model, weight.weight_ppm) == ("H100", 2_250_000)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("discounts,,,,,,,,team-a,,,,,,,,100.5,", "at most 100"), ("discounts,,,,,,,,,,,,,,,,10,", "tenant: expected a value"),
        ("discounts,,,,,,,,team-a,USD,,,,,,,10,", "discounts have no currency"), ("weights,,,,,H100,,,,,,,,,,,,0", "more than 0"),
        ("weights,,,,,,,,,,,,,,,,,1", "model: expected a value"), ("rebates,,,,,,,,team-a,,,,,,,,10,", "table: expected one of"),
    ],
)  # fmt: skip
def test_a_discount_or_weight_that_is_none_refuses_the_book(row, words):
    book = read(row, header=FULL)
    assert words in told(book)[0][1]


TOML = """
book = "list-2026"
currency = "USD"

[[prices]]
side = "charge"
model = "H100"
price = 2.50
per = "hour"
valid_from = 2026-01-01T00:00:00+08:00

[[prices]]
side = "cost"
component = "power"
price = "unknown"
per = "month"
provisional = true

[[discounts]]
tenant = "team-a"
discount_percent = 10

[[weights]]
model = "T4"
weight = 0.2
"""


def test_toml_is_read_as_exactly_as_csv():
    book = read_price_book(TOML, CTX)
    assert told(book) == []
    assert book.book == "list-2026"
    charge, power, discount, weight = book.lines
    assert isinstance(charge, Price) and isinstance(power, Price)
    assert (charge.price_micro, charge.currency, charge.valid_from_at) == (
        2_500_000,
        "USD",
        parse_instant("2025-12-31T16:00:00Z"),
    )
    assert (power.price_micro, power.per, power.provisional) == (None, "month", True)
    assert isinstance(discount, Discount) and discount.discount_ppm == 100_000
    assert isinstance(weight, BookWeight) and weight.weight_ppm == 200_000


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("price = 2.50", "price = nan", 5, "plain decimal"), ("price = 2.50", "price = 1e400", 5, "plain decimal"),
        ("price = 2.50", "price = 1e999999999", 5, "plain decimal"), ("price = 2.50", f"price = 0x{'f' * 500}", 5, "expected text, a number"),
        ("price = 2.50", f"price = {'9' * 900}", 5, "expected text, a number"), ("price = 2.50", "", 5, "where nobody knows it"),
        ("price = 2.50", "price = [1]", 5, "expected text, a number"), ("price = 2.50", "pirce = 2.50", 5, "'pirce' is not known"),
        ('currency = "USD"', 'curency = "USD"', 0, "'curency' is not known"), ('book = "list-2026"', 'book = "a b"', 0, "book: expected letters"),
        ("valid_from = 2026-01-01T00:00:00+08:00", "valid_from = 2026-01-01T00:00:00", 5, "time with a zone"),
        ("[[weights]]", "[[weights", 0, "expected TOML"),
        ("price = 2.50", f"price = {'[' * 900}", 0, "expected TOML"), ("price = 2.50", f"a{'.a' * 30} = 1", 8, "at most 20 dots"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_toml_refuses_the_book(old, new, line, words):
    assert old in TOML
    book = read_price_book(TOML.replace(old, new, 1), CTX)
    found = told(book)
    assert any(words in message and (line in (0, at)) for at, message in found), found
    assert book.lines == []


def test_an_empty_list_declares_nothing_and_says_so():
    assert told(read()) == [(0, "expected rows below the header, found none")]
    assert told(read_price_book("", CTX)) != []


def test_a_book_of_a_hundred_thousand_mistakes_keeps_a_hundred_of_them():
    book = read(*["charge,H100,USD,x,hour"] * 2_000)
    assert (len(book.refusals.kept), book.refusals.count) == (100, 2_000)


def test_a_version_is_the_book_and_its_lines_under_keys_of_their_own():
    declaration = Declaration("abc", 42, "ann", "list of 2027")
    facts = numbered(read("charge,A,USD,1,hour", "charge,B,USD,2,hour").lines, "list", 3, declaration, CTX)
    book, *lines = facts
    assert isinstance(book, PriceBook)
    assert (book.natural_key, book.version, book.lines_count, book.declared_by, book.reason) == (
        "list@3",
        3,
        2,
        "ann",
        "list of 2027",
    )
    assert {fact.occurred_at for fact in facts} == {fact.observed_at for fact in facts} == {42}
    assert len({line.natural_key for line in lines}) == 2
    assert all(line.natural_key.startswith("list@3/") and line.version == 3 for line in lines)


@pytest.mark.parametrize("filler", ["\n", " ", "\t\n", '"\n', "[\n"])
def test_a_long_file_of_nothing_is_refused_in_time_that_grows_with_its_length(filler):
    assert told(read_price_book(HEADER + "\n" + filler * 200_000, CTX)) != []
    assert told(read_price_book(filler * 200_000, CTX)) != []
