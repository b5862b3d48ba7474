"""The alerts fire on silence and on nothing else: tried by promtool, and every metric that they name is one that the server has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from steelyard.answers.listings import agents_heard
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import DAY_US, MINUTE_US, SECOND_US
from steelyard.store import Store
from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.shared.server_ports import Standing
from steelyard.surfaces.shared.service_ports import CollectorStatus
from tests.conftest import REPOSITORY

RULES = REPOSITORY / "deploy" / "prometheus" / "alerts.yaml"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")

NOW = 1_800_000_000 * SECOND_US
WELL = {
    "steelyard_up": "1x60",
    "steelyard_ledger_residual_gpu_seconds": "0x60",
    "steelyard_last_round_timestamp_seconds": "0+60x60",
    "steelyard_agents_known": "100x60",
    "steelyard_agents_silent": "5x60",
    'steelyard_collector_consecutive_failures{collector="scrape/a"}': "0x60",
}
TROUBLES = {
    "nothing": ({}, set()),
    "the server silent": (dict.fromkeys(WELL, "1x10 _x50"), {"SteelyardServerSilent"}),
    "a restart of two minutes": ({"steelyard_up": "1x40 _x2 1x18"}, set()),
    "rounds stopped": ({"steelyard_last_round_timestamp_seconds": "0+60x20 1200x40"}, {"SteelyardRoundsStopped"}),
    "a collector failing": (
        {'steelyard_collector_consecutive_failures{collector="scrape/a"}': "0x20 1+1x40"},
        {"SteelyardCollectorFailing"},
    ),
    "agents silent": ({"steelyard_agents_silent": "6x60"}, {"SteelyardAgentsSilent"}),
    "no agents": ({"steelyard_agents_known": "_x60", "steelyard_agents_silent": "_x60"}, set()),
    "books that do not close": ({"steelyard_ledger_residual_gpu_seconds": "0x20 0.5x40"}, {"SteelyardBooksDoNotClose"}),
}


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@needs_promtool
def test_the_rules_are_rules() -> None:
    ended = promtool("check", "rules", "--lint-fatal", RULES)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_promtool
@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_fires_after_an_hour_is(trouble: str, tmp_path: Path) -> None:
    series, expected = TROUBLES[trouble]
    names = {
        rule["alert"]
        for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    }
    queries = [
        {
            "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)',
            "eval_time": "60m",
            "exp_samples": [{"labels": "{}", "value": int(name in expected | {"SteelyardAlive"})}],
        }
        for name in sorted(names)
    ]
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in {**WELL, **series}.items()],
                "promql_expr_test": queries,
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    ended = promtool("test", "rules", tmp_path / "test.yaml")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_metric_that_an_alert_names_is_one_that_the_server_has() -> None:
    collectors = [
        CollectorStatus("a", "ok", last_round_at=NOW),
        CollectorStatus("b", "failing", last_round_at=NOW - SECOND_US),
    ]
    text = exposition(Standing(NOW, NOW, 0, 1.0, 20, 1), Traffic(), collectors).decode()
    assert f"\nsteelyard_last_round_timestamp_seconds {NOW / SECOND_US!r}\n" in text
    has = set(re.findall(r"^(steelyard_\w+)", text, re.MULTILINE))
    named = {name for rule in rules() for name in re.findall(r"steelyard_\w+", rule["expr"])}
    assert named <= has


def test_where_no_collector_and_no_agent_is_there_is_no_sample_of_them() -> None:
    text = exposition(Standing(), Traffic(), ()).decode()
    assert "\nsteelyard_up 1\n" in text
    assert "last_round" not in text
    assert "agents" not in text


def test_an_agent_is_silent_after_five_minutes_and_forgotten_after_a_day() -> None:
    with Store.open_memory() as store:
        assert agents_heard(store, NOW) is None
        heard = {"n1": NOW, "n2": NOW - 5 * MINUTE_US, "n3": NOW - 6 * MINUTE_US, "n4": NOW - DAY_US - 1}
        for name, at in heard.items():
            fields = {
                "kind": "nvidia_smi",
                "scope": f"node/{name}",
                "natural_key": name,
                "occurred_at": at,
                "observed_at": at,
            }
            store.append([SourceStatus(source="agent", **fields), SourceStatus(source="kube_api", **fields)])  # type: ignore[arg-type]
        assert agents_heard(store, NOW) == (3, 1)


def test_every_alert_has_its_page_section() -> None:
    page = (REPOSITORY / "docs" / "operations" / "alerts.md").read_text(encoding="utf-8")
    for rule in rules():
        assert f"## {rule['alert']}\n" in page


def rules() -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
