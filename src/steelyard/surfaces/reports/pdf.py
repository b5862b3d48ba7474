"""A statement as a PDF, set by typst: in English, Chinese or both, with an embedded font that has Chinese.

Method: ``page_content`` makes texts, ``charts`` two pictures, ``statement.typ`` lays them out. The trick to know: the only clock is the
statement's own close instant, so the same statement gives the same bytes with the same libraries and font.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import to_datetime
from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports.charts import daily_svg, share_svg
from steelyard.surfaces.reports.extra import report_library
from steelyard.surfaces.reports.fonts import FontChoice, choose_font
from steelyard.surfaces.reports.page_content import Page, content_of, daily_bars, team_bars
from steelyard.surfaces.reports.wording import Language, words

_TAGGED_MAX: Final = 1_000
"""Lines up to which the pages carry tags for screen readers; of more the tags would be most of the file."""


def statement_pdf(
    statement: Statement, language: Language, digest: str, *, font_folder: Path | None = None
) -> bytes:  # fmt: skip
    """The pages of one statement. ``digest``: SHA-256 of its CSV, which every page quotes.

    Raises UsageError where the extra ``report`` or a font with Chinese is missing.
    """
    typst, font = report_library("typst"), choose_font(font_folder)
    inputs = {
        "content": json.dumps(content_of(statement, language, font.covered, digest)),
        "family": font.family,
        **_charts(statement, language, font),
    }
    made = typst.compile(
        _template(),
        font_paths=typst.Fonts(
            include_system_fonts=False, include_embedded_fonts=False, font_paths=[str(font.path.parent)]
        ),
        ignore_system_fonts=True,
        format="pdf",
        sys_inputs=inputs,
        timestamp=_date(statement),
        pdf_tags=len(statement.lines) <= _TAGGED_MAX,
    )
    if not isinstance(made, bytes):
        raise InvariantError("typst makes one PDF of one statement")
    return made


def _charts(statement: Statement, language: Language, font: FontChoice) -> dict[str, str]:
    page = Page(statement, language, font.covered, {key: font.covered(text) for key, text in words(language).items()})
    days, teams = daily_bars(page), team_bars(page)
    unit = page.covered(statement.currency)
    return {
        "daily": daily_svg(days, f"{page.words['daily']} ({unit})", font.family) if days else "",
        "teams": share_svg(teams, f"{page.words['by_team']} ({unit})", font.family) if teams else "",
    }


def _date(statement: Statement) -> datetime:
    return to_datetime(statement.as_of if statement.closed_at is None else statement.closed_at)


@cache
def _template() -> bytes:
    return files("steelyard.surfaces.reports").joinpath("statement.typ").read_bytes()
