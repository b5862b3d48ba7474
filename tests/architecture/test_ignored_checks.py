"""Where the type checker is told to look away, a few words say why."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY

_IGNORED = re.compile(r"# type: ignore(?P<code>\[[a-z-]+(?:, ?[a-z-]+)*\])?(?P<rest>.*)")
_SAID = re.compile(r"  # \S.{9,}")


def unreasoned(text: str) -> list[int]:
    """The numbers of the lines that look away without a code or a reason."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _IGNORED.search(line)
        if match is not None and (match["code"] is None or not _SAID.match(match["rest"])):
            found.append(number)
    return found


def test_every_check_that_is_ignored_says_why() -> None:
    places = {
        f"{path.relative_to(REPOSITORY)}:{number}"
        for path in (REPOSITORY / "src").rglob("*.py")
        for number in unreasoned(path.read_text(encoding="utf-8"))
    }
    assert places == set()


@pytest.mark.parametrize(
    "line", ["x = y  # type: ignore", "x = y  # type: ignore[misc]", "x = y  # type: ignore[misc]  # so"]
)
def test_a_check_that_is_ignored_without_a_reason_is_found(line: str) -> None:
    assert unreasoned(f"a = 1\n{line}\n") == [2]
