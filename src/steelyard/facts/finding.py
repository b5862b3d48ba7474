"""Findings about the data itself: refused lines, contradictions, sources that disagree."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class Finding(Fact, frozen=True, kw_only=True):
    """One finding. natural_key: ``<code>/<subject>[/<file>:<line>]``. severity: ``info``, ``warning`` or ``error``.

    code: lower snake case, stable. subject: ``pod team-a/x``, ``device GPU-...``, ``node n``, ``file name``. message: one line in
    English (a person reads its translation by code). evidence: JSON object. file, line, excerpt: where it stands in an input.
    """

    TABLE: ClassVar[str] = "finding"

    code: str
    severity: str = "warning"
    subject: str
    message: str
    evidence: str = "{}"
    file: str | None = None
    line: int | None = None
    excerpt: str | None = None
