"""Two people are two people, however one of them writes a name."""

from __future__ import annotations

import pytest

from steelyard.primitives.errors import UsageError
from steelyard.settlement.people import is_same_person
from tests.settlement.conftest import Site
from tests.settlement.estate import closed


@pytest.mark.parametrize("other", ["ann", " Ann ", "ANN", "\uff41nn", "an\u200bn", "ann\t"])
def test_a_name_written_otherwise_is_the_same_person(other: str) -> None:
    assert is_same_person("ann", other)


@pytest.mark.parametrize("other", ["anna", "a nn", "", "bob"])
def test_another_name_is_another_person(other: str) -> None:
    assert not is_same_person("ann", other)


@pytest.mark.parametrize("actor", ["Ann", " ann", "an\u200bn"])
def test_who_declared_the_prices_does_not_close_under_another_spelling(site: Site, actor: str) -> None:
    with pytest.raises(UsageError, match="two people"):
        closed(site.store, site.directory, actor=actor)
