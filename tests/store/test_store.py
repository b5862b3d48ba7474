"""The store keeps each fact once, all or nothing, and says clearly when it cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.facts.node import Node
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX
from steelyard.store import Store


def node(name: str = "a", at: int = 0, seen: int = 0, **more: object) -> Node:
    return Node(source="test", natural_key=name, node=name, occurred_at=at, observed_at=seen, **more)  # type: ignore[arg-type]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open_memory() as opened:
        yield opened


def test_the_same_fact_twice_is_kept_once_with_its_earliest_sighting_in_any_order(store: Store) -> None:
    assert store.append([node(seen=9), node(seen=5)]).new == 1
    assert store.append([node(seen=7), node(seen=3)]).new == 0
    assert store.append([node(seen=8)]).new == 0
    assert store.rows("SELECT epoch_us(observed_at) FROM fact.node") == [(3,)]


@pytest.mark.parametrize("instant", [AT_OBSERVATION, INSTANT_MAX + 10**9, -(2**62) + 1])
def test_an_instant_nobody_can_mean_is_refused_and_nothing_is_stored(store: Store, instant: int) -> None:
    with pytest.raises(InvariantError):
        store.append([node(), node("b", at=instant)])
    assert store.rows("SELECT count(*) FROM fact.node") == [(0,)]


def test_a_directory_is_made_and_read_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new") as store:
        store.append([node()], import_id="f00")
    with Store.open(tmp_path / "new", read_only=True) as store:
        assert store.rows("SELECT natural_key, import_id FROM fact.node") == [("a", "f00")]
