"""Three answers about room as a person has read them, line by line.

To renew after a wanted change: ``STEELYARD_RENEW=1 pytest tests/surfaces/test_capacity_golden.py``, then read the difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from rich.cells import cell_len

from steelyard.answers.contract import Answer
from steelyard.answers.fits import FitsSpec, fits
from steelyard.answers.fragmentation import FragmentationSpec
from steelyard.answers.fragmentation import answer as fragmentation
from steelyard.answers.right_sizing import RightSizingSpec
from steelyard.answers.right_sizing import answer as right_sizing
from steelyard.primitives.instant import HOUR_US
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.printable import json_text
from tests.answers.estate import Estate, at
from tests.conftest import REPOSITORY

EXPECTED = Path(__file__).parent / "expected"
ASKED: dict[str, Callable[[Estate], Answer]] = {
    "fragmentation": lambda estate: fragmentation(estate.store, FragmentationSpec()),
    "fits": lambda estate: fits(estate.store, FitsSpec(gpus=1, cpu=8)),
    "rightsize": lambda estate: right_sizing(estate.store, RightSizingSpec()),
}


@cache
def estate() -> Estate:
    """Three cards on two nodes, each held in part, one of them cordoned; typical requests for a half and for a whole card."""
    found = Estate()
    found.listing(at("08:00"), observed_from_at=at("08:00"), observed_to_at=at("12:00"))
    for node, cpu_milli in (("n1", 32_000), ("n2", 16_000)):
        found.insert("dim.node", cluster="default", node=node, cpu_milli=cpu_milli, first_seen_at=at("08:00"))
    held = (("GPU-a", "n1", "small", 4_000), ("GPU-b", "n1", "big", 8_000), ("GPU-c", "n2", "other", 6_000))
    for index, (card, node, pod, memory_mib) in enumerate(held):
        found.card(card, node, index, valid_to_at=None)
        found.pod(f"team-a/{pod}", node=node)
        found.hold(
            f"team-a/{pod}",
            card,
            "08:00",
            None,
            memory_mib * 1_000_000 // 16_000,
            node=node,
            memory_mib=memory_mib,
            cores_percent=20,
        )
    found.card("GPU-d", "n2", 3, valid_to_at=None, cordoned=True)
    for count, memory_mib, names in ((3, None, "nvidia.com/gpu"), (2, 8_000, "nvidia.com/gpu,nvidia.com/gpumem")):
        found.insert(
            "dim.request_class", cluster="default", asked_hour_at=at("09:00"), cards_count=1, resource_names=names, memory_mib=memory_mib,
            cpu_milli=4_000, requests_count=count,
        )  # fmt: skip
    for hour in range(4):
        found.insert(
            "ledger.usage", cluster="default", device_uuid="GPU-a", grain_at=at("08:00") + hour * HOUR_US, pod_uid="uid-small", path="process",
            memory_p99_mib=2_000, memory_peak_mib=2_100, observed_us=HOUR_US, samples_count=60,
        )  # fmt: skip
    return found


@pytest.mark.parametrize(
    "name", ["fragmentation_terminal_80.txt", "fits_terminal_80.txt", "rightsize_terminal_80.txt", "fits.json"]
)
def test_room_is_told_as_it_was_read_line_by_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_LANG", "en")
    told = ASKED[name.partition("_")[0].partition(".")[0]](estate())
    found = "".join(f"{line.text}\n" for line in render_answer(told, 80))
    if name.endswith(".json"):
        found = json_text(told.to_json()) + "\n"
    path = EXPECTED / name
    if os.environ.get("STEELYARD_RENEW"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("width", [40, 60, 100, 160])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert [line.text for line in render_answer(ASKED[name](estate()), width) if cell_len(line.text) > width] == []


@pytest.mark.parametrize("name", ASKED)
def test_the_json_is_the_documented_one(name: str) -> None:
    schema = json.loads((REPOSITORY / "src/steelyard/answers/answer.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(ASKED[name](estate()).to_json(), schema)
