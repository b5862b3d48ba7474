"""``steelyard agent --once --json`` over the driver's stub, in each scenario: the facts of ``expected/<scenario>.txt``, no more and no fewer.

An expected file has one line per fact: its table, then every column that is not as its class has it by default, without cluster and stamps of now. To
look at a change: ``STEELYARD_REWRITE=1 pytest tests/app/agent/test_once.py`` and read the difference.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.app.agent.batch import TABLES
from steelyard.facts.base import columns_of
from tests.app.agent.gpu_node import GpuNode, gpu_node
from tests.app.served_directory import MAIN, environment

EXPECTED = Path(__file__).parent / "expected"
SCENARIOS = sorted(path.stem for path in (Path(__file__).parents[2] / "sources/nvml/stub/scenarios").glob("*.txt"))
STAMP = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z")


def once(node: GpuNode, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, "agent", "--once", *node.arguments, *more],
        env=environment(node.environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def line(table: str, fact: dict[str, Any], at: int) -> str:
    """A fact in one line that is the same whenever it is made."""
    names, known = TABLES[table].__struct_fields__, TABLES[table].__struct_defaults__
    defaults = dict(zip(names[-len(known) :], known, strict=True))
    words = []
    for column in columns_of(TABLES[table]):
        value = fact[column.name]
        if column.name in ("cluster", "observed_at") or value == defaults.get(column.name, ...):
            continue
        if column.name == "occurred_at" and value == at:
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        words.append(
            f"{column.name}={STAMP.sub('TIME', text)}" if column.sql_type == "VARCHAR" else f"{column.name}={text}"
        )
    return f"{table} | " + " | ".join(words)


def lines(document: dict[str, Any]) -> list[str]:
    return [line(table, fact, document["at"]) for table, facts in document["facts"].items() for fact in facts]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_once_over_a_scenario_gives_the_expected_facts(scenario: str, stub: Path, tmp_path: Path) -> None:
    with gpu_node(tmp_path, stub, scenario) as node:
        done = once(node, "--json")
    document = json.loads(done.stdout)
    found = "".join(f"{each}\n" for each in [*lines(document), *(f"blind | {each}" for each in document["blind"])])
    found = STAMP.sub("TIME", found).replace(str(tmp_path), "FOLDER")
    found = re.sub(rf"{document['at']}/[0-9a-f]{{16}}", "AT/DIGEST", found)
    path = EXPECTED / f"{scenario}.txt"
    if os.environ.get("STEELYARD_REWRITE"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")
    assert done.returncode == (3 if document["blind"] else 0)
    assert done.stderr == ""


def test_a_round_is_told_to_a_person_in_a_few_lines(stub: Path, tmp_path: Path) -> None:
    with gpu_node(tmp_path, stub, "whole") as node:
        done = once(node)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].startswith("node gpu-1: ")
    assert "  process_sample: 2" in done.stdout
    assert len(done.stdout.splitlines()) < 15
