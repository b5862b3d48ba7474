"""Whoever lists tokens changes nothing: a copy of the directory that cannot be written is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.app.served import Served
from steelyard.app.settings import Settings
from steelyard.app.wiring import DirectoryTokens
from steelyard.primitives.clock import WallClock
from steelyard.store import Store


def test_tokens_are_listed_without_opening_the_store_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        Served(store, tmp_path, Settings(), WallClock()).tokens.create("ci", "operator", None)
    usual, asked = Store.open, []

    def opened(directory: Path, *, read_only: bool = False) -> Store:
        asked.append(read_only)
        return usual(directory, read_only=read_only)

    monkeypatch.setattr(Store, "open", opened)
    assert [token.name for token in DirectoryTokens(tmp_path).listed()] == ["ci"]
    assert asked == [True]
