import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.definitions.conservation import book_shares
from steelyard.definitions.share import (
    share_at_least_ppm,
    share_floored_ppm,
    share_mig_ppm,
    share_replica_ppm,
    share_vgpu_ppm,
)
from steelyard.primitives.unknown import Unknown


@pytest.mark.parametrize(
    ("memory", "physical", "cores", "ppm"),
    [
        (8192, 40960, 30, 300_000),
        (16384, 46068, 0, 355_648),
        (12288, 46068, 25, 266_736),
        (1000, 15360, 0, 65_104),
        (69102, 46068, 0, 1_500_000),
        (None, None, 40, 400_000),
    ],
)
def test_a_vgpu_takes_the_larger_of_memory_and_cores(
    memory: int | None, physical: int | None, cores: int, ppm: int
) -> None:
    assert share_vgpu_ppm(memory, physical, cores) == ppm


@pytest.mark.parametrize(
    ("memory", "physical", "cores"), [(8192, None, 25), (8192, 0, 25), (None, 40960, 0), (None, 40960, None)]
)
def test_a_share_without_its_measure_is_unknown_and_never_zero(
    memory: int | None, physical: int | None, cores: int | None
) -> None:
    assert isinstance(share_vgpu_ppm(memory, physical, cores), Unknown)


def test_an_unknown_share_is_at_least_its_cores() -> None:
    assert share_at_least_ppm(None, 25) == 250_000
    assert share_at_least_ppm(300_000, 25) == 300_000


@pytest.mark.parametrize(("slices", "ppm"), [((2, 7, 2, 8), 285_714), ((3, 7, 4, 8), 500_000), ((1, 4, 1, 4), 250_000)])
def test_a_mig_instance_takes_the_larger_of_compute_and_memory_slices(
    slices: tuple[int, int, int, int], ppm: int
) -> None:
    assert share_mig_ppm(*slices) == ppm


def test_a_replica_takes_its_part_and_the_floor_lifts_a_small_share() -> None:
    assert share_replica_ppm(4) == 250_000
    assert share_replica_ppm(3) == 333_333
    assert share_floored_ppm(50_000, 10) == 100_000
    assert share_floored_ppm(50_000, None) == 50_000


@given(st.lists(st.integers(0, 2_000_000), max_size=12))
def test_booked_shares_and_free_are_the_card_exactly(shares: list[int]) -> None:
    booked = book_shares(shares)
    assert sum(booked.shares_ppm) + booked.free_ppm == 1_000_000
    assert booked.free_ppm >= 0
    assert booked.overcommitted_ppm == max(0, sum(shares) - 1_000_000)
