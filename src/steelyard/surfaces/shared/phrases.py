"""Plain questions in English or Chinese as questions of the ten, or as the story of one request: a small list of phrases, no guessing.

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
from steelyard.surfaces.shared.ports import Question, StoryRequest

_WORDS_MAX: Final = 300
_NAME: Final = r"(?P<name>[^\s?？,，。'\"]{1,253})"
_KIND: Final = r"(?P<kind>pods?|tenants?|teams?|namespaces?|nodes?|租户|团队|命名空间|节点|pod)"
_WAITING_KIND: Final = r"(?P<kind>pods?|tenants?|teams?|namespaces?|queues?|persons?|租户|团队|命名空间|队列)"
_REQUEST_KIND: Final = r"(?P<kind>pod|job|workload|作业|任务)"
_OBJECT: Final = r"(?P<name>[0-9a-z][0-9a-z./_:-]{0,252})"
"""A name between Chinese words, which need no space around them."""

_KINDS: Final = {
    "team": "tenant",
    "租户": "tenant",
    "团队": "tenant",
    "命名空间": "namespace",
    "节点": "node",
    "队列": "queue",
    "作业": "job",
    "任务": "job",
}
_WHY: Final = 0
"""Stands for the story of one request, which is none of the ten."""

_AT: Final = re.compile(r"\s*(?:\bat|在|于)\s*(?P<at>\d{4}-\d{2}-\d{2}\S*)", re.IGNORECASE)
_SPAN: Final = re.compile(
    r"\s*(?:\bfrom|从|自)\s*(?P<start>\d{4}-\d{2}-\d{2}\S*)\s*(?:\bto\b|到|至)\s*(?P<end>\d{4}-\d{2}-\d{2}\S*)",
    re.IGNORECASE,
)

_OF: Final = rf"(?: (?:in|of|for) (?:the )?{_WAITING_KIND} {_NAME})?"
_IN_ZH: Final = rf"(?:{_WAITING_KIND}\s*{_OBJECT}\s*(?:里|中|的)?\s*)?"
_STATE: Final = r"(?:pending|waiting|wait|queued|stuck|in (?:the )?queue|not (?:running|starting|scheduled|admitted))"
_ZH_STATE: Final = r"\s*(?:一直|总是|还|还在|正在|在)?\s*(?:pending|排队|等待|卡住了?|没(?:有)?(?:运行|调度|启动)|不(?:运行|调度|启动))"

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
        (6, rf"who (?:has |have )?(?:jumped|jumps|skipped|cut) (?:the )?queue{_OF}"),
        (6, rf"who (?:is|was) (?:waiting|pending|queue?ing|queued|preempted|evicted|refused){_OF}"),
        (6, rf"how long (?:do|did|must) (?:requests|jobs|pods|workloads|people) (?:wait|queue){_OF}"),
        (6, rf"how long (?:does|did|do|has|have) (?:the )?{_WAITING_KIND} {_NAME} (?:wait|waited|queue|queued)"),
        (6, rf"why (?:are (?:requests|jobs|pods|workloads) )?(?:pending|waiting){_OF}"),
        (6, rf"{_IN_ZH}谁(?:在)?插队了?"),
        (6, rf"{_IN_ZH}谁(?:还|正)?在(?:排队|等待)"),
        (6, rf"{_IN_ZH}(?:排队|等待?)(?:要|了|需要)?(?:多久|多长时间)了?"),
        (_WHY, rf"why (?:is|are|was|does|did) (?:the )?(?:{_REQUEST_KIND} )?{_NAME} (?:still )?{_STATE}"),
        (_WHY, rf"为什么\s*(?:{_REQUEST_KIND}\s*)?{_OBJECT}(?:\s|(?=[^\x00-\x7f])){_ZH_STATE}"),
        (_WHY, rf"(?:{_REQUEST_KIND}\s+)?{_OBJECT}\s*为什么{_ZH_STATE}"),
        (6, rf"{_IN_ZH}为什么{_ZH_STATE}"),
    )
)


@dataclass(frozen=True, slots=True)
class Understood:
    """A plain question as one of the ten: its number, the question, and the same as a command. ``story``: it asks why of one request instead."""

    number: int
    question: Question
    command: str
    named: dict[str, str] = field(default_factory=dict)
    story: StoryRequest | None = None


def examples() -> tuple[str, ...]:
    """What is understood, one example each."""
    return (
        "who is on GPU-5e3c...",
        "who is on node gpu-a at 2026-11-30T02:00:00Z",
        "what does tenant team-a hold",
        "neighbours of pod team-a/infer-1",
        "how much did tenant team-a use from 2026-11-01 to 2026-12-01",
        "who jumped the queue in queue gpus",
        "how long did tenant team-a wait",
        "why is pod team-a/infer-1 pending",
        "谁在用 GPU-5e3c...",
        "租户 team-a 占用哪些卡",
        "租户 team-a 用了多少",
        "谁插队了",
        "队列 gpus 排队多久",
        "为什么 Pending",
        "为什么 pod team-a/infer-1 Pending",
    )


def understood(text: str) -> Understood:
    """The question behind the words. Raises UsageError, with examples, where no pattern fits the whole of them."""
    words = " ".join(text.split())
    if len(words) <= _WORDS_MAX:
        rest, at, span = _without_times(words.rstrip("?？。. "))
        for number, pattern in _PATTERNS:
            match = pattern.fullmatch(rest)
            if match is None or (number in (1, _WHY) and span) or (number in (2, 6) and at):
                continue
            return _as_story(match, at) if number == _WHY else _as_question(number, match, at, span)
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
    where = {} if name is None else {_dimension(match): name}
    command = f"steelyard q{number}" + "".join(f" --where {key}={value}" for key, value in where.items())
    if span is not None:
        command += f" --from {span[0]} --to {span[1]}"
        return Understood(number, Question(window=window_of(*span), where=where), command, where)
    command += f" --at {at}" if at else ""
    return Understood(number, Question(at=instant_of(at, "at"), where=where), command, where)


def _as_story(match: re.Match[str], at: str | None) -> Understood:
    name, kind = match["name"], (match["kind"] or "").casefold()
    kind = _KINDS.get(kind, kind)
    command = f"steelyard why {name}" + (f" --kind {kind}" if kind else "") + (f" --at {at}" if at else "")
    story = StoryRequest(name, kind or None, at=instant_of(at, "at"))
    return Understood(_WHY, Question(), command, story=story)


def _dimension(match: re.Match[str]) -> str:
    kind = (match.groupdict().get("kind") or "").casefold().rstrip("s")
    dimension = _KINDS.get(kind, kind) or _guessed(match["name"], match.re.pattern)
    return "gpu" if dimension in ("card", "unit", "卡") else dimension


def _guessed(name: str, pattern: str) -> str:
    """What a bare name is: a card by its form or where the words ask who is on it; a pod by its slash or as a neighbour; else a tenant."""
    if name.upper().startswith(("GPU-", "MIG-")) or pattern.startswith(("who", "谁")):
        return "gpu"
    return "pod" if "/" in name or "neighbou" in pattern else "tenant"
