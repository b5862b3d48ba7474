"""Plain questions in English or Chinese as questions of the ten: a small list of phrases, no guessing.

``understood`` is what ``steelyard ask`` calls. The trick to know: each pattern stands for exactly one command, which the caller
prints, so a person sees how the words were taken; what fits no pattern is refused with the list of those that are understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.surfaces.shared.options import instant_of, window_of
from steelyard.surfaces.shared.ports import Question

_WORDS_MAX: Final = 300
_NAME: Final = r"(?P<name>[^\s?？,，。'\"]{1,253})"
_KIND: Final = r"(?P<kind>pods?|tenants?|teams?|namespaces?|nodes?|租户|团队|命名空间|节点|pod)"
_KINDS: Final = {"team": "tenant", "租户": "tenant", "团队": "tenant", "命名空间": "namespace", "节点": "node"}

_AT: Final = re.compile(r"\s*(?:\bat|在|于)\s*(?P<at>\d{4}-\d{2}-\d{2}\S*)", re.IGNORECASE)
_SPAN: Final = re.compile(
    r"\s*(?:\bfrom|从|自)\s*(?P<start>\d{4}-\d{2}-\d{2}\S*)\s*(?:\bto\b|到|至)\s*(?P<end>\d{4}-\d{2}-\d{2}\S*)",
    re.IGNORECASE,
)

_PATTERNS: Final = tuple(
    (number, re.compile(pattern, re.IGNORECASE))
    for number, pattern in (
        (1, rf"who(?: is|'s| was)? (?:on|using|holding|holds?|has) (?:(?P<kind>node|gpu|card|unit) )?{_NAME}"),
        (1, rf"what (?:does|did|do) (?:the )?(?:{_KIND} )?{_NAME} (?:hold|have|own)"),
        (1, rf"(?:the )?neighbou?rs of (?:the )?(?:(?P<kind>pod) )?{_NAME}"),
        (
            2,
            rf"how much (?:does|did|do|has|have) (?:the )?(?:{_KIND} )?{_NAME} (?:use|used|get|got|hold|held|consume|consumed)",
        ),
        (1, rf"谁(?:正?在|曾在)?(?:用|占用?|占着|持有|使用)(?:着|了)?\s*(?:(?P<kind>节点|卡|GPU)\s+)?{_NAME}"),
        (1, r"(?P<name>(?:GPU|MIG)-[0-9a-z/-]{4,80})\s*(?:上)?(?:是|有)谁(?:在用)?"),
        (2, rf"{_KIND}\s*{_NAME}\s*(?:使?用|消耗|花)了?多少(?:卡时|显存|GPU|算力)?"),
        (1, rf"{_KIND}\s*{_NAME}\s*(?:占着?|占用|持有|用着?)了?(?:什么|哪些|几张)(?:卡|GPU|资源)?"),
        (1, rf"{_KIND}\s*{_NAME}\s*的?邻居(?:是谁|有谁|有哪些)?"),
    )
)


@dataclass(frozen=True, slots=True)
class Understood:
    """A plain question as one of the ten: its number, the question, and the same as a command."""

    number: int
    question: Question
    command: str
    named: dict[str, str] = field(default_factory=dict)


def examples() -> tuple[str, ...]:
    """What is understood, one example each."""
    return (
        "who is on GPU-5e3c...",
        "who is on node gpu-a at 2026-11-30T02:00:00Z",
        "what does tenant team-a hold",
        "neighbours of pod team-a/infer-1",
        "how much did tenant team-a use from 2026-11-01 to 2026-12-01",
        "谁在用 GPU-5e3c...",
        "租户 team-a 占用哪些卡",
        "租户 team-a 用了多少",
    )


def understood(text: str) -> Understood:
    """The question behind the words. Raises UsageError, with examples, where no pattern fits the whole of them."""
    words = " ".join(text.split())
    if len(words) <= _WORDS_MAX:
        rest, at, span = _without_times(words.rstrip("?？。. "))
        for number, pattern in _PATTERNS:
            match = pattern.fullmatch(rest)
            if match is None or (number == 1 and span) or (number == 2 and at):
                continue
            return _as_question(number, match, at, span)
    raise UsageError(_("not understood; ask like one of these: {examples}").format(examples=" | ".join(examples())))


def _without_times(words: str) -> tuple[str, str | None, tuple[str, str] | None]:
    span = _SPAN.search(words)
    if span is not None:
        return (words[: span.start()] + words[span.end() :]).strip(), None, (span["start"], span["end"])
    at = _AT.search(words)
    if at is not None:
        return (words[: at.start()] + words[at.end() :]).strip(), at["at"], None
    return words, None, None


def _as_question(number: int, match: re.Match[str], at: str | None, span: tuple[str, str] | None) -> Understood:
    name = match["name"]
    kind = (match.groupdict().get("kind") or "").casefold().rstrip("s")
    dimension = _KINDS.get(kind, kind) or _guessed(name, match.re.pattern)
    dimension = "gpu" if dimension in ("card", "unit", "卡") else dimension
    where = {dimension: name}
    command = f"steelyard q{number} --where {dimension}={name}"
    if span is not None:
        command += f" --from {span[0]} --to {span[1]}"
        return Understood(number, Question(window=window_of(*span), where=where), command, where)
    command += f" --at {at}" if at else ""
    return Understood(number, Question(at=instant_of(at, "at"), where=where), command, where)


def _guessed(name: str, pattern: str) -> str:
    """What a bare name is: a card by its form or where the words ask who is on it; a pod by its slash or as a neighbour; else a tenant."""
    if name.upper().startswith(("GPU-", "MIG-")) or pattern.startswith(("who", "谁")):
        return "gpu"
    return "pod" if "/" in name or "neighbou" in pattern else "tenant"
