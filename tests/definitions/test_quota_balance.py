"""The balance of a quota: the identities, the macros beside the functions, and which resources count cards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions import quota_balance as balance
from steelyard.sources.shared.accelerators import COUNTING, meaning_of, named_resources
from steelyard.store import Store

MILLI = st.none() | st.integers(-5_000, 50_000)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def value(store: Store, call: str, *arguments: object) -> Any:
    return store.rows(f"SELECT {call}", arguments)[0][0]


@given(MILLI, MILLI)
def test_use_is_what_is_within_nominal_and_what_is_above(store: Store, used: int | None, nominal: int | None) -> None:
    within, above = balance.within_milli(used, nominal), balance.above_milli(used, nominal)
    assert (within is None or above is None) == (used is None or nominal is None)
    if within is not None and above is not None:
        assert within + above == used
    assert value(store, "above_milli(?::BIGINT, ?::BIGINT)", used, nominal) == above
    assert value(store, "within_milli(?::BIGINT, ?::BIGINT)", used, nominal) == within


@given(MILLI, MILLI, MILLI)
def test_reserved_is_used_or_not_used(
    store: Store, nominal: int | None, reserved: int | None, used: int | None
) -> None:
    unused = balance.reserved_not_used_milli(reserved, used)
    if reserved is not None and used is not None:
        assert unused is not None
        assert used + unused == max(reserved, used)
    assert value(store, "reserved_not_used_milli(?::BIGINT, ?::BIGINT)", reserved, used) == unused
    spare = balance.spare_milli(nominal, reserved, used)
    assert value(store, "spare_milli(?::BIGINT, ?::BIGINT, ?::BIGINT)", nominal, reserved, used) == spare


@pytest.mark.parametrize("milli", [None, 0, 1_000_000_000, 1_000_000_001, -1_000_000_001, 2**62])
def test_an_amount_that_no_estate_has_is_not_known(store: Store, milli: int | None) -> None:
    assert value(store, "amount_milli(?::BIGINT)", milli) == balance.amount_milli(milli)


OTHERS = (
    "cpu",
    "memory",
    "rdma/hca",
    "gpu",
    "requests.nvidia.com/gpu",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/gpu.shared",
    "huawei.com/Ascend910",
    "huawei.com/Ascend910-2c",
    "huawei.com/Ascend910-memory",
    "cambricon.com/mlu370",
    "cambricon.com/mlu370.smlu",
    "cambricon.com/mlu.smlu.vmemory",
    "iluvatar.ai/MR-V100-vgpu",
    "iluvatar.ai/MR-V100.vCore",
)


@pytest.mark.parametrize("resource", [*named_resources(), *OTHERS])
def test_a_quota_counts_cards_where_a_request_would(store: Store, resource: str) -> None:
    meaning = meaning_of(resource.removeprefix("requests."))
    expected = resource == "gpu" or (meaning is not None and meaning.role in COUNTING)
    assert balance.counts_accelerators(resource) == expected
    assert value(store, "counts_accelerators(?)", resource) == expected
