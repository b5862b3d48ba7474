"""What is loaded once is left out of collections, and only that."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from steelyard.app import serving
from steelyard.app.settings import Settings
from steelyard.app.settled_memory import loaded_once


class Ring:
    """A cycle of one."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_there_is_not_walked_within_it_and_is_again_afterwards() -> None:
    before, kept = gc.get_freeze_count(), Ring()
    with loaded_once():
        assert gc.get_freeze_count() > before + 1_000
        assert all(each is not kept for each in gc.get_objects())
    assert gc.get_freeze_count() == 0
    assert any(each is kept for each in gc.get_objects())


def test_garbage_from_before_is_collected_first_and_garbage_from_within_is_collected() -> None:
    old = weakref.ref(Ring())
    with loaded_once():
        assert old() is None
        new = weakref.ref(Ring())
        gc.collect()
        assert new() is None


def test_it_ends_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), loaded_once():
        raise ZeroDivisionError
    assert gc.get_freeze_count() == 0


def test_a_server_answers_with_what_it_loaded_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(serving, "serve_until_stopped", lambda *_: frozen.append(gc.get_freeze_count()))
    serving.DirectoryServer(tmp_path, Settings()).run("127.0.0.1:0", lambda _: None)
    assert frozen[0] > 1_000
    assert gc.get_freeze_count() == 0
