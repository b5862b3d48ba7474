"""The engine's memory is bounded for as long as somebody asks, and no longer."""

from __future__ import annotations

import pytest

from steelyard.store import Store
from steelyard.store.memory import memory_bounded


def limit(store: Store) -> str:
    return str(store.rows("SELECT current_setting('memory_limit')")[0][0])


def test_the_bound_holds_within_and_what_was_set_comes_back() -> None:
    with Store.open_memory() as store:
        before = limit(store)
        with memory_bounded(store, 512 << 20), store.reader() as view:
            assert limit(view) == "512.0 MiB"
        assert limit(store) == before
        with pytest.raises(ZeroDivisionError), memory_bounded(store, 512 << 20):
            raise ZeroDivisionError
        assert limit(store) == before


def test_a_limit_that_was_set_comes_back_and_does_not_shrink_from_time_to_time() -> None:
    with Store.open_memory() as store:
        store.execute("SET GLOBAL memory_limit = '3 GiB'")
        before = limit(store)
        for _time in range(5):
            with memory_bounded(store, 512 << 20):
                pass
        assert limit(store) == before


def test_a_lower_bound_is_not_raised() -> None:
    with Store.open_memory() as store:
        store.execute("SET GLOBAL memory_limit = '100MiB'")
        with memory_bounded(store, 512 << 20):
            assert limit(store) == "100.0 MiB"
        assert limit(store) == "100.0 MiB"
