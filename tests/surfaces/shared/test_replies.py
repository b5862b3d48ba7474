"""An answer or report that travelled as JSON is printed as if it had never left."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.contract import Answer, Column, Evidence, Figure, FindingNote, Series, Table, Value
from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.instant import Window
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.import_text import import_json, render_import
from steelyard.surfaces.shared.ports import FileReport, ImportReport
from steelyard.surfaces.shared.replies import answer_of, report_of

CELLS: tuple[Value, ...] = (
    0,
    2**70,
    -3,
    0.1,
    1e-9,
    Fraction(1, 3),
    Fraction(3),
    True,
    False,
    None,
    "",
    "a\x1b]\ud800",
    Unknown("nobody looked"),
)


def an_answer(**values: Any) -> Answer:
    plain: dict[str, Any] = {
        "question": "q2",
        "title": "Title",
        "window": Window(1, 86_400_000_001),
        "as_of": 1,
        "figures": [
            Figure(f"f{n}", cell, "GPU-h", "m", 0.5 if n % 2 else Unknown("no")) for n, cell in enumerate(CELLS)
        ],
        "tables": [Table("t", (Column("c", "1"), Column("device_uuid"), Column("n")), [(c, c, c) for c in CELLS])],
        "series": [Series("s", "1", [(5, cell) for cell in CELLS])],
        "definitions": ({"name": "share", "version": "1"},),
        "sources": ("a",),
        "coverage": 1.0,
        "blind_spots": ("b",),
        "findings": (FindingNote("code", "warning", "pod a/b", "m"),),
        "evidence": (Evidence("w", "x", "y"),),
        "next_actions": ("n",),
        "explain": {"holders": "SELECT 1"},
    }
    return Answer(**{**plain, **values})


ANSWERS = (
    an_answer(),
    an_answer(window=None, as_of=None, coverage=Unknown("nothing was observed"), explain={}, series=()),
    Answer("q1", "T", None, -62_135_596_800_000_000),
)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_travelled_reads_the_same(answer: Answer) -> None:
    back = answer_of(json.loads(json.dumps(answer.to_json(), allow_nan=False)))
    assert json.dumps(back.to_json()) == json.dumps(answer.to_json())
    for width in (None, 60, 120):
        assert render_answer(back, width) == render_answer(answer, width)


def test_a_report_that_travelled_reads_the_same() -> None:
    files = [
        FileReport("a\ud800", "openb", "imported", 3, 2, 1, None),
        FileReport("b", "unknown", "refused", 0, 0, 1, "m"),
    ]
    for report in (ImportReport(files, 7, "inferred", {"x": 2}, 12), ImportReport([], None, "file_time", {}, 0)):
        back = report_of(json.loads(json.dumps(import_json(report))))
        assert back == report
        assert render_import(back, None) == render_import(report, None)


@pytest.mark.parametrize("found", [None, [], {}, {"question": "q1"}, {"files": [{}]}, {"files": 7}, "text"])
def test_json_of_another_form_is_another_version(found: Any) -> None:
    for read in (answer_of, report_of):
        with pytest.raises(SourceUnsupported, match="same version"):
            read(found)
