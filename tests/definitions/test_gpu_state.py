"""The rules of states at their thresholds, in three values, and the macros beside the pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.definitions.gpu_state import (
    DEFAULTS,
    HELD_BY_TRIPLE,
    THROTTLE_FAULTS,
    HeldState,
    claims_free_share,
    hang_signature,
    measured_ratio,
    spent_as,
    state_of,
    waiting_cause,
)
from steelyard.definitions.models import power_limit_watts_of
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store

NAN = float("nan")
EDGES = (None, 0.0, 0.049, 0.05, 0.199, 0.2, 0.499, 0.5, 0.599, 0.6, 0.949, 0.95, 1.0)
RATIOS = st.one_of(st.none(), st.sampled_from(EDGES), st.floats(-0.5, 1.5), st.just(NAN))


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


@pytest.mark.parametrize(
    ("engine", "sm", "dram", "state"),
    [
        (0.99, 0.6, 0.6, "saturated"),
        (0.99, 0.59, 0.6, "memory_bound"),
        (0.99, 0.1, 0.6, "memory_bound"),
        (0.99, 0.6, 0.59, "compute_bound"),
        (0.049, 0.0, 0.0, "held_idle"),
        (0.05, 0.0, 0.0, "held_low"),
        (0.499, 0.4, 0.1, "held_low"),
        (0.5, 0.19, 0.19, "busy_not_working"),
        (0.5, 0.2, 0.19, "mixed"),
        (0.5, 0.19, 0.2, "mixed"),
        (0.5, 0.59, 0.59, "mixed"),
    ],
)
def test_each_rule_holds_from_its_threshold_on(engine: float, sm: float, dram: float, state: str) -> None:
    assert state_of(engine, sm, dram) == HeldState(state)


@pytest.mark.parametrize(
    ("engine", "sm", "dram", "state", "missing"),
    [
        (0.9, None, 0.1, "held_unknown", "1002"),  # a stock exporter: 1002 is off
        (0.9, None, 0.3, "held_unknown", "1002"),
        (0.9, 0.1, None, "held_unknown", "1005"),
        (None, 0.1, 0.1, "held_unknown", "1001"),
        (0.9, None, None, "held_unknown", "1002+1005"),
        (None, None, None, "held_unknown", "1001+1002+1005"),
        (0.9, None, 0.7, "memory_bound", None),  # saturated is open, and a later rule holds
        (None, None, 0.7, "memory_bound", None),
        (None, 0.7, None, "compute_bound", None),
        (0.01, None, None, "held_idle", None),
        (0.3, None, 0.1, "held_low", None),
    ],
)
def test_a_rule_with_an_unknown_input_does_not_hold_and_a_later_one_that_holds_wins(
    engine: float | None, sm: float | None, dram: float | None, state: str, missing: str | None
) -> None:
    assert state_of(engine, sm, dram) == HeldState(state, missing)


def test_nothing_is_idle_that_was_not_measured() -> None:
    for sm, dram in product(EDGES, EDGES):
        assert state_of(None, sm, dram).name not in ("held_idle", "held_low", "busy_not_working", "mixed")


@pytest.mark.parametrize(
    ("engine", "sm", "dram", "power", "limit", "verdict"),
    [
        (0.95, 0.049, 0.049, 244.9, 700.0, True),
        (0.949, 0.0, 0.0, 70.0, 700.0, False),
        (1.0, 0.05, 0.0, 70.0, 700.0, False),
        (1.0, 0.0, 0.05, 70.0, 700.0, False),
        (1.0, 0.0, 0.0, 245.1, 700.0, False),
        (1.0, 0.0, 0.0, None, 700.0, None),
        (1.0, 0.0, 0.0, 70.0, None, None),
        (1.0, 0.0, 0.0, 70.0, 0.0, None),
        (1.0, None, 0.0, 70.0, 700.0, None),
        (0.5, None, None, None, None, False),
    ],
)
def test_a_hang_is_busy_still_and_cold(
    store: Store, engine: float | None, sm: float | None, dram: float | None, power: float | None, limit: float | None, verdict: bool | None
) -> None:  # fmt: skip
    assert hang_signature(engine, sm, dram, power, limit) is verdict
    row = store.rows(
        "SELECT hang_signature(?::DOUBLE, ?::DOUBLE, ?::DOUBLE, ?::DOUBLE, ?::DOUBLE, ?, ?, ?)",
        [
            engine,
            sm,
            dram,
            power,
            limit,
            DEFAULTS.hang_busy_ratio,
            DEFAULTS.hang_still_ratio,
            DEFAULTS.hang_power_ratio,
        ],
    )[0]
    assert row[0] is verdict


@given(st.lists(st.tuples(RATIOS, RATIOS, RATIOS), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_the_macro_gives_what_the_function_gives(
    store: Store, triples: list[tuple[float | None, float | None, float | None]]
) -> None:
    columns = [(name, "DOUBLE") for name in ("active", "sm", "dram")]
    store.load_rows("dim.triple", columns, triples)
    rows = store.rows(
        "SELECT gpu_state_name(no), gpu_state_missing(no) FROM (SELECT rowid AS place, gpu_state_no(measured_ratio(active), measured_ratio(sm), "
        f"measured_ratio(dram), {DEFAULTS.idle_ratio}, {DEFAULTS.low_ratio}, {DEFAULTS.bound_ratio}, {DEFAULTS.quiet_ratio}) AS no "
        "FROM dim.triple) ORDER BY place"
    )
    found = [state_of(*(measured_ratio(ratio) for ratio in triple)) for triple in triples]
    assert rows == [(state.name, state.cause) for state in found]


@pytest.mark.parametrize(
    ("state", "throttle", "tx", "rx", "out", "into", "occupancy", "cause"),
    [
        ("held_idle", 0x20, None, None, None, None, None, 1),
        ("held_idle", 0x1 | 0x2 | 0x4, None, None, None, None, None, 0),  # idle clocks and a power cap are no faults
        ("held_low", 0x8, None, 10**9, None, None, None, 3),
        ("held_low", None, None, 10**9 - 1, None, None, None, 0),
        ("busy_not_working", None, 10**9, None, None, None, None, 4),
        ("busy_not_working", None, None, None, 10**9, None, None, 5),
        ("busy_not_working", None, 0, 0, 0, 0, 0.19, 6),
        ("busy_not_working", None, 0, 0, 0, 0, 0.2, 0),
        ("busy_not_working", None, 0, 0, None, 0, 0.1, 0),  # NVLink is not known, so it may be the cause
        ("mixed", 0x20, 10**9, 10**9, None, None, None, 0),
    ],
)
def test_a_cause_needs_evidence(
    store: Store, state: str, throttle: int | None, tx: int | None, rx: int | None, out: int | None, into: int | None,
    occupancy: float | None, cause: int,
) -> None:  # fmt: skip
    number = HELD_BY_TRIPLE.index(state) + 1
    row = store.rows(
        "SELECT sample_cause_no(?, ?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT, ?::BIGINT, ?::DOUBLE, ?, ?, ?)",
        [
            number,
            throttle,
            tx,
            rx,
            out,
            into,
            occupancy,
            DEFAULTS.copy_bytes_per_second,
            DEFAULTS.collective_bytes_per_second,
            0.2,
        ],
    )[0]
    assert row[0] == cause


def test_the_faults_among_the_reasons_of_a_clock_are_the_macros() -> None:
    assert THROTTLE_FAULTS == 232


WAITS = st.tuples(
    st.sampled_from(["queue", "gate", "scheduler", "starting", "release_lag"]),
    st.sampled_from([None, "not_now", "never_fits"]),
    st.sampled_from([None, 0, 1, 1000, 10**9, 10**9 + 1]),
    st.sampled_from([None, "end_not_stamped", "evictions_not_seen"]),
    st.sampled_from([None, "quota", "capacity", "gang", "policy", "placement"]),
    st.sampled_from(["pod", "pod_group", "workload"]),
)


@given(WAITS)
@settings(deadline=None, max_examples=80)
def test_what_claims_free_share_and_why_is_the_same_in_sql(
    store: Store, wait: tuple[str, str | None, int | None, str | None, str | None, str]
) -> None:
    stage, fit, milli, reason, cause, kind = wait
    row = store.rows(
        "SELECT claims_free_share(?, ?::VARCHAR, ?::BIGINT, ?::VARCHAR), waiting_cause(?::VARCHAR, ?, ?)",
        [stage, fit, milli, reason, cause, stage, kind],
    )[0]
    assert row == (claims_free_share(stage, fit, milli, reason), waiting_cause(cause, stage, kind))


@pytest.mark.parametrize(
    ("model", "watts"),
    [
        ("NVIDIA H100 80GB HBM3", 700),
        ("NVIDIA H100 PCIe", 350),
        ("NVIDIA A100-SXM4-40GB", 400),
        ("NVIDIA A100-PCIE-40GB", 250),
        ("NVIDIA A100 80GB PCIe", 300),
        ("Tesla T4", 70),
        ("NVIDIA L40S", 350),
        ("A100", None),
        ("A40-8Q", None),
        ("something else", None),
    ],
)
def test_a_power_limit_is_known_only_where_the_name_decides_it(model: str, watts: int | None) -> None:
    found = power_limit_watts_of(model)
    assert (None if isinstance(found, Unknown) else found) == watts


@pytest.mark.parametrize(
    ("state", "cause", "spent"),
    [
        ("memory_bound", None, "memory_bound"),
        ("saturated", None, "saturated"),
        ("held_unattributed", "saturated", "saturated"),
        ("held_unattributed", "compute_bound", None),
        ("held_unattributed", None, None),
        ("held_idle", "memory_bound", None),
        ("free_no_demand", None, None),
    ],
)
def test_a_card_is_spent_by_a_holders_state_or_by_its_own_where_no_path_tells_of_the_holder(
    store: Store, state: str, cause: str | None, spent: str | None
) -> None:
    assert spent_as(state, cause) == spent
    assert store.rows("SELECT spent_as(?, ?)", [state, cause]) == [(spent,)]
