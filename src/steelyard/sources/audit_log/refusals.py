"""Audit events that turned a request away, as refusals: by quota, permission, webhook, closed queue or disruption budget.

``AuditReader`` calls ``refusal_of`` for each finished request. The trick to know: authorization said ``allow`` to a request that a quota or a
webhook then refused, so the code alone (403) does not tell who it was; and an eviction that a budget held up is a 429 like any throttling,
told apart by the words, which may stand in the answer's body alone.

Sceptic's command: ``jq -c 'select(.responseStatus.code>=400)' audit.log``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.refusal import Refusal
from steelyard.sources.shared.generated_names import is_unfinished, owner_of_refused
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import list_of, mapping_of, text_of
from steelyard.sources.shared.refusal_message import RefusalMessage, bare, parse_refusal

REFUSING: Final = frozenset({400, 403, 422, 429, 500})
"""Codes that a refusal has; of these only what its words explain is one."""

_TEXT_MAX: Final = 4_096
_CAUSES_MAX: Final = 16
KINDS: Final[Mapping[str, str]] = {
    "pods": "Pod", "jobs": "Job", "cronjobs": "CronJob", "deployments": "Deployment", "statefulsets": "StatefulSet",
    "replicasets": "ReplicaSet", "daemonsets": "DaemonSet", "podgroups": "PodGroup", "workloads": "Workload", "queues": "Queue",
    "clusterqueues": "ClusterQueue", "localqueues": "LocalQueue", "jobsets": "JobSet", "nodes": "Node", "namespaces": "Namespace",
    "resourcequotas": "ResourceQuota", "resourceclaims": "ResourceClaim", "rayjobs": "RayJob", "rayclusters": "RayCluster",
    "pytorchjobs": "PyTorchJob", "leaderworkersets": "LeaderWorkerSet",
}  # fmt: skip
"""The kind behind a plural; one that is not here stays as it is written."""


def refusal_of(event: Mapping[str, Any], fact: AuditEvent) -> Refusal | None:
    """The refusal behind an audit event, None where it was no refusal. ``fact``: the same event, read."""
    code = fact.response_code
    if fact.stage != "ResponseComplete" or code not in REFUSING:
        return None
    message = _words(event)
    read = parse_refusal(message)
    if fact.decision == "forbid" and code == 403:
        read = RefusalMessage("rbac")
    if read is None or (code == 429 and read.refused_by != "disruption_budget"):
        return None
    resource = read.resource
    name = fact.name
    asked = mapping_of(event.get("requestObject"))
    return Refusal(
        cluster=fact.cluster,
        source=fact.source,
        natural_key=fact.audit_id,
        occurred_at=fact.occurred_at,
        observed_at=fact.observed_at,
        refused_by=read.refused_by,
        verb="evict" if fact.subresource == "eviction" else fact.verb,
        user=fact.impersonated_user or fact.user,
        subject_kind=KINDS.get(fact.resource, fact.resource),
        namespace=fact.namespace,
        subject_name=None if is_unfinished(name) else name,
        owner=owner_of_refused(fact.user, name or read.subject_name, asked),
        rule=read.rule,
        quota=read.quota,
        resource=bare(resource) if resource else None,
        asked_milli=read.asked.get(resource) if resource else None,
        used_milli=read.used.get(resource) if resource else None,
        limit_milli=read.limit.get(resource) if resource else None,
        response_code=code,
        message=plain(message) or None,
    )


def _words(event: Mapping[str, Any]) -> str:
    """All that the answer says: its status, its body where that is a Status, and the causes that stand in either."""
    found: list[str] = []
    body = mapping_of(event.get("responseObject"))
    for status in (mapping_of(event.get("responseStatus")), body if body.get("kind") == "Status" else {}):
        texts = [text_of(status.get("message"))]
        causes = list_of(mapping_of(status.get("details")).get("causes"))[:_CAUSES_MAX]
        texts += [text_of(cause.get("message")) for cause in causes]
        found += [text[:_TEXT_MAX] for text in texts if text and text[:_TEXT_MAX] not in found]
    return " ".join(found)[:_TEXT_MAX]
