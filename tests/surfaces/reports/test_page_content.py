"""What the pages are given: bars that keep the sum, notes that are never dropped in silence, totals of what is known."""

from __future__ import annotations

from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports.charts import daily_svg, share_svg
from steelyard.surfaces.reports.page_content import NOTES_MAX, TEAMS_MAX, Page, content_of, daily_bars, team_bars
from steelyard.surfaces.reports.wording import words
from tests.settlement.statements import line, plain, statement, unpriced


def page(whole: Statement) -> Page:
    return Page(whole, "en", str, words("en"))


def test_teams_beyond_the_bound_come_together_and_the_sum_stays() -> None:
    lines = [line(str(n), team=f"team-{n:02d}", amount_micro=(n + 1) * 1_000_000) for n in range(TEAMS_MAX + 3)]
    bars = team_bars(page(statement(lines)))
    assert len(bars) == TEAMS_MAX
    assert bars[0] == ("team-14", 15.0)
    assert bars[-1] == ("others", 1.0 + 2 + 3 + 4)
    assert sum(amount for _label, amount in bars) == sum((n + 1.0) for n in range(TEAMS_MAX + 3))


def test_teams_whose_cut_names_are_alike_make_one_bar() -> None:
    lines = [line(str(n), team="x" * 60 + str(n), amount_micro=1_000_000) for n in range(2)]
    assert team_bars(page(statement(lines))) == [("x" * 40 + "…", 2.0)]


def test_tax_and_lines_without_a_price_are_no_bar_and_no_team_is_unmapped() -> None:
    lines = [line("1", team=None, amount_micro=2_000_000), plain("2", "tax", "VAT", 9), unpriced("3")]
    assert team_bars(page(statement(lines))) == [("unmapped", 2.0)]


def test_a_day_is_named_in_the_statements_time_zone() -> None:
    assert [label for label, _amount in daily_bars(page(statement()))][:2] == ["11-01", "11-02"]


def test_more_notes_than_fit_are_counted() -> None:
    content = content_of(statement(notes=["n"] * (NOTES_MAX + 2)), "en", str, "")
    assert content["notes"][-1] == "… (+2)"


def test_what_is_known_of_nothing_reads_unknown_and_not_zero() -> None:
    figures = dict(content_of(statement([unpriced("1", cost_micro=None)]), "en", str, "")["figures"])
    assert figures["Cost of the same GPU-time in the cost book"] == "unknown"
    assert figures["Effective cost (seen used, at most)"] == "unknown"
    assert content_of(statement([unpriced("1")]), "en", str, "")["kinds"][0][-1] == "unknown"


def test_a_label_is_a_text_in_a_chart_whatever_it_says() -> None:
    values = [('<script>"&', 1.0), ("datum.amount", 2.0), ("${1+1}", 3.0)]
    drawn = share_svg(values, "<title>", "sans-serif")
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn
    assert "datum.amount" in drawn
    assert drawn == share_svg(values, "<title>", "sans-serif")


def test_a_negative_day_is_drawn() -> None:
    assert "<svg" in daily_svg([("11-01", -5.0), ("11-02", 0.0)], "t", "sans-serif")
