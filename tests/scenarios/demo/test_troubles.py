"""The twelve troubles of the demo: Q3, Q7 and reconcile name each, its owner and its size, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers import q03_utilisation
from steelyard.answers.contract import Answer
from steelyard.answers.q03_utilisation import UtilisationSpec
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
OF_STATES = tuple(kind for kind in KINDS if kind not in ("over_limit_tenant", "bypass_process", "stale_hami_ledger"))
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


@pytest.mark.parametrize("kind", OF_STATES)
def test_the_state_of_a_trouble_has_its_size(troubled: Troubled, q3: Answer, kind: str):
    trouble = troubled.trouble(kind)
    found = [
        row for row in rows(q3, "causes") if (row["state"], row["cause"] or "") == (trouble.state, trouble.cause)
    ] or [row for row in rows(q3, "states") if (row["state"], row["cause"] or "") == (trouble.state, trouble.cause)]
    assert within_one_percent(sum(row["gpu_hours"] for row in found), Fraction(trouble.size_gpu_us, HOUR_US))
