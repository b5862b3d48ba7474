"""Who an object of a queue or a job system is: name, namespace, uid, stamps, and the controller it belongs to."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import instant_of, list_of, mapping_of, text_of


@dataclass(frozen=True, slots=True)
class Identity:
    """uid: as stated, else made of kind and name. owner_*: the controller reference, None where there is none."""

    uid: str
    namespace: str | None
    name: str
    created_at: Instant | None
    deletion_at: Instant | None
    owner_kind: str | None = None
    owner_name: str | None = None
    owner_uid: str | None = None


def identity_of(payload: Mapping[str, Any], kind: str, problems: list[str], *, namespaced: bool = True) -> Identity:
    """Raises SourceMalformed where the object has no name."""
    metadata = mapping_of(payload.get("metadata"))
    name = short(metadata.get("name"))
    if name is None:
        raise SourceMalformed(f"expected metadata.name in a {kind}, found none", excerpt=reprlib.repr(metadata))
    namespace = (short(metadata.get("namespace")) or "default") if namespaced else None
    owner: Mapping[str, Any] = next(
        (each for each in list_of(metadata.get("ownerReferences")) if each.get("controller") is True), {}
    )
    return Identity(
        uid=short(metadata.get("uid")) or f"name:{kind}/{namespace or ''}/{name}",
        namespace=namespace,
        name=name,
        created_at=instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp"),
        deletion_at=instant_of(metadata.get("deletionTimestamp"), problems, "metadata.deletionTimestamp"),
        owner_kind=short(owner.get("kind")),
        owner_name=short(owner.get("name")),
        owner_uid=short(owner.get("uid")),
    )


def short(value: object) -> str | None:
    """Text that a column can hold; None where it is none."""
    text = text_of(value)
    return plain(text[:316]) if text else None
