"""What the jobs of all job systems have in common: a Gang that says how the job stands or ended, with the queue that it names.

The readers of batch Jobs, JobSets, Ray and Kubeflow fill in ``JobWords``; ``read_job_gang`` makes the fact. The trick to know: how a job
ended is told by its condition alone. Its counters count pods, so a job that failed once and then succeeded has one of each.

Sceptic's command: ``kubectl get JOB -o jsonpath='{.status.conditions}'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.object_identity import identity_of, short
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, integer_of, list_of, mapping_of, text_of, texts_of
from steelyard.sources.shared.resource_amounts import gpu_milli_of, scaled, summed, template_amounts, to_json

PARTS_MAX: Final = 1_024
_COUNT_MAX: Final = 2**31
_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"


@dataclass(frozen=True, slots=True)
class PodPart:
    """``count`` pods of one template (a pod's spec)."""

    name: str
    count: int
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobCondition:
    """A condition that holds, with its stamp and words."""

    at: Instant | None
    reason: str | None
    message: str | None


@dataclass(slots=True)
class JobWords:
    """How a job stands, in the words of ``Gang``. parts: the pods it runs at once; empty = its object does not tell."""

    phase: str
    parts: Sequence[PodPart] = ()
    condition: JobCondition | None = None
    outcome: str | None = None
    finished_at: Instant | None = None
    min_count: int | None = None
    queue: str | None = None
    priority_class: str | None = None
    active: bool = True
    retry_count: int | None = None
    retry_max: int | None = None
    running_count: int | None = None
    succeeded_count: int | None = None
    failed_count: int | None = None
    details: dict[str, Any] = field(default_factory=dict)


def read_job_gang(
    payload: Mapping[str, Any], words: JobWords, problems: list[str], source: str, ctx: ReadContext
) -> Iterator[Fact]:
    """One Gang, and a finding ``job_malformed`` where something in it could not be read; then gpu_milli is None.

    Unknown: gpu_milli, pods_count where the object shows no template. Raises SourceMalformed where the object has no name.
    """
    kind = str(payload.get("kind") or "Job")[:80]
    who = identity_of(payload, kind, problems)
    metadata = mapping_of(payload.get("metadata"))
    demand = _demand(words.parts, problems)
    condition = words.condition
    yield Gang(
        cluster=ctx.cluster,
        source=source,
        natural_key=who.uid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        object_kind=plain(kind),
        object_group=plain(str(payload.get("apiVersion") or "").rpartition("/")[0][:316]),
        object_uid=who.uid,
        namespace=who.namespace or "default",
        object_name=who.name,
        owner_kind=who.owner_kind,
        owner_name=who.owner_name,
        owner_uid=who.owner_uid,
        queue=_queue_of(metadata) or words.queue,
        priority_class=words.priority_class,
        created_at=who.created_at,
        deletion_at=who.deletion_at,
        finished_at=words.finished_at,
        pods_count=sum(part.count for part in words.parts) if words.parts else None,
        min_count=words.min_count,
        gpu_milli=gpu_milli_of(demand) if words.parts and not problems else None,
        demand=to_json(demand),
        phase=plain(words.phase),
        phase_reason=condition.reason if condition is not None else None,
        phase_message=condition.message if condition is not None else None,
        outcome=words.outcome,
        active=words.active,
        retry_count=words.retry_count,
        retry_max=words.retry_max,
        running_count=words.running_count,
        succeeded_count=words.succeeded_count,
        failed_count=words.failed_count,
        details=to_json(words.details),
    )
    if problems:
        subject = f"{kind.lower()} {who.namespace}/{who.name}"
        told = [plain(text) for text in problems[:20]]
        evidence = {"problems": told, "count": len(problems)}
        yield ctx.finding(source, "job_malformed", subject, "; ".join(told[:3]), evidence=evidence)


def holding_conditions(status: Mapping[str, Any], problems: list[str]) -> dict[str, JobCondition]:
    """The conditions with status True, by type; of two of one type the last."""
    found: dict[str, JobCondition] = {}
    for row in list_of(status.get("conditions"))[:64]:
        kind = short(row.get("type"))
        if kind is not None and row.get("status") == "True":
            message = text_of(row.get("message"))
            at = instant_of(row.get("lastTransitionTime"), problems, f"{kind}.lastTransitionTime")
            found[kind] = JobCondition(at, short(row.get("reason")), plain(message[:4_096]) if message else None)
    return found


def ended_by(
    conditions: Mapping[str, JobCondition], success: str, failure: str, problems: list[str]
) -> tuple[str | None, JobCondition | None]:
    """(outcome, its condition) of a job that says its end in one of two conditions; one that says both has no outcome, and that is noted."""
    good, bad = conditions.get(success), conditions.get(failure)
    if good is not None and bad is not None:
        problems.append(f"both {success} and {failure} hold: how it ended is not told")
        return None, None
    if good is not None:
        return "succeeded", good
    return ("failed", bad) if bad is not None else (None, None)


def count_of(value: object, default: int) -> int:
    """A number of pods, jobs or groups; ``default`` where it is not said."""
    count = integer_of(value)
    return default if count is None else min(max(0, count), _COUNT_MAX)


def retries_of(failed: int | None, outcome: str | None) -> int | None:
    """How often it was started anew, of how often it failed: the failure that ended it was not followed by another start."""
    if failed is None or failed < 0:
        return None
    return max(0, failed - 1) if outcome == "failed" else failed


def pod_spec(template: object) -> Mapping[str, Any]:
    """The spec in a pod template."""
    return mapping_of(mapping_of(template).get("spec"))


def _queue_of(metadata: Mapping[str, Any]) -> str | None:
    labels, annotations = texts_of(metadata.get("labels")), texts_of(metadata.get("annotations"))
    return short(labels.get(_QUEUE_LABEL)) or short(annotations.get(_QUEUE_ANNOTATION))


def _demand(parts: Sequence[PodPart], problems: list[str]) -> dict[str, int]:
    if len(parts) > PARTS_MAX:
        problems.append(f"{len(parts)} kinds of pods; the first {PARTS_MAX} are counted")
    amounts = [
        scaled(template_amounts(part.spec, problems, part.name[:80]), part.count, problems, part.name[:80])
        for part in parts[:PARTS_MAX]
    ]
    return summed(amounts, problems, "pods")
