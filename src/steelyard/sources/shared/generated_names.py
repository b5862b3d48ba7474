"""Which controller object stands behind a pod that has a generated name.

A controller that is refused asks again and again, each time with a new suffix: what it asks for is one demand. The trick to know: the API server's
suffix has five characters, and a request that was refused before it got one names the prefix alone (``web-6f-``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from steelyard.sources.shared.pods import list_of, mapping_of, text_of

_SUFFIX: Final = re.compile(r"-[a-z0-9]{5}\Z")
_ORDINAL: Final = re.compile(r"-[0-9]{1,9}\Z")
_CONTROLLERS: Final[Mapping[str, str]] = {
    "replicaset-controller": "ReplicaSet",
    "replication-controller": "ReplicationController",
    "job-controller": "Job",
    "cronjob-controller": "CronJob",
    "statefulset-controller": "StatefulSet",
    "daemon-set-controller": "DaemonSet",
    "deployment-controller": "Deployment",
}


def controller_kind(user: str | None) -> str | None:
    """The kind of the objects that a controller of the control plane works for, by its account; its account's name for any other service
    account that is no person's; None for a person."""
    if user is None or not user.startswith("system:serviceaccount:"):
        return None
    account = user.rpartition(":")[2]
    return _CONTROLLERS.get(account, account)


def owner_of_refused(user: str | None, name: str | None, body: Mapping[str, Any]) -> str | None:
    """``<kind> <name>`` of the object on whose behalf a controller asked: the body's controller reference where there is one, else the
    account's kind with the name without its generated part. None for a person's request."""
    kind = controller_kind(user)
    if kind is None:
        return None
    for owner in list_of(mapping_of(body.get("metadata")).get("ownerReferences")):
        owner_kind, owner_name = text_of(owner.get("kind")), text_of(owner.get("name"))
        if owner_kind and owner_name and owner.get("controller") is True:
            return f"{owner_kind} {owner_name}"[:316]
    return f"{kind} {without_suffix(name, kind)}"[:316] if name else None


def without_suffix(name: str, kind: str = "") -> str:
    """The name without what was generated behind it."""
    if name.endswith("-"):
        return name.rstrip("-")
    return _ORDINAL.sub("", name) if kind == "StatefulSet" else _SUFFIX.sub("", name)


def is_unfinished(name: str | None) -> bool:
    """Whether the name was still to be made."""
    return name is None or name.endswith("-")
