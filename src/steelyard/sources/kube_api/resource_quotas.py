"""A ResourceQuota: how much of each resource a namespace may ask for, and what the API server counts as asked.

``app`` calls ``read_resource_quota`` for each. The trick to know: an extended resource stands there as ``requests.<resource>``; HAMi reads keys
with ``limits.``, which the API server cannot enforce for such a resource, and counts them times the number of devices, so both may
stand side by side and are different quotas.

Sceptic's command: ``kubectl get resourcequotas -A -o yaml``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, mapping_of, text_of
from steelyard.sources.shared.refusal_message import bare
from steelyard.sources.shared.resource_amounts import amounts_of, to_json

SOURCE: Final = "kube_api"
QUEUE_KIND: Final = "resource_quota"
_LIMITS: Final = "limits."
_SCOPES_MAX: Final = 16


def is_resource_quota(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the object is a ResourceQuota of the core group."""
    return kind == "ResourceQuota" and payload.get("apiVersion", "v1") == "v1"


def read_resource_quota(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One Queue, and one Quota per key: nominal = ``hard``, used = ``status.used``. flavor is ``limits`` for keys with that prefix, else None; the
    resource has no prefix. Finding ``quantity_malformed``. Raises SourceMalformed for an object without a name."""
    metadata, spec, status = (mapping_of(payload.get(key)) for key in ("metadata", "spec", "status"))
    name = text_of(metadata.get("name"))
    if name is None:
        raise SourceMalformed(f"expected metadata.name in a {kind}, found none", excerpt=reprlib.repr(metadata))
    name, namespace = plain(name[:316]), plain((text_of(metadata.get("namespace")) or "default")[:316])
    uid = plain((text_of(metadata.get("uid")) or f"name:{kind}/{namespace}/{name}")[:316])
    problems: list[str] = []
    scopes = spec.get("scopes")
    named = (
        [plain(each[:80]) for each in scopes[:_SCOPES_MAX] if isinstance(each, str)] if isinstance(scopes, list) else []
    )
    yield Queue(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=uid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        queue_kind=QUEUE_KIND,
        queue=name,
        namespace=namespace,
        state="active",
        policies=to_json({"scopes": named or None, "has_scope_selector": True if spec.get("scopeSelector") else None}),
        created_at=instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp"),
        deletion_at=instant_of(metadata.get("deletionTimestamp"), problems, "metadata.deletionTimestamp"),
    )
    hard = amounts_of(spec.get("hard"), problems, "spec.hard")
    used = amounts_of(status.get("used"), problems, "status.used")
    for key in sorted({**hard, **used}):
        yield Quota(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"{uid}/{key}",
            occurred_at=ctx.observed_at,
            observed_at=ctx.observed_at,
            queue_kind=QUEUE_KIND,
            queue=name,
            namespace=namespace,
            flavor="limits" if key.startswith(_LIMITS) else None,
            resource=bare(key),
            nominal_milli=hard.get(key),
            used_milli=used.get(key),
        )
    if problems:
        text = "; ".join(problems[:3])
        subject = f"resourcequota {namespace}/{name}"
        yield ctx.finding(SOURCE, "quantity_malformed", subject, text, evidence={"problems": problems[:20]})
