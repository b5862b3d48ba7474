"""Periods, statements and budgets of a directory that a server holds, asked over its socket."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from steelyard.surfaces.shared.client import ServerClient
from steelyard.surfaces.shared.replies import other_form
from steelyard.surfaces.shared.settlement_ports import Act, DocumentFormat, Look


class RemoteSettlement:
    """Implements ``settlement_ports.Settlement`` by asking the server. Who acts is the owner of the directory, under the name that ``act`` gives."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def look(self, look: Look) -> dict[str, Any]:
        """The JSON form of what is looked at; see ``Settlement``."""
        return _object(self._client.get(look.path(), look.parameters()))

    def act(self, act: Act) -> dict[str, Any]:
        """Do it; see ``Settlement``."""
        sent = json.dumps({**act.body, "actor": act.actor}).encode("ascii")
        return _object(self._client.post(act.path(), content=sent, headers={"Content-Type": "application/json"}))

    def documents(self, look: Look, form: DocumentFormat) -> Sequence[tuple[str, bytes]]:
        """The documents; see ``Settlement``."""
        found = _object(self._client.get("/statements/documents", [*look.parameters(), ("format", form)]))
        try:
            return [
                (str(item["name"]), base64.b64decode(item["content"], validate=True)) for item in found["documents"]
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise other_form() from error


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise other_form()
    return found
