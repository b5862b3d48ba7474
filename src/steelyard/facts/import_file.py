"""Which files were read, so that every row can be traced to its bytes."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class ImportFile(Fact, frozen=True, kw_only=True):
    """One imported file. natural_key: its sha256 (of the bytes as they lay there). occurred_at: the as-of instant of its content.

    kind: the reader that took it. facts_count: rows it yielded before de-duplication. refused_count: lines or objects refused.
    """

    TABLE: ClassVar[str] = "import_file"

    path: str
    kind: str
    bytes_count: int
    sha256: str
    facts_count: int = 0
    refused_count: int = 0
    as_of_basis: str = "stamped"
