from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.shared.scaled_memory import physical_memory_mib, scaling_label, scaling_of


@pytest.mark.parametrize(
    ("schedulable", "model", "scaling", "physical"),
    [
        (69_102, "NVIDIA L40S", "1.5", 46_068),
        (258_787, "NVIDIA H20-3e", "1.8", 143_771),
        (69_102, "NVIDIA L40S", None, 46_068),  # the model's memory is less: scaled
        (46_500, "NVIDIA L40S", None, 46_500),  # within the spread of drivers: not scaled
        (30_000, "NVIDIA L40S", None, 30_000),
        (99_999, "NVIDIA-Some Card", None, 99_999),
        (0, "NVIDIA L40S", None, None),
    ],
)
def test_physical_memory_is_found_behind_the_schedulable(
    schedulable: int, model: str, scaling: str | None, physical: int | None
) -> None:
    factor = scaling_of(scaling) if scaling else None
    assert physical_memory_mib(schedulable, model, factor) == physical


@given(st.integers(1, 300_000), st.integers(100, 400))
def test_a_scaled_figure_that_was_cut_to_whole_mib_leads_back_to_the_card(physical: int, percent: int) -> None:
    scaling = Fraction(percent, 100)
    assert physical_memory_mib(int(physical * scaling), None, scaling) == physical


@pytest.mark.parametrize("text", ["0", "-1", "abc", "1e9", "nan", "inf", "101", "1.2.3", "", "9" * 30, "٣"])
def test_a_factor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="factor"):
        scaling_of(text)


def test_the_label_is_found_under_any_prefix() -> None:
    assert scaling_label({"a": "9", "site.example/device-memory-scaling": "1.5"}) == "1.5"
    assert scaling_label({"a": "9"}) is None
