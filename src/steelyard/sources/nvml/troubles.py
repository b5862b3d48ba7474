"""Troubles of a card or of the library as findings: one per kind and subject when it appears or changes, and none while it just lasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.facts.finding import Finding
from steelyard.primitives.unknown import Unknown
from steelyard.sources.nvml.card_facts import SOURCE
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.device_driver import (
    LOST,
    MISMATCH,
    NEEDS_RESET,
    NO_LIBRARY,
    NO_PERMISSION,
    NOT_LOADED,
    UNINITIALISED,
    UNSUPPORTED,
    CardReading,
)

_WORDS: Final = {
    UNSUPPORTED: "this driver or board does not offer",
    NO_PERMISSION: "the agent may not ask for",
    NEEDS_RESET: "the card must be reset; it does not answer",
    MISMATCH: "the driver's library and its kernel module are of different versions: start the agent anew, or reboot the node",
    NOT_LOADED: "the driver is not loaded",
    NO_LIBRARY: "the driver's library cannot be loaded",
    UNINITIALISED: "the driver's library is not initialised",
    LOST: "the driver says that the card is lost",
}
_SEVERITIES: Final = {UNSUPPORTED: "info", NO_PERMISSION: "warning"}
CALLS_SHOWN_MAX: Final = 24


class Troubles:
    """The troubles that are known to have been said. ``begin`` a round, ``tell`` each, ``end`` it: what was not told again is over."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], str] = {}
        self._told: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """A round begins."""
        self._told.clear()

    def keep(self, subject: str) -> None:
        """Nothing can be said of a subject in this round: what was said of it still holds."""
        self._told.update(key for key in self._said if key[1] == subject)

    def tell(
        self,
        ctx: ReadContext,
        code: str,
        subject: str,
        message: str,
        *,
        severity: str = "error",
        evidence: Mapping[str, object] | None = None,
    ) -> Iterator[Finding]:
        """A trouble that there is in this round; a finding where it is new or its message is another one."""
        key = (code, subject)
        self._told.add(key)
        if self._said.get(key) == message:
            return
        self._said[key] = message
        yield ctx.finding(SOURCE, code, subject, message, severity=severity, evidence=evidence)

    def end(self) -> None:
        """The round is over: what was not told is said anew when it comes back."""
        self._said = {key: message for key, message in self._said.items() if key in self._told}

    def of_card(self, ctx: ReadContext, card: CardReading) -> Iterator[Finding]:
        """The calls of one card that gave no figure, by kind, and what its memory rows say."""
        subject = f"device {card.uuid}"
        by_kind: dict[str, dict[str, str]] = {}
        for problem in card.problems:
            where = problem.call if problem.gi is None else f"{problem.call} (GPU instance {problem.gi})"
            by_kind.setdefault(problem.kind, {})[where] = problem.reason
        for kind, calls in sorted(by_kind.items()):
            words = _WORDS.get(kind, "calls failed")
            shown = ", ".join(f"{call}: {reason}" for call, reason in sorted(calls.items())[:CALLS_SHOWN_MAX])
            yield from self.tell(
                ctx,
                kind,
                subject,
                f"{words}: {shown}",
                severity=_SEVERITIES.get(kind, "error"),
                evidence={"node": ctx.node, "calls": calls},
            )
        if card.remaps is None or isinstance(card.remaps, Unknown):
            return
        rows = f"{card.remaps.uncorrectable} rows after uncorrectable and {card.remaps.correctable} after correctable errors"
        if card.remaps.failed:
            yield from self.tell(
                ctx, "row_remap_failed", subject, f"a row of its memory could not be remapped; so far {rows}"
            )
        if card.remaps.pending:
            words = f"remapped rows of its memory wait for a reset of the card; so far {rows}"
            yield from self.tell(ctx, "row_remap_pending", subject, words, severity="warning")

    def of_library(self, ctx: ReadContext, kind: str, call: str, reason: str) -> Iterator[Finding]:
        """The library as a whole does not answer."""
        words = _WORDS.get(kind, "the driver does not answer")
        yield from self.tell(
            ctx, kind, f"node {ctx.node}", f"{words} ({call}: {reason})", evidence={"node": ctx.node, "call": call}
        )
