"""The documented JSON form holds for every answer, and its schema bites."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import steelyard.answers
from steelyard.answers.contract import Answer, Column, Figure, RowsByColumn, Series, Table
from steelyard.answers.q01_holders import HoldersSpec
from steelyard.answers.q01_holders import answer as holders
from steelyard.answers.q02_consumption import ConsumptionSpec
from steelyard.answers.q02_consumption import answer as consumption
from steelyard.answers.q03_utilisation import UtilisationSpec
from steelyard.answers.q03_utilisation import answer as utilisation
from steelyard.answers.q06_scheduling import SchedulingSpec
from steelyard.answers.q06_scheduling import answer as scheduling
from steelyard.answers.registry import ANSWERS, Entry, entry
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import Window
from steelyard.primitives.unknown import Unknown
from tests.answers.estate import Estate, at, small_story
from tests.answers.queue_story import crowded_story
from tests.answers.state_story import state_story
from tests.conftest import REPOSITORY

SCHEMA = json.loads((Path(steelyard.answers.__file__).parent / "answer.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def rough_story() -> Estate:
    """The small story with everything that may be unknown, and a finding."""
    estate = small_story()
    estate.hold("team-c/plain", None, "11:00", None, device_unknown_reason="no card is named")
    estate.hold("team-c/scaled", "GPU-aaaaaaaa-0001", "11:50", None, None)
    estate.hold("team-c/gone", "GPU-aaaaaaaa-0001", "09:00", "10:00", 100_000, ended_before_at=at("12:00"))
    estate.insert("ledger.finding", code="odd", severity="warning", subject="pod x", message="said")
    return estate


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(holders(rough_story().store, HoldersSpec(by=("tenant",), explain=True)), id="q1"),
        pytest.param(holders(rough_story().store, HoldersSpec(at=at("11:30"))), id="q1-past"),
        pytest.param(holders(rough_story().store, HoldersSpec(at=at("05:00"))), id="q1-unknown"),
        pytest.param(consumption(rough_story().store, ConsumptionSpec(by=("pod", "gpu"), explain=True)), id="q2"),
        pytest.param(
            consumption(rough_story().store, ConsumptionSpec(window=Window(at("05:00"), at("06:00")))), id="q2-unknown"
        ),
        pytest.param(utilisation(state_story().store, UtilisationSpec(by=("tenant",), explain=True)), id="q3"),
        pytest.param(utilisation(rough_story().store, UtilisationSpec()), id="q3-silent"),
        pytest.param(scheduling(crowded_story().store, SchedulingSpec(by=("tenant",), explain=True)), id="q6"),
        pytest.param(scheduling(rough_story().store, SchedulingSpec()), id="q6-silent"),
    ],
)
def test_answers_follow_the_schema_and_survive_json(result: Answer) -> None:
    document = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    for table in document["tables"]:
        assert {len(row) for row in table["rows"]} <= {len(table["columns"])}


def valid() -> dict[str, Any]:
    table = Table("t", (Column("a", "GPU"),), [(Unknown("why"),), (Fraction(1, 4),), (None,)])
    series = Series("s", "GPU", [(at("08:00"), 1), (at("09:00"), Unknown("why"))])
    figures = (Figure("f", Unknown("why"), "GPU", "m", Unknown("none")), Figure("g", Fraction(1, 4), "GPU", "m", 0.5))
    return Answer("q1", "t", None, at("08:00"), figures, (table,), (series,), coverage=0.5).to_json()


def test_unknown_values_are_null_beside_their_reason() -> None:
    document = valid()
    assert document["figures"][0] == {
        "name": "f",
        "value": None,
        "unknown": "why",
        "unit": "GPU",
        "method": "m",
        "coverage": None,
        "coverage_unknown": "none",
    }
    assert document["tables"][0]["rows"] == [[{"unknown": "why"}], [0.25], [None]]
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d["figures"][0].pop("unknown"),
        lambda d: d["figures"][1].update(unknown="why"),
        lambda d: d["figures"][1].update(name="GpuHours"),
        lambda d: d.update(coverage=None),
        lambda d: d.update(coverage=1.5),
        lambda d: d.update(as_of="2026-11-30 08:00"),
        lambda d: d["tables"][0]["rows"].append([{"reason": "x"}]),
        lambda d: d.pop("blind_spots"),
        lambda d: d.update(extra=1),
    ],
)
def test_the_schema_refuses(spoil: Any) -> None:
    document = valid()
    spoil(document)
    assert list(VALIDATOR.iter_errors(document))


@pytest.mark.parametrize("each", ANSWERS, ids=lambda each: each.name)
def test_one_stem_per_question(each: Entry) -> None:
    assert each.stem.startswith(f"q{each.number:02}_")
    package = Path(steelyard.answers.__file__).parent
    for path in (
        package / f"{each.stem}.py",
        package / f"{each.stem}.sql",
        REPOSITORY / "tests" / "answers" / f"test_{each.stem}.py",
        REPOSITORY / "docs" / "answers" / f"{each.stem}.md",
    ):
        assert path.is_file(), path
    assert entry(each.number) is each


@pytest.mark.parametrize("each", ANSWERS, ids=lambda each: each.name)
def test_the_page_of_a_question_documents_every_figure_and_column(each: Entry) -> None:
    page = (REPOSITORY / "docs" / "answers" / f"{each.stem}.md").read_text(encoding="utf-8")
    result = each.function(rough_story().store, each.spec(by=("tenant",)))
    names = {figure.name for figure in result.figures}
    names |= {column.name for table in result.tables for column in table.columns}
    names |= {table.name for table in result.tables}
    assert sorted(name for name in names if f"`{name}`" not in page) == []
    units = {figure.name: figure.unit for figure in result.figures}
    assert {name: units.get(name) for name in each.units} == dict(each.units)


def test_rows_that_stand_by_column_read_as_rows() -> None:
    rows = RowsByColumn([["a", "b", "c"], [1, None, Unknown("x")]])
    assert (len(rows), list(rows)) == (3, [("a", 1), ("b", None), ("c", Unknown("x"))])
    assert (rows[1], list(rows[1:]), len(rows[:0])) == (("b", None), list(rows)[1:], 0)
    assert (len(RowsByColumn([])), list(RowsByColumn([]))) == (0, [])
    with pytest.raises(ValueError, match="shorter"):
        list(RowsByColumn([["a"], []]))


def test_a_question_that_is_not_built_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"question 8 .* q1, q2"):
        entry(8)
