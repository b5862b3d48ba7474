"""One story through both surfaces: text and JSON as a person has read them, line by line.

To renew after a wanted change: ``STEELYARD_RENEW=1 pytest tests/surfaces/test_golden.py``, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.q01_holders import HoldersSpec
from steelyard.answers.q01_holders import answer as holders
from steelyard.answers.q02_consumption import ConsumptionSpec
from steelyard.answers.q02_consumption import answer as consumption
from steelyard.answers.q03_utilisation import UtilisationSpec
from steelyard.answers.q03_utilisation import answer as utilisation
from steelyard.answers.q06_scheduling import SchedulingSpec
from steelyard.answers.q06_scheduling import answer as scheduling
from steelyard.answers.q07_overuse import OveruseSpec
from steelyard.answers.q07_overuse import answer as overuse
from steelyard.answers.q09_cost import CostSpec
from steelyard.answers.q09_cost import answer as cost
from steelyard.primitives.instant import Window
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.printable import json_text
from tests.answers import cost_story
from tests.answers.estate import at, small_story
from tests.answers.overuse_story import overuse_story
from tests.answers.queue_story import crowded_story
from tests.answers.state_story import state_story

EXPECTED = Path(__file__).parent / "expected"


def q1() -> Answer:
    estate = small_story()
    estate.pod("team-c/plain")
    estate.hold("team-c/plain", None, "09:30", None, device_unknown_reason="a plain extended resource names no card")
    estate.insert(
        "ledger.finding",
        code="gpu_request_without_grant",
        severity="warning",
        subject="pod team-c/plain",
        message="asks for a GPU, and no source says which one it got",
    )
    return holders(estate.store, HoldersSpec(at=at("10:00"), by=("tenant",)))


def q2() -> Answer:
    return consumption(small_story().store, ConsumptionSpec())


def q3() -> Answer:
    return utilisation(state_story().store, UtilisationSpec(by=("tenant",)))


def q6() -> Answer:
    return scheduling(crowded_story().store, SchedulingSpec())


def q7() -> Answer:
    return overuse(overuse_story().store, OveruseSpec())


def q9() -> Answer:
    window = Window(cost_story.at("11-20"), cost_story.at("11-23"))
    return cost(cost_story.standard("proportional"), CostSpec(window=window, by=("tenant",)))


def text(result: Answer, width: int | None) -> str:
    return "".join(f"{line.text}\n" for line in render_answer(result, width))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q1_terminal_80.txt", lambda: text(q1(), 80)),
        ("q1_pipe.txt", lambda: text(q1(), None)),
        ("q1.json", lambda: json_text(q1().to_json()) + "\n"),
        ("q2_terminal_80.txt", lambda: text(q2(), 80)),
        ("q2_pipe.txt", lambda: text(q2(), None)),
        ("q2.json", lambda: json_text(q2().to_json()) + "\n"),
        ("q3_terminal_80.txt", lambda: text(q3(), 80)),
        ("q3_pipe.txt", lambda: text(q3(), None)),
        ("q3.json", lambda: json_text(q3().to_json()) + "\n"),
        ("q6_terminal_80.txt", lambda: text(q6(), 80)),
        ("q6_pipe.txt", lambda: text(q6(), None)),
        ("q6.json", lambda: json_text(q6().to_json()) + "\n"),
        ("q7_terminal_80.txt", lambda: text(q7(), 80)),
        ("q7_pipe.txt", lambda: text(q7(), None)),
        ("q7.json", lambda: json_text(q7().to_json()) + "\n"),
        ("q9_terminal_80.txt", lambda: text(q9(), 80)),
        ("q9_pipe.txt", lambda: text(q9(), None)),
        ("q9.json", lambda: json_text(q9().to_json()) + "\n"),
    ],
)
def test_the_surface_says_what_was_read_line_by_line(
    name: str, content: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_LANG", "en")
    found = content()  # type: ignore[operator]
    path = EXPECTED / name
    if os.environ.get("STEELYARD_RENEW"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
@pytest.mark.parametrize("result", [q1, q2, q3, q6, q7, q9])
def test_no_line_is_wider_than_the_terminal(width: int, result: object) -> None:
    from rich.cells import cell_len

    lines = render_answer(result(), width)  # type: ignore[operator]
    assert [line.text for line in lines if cell_len(line.text) > width] == []
