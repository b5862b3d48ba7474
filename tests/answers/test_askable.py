"""What an import says can be asked next: the questions that what is known now has an answer to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from steelyard.answers.askable import askable
from steelyard.app.wiring import ports
from steelyard.facts.base import Fact
from steelyard.surfaces.cli import run
from tests.ledgers.facts_of import grant, pod
from tests.ledgers.queue_facts import asked, posted, quota


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([], ()),
        ([pod(0, created_at=0), grant(0)], ("q1", "q2 --by tenant", "q6")),
        ([quota()], ("q6",)),
        ([*asked("served", 0, 5)], ("q6",)),
        ([*asked("late", 10, None), *asked("first", 5, None)], ("q6", "why team-a/first")),
        ([*asked("it is; odd", 5, None)], ("q6", "why 'team-a/it is; odd'")),
    ],
    ids=[
        "nothing",
        "holdings",
        "quota",
        "a wait that ended",
        "the longest wait",
        "a name that a shell would take apart",
    ],
)
def test_the_commands_that_have_an_answer_are_named(facts: Sequence[Fact], expected: tuple[str, ...]) -> None:
    with posted(facts) as store:
        assert askable(store) == expected


def test_an_import_of_queues_names_q6_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "a", "uid": "u", "creationTimestamp": "2026-11-30T00:00:00Z"},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
        "status": {},
    }
    path = tmp_path / "workloads.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [workload]}), encoding="utf-8")
    arguments = ["import", str(path), "--as-of", "2026-11-30T01:00:00Z", "--data", str(tmp_path / "d")]
    assert run(ports(), arguments) == 0
    told = [line.split(" --data")[0].rpartition("steelyard ")[2] for line in capsys.readouterr().out.splitlines()]
    assert [words for words in told if words in ("q1", "q2 --by tenant", "q6", "why a/w")] == ["q6", "why a/w"]
    assert run(ports(), [*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["asks"] == ["q6", "why a/w"]
