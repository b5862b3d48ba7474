"""``probe_cluster``: one cluster asked once: which kinds it serves and lets us list and watch, who shares its cards, and how its clocks go.

The trick to know: a cluster answers 403 for a kind that it does not even serve, so discovery is asked first, which every account may read.
Sceptic's command: ``kubectl auth can-i list pods -A``, ``kubectl api-resources``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from steelyard.app.collectors.kubernetes import target_of
from steelyard.app.doctor.probes import Deadline, Opened, skew_us
from steelyard.app.doctor.survey import ClusterSeen, KindSeen
from steelyard.app.source_settings import KubernetesSetting
from steelyard.primitives.errors import SourceUnavailable
from steelyard.primitives.instant import SECOND_US, DurationUs, Instant, parse_instant
from steelyard.sources.hami.vendors import register_word
from steelyard.sources.kube_api.client import ApiRefusal, ClusterClient
from steelyard.sources.kube_api.resource_kinds import NODES, RESOURCE_KINDS, ResourceKind

AT_ONCE: Final = 8
BODY_BYTES_MAX: Final = 64 << 20
NODES_MAX: Final = 500
REGISTER: Final = "hami.io/node-nvidia-register"
_MIG: Final = "nvidia.com/mig-"
_READY: Final = "Ready"
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Named(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Named] = []


class _ListMetadata(msgspec.Struct, frozen=True):
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _Page(msgspec.Struct):
    metadata: _ListMetadata = _ListMetadata()
    items: list[msgspec.Raw] | None = None


class _Version(msgspec.Struct):
    text: str = msgspec.field(name="gitVersion", default="")


@dataclass(frozen=True, slots=True)
class _Asking:
    client: ClusterClient
    deadline: Deadline

    def read(self, path: str, **params: str) -> bytes:
        if self.deadline.is_over:
            raise SourceUnavailable("the time was over")
        return self.client.read(path, params, BODY_BYTES_MAX)


def probe_cluster(
    setting: KubernetesSetting,
    now: Callable[[], Instant],
    deadline: Deadline,
    opened: Opened = lambda close: None,
) -> ClusterSeen:
    """What one cluster shows."""
    try:
        client = ClusterClient(target_of(setting), request_seconds=deadline.seconds_left)
    except SourceUnavailable as error:
        return ClusterSeen(setting.name, error=str(error))
    opened(client.close)
    asking = _Asking(client, deadline)
    try:
        return _probe(setting.name, asking, now)
    except ApiRefusal as refusal:
        return ClusterSeen(setting.name, error=str(refusal))
    except (SourceUnavailable, OverflowError) as error:
        return ClusterSeen(setting.name, error=str(error))
    finally:
        client.close()


def _probe(name: str, asking: _Asking, now: Callable[[], Instant]) -> ClusterSeen:
    version = None
    try:
        version = msgspec.json.decode(asking.read("version"), type=_Version).text[:100] or None
    except _UNREADABLE:
        pass
    except ApiRefusal as refusal:
        if refusal.code == 401:
            raise
    seen = ClusterSeen(name, version=version, skew_us=skew_us(asking.client.date, now()))
    with ThreadPoolExecutor(AT_ONCE, "doctor-kind") as pool:
        states = list(pool.map(lambda kind: _kind(kind, asking), RESOURCE_KINDS))
    kinds = {kind.word: state for kind, state in zip(RESOURCE_KINDS, states, strict=True)}
    seen = replace(seen, kinds=kinds)
    if seen.skew_us is None:
        seen = replace(seen, skew_us=skew_us(asking.client.date, now()))
    if not seen.is_read(NODES.word):
        return seen
    try:
        body = asking.read(NODES.path("v1"), limit=str(NODES_MAX))
    except (ApiRefusal, SourceUnavailable, OverflowError):
        return seen  # the kinds stand; what nodes say is not known
    return with_nodes(seen, body, now() + (seen.skew_us or 0))


def _kind(kind: ResourceKind, asking: _Asking) -> KindSeen:
    state = _state(kind, asking)
    if state.state == "forbidden" and kind.fallback is not None:
        other = _state(kind.fallback, asking)
        return other if other.state == "ok" else state
    return state


def _state(kind: ResourceKind, asking: _Asking) -> KindSeen:
    seen = KindSeen("ok", kind.group, kind.plural)
    verb = "list"
    try:
        version = _served(kind, asking)
        if version is None:
            return replace(seen, state="not_installed")
        page = msgspec.json.decode(asking.read(kind.path(version), limit="1"), type=_Page)
        verb = "watch"
        with asking.client.stream(kind.path(version), {"watch": "true", "timeoutSeconds": "1"}, read_seconds=2.0):
            pass
        return replace(seen, count=len(page.items or ()) + (page.metadata.remaining or 0))
    except ApiRefusal as refusal:
        if refusal.code == 404:
            return replace(seen, state="not_installed")
        state: Any = "forbidden" if refusal.code == 403 else "failed"
        return replace(seen, state=state, verb=verb, message=str(refusal)[:300])
    except (SourceUnavailable, OverflowError, *_UNREADABLE) as error:
        return replace(seen, state="failed", verb=verb, message=str(error)[:300])


def _served(kind: ResourceKind, asking: _Asking) -> str | None:
    """The first of our versions that discovery names; what it does not tell, the list itself will."""
    for version in kind.versions:
        try:
            found = msgspec.json.decode(asking.read(kind.prefix(version)), type=_Resources)
        except ApiRefusal as refusal:
            if refusal.code == 404:
                continue
            if refusal.code != 403:
                raise
            return version
        except _UNREADABLE:
            return version
        if any(resource.name == kind.plural for resource in found.resources):
            return version
    return None


def with_nodes(seen: ClusterSeen, body: bytes, api_now: Instant) -> ClusterSeen:
    """What nodes say of sharing layers, of MIG, and of their clocks."""
    try:
        items = msgspec.json.decode(body, type=dict[str, Any]).get("items")
    except _UNREADABLE:
        return seen
    encodings: dict[str, int] = {}
    skews: dict[str, DurationUs] = {}
    mig: dict[str, int] = {}
    hami = False
    for item in items if isinstance(items, list) else ():
        metadata, status = _table(item, "metadata"), _table(item, "status")
        name = str(metadata.get("name", ""))[:253]
        annotations = {str(key): value for key, value in _table(metadata, "annotations").items()}
        hami = hami or any(register_word(key) is not None for key in annotations)
        register = annotations.get(REGISTER)
        if isinstance(register, str) and register.strip():
            encoding = encoding_of(register)
            encodings[encoding] = encodings.get(encoding, 0) + 1
        count = sum(
            int(value)
            for key, value in _table(status, "capacity").items()
            if str(key).startswith(_MIG) and isinstance(value, str) and value.isdecimal() and len(value) < 6
        )
        if count:
            mig[name] = count
        ahead = _heartbeat_ahead(status, api_now)
        if ahead is not None:
            skews[name] = ahead
    return replace(seen, hami=hami, encodings=encodings, node_skews_us=skews, mig_by_node=mig)


def encoding_of(register: str) -> str:
    """The form of a HAMi register: ``json``, ``csv9`` (releases 2.5 to 2.7), ``csv7`` (2.4 and before), else ``unknown``."""
    text = register.strip()
    if text.startswith("["):
        return "json"
    fields = text.split(":", 1)[0].count(",") + 1
    return f"csv{fields}" if fields in (7, 9) else "unknown"


def _heartbeat_ahead(status: Mapping[str, Any], api_now: Instant) -> DurationUs | None:
    """How far a node's last heartbeat, stamped by its own clock, lies ahead of the API server's; 0 where it does not. A clock that is behind
    cannot be told from a heartbeat that is old."""
    conditions = status.get("conditions")
    for condition in conditions[:100] if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == _READY:
            try:
                return max(0, parse_instant(str(condition.get("lastHeartbeatTime"))) - api_now - SECOND_US)
            except ValueError:
                return None
    return None


def _table(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
