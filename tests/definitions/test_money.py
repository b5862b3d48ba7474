"""Money in integers: the grains of a unit of time sum to its price, divisions lose nothing, and macros give what their functions give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.definitions import money
from steelyard.definitions.models import model_tokens
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import HOUR_US, parse_instant
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store

GRAINS = st.sampled_from([HOUR_US, HOUR_US // 2, HOUR_US // 4])
PRICES = st.one_of(st.integers(0, 5_000_000_000), st.integers(0, money.PRICE_MICRO_MAX))
AMOUNTS = st.one_of(st.integers(0, HOUR_US), st.integers(-64 * HOUR_US, 64 * HOUR_US))
INSTANTS = st.integers(0, 80 * 365 * 24).map(lambda hours: hours * HOUR_US)
NAMES = st.sampled_from([None, "a", "b"])
MODELS = st.sampled_from([None, "H100", "nvidia h100_80GB", "A100-SXM4/40GB", " - ", "H100 80gb NVL"])
KEYS = st.builds(money.LineKey, NAMES, NAMES, MODELS, NAMES, NAMES)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def value(store: Store, call: str, *arguments: object) -> Any:
    return store.rows(f"SELECT {call}", arguments)[0][0]


@pytest.mark.parametrize(
    ("per", "hours"), [("day", 24), ("month", 28 * 24), ("month", 30 * 24), ("year", 365 * 24), ("year", 366 * 24)]
)
@given(PRICES, GRAINS)
@settings(deadline=None, max_examples=3)
def test_the_grains_of_a_unit_of_time_sum_to_its_price_to_the_micro_unit(
    per: Any, hours: int, price: int, grain: int
) -> None:
    start = {24: "2026-11-30", 672: "2026-02-01", 720: "2026-11-01", 8760: "2026-01-01", 8784: "2028-01-01"}[hours]
    first = parse_instant(f"{start}T00:00:00Z")
    length = hours * HOUR_US
    assert sum(money.grain_price_micro(price, per, at, grain) for at in range(first, first + length, grain)) == price


@pytest.mark.parametrize(
    ("per", "at", "start", "end"),
    [
        ("hour", "2026-11-30T23:15:00Z", "2026-11-30T23:00:00Z", "2026-12-01T00:00:00Z"),
        ("day", "2026-11-30T23:15:00Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"),
        ("month", "2026-12-31T23:15:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("month", "2028-02-29T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        ("year", "2028-02-29T00:00:00Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"),
    ],
)
def test_a_unit_of_time_is_that_of_the_calendar_in_utc(per: Any, at: str, start: str, end: str) -> None:
    assert money.unit_of_time_us(parse_instant(at), per) == (parse_instant(start), parse_instant(end))


def test_an_hourly_price_is_that_of_each_hour_and_a_quarter_of_it_never_loses_a_micro_unit() -> None:
    at = parse_instant("2026-11-30T05:00:00Z")
    assert money.grain_price_micro(2_500_001, "hour", at, HOUR_US) == 2_500_001
    quarters = [money.grain_price_micro(2_500_001, "hour", at + n * HOUR_US // 4, HOUR_US // 4) for n in range(4)]
    assert quarters == [625_000, 625_000, 625_000, 625_001]


@given(PRICES, st.lists(AMOUNTS, min_size=1, max_size=8), GRAINS)
def test_what_is_divided_sums_to_the_whole_and_no_part_is_off_by_one(
    price: int, amounts: list[int], grain: int
) -> None:
    parts = money.divide_micro(price, amounts, grain)
    assert sum(parts) == price * sum(amounts) // grain
    assert all(0 <= part - price * amount // grain <= 1 for part, amount in zip(parts, amounts, strict=True))


def test_what_flooring_leaves_goes_to_the_largest_remainder_and_ties_to_the_first() -> None:
    third = HOUR_US // 3
    assert money.divide_micro(100, [third, third, third], HOUR_US) == [34, 33, 33]
    assert money.divide_micro(10, [HOUR_US // 2, HOUR_US // 4, HOUR_US // 4], HOUR_US) == [5, 3, 2]
    assert money.divide_micro(7, [HOUR_US, -HOUR_US // 2], HOUR_US) == [7, -4]


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"), [(5, 2, 3), (4, 2, 2), (1, 3, 0), (2, 3, 1), (0, 7, 0), (15, 10, 2)]
)
def test_halves_are_rounded_up(numerator: int, denominator: int, expected: int) -> None:
    assert money.half_up(numerator, denominator) == expected


def test_use_that_was_not_seen_is_bounded_by_what_was_granted_meanwhile() -> None:
    assert money.used_upper_gpu_us(10, 100, 50, 100) == 60
    assert money.used_upper_gpu_us(10, 100, 100, 100) == 10
    assert money.used_upper_gpu_us(10, 100, 0, 0) == 10


def test_effective_cost_is_the_used_part_and_unknown_where_nothing_was_granted() -> None:
    assert money.effective_micro(1_000, 1, 4) == 250
    assert money.effective_micro(1_000, 1, 3) == 333
    assert isinstance(money.effective_micro(1_000, 1, 0), Unknown)


@pytest.mark.parametrize(
    ("closer", "wider"),
    [
        (
            money.LineKey(tenant="a"),
            money.LineKey(for_cluster="c", model="h100 80gb nvl", unit_kind="gpu", commitment="spot"),
        ),
        (money.LineKey(for_cluster="c"), money.LineKey(model="h100 80gb", unit_kind="gpu", commitment="spot")),
        (money.LineKey(model="h100 80gb"), money.LineKey(model="h100", unit_kind="gpu", commitment="spot")),
        (money.LineKey(unit_kind="gpu"), money.LineKey(commitment="spot")),
        (money.LineKey(commitment="spot"), money.LineKey()),
    ],
)
def test_a_line_that_is_named_more_closely_counts_before_another(closer: money.LineKey, wider: money.LineKey) -> None:
    assert money.specificity(closer) > money.specificity(wider)


def test_a_line_holds_only_where_all_that_it_names_is_so() -> None:
    card = money.LineKey("vision", "east", "NVIDIA-H100-80GB-HBM3", "gpu", "spot")
    assert money.holds_for(money.LineKey(), card)
    assert money.holds_for(money.LineKey(model="h100 80gb", commitment="spot"), card)
    assert not money.holds_for(money.LineKey(commitment="on_demand"), card)
    assert not money.holds_for(money.LineKey(model="h200"), card)
    assert not money.holds_for(money.LineKey(commitment="on_demand"), money.LineKey(model="h100"))
    assert not money.holds_for(money.LineKey(model="h100"), money.LineKey())


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("Failed", 'Failed to pull image "r/i:1": context deadline exceeded', True),
        ("BackOff", 'Back-off pulling image "r/i:1"', True),
        ("Failed", 'Failed to pull image "r/i:nope": manifest unknown: not found', False),
        ("Failed", "Error: container has runAsNonRoot", False),
        ("BackOff", "Back-off restarting failed container", False),
        ("UnexpectedAdmissionError", "Allocate failed due to device plugin", True),
        ("NodeNotReady", "Node is not ready", True),
        ("Pulled", 'Successfully pulled image "r/i:1" in 12m3.5s', True),
        ("Pulled", 'Successfully pulled image "r/i:1" in 9.2s', False),
        ("Scheduled", None, False),
        (None, None, False),
    ],
)
def test_an_event_blames_the_platform_only_for_what_is_its_fault(
    store: Store, reason: str | None, message: str | None, expected: bool
) -> None:
    assert money.is_platform_cause(reason, message) is expected
    assert value(store, "is_platform_cause(?, ?)", reason, message) is expected


@given(PRICES, st.sampled_from(money.PERS), INSTANTS, GRAINS)
@settings(deadline=None)
def test_the_price_of_a_grain_is_that_of_its_macro(store: Store, price: int, per: Any, at: int, grain: int) -> None:
    assert value(
        store, "grain_price_micro(?::BIGINT, ?, ?::BIGINT, ?::BIGINT)", price, per, at, grain
    ) == money.grain_price_micro(price, per, at, grain)


@given(PRICES, AMOUNTS, GRAINS, st.integers(0, 1_000_000))
@settings(deadline=None)
def test_parts_lists_and_discounts_are_those_of_their_macros(
    store: Store, price: int, amount: int, grain: int, ppm: int
) -> None:
    call = "part_micro($1::BIGINT, $2::BIGINT, $3::BIGINT), rest_gpu_us($1::BIGINT, $2::BIGINT, $3::BIGINT)"
    assert store.rows(f"SELECT {call}", [price, amount, grain])[0] == divmod(price * amount, grain)
    listed = money.list_micro(price, abs(amount), grain)
    assert value(store, "list_micro(?::BIGINT, ?::BIGINT, ?::BIGINT)", price, abs(amount), grain) == listed
    assert value(store, "discount_micro(?::BIGINT, ?::BIGINT)", listed, ppm) == money.discount_micro(listed, ppm)


@given(st.integers(0, HOUR_US), st.integers(0, HOUR_US), st.integers(-5, HOUR_US), st.integers(0, HOUR_US))
@settings(deadline=None)
def test_the_bound_of_use_is_that_of_its_macro(store: Store, used: int, granted: int, seen: int, held: int) -> None:
    call = "used_upper_gpu_us(?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT)"
    assert value(store, call, used, granted, seen, held) == money.used_upper_gpu_us(used, granted, seen, held)


@given(KEYS)
@settings(deadline=None)
def test_specificity_is_that_of_its_macro(store: Store, key: money.LineKey) -> None:
    words = value(store, "model_words(?)", key.model) or []
    assert set(words) == model_tokens(key.model or "")
    call = "price_specificity(?, ?, ?::BIGINT, ?, ?)"
    assert value(
        store, call, key.tenant, key.for_cluster, len(words), key.unit_kind, key.commitment
    ) == money.specificity(key)


def test_money_that_does_not_add_up_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(money, "part_micro", lambda price, amount, grain: 10 if amount == HOUR_US else 0)
    with pytest.raises(InvariantError, match="are left of"):
        money.divide_micro(5, [HOUR_US // 2, HOUR_US // 2], HOUR_US)
