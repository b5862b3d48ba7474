"""Exchange rates as a list."""

from __future__ import annotations

import pytest

from steelyard.primitives.instant import parse_instant
from steelyard.sources.money import read_exchange_rates
from steelyard.sources.shared.context import ReadContext

CTX = ReadContext(file="rates.csv")


def read(*rows, header="base_currency,quote_currency,rate,valid_from,zone"):
    return read_exchange_rates("\n".join((header, *rows)) + "\n", CTX, "ann")


def told(rates):
    return [(refusal.line, refusal.message) for refusal in rates.refusals.kept]


def test_a_rate_is_kept_as_written_from_its_day_on():
    found = read("USD,CNY,7.123456789,2026-11-01,Asia/Shanghai", "EUR,USD,1.08,2026-11-01,")
    assert told(found) == []
    usd, eur = found.lines
    assert (usd.natural_key, usd.rate_nano, usd.declared_by) == ("USD/CNY", 7_123_456_789, "ann")
    assert usd.occurred_at == parse_instant("2026-10-31T16:00:00Z")
    assert eur.rate_nano == 1_080_000_000


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("USD,USD,1,2026-11-01,", "expected two currencies"), ("USD,CNY,0,2026-11-01,", "more than 0"), ("USD,CNY,-7,2026-11-01,", "no negative"),
        ("USD,CNY,7.1234567891,2026-11-01,", "at most 9 decimals"), ("USD,RMB,7,2026-11-01,", "ISO 4217"),
        ("USD,CNY,7,,", "valid_from: expected a value"),
        ("USD,CNY,,2026-11-01,", "rate: expected a value"), ('USD,CNY,"7,1",2026-11-01,', "decimal point"),
        ("EUR,USD,2,2026-11-01,", "line 2 has one"),
    ],
)  # fmt: skip
def test_a_rate_that_is_none_refuses_all(row, words):
    found = read("EUR,USD,1.08,2026-11-01,", row)
    ((line, message),) = told(found)
    assert (line, words in message) == (3, True), message
    assert found.lines == []
