"""Every macro gives what its pure function gives, NULL standing for Unknown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.definitions import (
    conservation,
    coverage,
    gpu_time,
    grain,
    normalised_gpu_hours,
    percentile,
    share,
    used_share,
)
from steelyard.definitions import holding_interval as interval
from steelyard.definitions import tenant as tenancy
from steelyard.definitions.macros import macro_sql
from steelyard.primitives.instant import to_datetime
from steelyard.primitives.unknown import Unknown, known
from steelyard.store import Store

MIB = st.integers(0, 10**7)
PPM = st.integers(0, 1_000_000)
PERCENT = st.integers(0, 200)
SLICES = st.integers(0, 8)
INSTANT = st.integers(-(10**15), 4 * 10**15)


def optional(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.none() | strategy


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def value(store: Store, call: str, *arguments: object) -> Any:
    return store.rows(f"SELECT {call}", arguments)[0][0]


def test_every_macro_file_parses_as_portable_sql() -> None:
    statements = sqlglot.parse(macro_sql(), read="duckdb")
    assert len([statement for statement in statements if statement is not None]) == macro_sql().count(
        "CREATE OR REPLACE MACRO"
    )


@given(optional(MIB), optional(MIB), optional(PERCENT))
@settings(deadline=None)
def test_vgpu_share(store: Store, memory: int | None, physical: int | None, cores: int | None) -> None:
    expected = known(share.share_vgpu_ppm(memory, physical, cores))
    assert value(store, "share_vgpu_ppm(?::BIGINT, ?::BIGINT, ?::BIGINT)", memory, physical, cores) == expected
    at_least = share.share_at_least_ppm(expected, cores)
    assert value(store, "share_at_least_ppm(?::BIGINT, ?::BIGINT)", expected, cores) == at_least


@given(optional(SLICES), optional(SLICES), optional(SLICES), optional(SLICES))
@settings(deadline=None)
def test_mig_share(store: Store, c: int | None, ct: int | None, m: int | None, mt: int | None) -> None:
    assert value(store, "share_mig_ppm(?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT)", c, ct, m, mt) == known(
        share.share_mig_ppm(c, ct, m, mt)
    )


@given(optional(st.integers(-1, 100)), st.integers(0, 2_000_000), optional(st.integers(-1, 100)))
@settings(deadline=None)
def test_replica_consumer_and_floor(store: Store, replicas: int | None, ppm: int, slots: int | None) -> None:
    assert value(store, "share_replica_ppm(?::BIGINT)", replicas) == known(share.share_replica_ppm(replicas))
    assert value(store, "share_consumer_ppm(?::BIGINT, ?::BIGINT)", ppm, replicas or 0) == share.share_consumer_ppm(
        ppm, replicas or 0
    )
    assert value(store, "share_floored_ppm(?::BIGINT, ?::BIGINT)", ppm, slots) == share.share_floored_ppm(ppm, slots)


@given(st.integers(0, 10**13), st.integers(0, 8 * 10**5), optional(st.integers(0, 10**5)))
@settings(deadline=None)
def test_gpu_time_and_its_normalised_form(store: Store, duration: int, ppm: int, weight: int | None) -> None:
    amount = gpu_time.gpu_time_us(duration, ppm)
    assert value(store, "gpu_time_us(?::BIGINT, ?::BIGINT)", duration, ppm) == amount
    assert value(store, "normalised_gpu_time_us(?::BIGINT, ?::BIGINT)", amount, weight) == known(
        normalised_gpu_hours.normalised_gpu_time_us(amount, weight)
    )


HALVES = st.integers(0, 2_100_000).map(lambda halves: halves / 2_000_000)
"""Ratios at and around the middle between two parts per million."""
RATIOS = st.none() | st.floats() | st.floats(-0.01, 1.06) | HALVES


@given(RATIOS)
@settings(deadline=None)
def test_ratio_of_a_sample(store: Store, ratio: float | None) -> None:
    assert value(store, "ratio_ppm(?::DOUBLE)", ratio) == used_share.ratio_ppm(ratio)


@given(optional(PPM), optional(PPM), optional(PPM))
@settings(deadline=None)
def test_used_share_and_what_it_is_of_the_card(
    store: Store, sm: int | None, dram: int | None, unit: int | None
) -> None:
    used = used_share.used_share_ppm(sm, dram)
    assert value(store, "used_share_ppm(?::BIGINT, ?::BIGINT)", sm, dram) == used
    assert value(store, "of_card_ppm(?::BIGINT, ?::BIGINT)", used, unit) == used_share.of_card_ppm(used, unit)


WIDE = st.integers(-2, 3) | st.integers(-(2**62), 2**62)


@given(WIDE, WIDE, optional(WIDE), optional(WIDE), optional(WIDE))
@settings(deadline=None)
def test_plausible_figures(
    store: Store, quantity: int, consumers: int, memory: int | None, cores: int | None, ppm: int | None
) -> None:
    assert value(
        store,
        "plausible_grant(?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT)",
        quantity,
        consumers,
        memory,
        cores,
        ppm,
    ) == share.plausible_grant(quantity, consumers, memory, cores, ppm)


@given(optional(INSTANT), INSTANT)
@settings(deadline=None)
def test_plausible_stamps(store: Store, stamp: int | None, seen: int) -> None:
    assert value(
        store, "epoch_us(plausible_stamp(make_timestamp(?::BIGINT), make_timestamp(?::BIGINT)))", stamp, seen
    ) == interval.plausible_stamp(stamp, seen)


STAMPS = "make_timestamp(?::BIGINT), make_timestamp(?::BIGINT), make_timestamp(?::BIGINT), make_timestamp(?::BIGINT), make_timestamp(?::BIGINT)"
FEW = st.integers(0, 4)


@given(st.tuples(*[optional(FEW)] * 5))
@settings(deadline=None)
def test_start_of_a_holding(store: Store, stamps: tuple[int | None, ...]) -> None:
    start = interval.holding_start(*stamps)
    assert value(store, f"epoch_us(holding_start_at({STAMPS}))", *stamps) == start.at
    assert value(store, f"holding_start_basis({STAMPS})", *stamps) == start.basis


@given(st.booleans(), optional(FEW), optional(FEW), optional(FEW), FEW, optional(FEW))
@settings(deadline=None)
def test_end_of_a_holding(
    store: Store, terminal: bool, end: int | None, alive: int | None, dead: int | None, seen: int, gone: int | None
) -> None:
    expected = interval.holding_end(terminal, end, alive, dead, seen, gone)
    at, basis, before = store.rows(
        "SELECT epoch_us(holding_ended_at(t, e, a, s, g)), holding_end_basis(t, e, a, g), epoch_us(holding_ended_before_at(t, e, a, d, s, g)) "
        "FROM (SELECT ?::BOOLEAN AS t, make_timestamp(?::BIGINT) AS e, make_timestamp(?::BIGINT) AS a, make_timestamp(?::BIGINT) AS d, "
        "make_timestamp(?::BIGINT) AS s, make_timestamp(?::BIGINT) AS g)",
        [terminal, end, alive, dead, seen, gone],
    )[0]
    assert (at, before, basis) == (expected.at, expected.before_at, expected.basis)


@given(INSTANT, st.sampled_from(grain.GRAINS_US))
@settings(deadline=None)
def test_grain_start(store: Store, instant: int, grain_us: int) -> None:
    assert value(
        store, "epoch_us(grain_start(?::TIMESTAMP, ?::BIGINT))", to_datetime(instant).replace(tzinfo=None), grain_us
    ) == (grain.grain_start(instant, grain_us))
    assert value(store, "epoch_us(grain_hour(make_timestamp(?::BIGINT)))", instant) == grain.grain_start(instant)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0]),
)
@settings(deadline=None, max_examples=60)
def test_percentiles(store: Store, values: list[float], p: float) -> None:
    store.load_rows("dim.sample_of_values", [("x", "DOUBLE")], [(x,) for x in values])
    linear, rank = store.rows(
        f"SELECT percentile_linear(x, {p}), percentile_nearest_rank(x, {p}) FROM dim.sample_of_values"
    )[0]
    expected = percentile.percentile_linear(values, p)
    assert not isinstance(expected, Unknown)
    assert math.isclose(linear, expected, rel_tol=1e-9, abs_tol=1e-6)
    assert rank == percentile.percentile_nearest_rank(values, p)


@given(st.integers(0, 10), st.integers(0, 10))
@settings(deadline=None)
def test_coverage(store: Store, observed: int, more: int) -> None:
    expected = observed + more
    assert value(store, "coverage_ratio(?::BIGINT, ?::BIGINT)", observed, expected) == known(
        coverage.coverage_ratio(observed, expected)
    )


@given(st.lists(st.integers(0, 1_500_000), max_size=6), st.integers(0, 8_000_000))
@settings(deadline=None)
def test_booked_shares(store: Store, shares: list[int], capacity: int) -> None:
    booked = conservation.book_shares(shares, capacity)
    for ppm, expected in zip(shares, booked.shares_ppm, strict=True):
        assert value(store, "booked_share_ppm(?::BIGINT, ?::BIGINT, ?::BIGINT)", ppm, sum(shares), capacity) == expected
    assert value(store, "overcommitted_ppm(?::BIGINT, ?::BIGINT)", sum(shares), capacity) == booked.overcommitted_ppm


WORDS = st.text("ab%_!*-", max_size=6)


@given(st.sampled_from(tenancy.ATTRIBUTES), WORDS | st.none(), st.none() | WORDS, WORDS, WORDS)
@settings(deadline=None)
def test_tenant_rules(
    store: Store, attribute: str, pattern: str | None, tenant: str | None, inside: str, outside: str
) -> None:
    keyed = attribute in ("label", "annotation")
    rule = tenancy.TenantRule(attribute, "example.com/team" if keyed else None, pattern, tenant)
    pod = tenancy.PodBelonging(inside, {"example.com/team": inside, "x": outside}, {}, None, outside)
    found, matched = store.rows(
        "SELECT v, tenant_rule_matches(v, ?) FROM (SELECT tenant_rule_value(?, ?, ?, ?, '{}', NULL, ?) AS v)",
        [rule.like, attribute, rule.key, inside, json.dumps(dict(pod.labels)), outside],
    )[0]
    expected = tenancy.tenant_of(pod, [rule])
    assert (tenant if tenant is not None else found) == expected if matched else expected == tenancy.UNMAPPED
