"""The demo: a simulated estate read back through the real readers, never mixed with anything else."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from steelyard.app.demo import SimulatedDemo
from steelyard.app.demo_mark import FOLDER
from steelyard.app.settings import Settings
from steelyard.primitives.errors import UsageError
from steelyard.store import Store
from steelyard.surfaces.shared.ports import DemoSpec, ImportReport

SMALL = DemoSpec(gpus=10, days=1, seed=3, troubles=False)


def run(directory: Path, spec: DemoSpec = SMALL, log: list[str] | None = None) -> ImportReport:
    steps = [] if log is None else log
    return SimulatedDemo(directory, Settings(), lambda store: 17).run(
        spec, lambda what, done, total: steps.append(what)
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    run(folder)
    return folder


def test_every_simulated_file_is_read_and_none_refused(tmp_path: Path):
    steps: list[str] = []
    report = run(tmp_path, log=steps)
    assert {file.status for file in report.files} == {"imported"}
    assert Counter(file.kind for file in report.files) == {
        "kubernetes": 13, "pod_resources": 7, "nvidia_smi": 6, "kernel_log": 1, "price_book": 1, "tenancy": 1, "exchange_rates": 1,
    }  # fmt: skip
    assert report.postings_count == 17
    assert report.as_of_basis == "declared"
    assert list(dict.fromkeys(steps)) == ["simulating", "importing", "posting"]


def test_the_same_demo_again_adds_nothing(directory: Path):
    report = run(directory)
    assert sum(file.new_count for file in report.files) == 0
    assert {file.status for file in report.files} == {"unchanged"}


@pytest.mark.parametrize(
    "other", [DemoSpec(10, 1, 4, False), DemoSpec(12, 1, 3, False), DemoSpec(10, 2, 3, False), DemoSpec(10, 1, 3)]
)
def test_another_demo_is_not_mixed_into_it(directory: Path, other: DemoSpec):
    with pytest.raises(UsageError, match="already holds other data"):
        run(directory, other)


def test_a_demo_is_not_mixed_into_real_data(tmp_path: Path):
    Store.open(tmp_path).close()
    with pytest.raises(UsageError, match="already holds other data"):
        run(tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_a_size_that_cannot_be_simulated_leaves_nothing_behind(tmp_path: Path):
    with pytest.raises(UsageError, match="expected 1 to"):
        run(tmp_path, DemoSpec(gpus=0))
    assert list(tmp_path.iterdir()) == []


def test_the_sources_stay_where_a_person_can_look_at_them(directory: Path):
    spec = json.loads((directory / FOLDER / "spec.json").read_text())
    assert (spec["gpus"], spec["days"], spec["seed"]) == (10, 1, 3)
    assert (directory / FOLDER / "truth.json").is_file()
