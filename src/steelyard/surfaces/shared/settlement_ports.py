"""What a surface may ask about periods, statements, corrections, disputes and budgets: one door to look through and one to act through.

``app.settlement_desk`` implements ``Settlement``. The trick to know: what comes back is the documented JSON form itself, so the command line prints
what the server answers, and neither can say what the other does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote

LookKind = Literal[
    "periods", "close", "verify", "statements", "line", "restatement", "control", "disputes", "dispute", "budgets", "budget_check", "approvals",
    "notices",
]  # fmt: skip
ActKind = Literal["close", "dispute_open", "dispute_decide", "budget_set", "budget_approve", "notify"]
DocumentFormat = Literal["csv", "xlsx", "pdf", "parquet", "focus-1.2", "focus-1.4"]
DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = ("csv", "xlsx", "pdf", "parquet", "focus-1.2", "focus-1.4")

LOOK_PATHS: Final[Mapping[LookKind, str]] = {
    "periods": "/periods",
    "close": "/periods/{period}",
    "verify": "/periods/{period}/verification",
    "statements": "/statements",
    "line": "/statements/lines/{key}",
    "restatement": "/periods/{period}/restatement",
    "control": "/periods/{period}/control",
    "disputes": "/disputes",
    "dispute": "/disputes/{key}",
    "budgets": "/budgets",
    "budget_check": "/budgets/check",
    "approvals": "/approvals",
    "notices": "/notices",
}
ACT_PATHS: Final[Mapping[ActKind, str]] = {
    "close": "/periods/{key}/close",
    "dispute_open": "/disputes",
    "dispute_decide": "/disputes/{key}/decision",
    "budget_set": "/budgets",
    "budget_approve": "/budgets/approval",
    "notify": "/notices",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at. ``period`` None = the one that the last known instant lies in. ``tenant``: whose alone. ``key``: of a line or a dispute.
    ``declared``: totals as ``name=amount currency``, for the control page. ``accepted``: codes that a close would be asked to let pass."""

    kind: LookKind
    period: str | None = None
    tenant: str | None = None
    shadow: bool = False
    key: str | None = None
    declared: Sequence[str] = ()
    accepted: Sequence[str] = ()

    def path(self) -> str:
        """Its route below the API."""
        return _filled(LOOK_PATHS[self.kind], {"period": self.period or "", "key": self.key or ""})

    def parameters(self) -> list[tuple[str, str]]:
        """Its query parameters."""
        path = LOOK_PATHS[self.kind]
        found = [(name, value) for name, value in (("tenant", self.tenant),) if value is not None]
        if self.period is not None and "{period}" not in path:
            found.append(("period", self.period))
        if self.shadow:
            found.append(("shadow", "true"))
        found += [("declared", each) for each in self.declared]
        return [*found, *(("accept", each) for each in self.accepted)]


@dataclass(frozen=True, slots=True)
class Act:
    """What is done, by whom. ``actor`` None = the user of this machine. ``role``: by which it is allowed. ``tenant``: the only one whose it may be,
    None = anybody's. ``key``: of the period or dispute. ``body``: what it is done with, as JSON."""

    kind: ActKind
    key: str | None = None
    actor: str | None = None
    role: str = "admin"
    tenant: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)

    def path(self) -> str:
        """Its route below the API."""
        return _filled(ACT_PATHS[self.kind], {"key": self.key or ""})


class Settlement(Protocol):
    """Periods, statements, corrections, disputes and budgets of one data directory."""

    def look(self, look: Look) -> dict[str, Any]:
        """The JSON form of what is looked at. Raises UsageError for a period, line or dispute that is none, StoreDamaged for a broken snapshot."""
        ...

    def act(self, act: Act) -> dict[str, Any]:
        """Do it, and the JSON form of what it made. Raises UsageError where it is refused; then nothing was written."""
        ...

    def documents(self, look: Look, form: DocumentFormat) -> Sequence[tuple[str, bytes]]:
        """(file name, bytes) of the statements that ``look`` names in one format, one each. Raises UsageError where the format is not installed."""
        ...


def _filled(path: str, values: Mapping[str, str]) -> str:
    """The route, with what a person typed as one part of a path, whatever it is."""
    return path.format_map({name: quote(value, safe="", errors="replace") or "-" for name, value in values.items()})
