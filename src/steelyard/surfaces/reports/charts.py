"""Charts of a statement: the charge per day, and per team. One Vega-Lite definition each, made by altair, drawn as SVG by vl-convert.

The trick to know: what a chart shows is already text and numbers when it comes here (labels in the font's characters, amounts scaled for
reading), so nothing in a name is ever an expression, and the same values give the same SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from steelyard.surfaces.reports.extra import report_library

_BAR: Final = "#2f5d8a"
_INK: Final = "#333333"


def daily_svg(values: Sequence[tuple[str, float]], title: str, family: str) -> str:
    """Bars over days in their order: (label of the day, amount in whole currency)."""
    alt = report_library("altair")
    encoding = {
        "x": alt.X("label:N", sort=None, title=None, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        "y": alt.Y("amount:Q", title=None, axis=alt.Axis(tickCount=4, format="~s")),
    }
    return _svg(values, title, family, 480, 110, encoding)


def share_svg(values: Sequence[tuple[str, float]], title: str, family: str) -> str:
    """Lying bars in their order: (name, amount in whole currency)."""
    alt = report_library("altair")
    encoding = {
        "x": alt.X("amount:Q", title=None, axis=alt.Axis(tickCount=5, format="~s")),
        "y": alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
    }
    return _svg(values, title, family, 380, max(24, 16 * len(values)), encoding)


def _svg(
    values: Sequence[tuple[str, float]], title: str, family: str, width: int, height: int, encoding: dict[str, Any]
) -> str:
    alt, converter = report_library("altair"), report_library("vl_convert")
    rows = [{"label": label, "amount": amount} for label, amount in values]
    chart = (
        alt.Chart(alt.Data(values=rows), title=title, width=width, height=height)
        .mark_bar(color=_BAR)
        .encode(**encoding)
        .configure(font=family)
        .configure_axis(labelColor=_INK, gridColor="#dddddd", labelFontSize=9)
        .configure_title(anchor="start", color=_INK, fontSize=11, fontWeight="normal")
        .configure_view(stroke=None)
    )
    return str(converter.vegalite_to_svg(chart.to_dict()))
