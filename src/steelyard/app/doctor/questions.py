"""Which of the ten questions can be answered: by the sources that the registry says each needs, over the capabilities that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from steelyard.answers.registry import ANSWERS
from steelyard.app.doctor.capabilities import CAPABILITIES, LIVE, NOT_IN_THIS_VERSION, STORED
from steelyard.app.doctor.survey import Survey
from steelyard.primitives.i18n import _
from steelyard.surfaces.shared.doctor_ports import CapabilityReport, QuestionReport

FULLY: Final = "fully"
PARTLY: Final = "partly"
NOT: Final = "not"

CAPABILITY_OF_SOURCE: Final[Mapping[str, str]] = {
    "kubernetes pods": "pods",
    "gpu inventory": "inventory",
    "gpu process memory": "process_memory",
    "gpu samples": "card_use",
    "price book": "prices",
}
"""The registry's word for a source -> the capability that stands for it."""

ESSENTIAL: Final = frozenset({"pods"})
"""Without these a question that needs them has no answer at all."""

TITLES: Final[Mapping[int, Callable[[], str]]] = {
    1: lambda: _("Who holds which GPU, MIG slice or vGPU"),
    2: lambda: _("How much was requested, granted and used"),
    3: lambda: _("Why utilisation is low"),
    4: lambda: _("Where jitter comes from"),
    5: lambda: _("Is the SLO met, and who is affected"),
    6: lambda: _("Do scheduling and quota follow the rules"),
    7: lambda: _("Is anything over-used or bypassed"),
    8: lambda: _("Failures and their cost, by cause"),
    9: lambda: _("Cost by tenant"),
    10: lambda: _("The gap between supply and demand to come"),
}


def judge_questions(survey: Survey, capabilities: Sequence[CapabilityReport]) -> list[QuestionReport]:
    """All ten, in order."""
    there = {each.id for each in capabilities if each.state in (LIVE, STORED)}
    built = {entry.number: entry for entry in ANSWERS}
    found = []
    for number, title in TITLES.items():
        if number not in built:
            needs = [each.id for each in CAPABILITIES if number in each.questions]
            applying = {each.id for each in capabilities}
            missing = sorted(need for need in needs if need in applying and need not in there)
            found.append(QuestionReport(number, title(), NOT_IN_THIS_VERSION, missing))
            continue
        words = [CAPABILITY_OF_SOURCE.get(word, word) for word in built[number].sources]
        found.append(_judged(number, built[number].title(), words, there, survey))
    return found


def _judged(number: int, title: str, needs: Sequence[str], there: set[str], survey: Survey) -> QuestionReport:
    missing = sorted(need for need in needs if need not in there)
    if not survey.stored.posted:
        reason = _("nothing was posted yet: import files, or collect once")
        return QuestionReport(number, title, NOT, missing, reason)
    if not missing:
        return QuestionReport(number, title, FULLY)
    titles = {each.id: each.title() for each in CAPABILITIES}
    reason = _("not seen: {what}").format(what="; ".join(titles.get(need, need) for need in missing))
    state = NOT if len(missing) == len(needs) or ESSENTIAL & set(missing) else PARTLY
    return QuestionReport(number, title, state, missing, reason)
