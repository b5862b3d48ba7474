"""``AuditReader``: audit events as facts, those that change something we weigh; the rest is counted and said.

Called by ``app`` with parsed events, from a file, a followed file or a webhook alike. Kept of the bodies is only what a later question needs: the
node of a binding, conditions of a status, the spec of queues, quotas and nodes. The trick to know: what an object looked like *before* a
change stands in no audit event; it is the ``spec`` of the event before it, so all of them are kept.
Sceptic's command: ``jq -c 'select(.verb=="create" and .objectRef.subresource=="binding")' audit.log``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.sources.audit_log.decisions import AuditDecisions
from steelyard.sources.audit_log.refusals import refusal_of
from steelyard.sources.audit_log.status_changes import WORKLOAD_STATUS, read_status_changes
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain

SOURCE: Final = "audit_log"
VERSION: Final = "audit.k8s.io/"
STAGES: Final = frozenset({"RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"})
CHANGES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection", "apply"})

WITH_SPEC: Final = frozenset(
    {
        ("", "nodes"),
        ("", "resourcequotas"),
        ("kueue.x-k8s.io", "clusterqueues"),
        ("kueue.x-k8s.io", "localqueues"),
        ("kueue.x-k8s.io", "cohorts"),
        ("kueue.x-k8s.io", "resourceflavors"),
        ("scheduling.volcano.sh", "queues"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)
"""(API group, resource) of the objects that set rules: their spec is kept."""

WEIGHED: Final = WITH_SPEC | {
    ("", "pods"),
    ("", "namespaces"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "replicasets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("batch.volcano.sh", "jobs"),
    ("scheduling.volcano.sh", "podgroups"),
    ("bus.volcano.sh", "commands"),
    ("kueue.x-k8s.io", "workloads"),
    ("kueue.x-k8s.io", "admissionchecks"),
    ("kueue.x-k8s.io", "workloadpriorityclasses"),
    ("jobset.x-k8s.io", "jobsets"),
    ("kubeflow.org", "pytorchjobs"),
    ("kubeflow.org", "mpijobs"),
    ("ray.io", "rayclusters"),
    ("ray.io", "rayjobs"),
    ("ray.io", "rayservices"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "deviceclasses"),
}
"""(API group, resource) whose changes are kept."""

_SPEC_KEYS: Final = ("spec", "value", "preemptionPolicy", "globalDefault")
_CONDITION_KEYS: Final = ("type", "status", "reason", "message", "lastTransitionTime")
_CONDITIONS_MAX: Final = 50
_GROUPS_MAX: Final = 50
_DETAIL_BYTES_MAX: Final = 32 << 10
_TEXT_MAX: Final = 1_000


class AuditReader:
    """Reads events one by one; ``rest`` then says what was passed over. One per file, round or request."""

    def __init__(self, ctx: ReadContext) -> None:
        self._ctx = ctx
        self._passed: Counter[str] = Counter()
        self._decisions = AuditDecisions()

    def read(self, event: Any, line: int = 0) -> Iterator[Fact]:
        """The fact of an event, or none where it changes nothing that we weigh; of a patch of a workload's status also each change in it,
        and what it decided or refused. Raises SourceMalformed where it is no audit event."""
        if not isinstance(event, dict) or not str(event.get("apiVersion", VERSION)).startswith(VERSION):
            raise SourceMalformed("expected an audit event (audit.k8s.io)", line, str(event)[:200])
        audit_id, stage = _text(event.get("auditID")), _text(event.get("stage"))
        if not audit_id or stage not in STAGES:
            raise SourceMalformed("expected an auditID and a known stage", line, str(event)[:200])
        verb, ref = _text(event.get("verb")) or "", _map(event.get("objectRef"))
        group, resource = _text(ref.get("apiGroup")) or "", _text(ref.get("resource")) or ""
        if verb not in CHANGES or (group, resource) not in WEIGHED:
            self._passed[f"{verb or '?'} {resource or 'no resource'}"[:100]] += 1
            return
        fact = self._fact(event, audit_id, stage, verb, ref, line)
        yield fact
        if (group, resource, fact.subresource) == WORKLOAD_STATUS:
            yield from read_status_changes(event, fact, self._ctx)
        refusal = refusal_of(event, fact)
        if refusal is not None:
            yield refusal
        yield from self._decisions.of(event, fact)

    def rest(self) -> Iterator[Fact]:
        """``audit_events_passed_over`` (info): how many events changed nothing that we weigh; none where there were none."""
        if self._passed:
            shown = dict(self._passed.most_common(20))
            yield self._ctx.finding(
                SOURCE,
                "audit_events_passed_over",
                f"file {self._ctx.file}",
                "audit events that change nothing that is weighed here were passed over",
                severity="info",
                evidence={"count": self._passed.total(), "most": shown},
            )

    def _fact(
        self, event: Mapping[str, Any], audit_id: str, stage: str, verb: str, ref: Mapping[str, Any], line: int
    ) -> AuditEvent:
        received = _stamp(event, "requestReceivedTimestamp", line)
        at = _stamp(event, "stageTimestamp", line)
        at = received if at is None else at
        if at is None:
            raise SourceMalformed("expected a stageTimestamp", line, str(event)[:200])
        user, status = _map(event.get("user")), _map(event.get("responseStatus"))
        code = status.get("code")
        return AuditEvent(
            cluster=self._ctx.cluster,
            source=SOURCE,
            natural_key=f"{audit_id}/{stage}",
            occurred_at=at,
            observed_at=self._ctx.observed_at,
            audit_id=audit_id,
            stage=stage,
            verb=verb,
            user=_text(user.get("username")),
            user_groups=_groups(user.get("groups")),
            impersonated_user=_text(_map(event.get("impersonatedUser")).get("username")),
            user_agent=_text(event.get("userAgent"), 200),
            field_manager=_field_manager(event.get("requestURI")),
            api_group=_text(ref.get("apiGroup")),
            api_version=_text(ref.get("apiVersion")),
            resource=_text(ref.get("resource")) or "",
            subresource=_text(ref.get("subresource")),
            namespace=_text(ref.get("namespace")),
            name=_text(ref.get("name")) or _name_given(event),
            uid=_text(ref.get("uid")) or _text(_map(_map(event.get("responseObject")).get("metadata")).get("uid")),
            resource_version=_text(ref.get("resourceVersion")),
            response_code=code if isinstance(code, int) and not isinstance(code, bool) and 0 < code < 1000 else None,
            response_reason=_text(status.get("reason")),
            response_message=_text(status.get("message")) or _refusal_in_body(event),
            decision=_text(_map(event.get("annotations")).get("authorization.k8s.io/decision")),
            received_at=received,
            details=_details(event, ref),
        )


def _details(event: Mapping[str, Any], ref: Mapping[str, Any]) -> str:
    """The little that is kept of the bodies, as JSON in bounds."""
    asked, answered = _map(event.get("requestObject")), _map(event.get("responseObject"))
    found: dict[str, Any] = {}
    if ref.get("subresource") == "binding" and (node := _text(_map(asked.get("target")).get("name"))):
        found["node"] = node
    if ref.get("subresource") == "status":
        conditions = _map(asked.get("status")).get("conditions")
        if isinstance(conditions, list):
            found["conditions"] = [_condition(each) for each in conditions[:_CONDITIONS_MAX] if isinstance(each, dict)]
    elif (_text(ref.get("apiGroup")) or "", ref.get("resource")) in WITH_SPEC and not ref.get("subresource"):
        found |= _spec(asked, "spec") | _spec(answered, "spec_after")
    return _bounded(found)


def _spec(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    if body.get("kind") == "Status":
        return {}
    kept = {key: body[key] for key in _SPEC_KEYS if key in body}
    return {name: kept.get("spec") if set(kept) == {"spec"} else kept} if kept else {}


def _condition(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value[:_TEXT_MAX] for key in _CONDITION_KEYS if isinstance(value := condition.get(key), str) and value}


def _bounded(found: dict[str, Any]) -> str:
    """JSON of at most the bound; what is too large for it is left out and named."""
    cut: list[str] = []
    kept: dict[str, Any] = {}
    for key, value in found.items():
        try:
            size = len(msgspec.json.encode(value))
        except (RecursionError, UnicodeEncodeError, OverflowError, TypeError, ValueError):
            size = _DETAIL_BYTES_MAX + 1
        if size <= _DETAIL_BYTES_MAX:
            kept[key] = value
        else:
            cut.append(key)
    if cut:
        kept["cut"] = cut
    return plain(msgspec.json.encode(kept, order="deterministic").decode()) if kept else "{}"


def _stamp(event: Mapping[str, Any], name: str, line: int) -> Instant | None:
    value = event.get(name)
    if value is None:
        return None
    try:
        return parse_instant(value)
    except (ValueError, OverflowError, TypeError, AttributeError) as error:
        raise SourceMalformed(f"expected a time in {name}", line, str(value)[:200]) from error


def _groups(value: Any) -> str:
    groups: Sequence[Any] = value if isinstance(value, list) else ()
    texts = [text for group in groups[:_GROUPS_MAX] if (text := _text(group, 200))]
    return msgspec.json.encode(texts).decode()


def _field_manager(uri: Any) -> str | None:
    if not isinstance(uri, str) or "fieldManager=" not in uri:
        return None
    found = (
        parse_qs(uri[:8_000].partition("?")[2], max_num_fields=100).get("fieldManager")
        if uri.count("&") < 100
        else None
    )
    return _text(found[0], 200) if found else None


def _name_given(event: Mapping[str, Any]) -> str | None:
    """The name that a ``generateName`` was given, which only the answer tells."""
    body = _map(event.get("responseObject"))
    return None if body.get("kind") == "Status" else _text(_map(body.get("metadata")).get("name"))


def _refusal_in_body(event: Mapping[str, Any]) -> str | None:
    """Some refusals (an eviction against a budget) have their reason in the answer's body alone."""
    body = _map(event.get("responseObject"))
    return _text(body.get("message")) if body.get("kind") == "Status" else None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any, most: int = _TEXT_MAX) -> str | None:
    return plain(value[:most]) if isinstance(value, str) and value else None
