"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from steelyard.primitives.i18n import choose

os.environ["STEELYARD_LANG"] = "en"  # claims quote messages in the source language

REPOSITORY = Path(__file__).resolve().parent.parent

# A slow or busy machine is no finding about the code: no deadlines, no verdict on the speed of generation. The same examples on each run,
# so that a change fails for itself and not by luck; STEELYARD_EXPLORE=1 looks for new ones.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=not os.environ.get("STEELYARD_EXPLORE"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("steady")


def shared_folder() -> Path | None:
    """The shared folder named by STEELYARD_SHARED, else the one beside the repository; None where there is none."""
    folder = Path(os.environ.get("STEELYARD_SHARED") or REPOSITORY.parent / "shared")
    return folder if (folder / "cases").is_dir() else None


@pytest.fixture(autouse=True)
def language_of_the_environment() -> None:
    """Each test speaks the language of its environment, whatever the settings of one before it chose for the process."""
    choose(None)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared folder with the handed cases; skips, and says so, where it is not there."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("the shared cases are not here: set STEELYARD_SHARED, or lay the folder beside the repository")
    return folder
