"""One demo for all tests of its truth: simulated, read back through the real readers, posted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.app.demo import SimulatedDemo
from steelyard.app.demo_mark import FOLDER
from steelyard.app.settings import Settings
from steelyard.simulation.simulate import TRUTH
from steelyard.simulation.truth import GroundTruth
from steelyard.store import Store
from steelyard.surfaces.shared.ports import DemoSpec
from tests.scenarios.demo.demo_run import Demo, post


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    directory: Path = tmp_path_factory.mktemp("demo")
    report = SimulatedDemo(directory, Settings(), post).run(
        DemoSpec(gpus=40, days=2, seed=7, troubles=False), lambda *_: None
    )
    truth = GroundTruth.from_json((directory / FOLDER / TRUTH).read_bytes())
    with Store.open(directory) as store:
        yield Demo(report, truth, store)
