"""The words of a statement in English, in Chinese, or in both side by side.

The trick to know: all words stand in ``_words`` once and are looked up under ``speaking``, so a document speaks the language it is made for,
whatever the process speaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from steelyard.primitives.i18n import _, speaking

Language = Literal["en", "zh", "both"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh", "both")


def words(language: Language) -> Mapping[str, str]:
    """Key -> words; both: the English ones, a slash and the Chinese ones, once where they are the same."""
    if language != "both":
        with speaking(language):
            return _words()
    english, chinese = words("en"), words("zh")
    return {
        key: text if chinese[key] == text else f"{text} / {chinese[key]}" for key, text in english.items()
    }  # fmt: skip


def _words() -> dict[str, str]:
    return {**_headings(), **_columns(), **_kinds(), **_definitions()}


def _headings() -> dict[str, str]:
    return {
        "title": _("Statement of GPU use"),
        "draft": _("DRAFT: not closed, may change"),
        "shadow": _("SHADOW: for comparison, nothing is to be paid"),
        "number": _("Statement"),
        "no_number": _("none yet"),
        "tenant": _("Tenant"),
        "period": _("Period"),
        "window": _("From, to"),
        "time_zone": _("Time zone"),
        "closed_at": _("Closed at"),
        "as_of": _("As of"),
        "currency": _("Currency"),
        "total": _("Total"),
        "exact_total": _("Exact total"),
        "previous": _("Period before"),
        "change": _("Change"),
        "cost_book": _("Cost of the same GPU-time in the cost book"),
        "effective": _("Effective cost (seen used, at most)"),
        "effective_seen": _("Effective cost, seen used"),
        "effective_most": _("Effective cost, at most"),
        "estimated_lines": _("Estimated lines"),
        "unpriced_lines": _("Lines without a price, not in the total"),
        "provisional_lines": _("Lines at a provisional price"),
        "summary": _("Summary"),
        "notes": _("Notes"),
        "daily": _("Charge by day"),
        "by_team": _("Charge by team"),
        "other_teams": _("others"),
        "unmapped": _("unmapped"),
        "lines": _("Lines"),
        "corrections": _("Corrections"),
        "no_corrections": _("none"),
        "definitions": _("Definitions"),
        "versions": _("Versions"),
        "hash": _("SHA-256 of statement.csv"),
        "page": _("Page"),
        "more_lines": _("{count} more lines, {amount} together, stand in statement.csv"),
        "not_known": _("unknown"),
    }


def _columns() -> dict[str, str]:
    return {
        "line": _("Line"),
        "kind": _("Kind"),
        "what": _("What"),
        "where": _("Card"),
        "whose": _("Team, project"),
        "gpu_hours": _("GPU-hours"),
        "unit_price": _("Unit price"),
        "list_amount": _("List amount"),
        "discount": _("Discount"),
        "amount": _("Amount"),
        "count": _("Lines, count"),
        "marks": _("Marks"),
        "reference": _("Corrects"),
        "reason": _("Reason"),
        "hour": _("hour"),
        "day": _("day"),
        "month": _("month"),
        "year": _("year"),
    }


def _kinds() -> dict[str, str]:
    return {
        "usage": _("usage"),
        "credit": _("credit"),
        "correction": _("correction"),
        "tax": _("tax"),
        "reserved_unused": _("reserved, not used"),
        "burst": _("above the grant"),
        "service_share": _("part of a shared service"),
        "late_facts": _("facts came late"),
        "price": _("price was wrong"),
        "definition": _("definition changed"),
        "held_down": _("card was down"),
        "mark_estimated": _("estimated"),
        "mark_unpriced": _("no price"),
        "mark_provisional": _("provisional"),
    }


def _definitions() -> dict[str, str]:
    return {
        "define_gpu_hours": _(
            "GPU-hours: the declared share of a card times the time it was held from the charge start, not what was used."
        ),
        "define_amount": _(
            "Amount: list amount less discount. Amounts are kept in millionths of the currency; what is shown is rounded, "
            "the total is rounded from the exact sum."
        ),
        "define_unit_price": _("Unit price: for one whole card and one unit of time, as the price book states it."),
        "define_estimated": _("estimated: telemetry saw less of the granted time than 95 %."),
        "define_unpriced": _("no price: no line of the price book holds; the line is not in the total and is not free."),
        "define_provisional": _("provisional: the price is expected to be replaced; the difference comes as a correction."),
        "define_cost": _("Cost book: the tenant's part in what the cards cost, which is not what is asked for."),
        "define_effective": _(
            "Effective cost: price times used GPU-time, from what was seen to that and all that was not seen; for information."
        ),
        "define_correction": _(
            "Correction: what a closed period would have said otherwise; the closed statement itself never changes."
        ),
    }  # fmt: skip
