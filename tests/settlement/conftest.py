"""A directory with the story posted, made once and copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from steelyard.store import Store
from tests.settlement.estate import opened


@dataclass(frozen=True)
class Site:
    """A data directory and its open store."""

    directory: Path
    store: Store


@pytest.fixture(scope="session")
def posted_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("posted")
    opened(directory).close()
    return directory


@pytest.fixture
def site(posted_directory: Path, tmp_path: Path) -> Iterator[Site]:
    directory = Path(shutil.copytree(posted_directory, tmp_path / "data"))
    with Store.open(directory) as store:
        yield Site(directory, store)
