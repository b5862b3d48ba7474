"""The twelve troubles of the demo: Q3, Q7 and reconcile name each, its owner and its size, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers import q03_utilisation, q07_overuse, reconcile
from steelyard.answers.contract import Answer
from steelyard.answers.q03_utilisation import UtilisationSpec
from steelyard.answers.q07_overuse import OveruseSpec
from steelyard.answers.reconcile import ReconcileSpec
from steelyard.app.demo import SimulatedDemo
from steelyard.app.demo_mark import FOLDER
from steelyard.app.settings import Settings
from steelyard.primitives.instant import HOUR_US
from steelyard.simulation.trouble_sources import CLUSTER, TRUTH
from steelyard.simulation.trouble_truth import Trouble, TroubledTruth
from steelyard.store import Store
from steelyard.surfaces.shared.ports import DemoSpec, ImportReport
from tests.scenarios.demo.demo_run import post

WHERE = {"cluster": CLUSTER}
KINDS = (
    "idle_notebook", "small_kernel_storm", "host_throttled_trainer", "memory_bound_decode", "hang_at_100_percent", "fragmentation",
    "quota_block", "gang_wait", "over_limit_tenant", "bypass_process", "stale_hami_ledger", "lost_exporter",
)  # fmt: skip
ELSEWHERE = ("over_limit_tenant", "bypass_process", "stale_hami_ledger", "memory_bound_decode")
OF_STATES = tuple(kind for kind in KINDS if kind not in ELSEWHERE)
UNDISTURBED = frozenset({"compute_bound", "held_starting", "free_no_demand"})
NOISE = Fraction(1, 60)
"""A minute of one card: the first reading of a counter tells nothing."""


@dataclass(frozen=True)
class Troubled:
    """The report of the import, what is wrong, and the store to ask."""

    report: ImportReport
    truth: TroubledTruth
    store: Store

    def trouble(self, kind: str) -> Trouble:
        """The one of a kind."""
        (found,) = (each for each in self.truth.troubles if each.kind == kind)
        return found


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    directory: Path = tmp_path_factory.mktemp("demo")
    report = SimulatedDemo(directory, Settings(), post).run(DemoSpec(gpus=1, days=1, seed=7), lambda *_: None)
    truth = TroubledTruth.from_json((directory / FOLDER / TRUTH).read_bytes())
    with Store.open(directory) as store:
        yield Troubled(report, truth, store)


@pytest.fixture(scope="module")
def q3(troubled: Troubled) -> Answer:
    return q03_utilisation.answer(troubled.store, UtilisationSpec(by=("owner",), where=WHERE))


@pytest.fixture(scope="module")
def q7(troubled: Troubled) -> Answer:
    return q07_overuse.answer(troubled.store, OveruseSpec(where=WHERE))


def rows(answer: Answer, name: str) -> list[dict[str, Any]]:
    (table,) = (each for each in answer.tables if each.name == name)
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def within_one_percent(found: Any, wanted: Fraction) -> bool:
    return abs(Fraction(found) - wanted) * 100 <= wanted


def test_all_twelve_are_planted(troubled: Troubled):
    assert sorted(each.kind for each in troubled.truth.troubles) == sorted(KINDS)


def test_every_file_of_the_troubled_cluster_is_read_and_none_refused(troubled: Troubled):
    assert {file.status for file in troubled.report.files} == {"imported"}
    assert sum(file.refused_count for file in troubled.report.files) == 0


def name_of(trouble: Trouble) -> str:
    """What Q3 calls it."""
    return f"{trouble.state}:{trouble.cause}" if trouble.cause else trouble.state


def hours_of(trouble: Trouble) -> Fraction:
    return Fraction(trouble.size_gpu_us, HOUR_US)


@pytest.mark.parametrize("kind", OF_STATES)
def test_q3_names_a_trouble_its_owner_and_its_size(troubled: Troubled, q3: Answer, kind: str):
    trouble = troubled.trouble(kind)
    (row,) = (row for row in rows(q3, "troubles") if row["trouble"] == name_of(trouble))
    assert row["owner"] == trouble.owner
    assert within_one_percent(row["gpu_hours"], hours_of(trouble))
    assert row["next_action"]
    if trouble.device_uuids:
        nodes = {device.node for device in troubled.truth.cluster.devices() if device.uuid in trouble.device_uuids}
        assert (row["nodes"], row["cards"]) == (", ".join(nodes), len(trouble.device_uuids))


def test_q3_calls_the_decode_card_bound_by_its_memory_and_adds_nobody_to_it(troubled: Troubled, q3: Answer):
    trouble = troubled.trouble("memory_bound_decode")
    (row,) = (row for row in rows(q3, "states") if row["state"] == "memory_bound")
    assert row["owner"] == trouble.owner.split("/", 1)[1]
    assert within_one_percent(row["gpu_hours"], hours_of(trouble))
    (card,) = (row for row in rows(q3, "cards") if row["gpu"] == trouble.device_uuids[0])
    assert (card["may_add_tenant"], card["state"]) == ("no", "memory_bound")
    assert not [row for row in rows(q3, "troubles") if row["owner"] == trouble.owner]


@pytest.mark.parametrize("kind", ["over_limit_tenant", "bypass_process"])
def test_q7_names_a_violation_its_owner_and_its_size(troubled: Troubled, q3: Answer, q7: Answer, kind: str):
    trouble = troubled.trouble(kind)
    (row,) = (row for row in rows(q7, "violations") if row["rule"] == trouble.rule)
    assert (row["pod_uid"], row["device_uuid"]) == (trouble.pod_uids[0], trouble.device_uuids[0])
    assert f"{row['namespace']}/{row['workload']}" == trouble.owner
    assert row["severity"] == "hard"
    assert row["mean_excess_mib"] == trouble.excess_mib
    assert within_one_percent(row["gpu_seconds_at_stake"] / 3600, hours_of(trouble))
    (listed,) = (each for each in rows(q3, "troubles") if each["trouble"] == f"over_use:{trouble.rule}")
    assert listed["owner"] == trouble.owner
    assert within_one_percent(listed["gpu_hours"], hours_of(trouble))


def test_reconcile_names_the_stale_ledger_its_card_and_its_size(troubled: Troubled, q3: Answer):
    trouble = troubled.trouble("stale_hami_ledger")
    answer = reconcile.answer(troubled.store, ReconcileSpec(where=WHERE))
    (row,) = (row for row in rows(answer, "deviations") if row["code"] == trouble.rule)
    assert row["subject"] == f"device {trouble.device_uuids[0]}"
    assert json.loads(row["evidence"])["over_reported_memory_mib"] == trouble.excess_mib
    figures = {figure.name: figure.value for figure in answer.figures}
    assert figures["memory_blocked_mib"] == trouble.excess_mib
    (listed,) = (each for each in rows(q3, "troubles") if each["trouble"] == trouble.rule)
    assert (listed["owner"], listed["memory_mib"]) == (row["subject"], trouble.excess_mib)


def test_nothing_else_is_accused(troubled: Troubled, q3: Answer, q7: Answer):
    names = {name_of(troubled.trouble(kind)) for kind in OF_STATES}
    names |= {f"over_use:{troubled.trouble(kind).rule}" for kind in ("over_limit_tenant", "bypass_process")}
    listed = [row["trouble"] for row in rows(q3, "troubles")]
    assert sorted(listed) == sorted(names | {troubled.trouble("stale_hami_ledger").rule})
    assert len(rows(q7, "violations")) == 2
    assert rows(q7, "exposed") == rows(q7, "unmeasured") == []


def test_all_other_time_is_work_or_free_and_wanted_by_nobody(troubled: Troubled, q3: Answer):
    planted = {(trouble.state, trouble.cause) for trouble in troubled.truth.troubles}
    others = [row for row in rows(q3, "states") if (row["state"], row["cause"] or "") not in planted]
    assert sum(row["gpu_hours"] for row in others if row["state"] not in UNDISTURBED) <= NOISE
    assert {row["state"] for row in others} >= UNDISTURBED


def test_findings_of_the_troubled_cluster_are_those_of_its_troubles(troubled: Troubled):
    found = troubled.store.rows(
        "SELECT code, subject FROM (SELECT cluster, code, subject, severity FROM ledger.finding "
        "UNION ALL SELECT cluster, code, subject, severity FROM fact.finding) AS found "
        "WHERE cluster = ? AND severity <> 'info'",
        [CLUSTER],
    )
    stale = troubled.trouble("stale_hami_ledger")
    assert sorted(found) == [
        ("exporter_stale", f"device {stale.device_uuids[0]}"),
        ("telemetry_stale", "node trouble-4"),
    ]
