"""What no single object shows: contradictions between the nodes, pods and events of one import, and cards that only a pod names.

``app`` calls ``check_inconsistencies`` once per import with everything it read. The trick to know: these are findings about the
inputs, not judgements. Which grant counts, and how much, is the ledger's business.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import MINUTE_US, SECOND_US, Instant, format_instant
from steelyard.sources.hami.allocations import VENDOR_KEYS_MAX
from steelyard.sources.hami.events import NODE_FINDING, SCHEDULED, parse_scheduling_event
from steelyard.sources.hami.mig_allocations import MIG_KEY
from steelyard.sources.hami.registers import read_node_register
from steelyard.sources.hami.vendors import NVIDIA, PREFIX, SOURCE, allocation_word, dialect_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.plain_text import plain
from steelyard.sources.shared.pods import INIT, PodView, instant_of, mapping_of, text_of, texts_of
from steelyard.sources.shared.vgpu_dialect import request_of
from steelyard.sources.shared.vgpu_grants import never_started, read_grants
from steelyard.sources.shared.vgpu_records import DeviceRecord, parse_slots
from steelyard.sources.shared.vgpu_stamps import parse_unix_seconds

LOCK_KEY: Final = "hami.io/mutex.lock"
VERSION_LABEL_SUFFIX: Final = "hami-version"
_SHOWN_MAX: Final = 16
_LATE_US: Final = MINUTE_US
_ENCODING_ERAS: Final = {"csv7": "<=2.4", "csv9": "2.5 to 2.7", "json": ">=2.8", "json+migProfiles": ">=2.8"}


def check_inconsistencies(
    nodes: Sequence[Mapping[str, Any]],
    pods: Sequence[PodView],
    events: Sequence[Mapping[str, Any]],
    ctx: ReadContext,
) -> Iterator[Fact]:
    """Findings about contradictions between the objects of one import, and a Device for every vendor's card that only a pod names.

    Such a card has basis ``allocation``: nothing is known of it but that it was given out. Codes: ``event_count_one_with_span``,
    ``cluster_mixes_versions``, ``mutex_lock_after_success``, ``tampered_grant_impossible``, ``device_mode_conflict``, and for an
    event in which HAMi itself reports a fault of a node that event's reason (``AsymmetricGPUP2PLink``).
    """
    cards: dict[str, Device] = {}
    encodings: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for fact in read_node_register(node, ctx):
            if isinstance(fact, Device):
                cards[fact.device_uuid] = fact
                if fact.vendor == "nvidia" and fact.node and fact.encoding:
                    encodings[fact.node].add(fact.encoding)
    yield from _events(events, pods, ctx)
    yield from _mixed_versions(nodes, encodings, ctx)
    yield from _stale_locks(nodes, pods, ctx)
    yield from _impossible_grants(pods, cards, ctx)
    yield from _granted_only_cards(pods, cards, ctx)


def _events(events: Sequence[Mapping[str, Any]], pods: Sequence[PodView], ctx: ReadContext) -> Iterator[Finding]:
    bound = {(pod.namespace, pod.name): at for pod in pods if (at := _bind_stamp(pod)) is not None}
    spans: list[tuple[str, Instant, Instant]] = []
    late: set[str] = set()
    for event in events:
        about = mapping_of(event.get("involvedObject")) or mapping_of(event.get("regarding"))
        name, reason = plain(str(about.get("name"))[:253]), event.get("reason")
        where = f"{plain(str(about.get('namespace') or ''))[:253]}/{name}"
        first, last = (_stamp(event, key) for key in ("firstTimestamp", "lastTimestamp"))
        if _count(event) == 1 and first is not None and last is not None and first < last:
            spans.append((f"{where} {plain(str(reason))[:80]}", first, last))
        if not isinstance(reason, str):
            continue
        message, component = event.get("message"), mapping_of(event.get("source")).get("component")
        outcome = parse_scheduling_event(reason, message if isinstance(message, str) else "", str(component or ""))
        if outcome is None:
            continue
        if outcome.outcome == NODE_FINDING:
            yield _node_finding(reason, name, message, event, ctx)
        bind = bound.get((text_of(about.get("namespace")) or "default", text_of(about.get("name")) or ""))
        if outcome.outcome == SCHEDULED and bind is not None and first is not None and first > bind + _LATE_US:
            late.add(where)
    if spans:
        yield ctx.finding(
            SOURCE,
            "event_count_one_with_span",
            "events",
            "events that happened once have a first and a last time that differ: their times are not those of one occurrence",
            evidence={
                "events_count": len(spans),
                "events": [words for words, _, _ in spans[:_SHOWN_MAX]],
                "first_utc": format_instant(min(first for _, first, _ in spans)),
                "last_utc": format_instant(max(last for _, _, last in spans)),
                "later_than_bind": sorted(late)[:_SHOWN_MAX],
            },
        )


def _node_finding(reason: str, node: str, message: object, event: Mapping[str, Any], ctx: ReadContext) -> Finding:
    text = plain(message[:500]) if isinstance(message, str) else reason
    return ctx.finding(
        SOURCE, reason, f"node {node}", text, evidence={"event_reason": reason, "event_count": _count(event)}
    )


def _count(event: Mapping[str, Any]) -> int | None:
    count = event.get("count", event.get("deprecatedCount"))
    return count if type(count) is int and abs(count) < 2**53 else None


def _stamp(event: Mapping[str, Any], key: str) -> Instant | None:
    value = event.get(key, event.get(f"deprecated{key[0].upper()}{key[1:]}"))
    return instant_of(value, [], key)


def _bind_stamp(pod: PodView) -> Instant | None:
    try:
        return parse_unix_seconds(pod.annotations.get(f"{PREFIX}/bind-time", ""))
    except ValueError:
        return None


def _mixed_versions(
    nodes: Sequence[Mapping[str, Any]], encodings: Mapping[str, set[str]], ctx: ReadContext
) -> Iterator[Finding]:
    versions: dict[str, str] = {}
    for node in nodes:
        metadata = mapping_of(node.get("metadata"))
        labels = texts_of(metadata.get("labels"))
        version = next((labels[key] for key in sorted(labels) if key.endswith(VERSION_LABEL_SUFFIX)), None)
        name = text_of(metadata.get("name"))
        if version is not None and name is not None:
            versions[plain(name)] = plain(version)[:40]
    eras = {_ENCODING_ERAS.get(encoding, encoding) for each in encodings.values() for encoding in each}
    if len(eras) > 1 or len(set(versions.values())) > 1:
        yield ctx.finding(
            SOURCE,
            "cluster_mixes_versions",
            "nodes",
            "the nodes of this import were written by different releases of HAMi: the rules that differ between them apply node by node",
            evidence={
                "versions": sorted(set(versions.values()))[:_SHOWN_MAX],
                "register_eras": sorted(eras),
                "encodings_by_node": {node: sorted(encodings[node]) for node in sorted(encodings)[:_SHOWN_MAX]},
                "versions_by_node": {node: versions[node] for node in sorted(versions)[:_SHOWN_MAX]},
            },
        )


def _stale_locks(nodes: Sequence[Mapping[str, Any]], pods: Sequence[PodView], ctx: ReadContext) -> Iterator[Finding]:
    """Locks that name a pod whose bind was done before the lock was taken: the lock outlived its work and blocks the node."""
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    for node in nodes:
        metadata = mapping_of(node.get("metadata"))
        lock, name = mapping_of(metadata.get("annotations")).get(LOCK_KEY), text_of(metadata.get("name"))
        parts = lock[:600].split(",") if isinstance(lock, str) else []
        if name is None or len(parts) != 3:  # the old form holds a time only and names nobody
            continue
        locked_at = instant_of(parts[0], [], LOCK_KEY)
        pod = by_name.get((parts[1], parts[2]))
        if pod is None or locked_at is None or pod.annotations.get(f"{PREFIX}/bind-phase") != "success":
            continue
        bound_at = _bind_stamp(pod)
        if bound_at is not None and bound_at + SECOND_US <= locked_at:
            yield ctx.finding(
                SOURCE,
                "mutex_lock_after_success",
                f"node {plain(name)}",
                f"the node is locked for {pod.subject}, whose bind was reported as done before the lock was taken",
                evidence={
                    "node": plain(name),
                    "pod": f"{pod.namespace}/{pod.name}",
                    "lock_utc": format_instant(locked_at),
                    "bind_utc": format_instant(bound_at),
                },
            )


def _live(pod: PodView) -> bool:
    refused = pod.annotations.get(f"{PREFIX}/bind-phase") == "failed" and never_started(pod)
    return pod.phase not in ("Succeeded", "Failed") and not refused


def _impossible_grants(pods: Sequence[PodView], cards: Mapping[str, Device], ctx: ReadContext) -> Iterator[Finding]:
    """Grants above their request that the scheduler cannot have given, because the card would not hold them beside the others."""
    by_card: dict[str, list[int]] = defaultdict(list)
    suspicious: set[str] = set()
    for number, pod in enumerate(pods):
        records = _records(pod) if _live(pod) else ()
        for uuid in {record.uuid for record in records}:
            by_card[uuid].append(number)
        suspicious.update(_above_request(pod, records))
        yield from _mode_conflicts(pod, records, cards, ctx)
    doubtful = {uuid: card for uuid in suspicious if (card := cards.get(uuid)) is not None and card.mode != "mig"}
    grants: dict[str, list[tuple[str, Sequence[Grant]]]] = defaultdict(list)
    for number in sorted({number for uuid in doubtful for number in by_card[uuid]}):
        for uuid, of_card in _grants_by_card(pods[number], doubtful, ctx).items():
            grants[uuid].append((f"{pods[number].namespace}/{pods[number].name}", of_card))
    for uuid in sorted(doubtful):
        yield from _impossible(doubtful[uuid], grants[uuid], ctx)


def _grants_by_card(pod: PodView, wanted: Container[str], ctx: ReadContext) -> Mapping[str, Sequence[Grant]]:
    by_card: dict[str, list[Grant]] = defaultdict(list)
    for fact in read_grants(pod, ctx, NVIDIA):
        if isinstance(fact, Grant) and fact.device_uuid is not None and fact.device_uuid in wanted:
            by_card[fact.device_uuid].append(fact)
    return by_card


def _records(pod: PodView) -> Sequence[DeviceRecord]:
    text = pod.annotations.get(NVIDIA.allocated_key)
    if not text:
        return ()
    try:
        slots = parse_slots(plain(text), terminated=NVIDIA.terminated)
    except SourceMalformed:
        return ()
    return [record for slot in slots for record in slot if isinstance(record, DeviceRecord)]


def _above_request(pod: PodView, records: Sequence[DeviceRecord]) -> set[str]:
    """Cards of records larger than anything that the pod asks for; a coarse sieve before grants are matched to containers."""
    if not records:
        return set()
    requests = [request for container in pod.containers if (request := request_of(container, NVIDIA)).count]
    memories = [request.memory_mib for request in requests if request.memory_mib is not None]
    cores = [request.cores_percent for request in requests if request.cores_percent is not None]
    return {
        record.uuid
        for record in records
        if (memories and record.memory_mib > min(memories)) or (cores and record.cores > min(cores))
    }


def _mode_conflicts(
    pod: PodView, records: Sequence[DeviceRecord], cards: Mapping[str, Device], ctx: ReadContext
) -> Iterator[Finding]:
    for record in records:
        card = cards.get(record.uuid)
        as_instance = record.suffix is not None or MIG_KEY in pod.annotations
        if as_instance and card is not None and card.mode not in ("mig", None):
            yield ctx.finding(
                SOURCE,
                "device_mode_conflict",
                f"device {record.uuid}",
                f"{pod.subject} was given a MIG instance of a card that the register calls {card.mode}",
                evidence={"pod": f"{pod.namespace}/{pod.name}", "mode": card.mode, "node": card.node},
            )


def _impossible(card: Device, holders: Sequence[tuple[str, Sequence[Grant]]], ctx: ReadContext) -> Iterator[Finding]:
    needs = [(_effective(grants, "memory_mib"), _effective(grants, "cores_percent")) for _, grants in holders]
    tampered = [pod for pod, grants in holders if any(_exceeds_request(grant) for grant in grants)]
    memory, cores = (sum(need[axis] for need in needs) for axis in (0, 1))
    memory_limit, cores_limit = card.schedulable_memory_mib, card.schedulable_cores_percent
    over = (memory_limit is not None and memory > memory_limit) or (cores_limit is not None and cores > cores_limit)
    if tampered and over:
        yield ctx.finding(
            SOURCE,
            "tampered_grant_impossible",
            f"device {card.device_uuid}",
            "a grant is larger than its request, and the card cannot hold it beside the others: the scheduler did not write it",
            severity="error",
            evidence={
                "device_uuid": card.device_uuid,
                "cores_percent_if_granted": cores,
                "cores_percent_schedulable": cores_limit,
                "memory_mib_if_granted": memory,
                "memory_mib_schedulable": memory_limit,
                "pods_above_request": tampered[:_SHOWN_MAX],
            },
        )


def _exceeds_request(grant: Grant) -> bool:
    memory, cores = grant.requested_memory_mib, grant.requested_cores_percent
    return (memory is not None and (grant.memory_mib or 0) > memory) or (
        cores is not None and (grant.cores_percent or 0) > cores
    )


def _effective(grants: Sequence[Grant], column: str) -> int:
    """What a pod occupies of a card: the largest init container or the sum of the others, whichever is more."""
    amounts = [(grant.container_kind, getattr(grant, column) or 0) for grant in grants]
    lasting = sum(amount for kind, amount in amounts if kind != INIT)
    return max([lasting, *(amount for kind, amount in amounts if kind == INIT)])


def _granted_only_cards(pods: Sequence[PodView], cards: Mapping[str, Device], ctx: ReadContext) -> Iterator[Device]:
    named: dict[str, Device] = {}
    for pod in pods:
        dialects = [dialect_of(word) for key in pod.annotations if (word := allocation_word(key)) is not None]
        for dialect in dialects[:VENDOR_KEYS_MAX]:
            for fact in read_grants(pod, ctx, dialect):
                if isinstance(fact, Grant) and fact.device_uuid is not None and fact.device_uuid not in cards:
                    named.setdefault(fact.device_uuid, _named_card(fact, fact.device_uuid, dialect.vendor, ctx))
    yield from named.values()


def _named_card(grant: Grant, uuid: str, vendor: str, ctx: ReadContext) -> Device:
    return Device(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=uuid,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        device_uuid=uuid,
        node=grant.node,
        vendor=vendor,
        basis="allocation",
    )
