"""FOCUS bills, from CSV and Parquet."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.facts.bill_line import BillLine
from steelyard.facts.finding import Finding
from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.instant import parse_instant
from steelyard.sources.money import read_bill_csv, read_bill_parquet
from steelyard.sources.money.bill import rounded
from steelyard.sources.shared.context import ReadContext, ReadSettings

CTX = ReadContext(file="bill.csv")
NOW_COLUMNS = {
    "BillingCurrency": "USD",
    "BilledCost": "1.5",
    "EffectiveCost": "1.25",
    "ListCost": "2",
    "ContractedCost": "",
    "ChargeCategory": "Usage",
    "ChargePeriodStart": "2026-11-01T00:00:00Z",
    "ChargePeriodEnd": "2026-11-02T00:00:00Z",
    "ServiceProviderName": "Example Cloud",
    "BillingAccountId": "acc-1",
    "SkuId": "gpu-h100",
    "ResourceId": "i-1",
    "RegionId": "eu-1",
    "ConsumedQuantity": "24",
    "ConsumedUnit": "Hours",
    "Tags": '{"b": 1, "a": "x"}',
    "x_Own": "?",
}


def csv_of(*rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(names)]
    for row in rows:
        lines.append(",".join('"' + str(row.get(name, "")).replace('"', '""') + '"' for name in names))
    return "\n".join(lines) + "\n"


def lines_of(facts):
    return [fact for fact in facts if isinstance(fact, BillLine)]


def findings(facts):
    return [(fact.code, fact.line, fact.message) for fact in facts if isinstance(fact, Finding)]


def test_a_line_keeps_the_providers_words_and_exact_amounts():
    (line,) = read_bill_csv(csv_of(NOW_COLUMNS), "abc", CTX)
    assert isinstance(line, BillLine)
    assert (line.natural_key, line.currency, line.billed_micro, line.effective_micro) == (
        "abc/2",
        "USD",
        1_500_000,
        1_250_000,
    )
    assert (line.list_micro, line.contracted_micro, line.quantity_milli, line.unit) == (
        2_000_000,
        None,
        24_000,
        "Hours",
    )
    assert (line.provider, line.sku, line.resource_id, line.region) == ("Example Cloud", "gpu-h100", "i-1", "eu-1")
    assert (line.occurred_at, line.ended_at) == (
        parse_instant("2026-11-01T00:00:00Z"),
        parse_instant("2026-11-02T00:00:00Z"),
    )
    assert json.loads(line.tags) == {"a": "x", "b": 1}
    assert line.invoice_id is None


def test_the_names_of_1_2_and_before_are_read_too():
    row = {name: value for name, value in NOW_COLUMNS.items() if name != "ServiceProviderName"}
    (line,) = read_bill_csv(csv_of({**row, "ProviderName": "Old Cloud", "InvoiceId": "NULL"}), "abc", CTX)
    assert (line.provider, line.invoice_id) == ("Old Cloud", None)


def test_what_was_priced_stands_where_nothing_was_consumed():
    (line,) = read_bill_csv(
        csv_of({**NOW_COLUMNS, "ConsumedQuantity": "", "PricingQuantity": "3", "PricingUnit": "GPU-Hours"}), "abc", CTX
    )
    assert (line.quantity_milli, line.unit) == (3_000, "GPU-Hours")


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("0.0000005", 0), ("0.0000015", 2), ("-1.2345678", -1_234_568), ("1.2E1", 12_000_000), ("1e-3", 1_000), ("0e99", 0), ("1E-300", 0),
        ("12345678901.123456", 12_345_678_901_123_456),
    ],
)  # fmt: skip
def test_amounts_are_rounded_half_to_even_and_never_through_a_float(text, micro):
    assert rounded(text, 6) == micro


@pytest.mark.parametrize("text", ["1e400", "1E13", "NaN", "inf", "1,5", "+1", "0x1", "", "1e9999", "9" * 31])
def test_a_number_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        rounded(text, 6)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"BilledCost": ""}, "BilledCost"), ({"BilledCost": "1e400"}, "BilledCost"), ({"BillingCurrency": "RMB"}, "ISO 4217"),
        ({"BillingCurrency": ""}, "BillingCurrency"),
        ({"ChargePeriodStart": "2026-11-01"}, "ChargePeriodStart"), ({"ChargePeriodEnd": "2026-11-01T00:00:00Z"}, "not after"),
        ({"Tags": "[1]"}, "Tags"),
        ({"Tags": "[" * 60_000}, "Tags"), ({"ResourceId": "x" * 2_001}, "at most 2000"), ({"EffectiveCost": "one"}, "EffectiveCost"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_costs_itself_alone(more, words):
    facts = list(read_bill_csv(csv_of({**NOW_COLUMNS, **more}, NOW_COLUMNS), "abc", CTX))
    ((code, line, message),) = findings(facts)
    assert (code, line, words in message) == ("source_malformed", 2, True), message
    assert len(lines_of(facts)) == 1


def test_a_file_without_the_columns_of_a_bill_is_refused_with_their_names():
    ((code, _line, message),) = findings(
        read_bill_csv("BilledCost,ChargeCategory,ChargePeriodStart\n1,Usage,x\n", "abc", CTX)
    )
    assert (code, "BillingCurrency, ChargePeriodEnd" in message) == ("bill_columns_missing", True)


def parquet(**more):
    start, end = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
    columns = {
        "BilledCost": pa.array([Decimal("1.50000000000001"), None], pa.decimal128(38, 14)),
        "EffectiveCost": [1.25, 2.0],
        "BillingCurrency": ["USD", "USD"],
        "ChargeCategory": ["Usage", "Tax"],
        "ChargePeriodStart": pa.array([start, start]),
        "ChargePeriodEnd": pa.array([end, end]).cast(pa.timestamp("us")),
        "ServiceProviderName": ["Example Cloud", None],
        "Tags": pa.array([[("a", "x")], None], pa.map_(pa.string(), pa.string())),
        "x_Own": [1, 2],
        **more,
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def test_parquet_with_decimals_times_and_maps_gives_the_same_lines():
    facts = list(read_bill_parquet(parquet(), "abc", CTX))
    (line,) = lines_of(facts)
    assert (line.natural_key, line.billed_micro, line.effective_micro, line.provider) == (
        "abc/1",
        1_500_000,
        1_250_000,
        "Example Cloud",
    )
    assert (line.occurred_at, line.ended_at) == (
        parse_instant("2026-11-01T00:00:00Z"),
        parse_instant("2026-11-02T00:00:00Z"),
    )
    assert json.loads(line.tags) == {"a": "x"}
    assert [(code, at) for code, at, _message in findings(facts)] == [("source_malformed", 2)]


@pytest.mark.parametrize("cut", [4, 100, 1_000])
def test_a_parquet_file_that_is_cut_off_is_refused(cut):
    with pytest.raises(SourceUnsupported, match="no readable Parquet"):
        list(read_bill_parquet(parquet()[:cut], "abc", CTX))


def test_a_parquet_file_that_is_no_bill_or_would_not_fit_is_refused():
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), out)
    with pytest.raises(SourceUnsupported, match="no bill in FOCUS"):
        list(read_bill_parquet(out.getvalue(), "abc", CTX))
    small = ReadContext(settings=ReadSettings(decompressed_bytes_max=100))
    with pytest.raises(SourceUnsupported, match="100 bytes"):
        list(read_bill_parquet(parquet(), "abc", small))


def test_a_text_that_a_file_repeats_stands_in_memory_once():
    long = "x" * 1_500
    facts = list(read_bill_parquet(parquet(BilledCost=[1.0, 2.0], ChargeDescription=[long, long]), "abc", CTX))
    first, second = lines_of(facts)
    assert first.description is second.description
