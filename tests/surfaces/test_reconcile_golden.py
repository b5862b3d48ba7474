"""One comparison as a person has read it, line by line.

To renew after a wanted change: ``STEELYARD_RENEW=1 pytest tests/surfaces/test_reconcile_golden.py``, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.answers.contract import Answer
from steelyard.answers.deviation_series import deviation_series
from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.printable import json_text
from steelyard.surfaces.shared.server_ports import Standing
from tests.collection.hami_estate import HamiEstate, allocated, container, counted, gauge, granted, host, node, pod
from tests.collection.scraped_estate import listing

EXPECTED = Path(__file__).parent / "expected"


def estate(folder: Path) -> HamiEstate:
    """A pod that is as it should be, one whose limit is another's, one that the monitor does not know, and a ghost."""
    found = HamiEstate(folder)
    pods = [
        pod("good", granted([(0, 8_192, 30)])),
        pod("lax", granted([(0, 1_024, 10)]), container(mib=1_024, cores=10)),
        pod("mute", granted([(1, 4_096, 20)]), container(mib=4_096, cores=20)),
    ]
    lines = [
        *counted("good", 6_000, percent=28), *counted("lax", 2_000, 30_480, percent=5), *host(9_500, 33), *host(700, 0, n=1),
        *allocated("good", 8_192), *allocated("lax", 1_024, 10), *allocated("mute", 4_096, 20, n=1), *allocated("gone", 2_048, 10, n=1),
        *gauge(9_216, 40), *gauge(6_144, 30, n=1),
    ]  # fmt: skip
    for at in ("12:00", "12:01", "12:02"):
        found.scrape(at, {"n1:9394": lines})
        found.take(at, listing(node(cards=(0, 1)), *pods))
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> HamiEstate:
    return estate(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def told(world: HamiEstate) -> Answer:
    return world.reconcile()


@pytest.mark.parametrize("name", ["reconcile_terminal_80.txt", "reconcile_pipe.txt", "reconcile.json"])
def test_the_comparison_says_what_was_read_line_by_line(
    name: str, told: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_LANG", "en")
    width = 80 if "terminal" in name else None
    found = "".join(f"{line.text}\n" for line in render_answer(told, width))
    if name.endswith(".json"):
        found = json_text(told.to_json()) + "\n"
    path = EXPECTED / name
    if os.environ.get("STEELYARD_RENEW"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_monitoring_is_told_the_same_differences(world: HamiEstate, told: Answer) -> None:
    series = deviation_series(world.store)
    less = next(each.value for each in told.figures if each.name == "memory_counted_less_device_mib")
    assert series.mib == {("default", "counted_less_device"): less, ("default", "scheduler_less_granted"): 2_048}
    assert series.findings["default", "ghost_pod"] == 1
    text = exposition(Standing(deviations=series), Traffic(), ()).decode()
    assert 'steelyard_deviation_mib{cluster="default",kind="counted_less_device"} -1500' in text
    assert 'steelyard_deviation_findings{cluster="default",code="limit_not_in_force"} 1' in text


def test_without_a_sample_there_is_no_difference(tmp_path: Path) -> None:
    empty = HamiEstate(tmp_path)
    empty.take("12:00", listing(node(), pod("a", granted([(0, 8_192, 30)]))))
    empty.q1()
    assert deviation_series(empty.store).mib == {}
