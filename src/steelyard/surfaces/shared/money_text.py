"""Declarations and listings of money as lines of text."""

from __future__ import annotations

from steelyard.primitives.i18n import _, ngettext
from steelyard.surfaces.shared.money_ports import DeclareReport, Listing
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import Line, lay_out, sentence


def render_declaration(report: DeclareReport, width: int | None, rows_max: int | None = None) -> list[Line]:
    """What became of a file, and what it changed."""
    lines = sentence("row", _said(report), width)
    if report.changes.rows:
        lines += [Line("row", ""), *lay_out(report.changes, width, rows_max)]
    if report.status == "declared":
        text = ngettext("{count} ledger row posted", "{count} ledger rows posted", report.postings_count)
        lines += [Line("row", ""), Line("row", text.format(count=f"{report.postings_count:,}"))]
    return lines


def render_listing(listing: Listing, width: int | None, rows_max: int | None = None) -> list[Line]:
    """The tables, one below the other, and the notes."""
    lines = sentence("heading", printable(listing.title), width)
    for table in listing.tables:
        lines += [Line("row", ""), *lay_out(table, width, rows_max)]
    if listing.notes:
        lines.append(Line("row", ""))
        lines += [line for note in listing.notes for line in sentence("note", printable(note), width)]
    return lines


def _said(report: DeclareReport) -> str:
    what = _what(report)
    if report.status == "unchanged":
        return _("{what} holds already: nothing was changed").format(what=what)
    if report.status == "dry_run":
        return _("would be declared: {what}; nothing was written").format(what=what)
    return _("declared: {what}, by {who}").format(what=what, who=printable(report.declared_by or _("nobody named")))


def _what(report: DeclareReport) -> str:
    lines = ngettext("{count} line", "{count} lines", report.lines_count).format(count=f"{report.lines_count:,}")
    if report.kind == "price_book":
        told = _("price book {book}, version {version}, {lines}")
        return told.format(book=printable(report.book or ""), version=report.version, lines=lines)
    if report.kind == "tenancy":
        return _("tenancy tree, version {version}, {lines}").format(version=report.version, lines=lines)
    return _("exchange rates, {lines}").format(lines=lines)
