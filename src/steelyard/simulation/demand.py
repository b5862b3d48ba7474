"""What the simulated tenants ask for: batch jobs, notebooks and inference services, and a few requests that cannot be met."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.instant import HOUR_US, MINUTE_US, SECOND_US, DurationUs, Instant
from steelyard.simulation.spec import SimulationSpec
from steelyard.simulation.truth import HAMI, MIG, TIME_SLICING, WHOLE, Node

TENANTS: Final = ("team-vision", "team-nlp", "team-search", "team-recsys")
JOB, NOTEBOOK, SERVICE = "Job", "StatefulSet", "Deployment"

_HAMI_SHAPES: Final = (
    (1, 8_192, 30), (1, 16_384, 0), (1, 20_480, 50), (1, 6_144, 10), (1, 30_000, 60), (1, 10_240, 25), (2, 20_480, 50), (1, 40_000, 100),
)  # fmt: skip
_PROFILES: Final = ("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb")
_WEIGHT: Final = {"3g.40gb": 0.5, "2g.20gb": 0.29, "1g.10gb": 0.14}


@dataclass(frozen=True, slots=True)
class Demand:
    """One pod as somebody asks for it. ``lasts``: how long it runs once it started. ``fate``: how it ends if nothing happens to it.
    ``keeps``: how long the finished object stays listed. ``patience``: how long it may wait before it is deleted."""

    at: Instant
    pool: str
    workload: str
    namespace: str
    name: str
    gpus: int
    lasts: DurationUs
    fate: str
    keeps: DurationUs
    patience: DurationUs
    memory_mib: int | None = None
    cores_percent: int | None = None
    profile: str | None = None
    init_container: bool = False
    sidecar_containers: int = 0
    restarts: bool = False


def demands(spec: SimulationSpec, nodes: list[Node]) -> list[Demand]:
    """All demands in order of arrival. Each pool is loaded to ``spec.load`` of its cards."""
    found: list[Demand] = []
    for pool in (WHOLE, HAMI, MIG, TIME_SLICING):
        cards = sum(len(node.devices) for node in nodes if node.kind == pool)
        if cards:
            found.extend(_pool(spec, pool, cards))
    return sorted(found, key=lambda demand: (demand.at, demand.name))


def _pool(spec: SimulationSpec, pool: str, cards: int) -> Iterator[Demand]:
    rng = spec.stream(f"demand/{pool}")
    budget = spec.load * cards * (spec.end_at - spec.start_at)
    number = 0
    while budget > 0:
        number += 1
        demand, weight = _draw(spec, rng, pool, number)
        budget -= weight * min(demand.lasts, spec.end_at - demand.at)
        yield demand
    if pool == WHOLE:
        yield from _impossible(spec, rng)
        yield from _rejected(spec, rng)
    if pool == HAMI:
        yield from _reserved(spec, rng)


def _draw(spec: SimulationSpec, rng: random.Random, pool: str, number: int) -> tuple[Demand, float]:
    workload = rng.choices((JOB, NOTEBOOK, SERVICE), (0.7, 0.18, 0.12))[0]
    namespace = rng.choices(TENANTS, (4, 3, 2, 1))[0]
    median_hours, most_hours = {JOB: (2.5, 40), NOTEBOOK: (9, 60), SERVICE: (50, 200)}[workload]
    hours = min(most_hours, max(0.1, median_hours * rng.lognormvariate(0, 0.9)))
    services_first = workload == SERVICE and rng.random() < 0.5
    at = spec.start_at + int(rng.uniform(0, 1 if not services_first else 0.1) * (spec.end_at - spec.start_at))
    at += -at % SECOND_US + SECOND_US
    gpus, memory_mib, cores, profile, weight = _shape(rng, pool, workload)
    fate = rng.choices(("succeeded", "failed", "deleted"), (0.8, 0.1, 0.1))[0] if workload == JOB else "deleted"
    keeps = rng.choice((600, 3 * 3600, 6 * 3600, 12 * 3600)) * SECOND_US
    stem = {JOB: "train", NOTEBOOK: "nb", SERVICE: "serve"}[workload]
    user = rng.randrange(6)
    name = f"{stem}-{pool.replace('_', '-')}-u{user}" if workload == NOTEBOOK else f"{stem}-{pool[:2]}-{number:04d}"
    return Demand(
        at=at,
        pool=pool,
        workload=workload,
        namespace=namespace,
        name=name,
        gpus=gpus,
        lasts=int(hours * 3600) * SECOND_US,
        fate=fate,
        keeps=keeps,
        patience=rng.choice((2, 8, 1000)) * HOUR_US,
        memory_mib=memory_mib,
        cores_percent=cores,
        profile=profile,
        init_container=pool == HAMI and rng.random() < 0.3,
        sidecar_containers=rng.choice((0, 0, 0, 1, 2)) if pool == HAMI else 0,
        restarts=workload != JOB and rng.random() < 0.15,
    ), weight


def _shape(rng: random.Random, pool: str, workload: str) -> tuple[int, int | None, int | None, str | None, float]:
    """Cards, memory and cores per card, MIG profile, and the weight in cards that it takes from the pool's budget."""
    if pool == HAMI:
        gpus, memory_mib, cores = rng.choice(_HAMI_SHAPES)
        return gpus, memory_mib, cores, None, gpus * max(memory_mib / 46_068, cores / 100)
    if pool == MIG:
        profile = rng.choice(_PROFILES)
        return 1, None, None, profile, _WEIGHT[profile]
    if pool == TIME_SLICING:
        return 1, None, None, None, 0.25
    sizes = (1, 2, 4, 8) if workload == JOB else (1, 1, 2, 2)
    gpus = rng.choices(sizes, (0.55, 0.2, 0.15, 0.1))[0]
    return gpus, None, None, None, float(gpus)


def _special(spec: SimulationSpec, rng: random.Random, pool: str, name: str, fate: str, gpus: int) -> Demand:
    at = spec.start_at + int(rng.uniform(0.02, 0.95) * (spec.end_at - spec.start_at)) // SECOND_US * SECOND_US
    shared = pool == HAMI
    return Demand(
        at=at,
        pool=pool,
        workload=JOB,
        namespace=rng.choice(TENANTS),
        name=name,
        gpus=gpus,
        lasts=HOUR_US,
        fate=fate,
        keeps=3 * HOUR_US + rng.randrange(0, 59) * MINUTE_US,
        patience=rng.choice((5, 30, 10_000)) * HOUR_US,
        memory_mib=8_192 if shared else None,
        cores_percent=20 if shared else None,
    )


def _impossible(spec: SimulationSpec, rng: random.Random) -> Iterator[Demand]:
    for number in range(1 + spec.days // 4):
        yield _special(spec, rng, WHOLE, f"huge-{number:02d}", "never_scheduled", 16)


def _rejected(spec: SimulationSpec, rng: random.Random) -> Iterator[Demand]:
    for number in range(2 + spec.days // 3):
        yield _special(spec, rng, WHOLE, f"refused-{number:02d}", "rejected", 1)


def _reserved(spec: SimulationSpec, rng: random.Random) -> Iterator[Demand]:
    for number in range(1 + spec.days // 5):
        yield _special(spec, rng, HAMI, f"unbound-{number:02d}", "reserved", 1)
