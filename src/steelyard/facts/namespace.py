"""Namespaces: who answers for one, by its annotations, and which labels it carries."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact
from steelyard.primitives.instant import Instant


class Namespace(Fact, frozen=True, kw_only=True):
    """A namespace as seen once (``occurred_at`` = the snapshot). natural_key: its uid, else ``name:<namespace>``.

    phase: ``Active`` or ``Terminating``, None = not told. labels, annotations: JSON objects with sorted keys, without the bulky machine-written ones.
    """

    TABLE: ClassVar[str] = "namespace"

    namespace: str
    phase: str | None = None
    created_at: Instant | None = None
    deletion_at: Instant | None = None
    labels: str = "{}"
    annotations: str = "{}"
