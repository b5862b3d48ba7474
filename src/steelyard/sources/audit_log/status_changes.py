"""Changes of a Kueue workload that were written into its status: the history that the object itself overwrites.

``AuditReader`` calls ``read_status_changes`` for each patch of ``workloads/status``. The trick to know: a condition keeps its last flip alone, and
Kueue does not even move the stamp of a second requeue, so of a workload that was preempted twice only this log tells all waits. The stamps are
the patch's own, equal to those that the object then had.

Sceptic's command: ``jq -c 'select(.objectRef.resource=="workloads" and .objectRef.subresource=="status")' audit.log``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.object_changes import (
    INFERRED,
    ChangedObject,
    check_changes,
    condition_changes,
    plain_name,
    transition_of,
)
from steelyard.sources.shared.pods import mapping_of

WORKLOAD_STATUS: Final = ("kueue.x-k8s.io", "workloads", "status")
CHANGES_MAX: Final = 256
_WRITES: Final = frozenset({"patch", "update", "apply"})
_SOURCE: Final = "audit_log"


def read_status_changes(event: Mapping[str, Any], fact: AuditEvent, ctx: ReadContext) -> Iterator[Fact]:
    """One Transition of source ``audit_log`` per condition and check that a write of a workload's status set; none of a write that was
    refused, tried out (``dryRun``) or not yet answered.

    Unknown: without a uid in the event the object is ``name:<namespace>/<name>``; a change without a readable stamp is dated at the write,
    ``inferred``; a body that the log's level leaves out has no changes.
    """
    uri = event.get("requestURI")
    refused = fact.response_code is not None and fact.response_code >= 300
    tried = isinstance(uri, str) and "dryRun=" in uri[:8_000]
    if fact.stage != "ResponseComplete" or fact.verb not in _WRITES or refused or tried:
        return
    asked, answered = mapping_of(event.get("requestObject")), mapping_of(event.get("responseObject"))
    body = answered if mapping_of(answered.get("status")).get("conditions") else asked
    name = fact.name or plain_name(mapping_of(body.get("metadata")).get("name"))
    uid = fact.uid or plain_name(mapping_of(body.get("metadata")).get("uid"))
    if uid is None and name is None:
        return
    namespace = fact.namespace or "default"
    about = ChangedObject("Workload", WORKLOAD_STATUS[0], uid or f"name:{namespace}/{name}", namespace, name)
    status, ignored = mapping_of(body.get("status")), list[str]()
    changes = [*condition_changes(status, ignored), *check_changes(status, ignored)]
    for change in changes[:CHANGES_MAX]:
        if change.at is None:
            change = change._replace(at=fact.occurred_at, basis=INFERRED)
        yield transition_of(change, about, _SOURCE, ctx)
