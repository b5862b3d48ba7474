"""The ledger of states once more, slow and obvious: cut time wherever anything turns, look at one instant of each part, add up.

Inputs are rows as dicts with instants as integers: postings and pieces of supply, holdings, facts. The rules themselves are the pure functions of
``definitions.gpu_state``; nothing else is shared with the SQL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from steelyard.definitions.gpu_state import (
    DEFAULTS,
    HeldState,
    claims_free_share,
    hang_signature,
    measured_ratio,
    state_of,
    waiting_cause,
)
from tests.ledgers.reference_supply import Row, end_of
from tests.ledgers.reference_usage import Intruder, Use, intruders, intruding, process_stands, shareable

MINUTE = 60_000_000
HOUR = 60 * MINUTE
Unit = tuple[str, int | None]
Key = tuple[str, str, int, str | None, str | None, str, str | None, str]
"""Place kind, place, grain, pod, unit, state, cause, basis."""


@dataclass
class World:
    """All of one cluster."""

    grain: int
    supply: list[Row]
    pieces: list[Row]
    loads: list[Row]
    holdings: list[Row]
    waits: list[Row]
    samples: list[Row]
    processes: list[Row]
    partitions: list[Row]
    metrics: list[Row]
    statuses: list[Row]
    cards: list[Row]
    pods: list[Row]
    units: list[Row]
    nodes: list[Row]
    intruders: list[Intruder] = field(default_factory=list)

    def __post_init__(self) -> None:
        use = Use(self.grain, [], self.cards, [], self.processes, self.statuses)
        held = [{**row, "gi": gi_of(self, row)} for row in self.holdings]
        self.intruders = list(intruders(process_stands(use), held))


@dataclass
class Stand:
    """What a sample stands for, by the means of its minute."""

    start: int
    end: int
    state: HeldState
    cause: str | None
    throttled: bool
    loading: bool
    fallback: bool


def floor_to(at: int, step: int) -> int:
    return at - at % step


def mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def gap_of(world: World, uuid: str, source: str) -> int:
    node = max((row["node"] for row in world.cards if row["device_uuid"] == uuid), default=None)
    return max(
        (
            row["gap_max_us"] or 0
            for row in world.statuses
            if row["kind"] not in ("pods", "nodes", "trace") and row["source"] == source and row["scope"] in ("cluster", f"node/{node}")
        ),
        default=0,
    )  # fmt: skip


def instants(world: World, unit: Unit) -> list[Row]:
    """The samples of a unit, one per instant: the larger figures, what is beyond its limits or contradicted gone, nothing believed that reads 0
    at full load."""
    found: dict[int, Row] = {}
    told: dict[tuple[int, str], list[float]] = defaultdict(list)
    for row in world.samples:
        if (row["device_uuid"], row["gi"]) != unit:
            continue
        merged = found.setdefault(row["occurred_at"], {"at": row["occurred_at"], "source": "", "throttle": 0})
        for name in ("util_gpu_ratio", "gr_active_ratio", "sm_active_ratio", "dram_active_ratio", "sm_occupancy_ratio"):
            merged[name] = larger(merged.get(name), measured_ratio(row[name]))
            if measured_ratio(row[name]) is not None and name != "sm_occupancy_ratio":
                told[row["occurred_at"], name].append(round((measured_ratio(row[name]) or 0.0) * 1_000_000))
        for name in ("power_watts", "power_limit_watts", "interval_us", *RATES):
            merged[name] = larger(merged.get(name), row[name])
        merged["source"] = max(merged["source"], row["source"])
        merged["throttle"] |= row["throttle_reasons"] or 0
    for (at, name), ratios in told.items():
        if max(ratios) - min(ratios) > 150_000:
            found[at][name] = None
    for row in found.values():
        if (row["util_gpu_ratio"] or 0) > 0.5 and row["gr_active_ratio"] == 0:
            row |= dict.fromkeys(("gr_active_ratio", "sm_active_ratio", "dram_active_ratio"))
    return [found[at] for at in sorted(found)]


RATES = (
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
    "nvlink_tx_bytes_per_second",
    "nvlink_rx_bytes_per_second",
)


def larger(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


def hang_minutes(rows: Sequence[Row]) -> set[int]:
    """Minutes in runs of the signature that last; only where one sample has it by itself."""
    minutes: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        minutes[floor_to(row["at"], MINUTE)].append(row)

    def signature(group: Sequence[Row]) -> bool | None:
        engine = mean(row["gr_active_ratio"] for row in group)
        return hang_signature(
            mean(row["util_gpu_ratio"] for row in group) if engine is None else engine,
            mean(row["sm_active_ratio"] for row in group),
            mean(row["dram_active_ratio"] for row in group),
            mean(row["power_watts"] for row in group),
            max((row["power_limit_watts"] for row in group if row["power_limit_watts"]), default=None),
        )

    verdicts = [(minute, signature(minutes[minute]), minutes[minute]) for minute in sorted(minutes)]
    verdicts = [entry for entry in verdicts if entry[1] is not None]
    runs: list[list[tuple[int, int, int]]] = [[]]
    for number, (minute, verdict, group) in enumerate(verdicts):
        if not verdict:
            runs.append([])
            continue
        end = max(row["at"] + min(max(row["interval_us"] or 0, 0), HOUR) for row in group)
        if number + 1 < len(verdicts):
            end = min(end, verdicts[number + 1][2][0]["at"])
        runs[-1].append((minute, minute, max(end, minute + MINUTE)))
    lasting = [run for run in runs if run and max(entry[2] for entry in run) - run[0][1] >= DEFAULTS.hang_us]
    return {entry[0] for run in lasting for entry in run}


def stands(world: World, unit: Unit) -> list[Stand]:
    rows = instants(world, unit)
    hangs = hang_minutes(rows) if any(alone(row) for row in world.samples if row["device_uuid"] == unit[0]) else set()
    minutes: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        minutes[floor_to(row["at"], MINUTE)].append(row)
    found = []
    for number, row in enumerate(rows):
        following = rows[number + 1]["at"] if number + 1 < len(rows) else None
        interval = row["interval_us"]
        if interval is not None and interval > 0:
            end = min(row["at"] + min(interval, HOUR), row["at"] + HOUR if following is None else following)
        elif following is not None and following - row["at"] <= gap_of(world, unit[0], row["source"]):
            end = following
        else:
            continue
        minute = floor_to(row["at"], MINUTE)
        found.append(judged(minutes[minute], row["at"], end, minute in hangs))
    return found


def alone(row: Row) -> bool:
    engine = row["util_gpu_ratio"] if row["gr_active_ratio"] is None else row["gr_active_ratio"]
    return bool(
        hang_signature(
            engine, row["sm_active_ratio"], row["dram_active_ratio"], row["power_watts"], row["power_limit_watts"]
        )
    )


def judged(group: Sequence[Row], start: int, end: int, hangs: bool) -> Stand:
    engine = mean(row["gr_active_ratio"] for row in group)
    fallback = engine is None
    if fallback:
        engine = mean(row["util_gpu_ratio"] for row in group)
    sm, dram = (mean(row[name] for row in group) for name in ("sm_active_ratio", "dram_active_ratio"))
    state = state_of(engine, sm, dram)
    rates = {name: mean(row[name] for row in group) for name in RATES}
    occupancy = mean(row["sm_occupancy_ratio"] for row in group)
    pcie = [rates["pcie_tx_bytes_per_second"], rates["pcie_rx_bytes_per_second"]]
    nvlink = [rates["nvlink_tx_bytes_per_second"], rates["nvlink_rx_bytes_per_second"]]
    cause = state.cause
    if state.name == "busy_not_working":
        if hangs:
            state, cause = HeldState("suspected_hang"), None
        elif any(rate is not None and rate >= DEFAULTS.copy_bytes_per_second for rate in pcie):
            cause = "copy"
        elif any(rate is not None and rate >= DEFAULTS.collective_bytes_per_second for rate in nvlink):
            cause = "collective_wait"
        elif occupancy is not None and occupancy < DEFAULTS.occupancy_ratio and None not in (*pcie, *nvlink):
            cause = "small_kernels"
        else:
            cause = "unknown"
    throttle = 0
    for row in group:
        throttle |= row["throttle"]
    loading = pcie[1] is not None and pcie[1] >= DEFAULTS.copy_bytes_per_second
    return Stand(start, end, state, cause, bool(throttle & 0xE8), loading, fallback and engine is not None)


@dataclass
class Evidence:
    """Minutes of a pod in which something beside its card is known."""

    no_load: set[int]
    host_cpu: set[int]
    io: set[int]
    network: set[int]


RUNNING = {"vllm:num_requests_running"}
WAITING = {"vllm:num_requests_waiting"}


def evidence(world: World, pod: str) -> Evidence:
    found = Evidence(set(), set(), set(), set())
    at: dict[int, list[Row]] = defaultdict(list)
    names = {row["pod"] for row in world.pods if row["pod_uid"] == pod}
    for row in world.metrics:
        if row["pod"] in names:
            at[row["occurred_at"]].append(row)
    told = []
    for instant in sorted(at):
        rows = at[instant]
        running = [row["value"] for row in rows if row["metric"] in RUNNING]
        waiting = [row["value"] for row in rows if row["metric"] in WAITING]
        told.append((instant, rows, running, waiting))
    for number, (instant, rows, running, waiting) in enumerate(told):
        kind = bool(running or waiting)
        following = next((entry[0] for entry in told[number + 1 :] if bool(entry[2] or entry[3]) == kind), instant)
        first = floor_to(instant, MINUTE)
        end = max(first + MINUTE, min(instant + 5 * MINUTE, floor_to(following, MINUTE)))
        covered = set(range(first, end, MINUTE))
        if running and waiting and all(value == 0 for value in (*running, *waiting)):
            found.no_load |= covered
        for name, minutes, bound in (
            ("host_cpu_throttled_ratio", found.host_cpu, DEFAULTS.host_ratio),
            ("host_io_pressure_ratio", found.io, DEFAULTS.host_ratio),
            ("host_network_receive_bytes_per_second", found.network, DEFAULTS.network_bytes_per_second),
        ):
            if any(row["metric"] == name and row["value"] is not None and row["value"] >= bound for row in rows):
                minutes |= covered
    return found


def own_path(world: World, uuid: str, pod: str) -> tuple[set[int], set[int]]:
    """Minutes in which the pod was seen active on the card, and inactive, by the best path that tells."""
    names = {row["pod"] for row in world.pods if row["pod_uid"] == pod}
    layer = readings(
        world, uuid, [row for row in world.partitions if row["device_uuid"] == uuid and row["pod"] in names], False
    )
    process = readings(
        world, uuid, [row for row in world.processes if row["device_uuid"] == uuid and row["pod_uid"] == pod], True
    )
    active = layer[0] | (process[0] - layer[1])
    return active, (layer[1] - layer[0]) | (process[1] - process[0] - layer[0] - layer[1])


def readings(world: World, uuid: str, rows: Sequence[Row], of_process: bool) -> tuple[set[int], set[int]]:
    at: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        at[row["occurred_at"], row["source"]].append(row)
    told = sorted(at)
    active: set[int] = set()
    inactive: set[int] = set()
    for number, (instant, source) in enumerate(told):
        group = at[instant, source]
        ratios = [measured_ratio(row["sm_ratio"]) for row in group]
        known = [ratio for ratio in ratios if ratio is not None]
        used = (sum(known) if of_process else max(known)) if known else None
        verdict: bool | None = None
        if used is not None and used >= DEFAULTS.idle_ratio:
            verdict = True
        elif used is not None and (not of_process or None not in ratios):
            verdict = False
        elif not of_process:
            ages = [row["last_kernel_seconds"] for row in group if row["last_kernel_seconds"] is not None]
            verdict = min(ages) < 60 if ages else None
        if verdict is None:
            continue
        following = told[number + 1][0] if number + 1 < len(told) else None
        interval = max((row["interval_us"] or 0 for row in group), default=0) if of_process else 0
        first = floor_to(instant, MINUTE)
        end = instant
        if interval > 0:
            end = min(instant + min(interval, HOUR), instant + HOUR if following is None else following)
        elif following is not None and following - instant <= gap_of(world, uuid, source):
            end = floor_to(following, MINUTE)
        minutes = set(range(first, max(first + MINUTE, end), MINUTE))
        (active if verdict else inactive).update(minutes)
    return active, inactive


def post_states(world: World) -> dict[Key, int]:
    """The whole ledger: amounts by key."""
    parts = held_parts(world)
    waiting = waited(world)
    totals: dict[Any, int] = defaultdict(int)
    for row in world.supply:
        if row["account"] not in ("supply", "overcommitted"):
            key = (
                row["place_kind"],
                row["place_id"],
                row["grain_at"],
                row["pod_uid"],
                row["unit_id"],
                row["account"],
                row["service"] == "down",
            )
            totals[key] += row["amount_gpu_us"]
    rows: dict[Key, int] = defaultdict(int)
    for (kind, place, grain, pod, unit, account, down), amount in totals.items():
        head = (kind, place, grain, pod, unit)
        if account == "held" and not down and amount:
            for (state, cause, basis), part in split(parts[head], amount).items():
                rows[(*head, state, cause, basis)] += part
        elif account == "free" and not down and amount > 0:
            left = amount
            for cause, part in waiting.get((kind, place, grain), {}).items():
                rows[(*head, "free_waiting", cause, "occupancy")] += part
                left -= part
            rows[(*head, "free_no_demand", None, "occupancy")] += left
        else:
            plain = {
                ("held", True): "held_down",
                ("held_unplaced", True): "held_down",
                ("held_unplaced", False): "held_unknown",
                ("free", True): "out_of_service",
                ("free", False): "free_no_demand",
            }
            state = plain.get((account, down), account)
            cause = "device" if account == "held_unplaced" and not down else None
            rows[(*head, state, cause, "occupancy")] += amount
    return {key: amount for key, amount in rows.items() if amount}


def split(parts: Mapping[tuple[str, str | None, str], int], amount: int) -> dict[tuple[str, str | None, str], int]:
    whole = sum(parts.values())
    assert abs(amount - whole) <= 1000, "pieces and postings of held time differ by a rounding at most"
    found = dict(parts)
    largest = min(found, key=lambda key: (-found[key], key[0], key[1] is not None, key[1] or "", key[2]))
    found[largest] += amount - whole
    return found


def held_parts(world: World) -> dict[Any, dict[tuple[str, str | None, str], int]]:
    """Of each holder, place and grain, GPU-time by state, each floored once, and the rest of it as unknown."""
    products: dict[Any, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    wholes: dict[Any, int] = defaultdict(int)
    nobody_tells: dict[Any, bool] = {}
    by_unit: dict[Unit, list[Stand]] = {}
    proofs: dict[str, Evidence] = {}
    for piece in world.pieces:
        if piece["account"] != "held" or piece["place_kind"] != "device" or piece["held_service"] == 2:
            continue
        uuid, pod = piece["place_id"], piece["pod_uid"]
        held = [
            h
            for h in world.holdings
            if (h["place_kind"], h["place_id"], h["pod_uid"], h["unit_id"]) == ("device", uuid, pod, piece["unit_id"])
        ]
        gis = {gi_of(world, h) for h in held}
        is_mig = any(h["unit_kind"] == "mig" for h in held)
        gi = next(iter(gis)) if is_mig and len(gis) == 1 else None
        unit = (uuid, gi)
        nameless = is_mig and gi is None
        if unit not in by_unit:
            by_unit[unit] = stands(world, unit)
        known = [] if nameless else by_unit[unit]
        if pod not in proofs:
            proofs[pod] = evidence(world, pod)
        ready = min((h["running_at"] for h in held if h["running_at"] is not None), default=None)
        phases = {row["phase"] for row in world.pods if row["pod_uid"] == pod}
        starting_to = ready if ready is not None else 2**62 if "Pending" in phases else -(2**62)
        own = own_path(world, uuid, pod)
        edges = {piece["from_us"], piece["to_us"], starting_to}
        edges |= {edge for stand in known for edge in (stand.start, stand.end)}
        edges |= {edge for *_, start, end in world.intruders for edge in (start, end)}
        edges |= {edge for other in world.pieces for edge in (other["from_us"], other["to_us"])}
        edges |= set(range(floor_to(piece["from_us"], MINUTE), piece["to_us"], MINUTE))
        for start, end in pairwise(sorted(edge for edge in edges if piece["from_us"] <= edge <= piece["to_us"])):
            head = ("device", uuid, floor_to(start, world.grain), pod, piece["unit_id"])
            nobody_tells[head] = nameless
            wholes[head] += (end - start) * piece["share_ppm"]
            state = at_instant(world, start, pod, unit, known, proofs[pod], own, ready, starting_to)
            if state is not None:
                products[head][state] += (end - start) * piece["share_ppm"]
    found: dict[Any, dict[tuple[str, str | None, str], int]] = {}
    for head, whole in wholes.items():
        states = {state: product // 1_000_000 for state, product in products[head].items()}
        rest = whole // 1_000_000 - sum(states.values())
        if rest > 0:
            states["held_unknown", "instance" if nobody_tells[head] else "telemetry", "occupancy"] = rest
        found[head] = states
    return found


def gi_of(world: World, holding: Row) -> int | None:
    if holding.get("gi") is not None:
        return int(holding["gi"])
    return next((row["gi"] for row in world.units if row["unit_id"] == holding["unit_id"]), None)


def at_instant(
    world: World, t: int, pod: str, unit: Unit, known: Sequence[Stand], proof: Evidence, own: tuple[set[int], set[int]],
    ready: int | None, starting_to: int,
) -> tuple[str, str | None, str] | None:  # fmt: skip
    """State, cause and basis of a holder at an instant; None where no sample covers it."""
    if t < starting_to:
        return "held_starting", None, "occupancy"
    minute = floor_to(t, MINUTE)
    stand = next((each for each in known if each.start <= t < each.end), None)
    basis = "triple" if unit[1] is None else "instance"
    if len(present(world, t, unit)) > 1:
        basis = "card"
        if minute in own[1]:
            return "held_idle", idle_cause(world, pod, minute, proof, ready, None), basis
        if stand is not None and minute not in own[0]:
            name = stand.state.name
            basis += "+203" if stand.fallback else ""
            return (name, stand.cause, basis) if name == "held_unknown" else ("held_unattributed", name, basis)
    if stand is None:
        return None
    basis += "+203" if stand.fallback else ""
    if stand.state.name in ("held_idle", "held_low"):
        return stand.state.name, idle_cause(world, pod, minute, proof, ready, stand), basis
    return stand.state.name, stand.cause, basis


def present(world: World, t: int, unit: Unit) -> set[str]:
    """The pods that may be on a unit: those that hold it, those that have a process on it, those on a card of its node that nobody names."""
    node = max((row["node"] for row in world.cards if row["device_uuid"] == unit[0]), default=None)
    found = intruding(world.intruders, unit, t)
    elsewhere = set()
    for piece in world.pieces:
        if (
            piece["account"] not in ("held", "in_suspense", "held_unplaced")
            or not piece["from_us"] <= t < piece["to_us"]
        ):
            continue
        held = [
            h
            for h in world.holdings
            if (h["place_id"], h["pod_uid"], h["unit_id"]) == (piece["place_id"], piece["pod_uid"], piece["unit_id"])
        ]
        if piece["place_kind"] == "node" and piece["place_id"] == node:
            is_whole = all(h["unit_kind"] in ("gpu", "mig") for h in held)
            (elsewhere if is_whole and unit[1] is None else found).add(piece["pod_uid"])
        if piece["place_kind"] == "device" and piece["place_id"] == unit[0]:
            gis = {gi_of(world, h) for h in held}
            gi = next(iter(gis)) if any(h["unit_kind"] == "mig" for h in held) and len(gis) == 1 else None
            if unit[1] is None or gi is None or gi == unit[1]:
                found.add(piece["pod_uid"])
    is_alone = any(
        h["device_uuid"] == unit[0] and h["occupancy"] == "held" and h["unit_kind"] == "gpu"
        and (h["share_ppm"] or 0) >= 1_000_000 and h["started_at"] <= t < end_of(h)
        for h in world.holdings
    ) and not shareable(unit[0], world.cards, world.nodes, world.units)  # fmt: skip
    return found if is_alone and len(found) <= 1 else found | elsewhere


def idle_cause(world: World, pod: str, minute: int, proof: Evidence, ready: int | None, stand: Stand | None) -> str:
    if minute in proof.no_load:
        return "no_load"
    if stand is not None and stand.loading and ready is not None:
        end = ready + DEFAULTS.load_us
        if floor_to(ready, MINUTE) <= minute < end:
            return "model_load"
    if any(row["pod_uid"] == pod and row["workload_kind"] == "Notebook" for row in world.pods):
        return "interactive"
    for name, minutes in (("host_cpu", proof.host_cpu), ("io", proof.io), ("network", proof.network)):
        if minute in minutes:
            return name
    return "throttled" if stand is not None and stand.throttled else "unknown"


def waited(world: World) -> dict[tuple[str, str, int], dict[str, int]]:
    """Free GPU-time by place, grain and the cause for which somebody waits for it."""
    asked = []
    firsts: dict[str, int] = {}
    for row in world.waits:
        firsts[row["demand_id"]] = min(firsts.get(row["demand_id"], row["started_at"]), row["started_at"])
    for row in world.waits:
        end = row["known_to_at"] if row["ended_at"] is None else row["ended_at"]
        if end > row["started_at"] and claims_free_share(
            row["stage"], row["fit"], row["gpu_milli"], row["unknown_reason"]
        ):
            cause = waiting_cause(row["cause"], row["stage"], row["demand_kind"])
            asked.append(
                (firsts[row["demand_id"]], row["demand_id"], row["started_at"], end, row["gpu_milli"] * 1000, cause)
            )
    free = [load for load in world.loads if load["rest_account"] == 0 and load["rest_service"] == 1]
    edges = {edge for entry in asked for edge in entry[2:4]} | {
        edge for load in free for edge in (load["from_us"], load["to_us"])
    }
    if edges:
        edges |= set(range(floor_to(min(edges), world.grain), max(edges), world.grain))
    products: dict[Any, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for start, end in pairwise(sorted(edges)):
        line = sorted(entry for entry in asked if entry[2] <= start and entry[3] >= end)
        shares = [
            (load, load["cards"] * 1_000_000 - load["share_ppm"])
            for load in free
            if load["from_us"] <= start and load["to_us"] >= end
        ]
        place = 0
        spans = []
        for entry in line:
            spans.append((place, place + entry[4], entry[5]))
            place += entry[4]
        position = -sum(-share for load, share in shares if share < 0 and load["place_kind"] == "cluster")
        taken = defaultdict(int)
        for load, share in shares:
            if share < 0 and load["place_kind"] == "node":
                taken[load["place_id"]] -= share
        for load, share in sorted(
            shares, key=lambda entry: (entry[0]["place_id"], entry[0]["place_kind"], entry[0]["site_no"])
        ):
            if share <= 0:
                continue
            used = min(share, taken[load["node"]])
            taken[load["node"]] -= used
            low, high = position, position + share - used
            position = high
            for first, last, cause in spans:
                overlap = min(high, last) - max(low, first, 0)
                if overlap > 0:
                    head = (load["place_kind"], load["place_id"], floor_to(start, world.grain))
                    products[head][cause] += (end - start) * overlap
    return {
        head: {cause: product // 1_000_000 for cause, product in causes.items() if product >= 1_000_000}
        for head, causes in products.items()
    }
