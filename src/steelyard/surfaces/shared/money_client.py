"""Declared money of a directory that a server holds, asked over its socket; and its JSON forms read back."""

from __future__ import annotations

from typing import Any

from steelyard.primitives.instant import Instant, format_instant
from steelyard.surfaces.shared.client import ServerClient
from steelyard.surfaces.shared.money_ports import PATHS, DeclareReport, DeclareRequest, Listing
from steelyard.surfaces.shared.replies import other_form, table_of

_MEDIA_TYPE = "application/octet-stream"


class RemoteMoney:
    """Implements ``money_ports.Money`` by asking the server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def declare(self, request: DeclareRequest) -> DeclareReport:
        """Send the file; the server records who it was sent by; see ``Money``."""
        said = {"name": request.name, "book": request.book, "reason": request.reason}
        parameters = [(key, value) for key, value in said.items() if value is not None]
        if request.dry_run:
            parameters.append(("dry_run", "true"))
        found = self._client.post(
            PATHS[request.kind], parameters, content=request.content, headers={"Content-Type": _MEDIA_TYPE}
        )
        return declare_report_of(found)

    def prices(self, at: Instant | None, book: str | None) -> Listing:
        """The lines that hold; see ``Money``."""
        return self._listing("/prices", at=at, book=book)

    def price_changes(self, older: int | None, newer: int | None, book: str | None) -> Listing:
        """What a version changed; see ``Money``."""
        return self._listing("/prices/diff", older=older, newer=newer, book=book)

    def unpriced(self) -> Listing:
        """What no line prices; see ``Money``."""
        return self._listing("/prices/unpriced")

    def tree(self, at: Instant | None) -> Listing:
        """The tenancy tree; see ``Money``."""
        return self._listing("/tenancy", at=at)

    def unmapped(self) -> Listing:
        """The namespaces and what maps them; see ``Money``."""
        return self._listing("/tenancy/check")

    def rates(self, at: Instant | None) -> Listing:
        """The exchange rates; see ``Money``."""
        return self._listing("/rates", at=at)

    def _listing(self, path: str, at: Instant | None = None, **asked: str | int | None) -> Listing:
        parameters = [(key, str(value)) for key, value in asked.items() if value is not None]
        if at is not None:
            parameters.append(("at", format_instant(at)))
        return listing_of(self._client.get(path, parameters))


def declare_report_of(found: Any) -> DeclareReport:
    """The report behind its JSON form. Raises SourceUnsupported where that is of another form."""
    try:
        return DeclareReport(**{**found, "changes": table_of(found["changes"])})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise other_form() from error


def listing_of(found: Any) -> Listing:
    """The listing behind its JSON form. Raises SourceUnsupported where that is of another form."""
    try:
        return Listing(found["title"], [table_of(item) for item in found["tables"]], list(found["notes"]))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise other_form() from error
