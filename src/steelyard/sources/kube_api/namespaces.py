"""A Namespace: its labels and annotations, among which a site writes who answers for it.

``app`` calls ``read_namespace`` for each, from files and from a watch alike. The trick to know: which annotation names the contact is a
setting of the ledgers and not of this reader, so all of them are kept and a setting that changes needs no second look.

Sceptic's command: ``kubectl get namespaces -o json``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.namespace import Namespace
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.owners import bounded, json_text
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, mapping_of, text_of, texts_of

SOURCE: Final = "kube_api"
NAME_CHARACTERS_MAX: Final = 253


def is_namespace(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the object is a Namespace of the core group."""
    return kind == "Namespace" and payload.get("apiVersion", "v1") == "v1"


def read_namespace(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One Namespace. Findings: ``stamp_malformed``; ``labels_too_many``, ``annotations_too_many`` (the first ones are kept). Raises
    SourceMalformed for an object without a name."""
    metadata = mapping_of(payload.get("metadata"))
    name = text_of(metadata.get("name"))
    if not name:
        raise SourceMalformed("expected metadata.name in a Namespace, found none", excerpt=reprlib.repr(metadata))
    name = plain(name[:NAME_CHARACTERS_MAX])
    problems: list[str] = []
    labels, annotations = texts_of(metadata.get("labels")), texts_of(metadata.get("annotations"))
    yield Namespace(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=text_of(metadata.get("uid")) or f"name:{name}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        namespace=name,
        phase=text_of(mapping_of(payload.get("status")).get("phase")),
        created_at=instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp"),
        deletion_at=instant_of(metadata.get("deletionTimestamp"), problems, "metadata.deletionTimestamp"),
        labels=json_text(bounded(labels, ctx.settings.annotations_max)),
        annotations=json_text(bounded(annotations, ctx.settings.annotations_max)),
    )
    if problems:
        yield ctx.finding(SOURCE, "stamp_malformed", f"namespace {name}", "; ".join(problems))
    for what, found in (("labels", labels), ("annotations", annotations)):
        if len(found) > ctx.settings.annotations_max:
            text = f"{len(found)} {what}; the first {ctx.settings.annotations_max} are kept"
            yield ctx.finding(SOURCE, f"{what}_too_many", f"namespace {name}", text, evidence={"count": len(found)})
