"""The import contracts hold, are the sentences of ARCHITECTURE.md, and bite."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

CONFIGURATION = REPOSITORY / ".importlinter"
TESTED_SENTENCES = {"A model reads only what stands below it", "Amounts are integers"}  # test_sql_rules.py

HEAVY = {"duckdb", "pyarrow", "numpy", "pydantic", "fastapi", "starlette", "uvicorn", "h11", "httpx", "asyncio"}

# contract -> (module that breaks it, the offending line)
OFFENCES = {
    "Data flows one way": ("ledgers/offence.py", "from steelyard.answers import contract"),
    "Only the app reads the world": ("surfaces/shared/offence.py", "from steelyard.sources.shared import pods"),
    "Only the app changes the world": ("governance/offence.py", "import steelyard.actuators"),
    "Only the app simulates a world": ("answers/offence.py", "import steelyard.simulation"),
    "The simulation shares nothing with the readers": ("simulation/offence.py", "from steelyard.facts import base"),
    "Questions do not import each other": ("answers/q02_consumption.py", "from steelyard.answers import q01_holders"),
    "Surfaces do not import each other": ("surfaces/web/__init__.py", "from steelyard.surfaces import cli"),
    "Systems do not import each other": ("sources/openb/offence.py", "from steelyard.sources import hami"),
    "Only the store speaks to an engine": ("ledgers/offence.py", "import duckdb"),
    "Thinking opens no sockets": ("answers/offence.py", "import socket"),
    "No cycles between siblings": ("facts/base.py", "from steelyard.facts import registry"),
    "The node agent carries neither store nor surfaces": ("app/agent/offence.py", "import typer"),
}


def contract_names() -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(CONFIGURATION, encoding="utf-8")
    return [parser[section]["name"] for section in parser.sections() if ":contract:" in section]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "NO_COLOR": "1", "COLUMNS": "200"}
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", str(root / ".importlinter")]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_the_contracts_are_the_sentences_of_the_architecture_page() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = page.split("| sentence |", 1)[1]
    sentences = re.findall(r"^\| ([A-Z][^|]+?) \|", table, flags=re.MULTILINE)
    assert set(sentences) == set(contract_names()) | TESTED_SENTENCES
    assert len(sentences) == len(set(sentences))


def test_every_contract_has_an_offence_that_proves_it() -> None:
    assert set(OFFENCES) == set(contract_names())


@pytest.mark.xdist_group("contracts")
def test_the_contracts_hold() -> None:
    result = lint(REPOSITORY)
    assert result.returncode == 0, result.stdout


@pytest.mark.xdist_group("contracts")
@pytest.mark.parametrize("contract", sorted(OFFENCES))
def test_a_contract_bites(contract: str, tmp_path: Path) -> None:
    module, line = OFFENCES[contract]
    shutil.copytree(REPOSITORY / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(CONFIGURATION, tmp_path)
    target = tmp_path / "src" / "steelyard" / module
    target.parent.mkdir(exist_ok=True)
    before = target.read_text(encoding="utf-8") if target.exists() else ""
    target.write_text(f"{before}\n{line}\n", encoding="utf-8")
    result = lint(tmp_path)
    assert result.returncode != 0
    assert re.search(rf"^{re.escape(contract)} BROKEN", result.stdout, flags=re.MULTILINE), result.stdout


def test_the_help_loads_no_engine_and_no_other_heavy_library() -> None:
    program = (
        "import sys, runpy; sys.argv = ['steelyard', '--help']\n"
        "from steelyard.app.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('LOADED', sorted({HEAVY} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "LOADED []" in result.stdout


def test_the_agent_loads_neither_the_command_line_nor_the_engine() -> None:
    heavy = HEAVY | {
        "typer",
        "click",
        "rich",
        "pydantic_settings",
        "orjson",
        "lightkube",
        "google",
        "cramjam",
        "babel",
        "grpc",
    }
    program = (
        "import sys; sys.argv = ['steelyard', 'agent', '--once', '--pod-resources', 'none', '--kernel-log', 'none']\n"
        "from steelyard.app.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('LOADED', sorted({heavy} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "LOADED []" in result.stdout, result.stdout + result.stderr
