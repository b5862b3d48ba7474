"""Unknown never passes for a number or a truth value."""

from __future__ import annotations

import pytest

from steelyard.primitives.unknown import Unknown, known


def test_unknown_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError):
        bool(Unknown("the source is down"))


def test_unknown_renders_with_its_reason() -> None:
    assert str(Unknown("the source is down")) == "unknown: the source is down"


def test_a_column_holds_null_where_the_value_is_unknown() -> None:
    assert known(Unknown("x")) is None
    assert known(0) == 0
