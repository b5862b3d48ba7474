"""One story as a person has read it, line by line.

To renew after a wanted change: ``STEELYARD_RENEW=1 pytest tests/surfaces/test_why_golden.py``, then read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from steelyard.answers.contract import Answer
from steelyard.answers.story import StorySpec, story
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.printable import json_text
from tests.ledgers.queue_facts import asked, audited, posted, preemption, queue, quota
from tests.ledgers.wait_facts import condition, decision

EXPECTED = Path(__file__).parent / "expected"
FACTS = [
    queue(strategy="BestEffortFIFO"),
    quota(900, nominal_milli=16_000, borrowing_limit_milli=8_000, used_milli=16_000, reserved_milli=16_000),
    *asked(
        "w1", 0, 60, seen=900, queue="train", priority=1, owner_kind="Job", owner_name="llm", owner_uid="j1",
        evictions='[{"reason":"Preempted","cause":"","count":1}]',
    ),
    audited(-1, "create", "jobs", "llm", namespace="team-a"),
    condition(60, "Admitted"),
    condition(200, "Evicted", reason="Preempted"),
    preemption(200, by="w2", cause="reclaim", victim_queue="gpus"),
    condition(210, "QuotaReserved", "False"),
    decision(
        880, "not_now", source="kueue", decided_by="kueue-admission", count=40, missing_milli=8_000, cause="quota", rule="WaitingForQuota",
        resource="nvidia.com/gpu", flavor="h100", message="insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed",
    ),
    *asked("w2", 100, 205, seen=900, priority=9),
    *asked("w3", 150, None, seen=900, priority=5),
]  # fmt: skip


@pytest.fixture(scope="module")
def told() -> Iterator[Answer]:
    with posted(FACTS) as store:
        yield story(store, StorySpec("w1"))


@pytest.mark.parametrize("name", ["why_terminal_80.txt", "why_pipe.txt", "why.json"])
def test_the_story_says_what_was_read_line_by_line(name: str, told: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_LANG", "en")
    width = 80 if "terminal" in name else None
    found = "".join(f"{line.text}\n" for line in render_answer(told, width))
    if name.endswith(".json"):
        found = json_text(told.to_json()) + "\n"
    path = EXPECTED / name
    if os.environ.get("STEELYARD_RENEW"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(width: int, told: Answer) -> None:
    assert [line.text for line in render_answer(told, width) if cell_len(line.text) > width] == []
