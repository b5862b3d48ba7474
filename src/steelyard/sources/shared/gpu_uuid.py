"""The UUID of a card as metrics label it, in its one spelling, so that samples join with inventories."""

from __future__ import annotations

import re
from typing import Final

_READABLE: Final = re.compile(r"[!-~]{1,160}\Z", re.ASCII)
_SLOT: Final = re.compile(r"\[\d{1,4}-\d{1,4}\]\Z", re.ASCII)


def metric_gpu_uuid(text: str | None) -> str | None:
    """``GPU-`` and lower case; other vendors' ids as written; a slot suffix ``[1-0]`` is cut off. None where the text is no id at all."""
    if not text or not _READABLE.match(text):
        return None
    uuid = _SLOT.sub("", text)
    if uuid[:4].upper() == "GPU-":
        return f"GPU-{uuid[4:].lower()}" if len(uuid) > 4 else None
    return uuid or None
