"""The holding ledger in plain Python: slow, obvious, independent of the SQL. One cluster, facts in any order, any number of times.

It goes pod by pod: latest words, merged stamps, the strongest scheme of each container, the interval, the levels. Nothing is shared with
``steelyard.ledgers`` or ``steelyard.definitions``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.request import Request
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus

STRENGTH = [
    "declared", "trace", "dra", "hami", "volcano_vgpu", "hami_vendor", "shared_scheme", "pod_resources",
    "mig_plugin", "time_slicing", "mps", "device_plugin",
]  # fmt: skip
TERMINAL = ("Succeeded", "Failed")


class Held(NamedTuple):
    """A row of the ledger, as far as the scenarios reach. Instants in microseconds."""

    pod_uid: str
    containers: str
    scheme: str
    place: tuple[str, str]
    unit_kind: str
    unit_id: str | None
    quantity: int
    segment: int
    occupancy: str
    share_ppm: int | None
    memory_mib: int | None
    cores_percent: int | None
    started_at: int
    ended_at: int | None
    known_to_at: int
    ended_before_at: int | None
    start_basis: str
    end_basis: str | None
    evidence_grade: str


def reference_holdings(facts: Iterable[Fact]) -> set[Held]:
    """Every row that the ledger should have."""
    unique = list({_identity(fact): fact for fact in facts}.values())
    world = _World(unique)
    rows: set[Held] = set()
    for uid in sorted({grant.pod_uid for grant in world.grants}):
        rows |= set(_of_pod(uid, world))
    return rows


def _identity(fact: Fact) -> tuple[Any, ...]:
    named = msgspec.structs.asdict(fact)
    named.pop("observed_at")
    return (type(fact).__name__, *named.values())


class _World:
    def __init__(self, facts: Sequence[Fact]) -> None:
        self.requests = [fact for fact in facts if isinstance(fact, Request)]
        self.devices = [fact for fact in facts if isinstance(fact, Device)]
        self.nodes = [fact for fact in facts if isinstance(fact, Node)]
        self.sightings = [fact for fact in facts if isinstance(fact, Sighting)]
        self.processes = [fact for fact in facts if isinstance(fact, ProcessSample)]
        self.listings = sorted(
            {
                fact.occurred_at
                for fact in facts
                if isinstance(fact, SourceStatus) and fact.kind == "pods" and fact.complete and fact.status == "ok"
            }
        )
        self.grants = [
            msgspec.structs.replace(fact, pod_uid=self._resolve(fact)) for fact in facts if isinstance(fact, Grant)
        ]
        self.named = {
            (grant.pod_uid, grant.occurred_at)
            for grant, fact in zip(self.grants, [f for f in facts if isinstance(f, Grant)], strict=True)
            if grant.pod_uid != fact.pod_uid
        }

    def _resolve(self, grant: Grant) -> str:
        if not grant.pod_uid.startswith("name:"):
            return grant.pod_uid
        lived = [
            (-(request.created_at or 0), request.pod_uid)
            for request in self.requests
            if f"name:{request.namespace}/{request.pod}" == grant.pod_uid
            and (request.created_at or 0) <= grant.occurred_at
        ]
        return min(lived)[1] if lived else grant.pod_uid

    def device(self, uuid: str | None, column: str) -> Any:
        seen = [(fact.occurred_at, getattr(fact, column)) for fact in self.devices if fact.device_uuid == uuid]
        known = [pair for pair in seen if pair[1] is not None]
        return max(known)[1] if known else None

    def registered(self, node: str | None) -> bool:
        return any(fact.node == node and fact.basis == "vendor_register" for fact in self.devices)

    def replicas(self, node: str | None) -> int | None:
        seen = [(fact.occurred_at, fact.replicas) for fact in self.nodes if fact.node == node]
        return max(seen)[1] if seen else None


class _Life:
    def __init__(self, uid: str, world: _World) -> None:
        seen = sorted((fact for fact in world.requests if fact.pod_uid == uid), key=lambda fact: fact.occurred_at)
        self.seen = seen
        last = seen[-1]
        self.terminal = last.phase in TERMINAL
        self.rejected = last.rejected
        for stamp in ("created_at", "scheduled_at", "started_at", "first_container_at", "init_done_at"):
            setattr(self, stamp, self._latest(stamp))
        self.end = self._latest("last_container_end_at")
        self.node = self._latest("node")
        instants = [fact.occurred_at for fact in seen]
        instants += [fact.occurred_at for fact in world.sightings if fact.object_uid == uid]
        self.first_seen, self.last_seen = min(instants), max(instants)
        self.alive = [fact.occurred_at for fact in seen if fact.phase not in TERMINAL]
        self.dead = [fact.occurred_at for fact in seen if fact.phase in TERMINAL]
        self.bound_seen = [fact.occurred_at for fact in seen if fact.phase not in TERMINAL and fact.node]
        gone = [at for at in world.listings if at > self.last_seen][:1]
        gone += self._successor(uid, last, world)
        self.gone_by = min(gone) if gone else None

    def _latest(self, name: str) -> Any:
        known = [getattr(fact, name) for fact in self.seen if getattr(fact, name) is not None]
        return known[-1] if known else None

    def _successor(self, uid: str, last: Request, world: _World) -> list[int]:
        births = sorted(
            {
                (fact.created_at or 0, fact.pod_uid)
                for fact in world.requests
                if (fact.namespace, fact.pod) == (last.namespace, last.pod)
            }
        )
        place = [born[1] for born in births].index(uid)
        return [births[place + 1][0]] if place + 1 < len(births) else []


def _of_pod(uid: str, world: _World) -> Iterable[Held]:
    life = _Life(uid, world) if any(fact.pod_uid == uid for fact in world.requests) else None
    if life is not None and life.rejected:
        return
    counted, others = _standing(uid, life, world)
    groups: dict[tuple[Any, ...], list[Grant]] = defaultdict(list)
    for grant, suspect, kind in counted:
        place = ("device", grant.device_uuid) if grant.device_uuid else ("node", grant.node)
        resource = None if grant.device_uuid else grant.resource_name
        groups[place, kind, None if kind == "vgpu" else grant.unit_id, suspect, resource].append(grant)
    for (place, kind, unit_id, suspect, _resource), grants in groups.items():
        yield from _rows(uid, life, world, place, kind, unit_id, suspect, grants, counted, others)


def _standing(uid: str, life: _Life | None, world: _World) -> tuple[list[tuple[Grant, bool, str]], list[Grant]]:
    mine = [grant for grant in world.grants if grant.pod_uid == uid]
    latest: list[Grant] = []
    for scheme, source in {(grant.scheme, grant.source) for grant in mine}:
        same = [grant for grant in mine if (grant.scheme, grant.source) == (scheme, source)]
        now = max(grant.occurred_at for grant in same)
        latest += [grant for grant in same if grant.occurred_at == now]
    valid = [
        grant
        for grant in latest
        if grant.claim_state != "rejected"
        and not (
            (uid, grant.occurred_at) in world.named
            and grant.scheme == "pod_resources"
            and life is not None
            and life.terminal
            and life.end is not None
            and life.end <= grant.occurred_at
        )
    ]
    # The kubelet lists no init containers; their cards are given again to the app containers.
    kubelet = sum(
        grant.quantity for grant in valid if grant.scheme == "pod_resources" and grant.container_kind != "init"
    )
    counted = []
    for grant in valid:
        rank = STRENGTH.index(grant.scheme)
        if any(other.container == grant.container and STRENGTH.index(other.scheme) < rank for other in valid):
            continue
        if grant.scheme == "device_plugin" and grant.container_kind == "init" and 0 < grant.quantity <= kubelet:
            continue
        if grant.claim_state == "unreadable":
            continue
        if grant.scheme == "device_plugin" and world.registered(grant.node):
            continue
        kind = grant.unit_kind
        if grant.scheme == "device_plugin" and kind == "gpu" and (world.replicas(grant.node) or 0) > 1:
            kind = "slice"
        larger = grant.scheme == "hami" and (
            (grant.requested_memory_mib is not None and (grant.memory_mib or 0) > grant.requested_memory_mib)
            or (
                grant.requested_cores_percent is not None and (grant.cores_percent or 0) > grant.requested_cores_percent
            )
        )
        counted.append((grant, larger or grant.claim_state == "suspect", kind))
    return counted, valid


def _rows(
    uid: str,
    life: _Life | None,
    world: _World,
    place: tuple[str, str],
    kind: str,
    unit_id: str | None,
    suspect: bool,
    grants: list[Grant],
    counted: list[tuple[Grant, bool, str]],
    others: list[Grant],
) -> Iterable[Held]:
    interval = _interval(life, grants, [grant for grant, _suspect, _kind in counted])
    if interval is None:
        return
    state, start, start_basis, end, end_basis, before, known_to = interval
    apps = [grant for grant in grants if grant.container_kind != "init"]
    inits = [grant for grant in grants if grant.container_kind == "init"]
    both = _level(kind, apps, inits, place, world)
    after = _level(kind, apps, [], place, world) if apps else (0, 0, None, None)
    scheme = min(grants, key=lambda grant: STRENGTH.index(grant.scheme)).scheme
    names = ",".join(sorted({grant.container for grant in grants}))
    app_names = ",".join(sorted({grant.container for grant in apps}))
    base = "in_suspense" if suspect else state

    def row(
        segment: int, occupancy: str, level: tuple[Any, ...], who: str, lo: int, lo_basis: str, hi: int | None, hi_basis: str | None,
        by: int | None,
    ) -> Held:  # fmt: skip
        quantity, share, memory, cores = level
        grade = _grade(uid, place, lo, known_to if hi is None else hi, others, world)
        return Held(
            uid, who, scheme, place, kind, unit_id, quantity, segment, occupancy, share, memory, cores,
            lo, hi, known_to if hi is None else hi, by, lo_basis, hi_basis, grade,
        )  # fmt: skip

    done = life.init_done_at if life is not None and inits else None  # type: ignore[attr-defined]
    cut = state == "held" and done is not None and done < (known_to if end is None else end) and both != after
    if cut:
        middle = max(done, start)
        if middle > start:
            yield row(0, base, both, names, start, start_basis, middle, "init_done", None)
        if apps:
            yield row(
                1,
                base,
                after,
                app_names,
                middle,
                "init_done" if middle > start else start_basis,
                end,
                end_basis,
                before,
            )
    else:
        yield row(0, base, both, names, start, start_basis, end, end_basis, before)
    written = max((grant.reserved_at for grant in grants if grant.reserved_at is not None), default=None)
    born = life.created_at if life is not None else None  # type: ignore[attr-defined]
    if (
        state == "held"
        and not suspect
        and written is not None
        and (born is None or written >= born)
        and written < start
    ):
        yield row(0, "reserved", both, names, written, "filter", start, "bound", None)


def _level(
    kind: str, apps: list[Grant], inits: list[Grant], place: tuple[str, str], world: _World
) -> tuple[int, int | None, int | None, int | None]:
    """Quantity, share, memory and cores of max(max over init, sum over app)."""
    if kind == "vgpu":
        memory = max([sum(grant.memory_mib or 0 for grant in apps)] + [grant.memory_mib or 0 for grant in inits])
        cores = max([sum(grant.cores_percent or 0 for grant in apps)] + [grant.cores_percent or 0 for grant in inits])
        physical = world.device(place[1], "memory_mib")
        share = None if physical is None else int(max(Fraction(memory, physical), Fraction(cores, 100)) * 1_000_000)
        return 1, share, memory, cores
    alone = place[0] == "device"
    counts = [grant.quantity for grant in apps]
    app = (max(counts) if alone else sum(counts)) if counts else 0
    quantity = max([app] + [grant.quantity for grant in inits])
    if kind == "gpu":
        return quantity, quantity * 1_000_000, None, None
    replicas = world.replicas(grants_node(apps + inits))
    each = None if not replicas else int(Fraction(1, replicas) * 1_000_000)
    return quantity, None if each is None else quantity * each, None, None


def grants_node(grants: list[Grant]) -> str | None:
    return grants[0].node


def _interval(
    life: _Life | None, grants: list[Grant], chosen: list[Grant]
) -> tuple[str, int, str, int | None, str | None, int | None, int] | None:
    """state, start, its basis, end, its basis, gone by, known to; None where nothing can be booked."""
    if life is None:
        seen = [grant.occurred_at for grant in grants]
        return "held", min(seen), "first_seen", None, None, None, max(seen)
    born = life.created_at  # type: ignore[attr-defined]
    usable = lambda at: at is not None and (born is None or at >= born)  # noqa: E731
    bound = life.node is not None or life.scheduled_at is not None  # type: ignore[attr-defined]
    if not bound and grants[0].scheme == "hami":
        written = max((grant.reserved_at for grant in grants if grant.reserved_at is not None), default=None)
        start, basis = (written, "filter") if usable(written) else (life.first_seen, "first_seen")
        if life.terminal or life.gone_by is not None:
            last = max(life.alive) if life.alive else start
            before = min(life.dead) if life.terminal else life.gone_by
            return "reserved", start, basis, max(last, start), "vanished", before, max(last, start)
        return "reserved", start, basis, None, None, None, max(life.last_seen, start)
    binds = [(grant.bound_at, grant.bind_basis or "scheduler_bind") for grant in chosen if grant.bound_at is not None]
    stamps = [
        (life.scheduled_at, "pod_scheduled"),  # type: ignore[attr-defined]
        min(binds) if binds else (None, ""),
        (life.started_at, "start_time"),  # type: ignore[attr-defined]
        (life.first_container_at, "first_container"),  # type: ignore[attr-defined]
    ]
    good = [(at, basis) for at, basis in stamps if usable(at)]
    if good:
        start, basis = good[0]
    elif life.bound_seen:
        start, basis = min(life.bound_seen), "first_seen"
    else:
        return None
    if life.terminal:
        if life.end is not None:
            return ("held", start, basis, life.end, "container_finished", None, life.end) if life.end >= start else None
        if not life.alive:
            return None
        last = max(max(life.alive), start)
        return "held", start, basis, last, "phase_seen", max(min(life.dead), last), last
    if life.gone_by is not None:
        last = max(life.last_seen, start)
        return "held", start, basis, last, "vanished", max(life.gone_by, last), last
    return "held", start, basis, None, None, None, max(life.last_seen, start)


def _grade(uid: str, place: tuple[str, str], lo: int, hi: int, others: list[Grant], world: _World) -> str:
    if place[0] != "device":
        return "declared"
    for sample in world.processes:
        if (sample.pod_uid, sample.device_uuid) == (uid, place[1]) and lo <= sample.occurred_at <= hi:
            return "verified"
    here = [grant for grant in others if grant.device_uuid == place[1]]
    for grant in here:
        for other in others:
            if other.source == grant.source:
                continue
            plain = other.device_uuid is None and grant.scheme == "pod_resources" and other.container == grant.container
            if other.device_uuid == grant.device_uuid or plain:
                return "corroborated"
    return "declared"
