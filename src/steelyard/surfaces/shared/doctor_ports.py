"""What the doctor says of a site: plain values with one JSON form, which the server sends and ``--json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from steelyard.primitives.errors import SourceUnsupported
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DurationUs, Instant, format_instant, parse_instant

Level = Literal["L0", "L1", "L2"]
LEVELS: Final[tuple[Level, ...]] = ("L0", "L1", "L2")
Severity = Literal["broken", "warning", "missing", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("broken", "warning", "missing", "note")
"""broken: configured and does not work. warning: works and tells less, or other, than it should. missing: would tell more. note: good to know."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One configured source, or ``data``. ``status``: ``ok``, ``partial``, ``failed``. ``seen``: what is there, by name; None = cannot be told."""

    name: str
    status: str
    message: str | None = None
    seen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Symptom:
    """What a check found. ``id``: of the check. ``subject``: where. ``remedy``: what to do, with ``lines`` to paste into ``paste_into``."""

    id: str
    severity: Severity
    level: Level
    subject: str
    message: str
    remedy: str = ""
    paste_into: str = ""
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CapabilityReport:
    """One thing that a level consists of. ``state``: ``live`` (comes now), ``stored`` (from files or of before), ``missing``,
    ``not_in_this_version``. ``required``: the level is not reached without it. ``questions``: whose answers rest on it. ``remedy``: how it is
    had where it is wanting, with ``lines`` to paste into ``paste_into``."""

    id: str
    title: str
    state: str
    required: bool
    by: Sequence[str] = ()
    questions: Sequence[int] = ()
    remedy: str = ""
    paste_into: str = ""
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LevelReport:
    """One level: whether it is reached, with those below it, and what it consists of."""

    level: Level
    reached: bool
    capabilities: Sequence[CapabilityReport]


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """One of the ten questions. ``state``: ``fully``, ``partly``, ``not``, ``not_in_this_version``. ``missing``: capabilities, by id."""

    number: int
    title: str
    state: str
    missing: Sequence[str] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NextAction:
    """What to do next. ``questions``: those it makes better; ``level``: the one it belongs to."""

    id: str
    level: Level
    questions: Sequence[int]
    text: str


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The whole. ``level``: the highest that is reached, None = not even the first. ``next_actions``: first things first."""

    checked_at: Instant
    level: Level | None
    sources: Sequence[SourceReport]
    symptoms: Sequence[Symptom]
    levels: Sequence[LevelReport]
    questions: Sequence[QuestionReport]
    next_actions: Sequence[NextAction]
    not_tested: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The documented JSON form; ``checked_at`` is its only time."""
        return {
            "checked_at": format_instant(self.checked_at),
            "level": self.level,
            "sources": [_plain(each) for each in self.sources],
            "symptoms": [_plain(each) for each in self.symptoms],
            "levels": [
                {
                    "level": each.level,
                    "reached": each.reached,
                    "capabilities": [_plain(one) for one in each.capabilities],
                }
                for each in self.levels
            ],
            "questions": [_plain(each) for each in self.questions],
            "next_actions": [_plain(each) for each in self.next_actions],
            "not_tested": list(self.not_tested),
        }


class Doctor(Protocol):
    """Examines one data directory and the sources that its settings name."""

    def examine(self, deadline_us: DurationUs) -> DoctorReport:
        """Look at everything, each source for ``deadline_us`` at most, all at once. Stores nothing.

        Raises UsageError for settings that are none, StoreLocked where another process that is no server holds the directory."""
        ...


def doctor_of(found: Any) -> DoctorReport:
    """The report behind its JSON form. Raises SourceUnsupported where that is of another form."""
    try:
        return DoctorReport(
            parse_instant(found["checked_at"]),
            found["level"],
            [SourceReport(**each) for each in found["sources"]],
            [Symptom(**each) for each in found["symptoms"]],
            [
                LevelReport(each["level"], each["reached"], [CapabilityReport(**one) for one in each["capabilities"]])
                for each in found["levels"]
            ],
            [QuestionReport(**each) for each in found["questions"]],
            [NextAction(**each) for each in found["next_actions"]],
            list(found["not_tested"]),
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise SourceUnsupported(
            _(
                "the server of this directory answers in a form that this version does not know: run the same version of both"
            )
        ) from error


def _plain(value: Any) -> dict[str, Any]:
    found = {name: getattr(value, name) for name in value.__slots__}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in found.items()}
