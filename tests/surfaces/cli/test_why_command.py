"""``steelyard why`` over ports that a test holds in its hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Column, Table
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import parse_instant
from steelyard.surfaces.cli import run
from steelyard.surfaces.shared.ports import Ports, StoryRequest

LINES = Table("story", (Column("at"), Column("what")), [("2026-11-30T02:00:00Z", "evil\x1b[2J")])


@dataclass
class Teller:
    """Remembers what it was asked."""

    trouble: Exception | None = None
    asked: list[StoryRequest] = field(default_factory=list)

    def why(self, request: StoryRequest) -> Answer:
        if self.trouble is not None:
            raise self.trouble
        self.asked.append(request)
        return Answer("why", "Title", None, parse_instant("2026-11-30T02:00:00Z"), tables=(LINES,))

    def ports(self) -> Ports:
        def nothing(directory: Path) -> Any:
            raise AssertionError

        def told(directory: Path) -> Teller:
            return self

        return Ports(importer=nothing, query=nothing, demo=nothing, stories=told)


@pytest.fixture(autouse=True)
def plain_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEELYARD_DATA", raising=False)
    monkeypatch.setenv("STEELYARD_LANG", "en")


def test_the_name_and_its_kind_are_passed_on_and_lines_printed(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller()
    words = ["why", "team-a/w1", "--kind", "job", "--cluster", "c", "--at", "2026-11-30T02:00:00Z", "--explain"]
    assert run(teller.ports(), words) == 0
    at = parse_instant("2026-11-30T02:00:00Z")
    assert teller.asked == [StoryRequest("team-a/w1", "job", "c", at, True)]
    out = capsys.readouterr().out
    assert "WHY  Title" in out
    assert "\x1b" not in out


def test_json_is_the_answers_own_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Teller().ports(), ["why", "w1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["question"] == "why"


@pytest.mark.parametrize(
    ("words", "trouble", "said"),
    [
        (["why", "nobody"], UsageError("no request is called 'nobody'; the nearest are: team-a/w1"), "the nearest are: team-a/w1"),
        (["why", "w1", "--at", "noon"], None, "--at"),
        (["why"], None, "POD|JOB|WORKLOAD"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], trouble: Exception | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Teller(trouble).ports(), words) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_a_plain_why_tells_the_same_story(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller()
    assert run(teller.ports(), ["ask", "why", "is", "pod", "team-a/w1", "pending?"]) == 0
    assert capsys.readouterr().out.startswith("understood as: steelyard why team-a/w1 --kind pod\n")
    assert run(teller.ports(), ["ask", "为什么 pod team-a/w1 Pending", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["command"] == "steelyard why team-a/w1 --kind pod"
    assert teller.asked == [StoryRequest("team-a/w1", "pod")] * 2
