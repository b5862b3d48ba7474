from __future__ import annotations

import pytest

from steelyard.sources.shared.mig_geometry import instance_of_suffix, slices_of_profile


@pytest.mark.parametrize(
    ("suffix", "memory", "card", "profile", "compute", "ambiguous"),
    [
        ((1, 2), 10_240, None, "2g.10gb", (2, 7), False),
        ((0, 3), 5_120, None, "1g.5gb", (1, 7), False),
        ((2, 1), 20_480, 40_960, "3g.20gb", (3, 7), False),
        ((1, 0), 10_240, 40_960, "2g.10gb", (2, 7), False),  # charts that list the larger item first
        ((1, 1), 10_240, 40_960, "2g.10gb", (2, 7), True),  # slot 1, or item 1 behind an item of three
        ((0, 1), 12_288, None, None, None, False),
        ((1, 1), 12_288, 24_576, "2g.12gb", (2, 4), False),
        ((1, 1), 20_480, 81_559, "2g.20gb", (2, 7), True),
        ((3, 0), 40_960, None, "7g.40gb", (7, 7), False),
        ((9, 0), 40_960, None, None, None, False),
    ],
)
def test_memory_tells_which_profile_a_suffix_names(
    suffix: tuple[int, int],
    memory: int,
    card: int | None,
    profile: str | None,
    compute: tuple[int, int] | None,
    ambiguous: bool,
) -> None:
    found = instance_of_suffix(*suffix, memory, card)
    assert (found.profile, found.position_ambiguous) == (profile, ambiguous)
    assert (found.slices and (found.slices.compute, found.slices.compute_total)) == compute
    assert (found.reason is None) == (profile is not None)


def test_a_suffix_that_fits_cards_of_two_sizes_needs_the_card() -> None:
    assert instance_of_suffix(1, 0, 10_240).profile is None
    assert instance_of_suffix(1, 0, 10_240, 81_920).profile == "1g.10gb"


def test_a_placement_tells_profiles_of_one_name_apart() -> None:
    small, large = slices_of_profile("1g.10gb", 1), slices_of_profile("1g.10gb", 2)
    assert small is not None and (small.memory, small.memory_total) == (1, 8)
    assert large is not None and (large.memory, large.memory_total) == (2, 8)
    assert slices_of_profile("1g.10gb", None) is None
    assert slices_of_profile("1g.10gb", 5) is None


def test_a_known_card_settles_a_profile_without_a_placement() -> None:
    found = slices_of_profile("1g.10gb", None, "NVIDIA A100-SXM4-80GB", 81_920)
    assert found is not None and (found.memory, found.memory_total) == (1, 8)
