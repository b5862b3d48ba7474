"""The slow, obvious way to both money ledgers: one place and grain after another, in plain Python. Compared with the SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from steelyard.definitions import money
from steelyard.definitions.fragmentation import RequestClass
from steelyard.definitions.gpu_state import spent_as
from steelyard.definitions.models import model_tokens
from steelyard.definitions.money import LineKey, MoneyPolicy
from steelyard.facts.price import Discount, Price

Row = dict[str, Any]
Key = tuple[Any, ...]
LONG_AGO: Final = -(1 << 62)
EVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class World:
    """What the ledgers before say, and what is declared. Instants are integers."""

    grain: int
    history_from: int
    horizon: int
    policy: MoneyPolicy
    supply: Sequence[Row]
    usage: Sequence[Row]
    states: Sequence[Row]
    excess: Sequence[Row]
    quotas: Sequence[Row]
    holdings: Sequence[Row]
    places: Sequence[Row]
    """Of every place: cluster, place_kind, place_id, node, model, unit_kind, commitment, owner, memory_mib."""
    pods: dict[str, Row]
    downs: Sequence[Row]
    prices: Sequence[Price]
    discounts: Sequence[Discount]
    classes: Sequence[RequestClass]
    owners: dict[tuple[str, str | None], str]
    pools: dict[tuple[str, str | None], str | None]
    blamed: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rate:
    """What holds for a card in a grain: the price of one whole card, or why there is none."""

    price_micro: int | None
    price_id: str | None
    currency: str | None
    provisional: bool
    discount_ppm: int | None
    reason: str | None


def rate_of(world: World, side: str, card: LineKey, grain_at: int) -> Rate:
    """Of the lines that hold at the start of the grain the closest of each component."""
    found: dict[str, list[Price]] = defaultdict(list)
    for line in latest(world.prices):
        key = LineKey(line.tenant, line.for_cluster, line.model, line.unit_kind, line.commitment)
        if line.side == side and within(line, grain_at) and money.holds_for(key, card):
            found[line.component].append(line)
    closest = {component: closest_of(lines) for component, lines in sorted(found.items())}
    taken = [
        line
        for line in latest(world.discounts)
        if side == "charge" and line.tenant == card.tenant and within(line, grain_at)
        and money.holds_for(LineKey(None, None, line.model, None, line.commitment), card)
    ]  # fmt: skip
    best = max((specificity(line) for line in taken), default=0)
    taken = [line for line in taken if specificity(line) == best]
    discount = None if len(taken) > 1 else taken[0].discount_ppm if taken else 0
    lines = [line for each in closest.values() for line in each]
    currencies = {min(line.currency for line in each) for each in closest.values()}
    ambiguous = any(len(each) > 1 for each in closest.values())
    reason = None
    if not lines:
        ours = [line for line in latest(world.prices) if line.side == side and started(line)]
        known = [line for line in ours if money.holds_for(LineKey(model=line.model), LineKey(model=card.model))]
        reason = "model unknown" if ours and not known else "no price"
    elif ambiguous:
        reason = "price ambiguous"
    elif any(line.price_micro is not None and line.price_micro > money.PRICE_MICRO_MAX for line in lines):
        reason = "price implausible"
    elif any(line.price_micro is None for line in lines):
        reason = "price not known"
    elif len(currencies) > 1:
        reason = "two currencies"
    elif discount is None:
        reason = "discount ambiguous"
    price = None
    if reason is None:
        price = sum(money.grain_price_micro(line.price_micro or 0, line.per, grain_at, world.grain) for line in lines)
    return Rate(
        price,
        None if ambiguous or not lines else "+".join(line.price_id for line in lines),
        currencies.pop() if len(currencies) == 1 else None,
        any(line.provisional for line in lines),
        discount,
        reason,
    )


def latest(lines: Iterable[Any]) -> list[Any]:
    """Those of the highest version of each book, each once."""
    rows = list(lines)
    newest = {row.book: max(other.version for other in rows if other.book == row.book) for row in rows}
    return list({repr(row): row for row in rows if row.version == newest[row.book]}.values())


def started(line: Price) -> bool:
    """Whether it holds at any time at all."""
    return line.valid_from_at is None or line.valid_to_at is None or line.valid_from_at < line.valid_to_at


def within(line: Price | Discount, at: int) -> bool:
    start = LONG_AGO if line.valid_from_at is None else line.valid_from_at
    return start <= at < (EVER if line.valid_to_at is None else line.valid_to_at)


def specificity(line: Price | Discount) -> int:
    if isinstance(line, Discount):
        return money.specificity(LineKey(None, None, line.model, None, line.commitment))
    return money.specificity(LineKey(line.tenant, line.for_cluster, line.model, line.unit_kind, line.commitment))


def closest_of(lines: list[Price]) -> list[Price]:
    best = max(specificity(line) for line in lines)
    return [line for line in lines if specificity(line) == best]


# The cost ledger -------------------------------------------------------------------------------------------------------------------------


def post_cost(world: World) -> dict[Key, Key]:
    """(place, grain, account, pod, unit, owner) -> (amount, used, upper, path, currency, cost, price_id, provisional, reason)."""
    found: dict[Key, Key] = {}
    for (place_key, grain_at), amounts in sorted(amounts_of(world).items(), key=repr):
        place = next(row for row in world.places if place_of(row) == place_key)
        card = LineKey(None, place["cluster"], place["model"], place["unit_kind"], place["commitment"])
        rate = rate_of(world, "cost", card, grain_at)
        order = sorted(amounts, key=lambda key: tuple((part is None, part or "") for part in key))
        costs: Sequence[int | None] = [None] * len(order)
        if rate.price_micro is not None:
            costs = money.divide_micro(rate.price_micro, [amounts[key] for key in order], world.grain)
        for key, cost in zip(order, costs, strict=True):
            used = used_of(world, place, grain_at, key, amounts[key])
            found[(*place_key, grain_at, *key)] = (
                amounts[key], *used, rate.currency, cost, rate.price_id, rate.provisional, rate.reason
            )  # fmt: skip
    return found


def place_of(row: Row) -> Key:
    return row["place_kind"], row["place_id"], row["node"]


def amounts_of(world: World) -> dict[tuple[Key, int], dict[Key, int]]:
    """Of each place and grain: (account, pod, unit, owner) -> GPU-time."""
    booked: dict[tuple[Key, int], dict[Key, int]] = defaultdict(lambda: defaultdict(int))
    for row in world.supply:
        account = account_of(row)
        if account is not None and row["amount_gpu_us"]:
            booked[place_of(row), row["grain_at"]][account, row["pod_uid"], row["unit_id"], None] += row[
                "amount_gpu_us"
            ]
    free = {at: amounts.pop(("idle", None, None, None), 0) for at, amounts in booked.items()}
    supplies = {at: sum(amounts.values()) + free[at] for at, amounts in booked.items()}
    for (place_key, grain_at), amounts in booked.items():
        move_starts(world, place_key, grain_at, amounts)
    stranded = {at: stranded_of(world, at, free, supplies) for at in booked}
    lay_idle(world, booked, free, stranded)
    return {at: {key: amount for key, amount in amounts.items() if amount} for at, amounts in booked.items()}


def account_of(row: Row) -> str | None:
    account, down = row["account"], row["service"] == "down"
    if account in ("supply", "overcommitted"):
        return None
    if account in ("held", "held_unplaced"):
        return "out_of_service" if down else "tenant"
    return {
        "reserved": "tenant",
        "in_suspense": "overhead",
        "unobserved": "unobserved",
        "free": "out_of_service" if down else "idle",
    }[account]


def holders(world: World) -> list[Row]:
    """Holdings as money looks at them."""
    found = []
    for row in world.holdings:
        pod = world.pods.get(row["pod_uid"], {})
        start = max(row["started_at"], world.history_from)
        end = min(row["known_to_at"] if row["ended_at"] is None else row["ended_at"], world.horizon)
        whole_end = row["known_to_at"] if row["ended_at"] is None else row["ended_at"]
        if row["occupancy"] == "in_suspense" or whole_end <= row["started_at"] or end <= start:
            continue
        running = row.get("running_at")
        pending = pod.get("phase") == "Pending"
        until = end if running is None else running
        blamed = any(start <= at <= until for at in world.blamed.get(row["pod_uid"], []))
        late = (
            row["occupancy"] == "held"
            and (running is not None or pending)
            and until > start + world.policy.platform_start_us
        )
        stretch = (start + world.policy.platform_start_us, min(until, end)) if late and blamed else None
        found.append({**row, "from": start, "to": end, "running": running, "pending": pending, "starting": stretch})
    for row in found:
        same = [other for other in found if holder_key(other) == holder_key(row)]
        row["kind"] = min((other["unit_kind"] for other in same if other["unit_kind"] is not None), default=None)
    return found


def holder_key(row: Row) -> Key:
    return row["place_kind"], row["place_id"], row["pod_uid"], row["unit_id"]


def overlap(start: int, end: int, low: int, high: int) -> int:
    return max(0, min(end, high) - max(start, low))


def move_starts(world: World, place_key: Key, grain_at: int, amounts: dict[Key, int]) -> None:
    """What is the platform's of a start is taken off its holder."""
    for key, amount in list(amounts.items()):
        account, pod, unit, _ = key
        if account != "tenant":
            continue
        mine = [row for row in holders(world) if holder_key(row) == (*place_key[:2], pod, unit)]
        end = grain_at + world.grain
        starting = sum(
            overlap(row["starting"][0], row["starting"][1], grain_at, end) for row in mine if row["starting"]
        )
        held = sum(overlap(row["from"], row["to"], grain_at, end) for row in mine)
        if starting and held:
            moved = amount * min(starting, held) // held
            amounts[key] -= moved
            amounts["platform_start", pod, unit, None] += moved


def stranded_of(world: World, at: tuple[Key, int], free: dict[Any, int], supplies: dict[Any, int]) -> int:
    """What of the free share lies beside a full holder, or is of no use to typical requests."""
    place_key, grain_at = at
    place = next(row for row in world.places if place_of(row) == place_key)
    if free[at] <= 0 or place["owner"] is not None:
        return 0
    blocked = (
        free[at] * min(blocked_us(world, place_key, grain_at), supplies[at]) // supplies[at] if supplies[at] > 0 else 0
    )
    lost = whole = 0
    classes = [each for each in world.classes if each.shape.cards_count]
    if place["place_kind"] == "device" and supplies[at] > 0:
        neighbours = [
            other
            for other in world.places
            if other["place_kind"] == "device" and other["node"] == place["node"] and other["owner"] is None
            and free.get((place_of(other), grain_at), 0) > 0 and supplies.get((place_of(other), grain_at), 0) > 0
        ]  # fmt: skip
        ppm = {
            place_of(other): free[place_of(other), grain_at] * 1_000_000 // supplies[place_of(other), grain_at]
            for other in neighbours
        }
        for each in classes:
            whole += each.weight
            need = need_of(each, place)
            able = sum(
                (theirs := need_of(each, other)) is None or ppm[place_of(other)] >= theirs for other in neighbours
            )
            if need is not None and not (ppm[place_key] >= need and able >= each.shape.cards_count):
                lost += each.weight
    return blocked + ((free[at] - blocked) * lost // whole if whole else 0)


def need_of(each: RequestClass, place: Row) -> int | None:
    """What a class takes of a card in ppm; more than a whole one where it may not use it; None where that is not known."""
    shape, mib = each.shape, place["memory_mib"]
    if shape.models:
        if place["model"] is None:
            return None
        if not any(model_tokens(model) <= model_tokens(place["model"]) for model in shape.models):
            return 1_000_001
    if shape.memory_mib is not None and mib is None:
        return None
    needs = [
        shape.share_ppm,
        None if shape.memory_mib is None else -(-shape.memory_mib * 1_000_000 // mib),
        None if shape.cores_percent is None else shape.cores_percent * 10_000,
    ]
    known = [need for need in needs if need is not None]
    return min(1_000_000, max(known)) if known else None


def blocked_us(world: World, place_key: Key, grain_at: int) -> int:
    """How long the card was full in the grain, by its busiest holder."""
    held: dict[Key, int] = defaultdict(int)
    full: dict[Key, int] = defaultdict(int)
    for row in world.states:
        if (
            place_of(row) == place_key
            and row["grain_at"] == grain_at
            and row["pod_uid"] is not None
            and not row["basis"].startswith("instance")
        ):
            held[row["pod_uid"], row["unit_id"]] += row["amount_gpu_us"]
            if spent_as(row["state"], row["cause"]):
                full[row["pod_uid"], row["unit_id"]] += row["amount_gpu_us"]
    longest = 0
    for key, amount in full.items():
        mine = [row for row in holders(world) if holder_key(row) == (*place_key[:2], *key)]
        time = min(world.grain, sum(overlap(row["from"], row["to"], grain_at, grain_at + world.grain) for row in mine))
        if mine and held[key] > 0:
            longest = max(longest, time * min(amount, held[key]) // held[key])
    return longest


def lay_idle(world: World, booked: dict[Any, dict[Key, int]], free: dict[Any, int], stranded: dict[Any, int]) -> None:
    """Dedicated nodes first; then place after place beside owner after owner; what is left is idle."""
    for grain_at in sorted({at for _, at in booked}):
        places = [row for row in world.places if (place_of(row), grain_at) in booked]
        left = {}
        for place in places:
            at = place_of(place), grain_at
            if place["owner"] is not None and free[at] > 0:
                booked[at]["reserved_unused", None, None, place["owner"]] += free[at]
            elif place["owner"] is not None:
                booked[at]["idle", None, None, None] += free[at]
            else:
                booked[at]["stranded", None, None, None] += stranded[at]
                left[place_of(place)] = free[at] - stranded[at]
        owed = unused_of(world, grain_at)
        room = max(0, sum(left.values()))
        for owner in sorted(owed):
            wanted = min(owed[owner], room)
            room -= wanted
            for key in sorted(left, key=lambda key: (key[1], key[0], key[2] or "")):
                part = min(wanted, max(0, left[key]))
                if part:
                    booked[key, grain_at]["reserved_unused", None, None, owner] += part
                    left[key] -= part
                    wanted -= part
        for key, amount in left.items():
            booked[key, grain_at]["idle", None, None, None] += amount


def unused_of(world: World, grain_at: int) -> dict[str, int]:
    """Owner -> GPU-time of guaranteed quota that was neither used nor lent."""
    if world.policy.reserved_unused == "none":
        return {}
    rows = [row for row in world.quotas if row["grain_at"] == grain_at]
    by_kind: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        if row["queue_kind"] == "pool" or row["nominal_milli_us"] is None or row["used_milli_us"] is None:
            continue
        unused = max(0, row["nominal_milli_us"] - row["used_milli_us"])
        pool = world.pools.get((row["queue_kind"], row["queue"]))
        if pool is not None:
            members = [
                max(0, other["nominal_milli_us"] - other["used_milli_us"])
                for other in rows
                if world.pools.get((other["queue_kind"], other["queue"])) == pool and other["queue_kind"] != "pool"
                and other["nominal_milli_us"] is not None and other["used_milli_us"] is not None
            ]  # fmt: skip
            lent = next(
                (o["borrowed_milli_us"] for o in rows if o["queue_kind"] == "pool" and o["queue"] == pool), None
            )
            if lent is None or not sum(members):
                continue
            unused -= min(lent, sum(members)) * unused // sum(members)
        if unused > 0:
            by_kind[world.owners[row["queue_kind"], row["queue"]], row["queue_kind"]] += unused
    found: dict[str, int] = defaultdict(int)
    for (owner, _), amount in by_kind.items():
        found[owner] = max(found[owner], amount // 1000)
    return {owner: amount for owner, amount in found.items() if amount}


def used_of(
    world: World, place: Row, grain_at: int, key: Key, amount: int
) -> tuple[int | None, int | None, str | None]:
    """What a path that measures the holder alone saw."""
    account, pod, unit, _ = key
    if account != "tenant" or place["place_kind"] != "device":
        return None, None, None
    units = [(row["unit_id"], row["gi"]) for row in unit_rows(world) if row["place"] == (place["place_id"], pod)]
    rows = []
    for row in world.usage:
        if (row["device_uuid"], row["pod_uid"], row["grain_at"]) != (place["place_id"], pod, grain_at) or row[
            "used_gpu_us"
        ] is None:
            continue
        for unit_id, gi in units:
            alone = len(units) == 1 if row["path"] == "exclusive" else [other for _, other in units].count(gi) == 1
            if unit_id == unit and alone and (row["path"] == "exclusive" or (gi is not None and gi == row["gi"])):
                rows.append(row)
    mine = [row for row in holders(world) if holder_key(row) == ("device", place["place_id"], pod, unit)]
    if len(rows) != 1 or not mine:
        return None, None, None
    held = sum(overlap(row["from"], row["to"], grain_at, grain_at + world.grain) for row in mine)
    used, seen = rows[0]["used_gpu_us"], rows[0]["used_observed_us"]
    return used, money.used_upper_gpu_us(used, amount, seen, held), rows[0]["path"]


def unit_rows(world: World) -> list[Row]:
    """Which unit of a card each pod holds."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in world.holdings:
        end = row["known_to_at"] if row["ended_at"] is None else row["ended_at"]
        if row["place_kind"] == "device" and end > row["started_at"]:
            groups[row["place_id"], row["pod_uid"], row["unit_id"]].append(row)
    found = []
    for (place_id, pod, unit), rows in groups.items():
        gis = {row.get("gi") for row in rows}
        gi = gis.pop() if len(gis) == 1 else None
        found.append({"place": (place_id, pod), "unit_id": unit, "gi": gi})
    return found


# The charge ledger -----------------------------------------------------------------------------------------------------------------------


def post_charge(world: World, cost: dict[Key, Key]) -> dict[Key, Key]:
    """(place_kind, place_id, node, grain, pod, unit, tenant, line) -> (quantity, currency, list, discount, charge, price_id, provisional, reason)."""
    quantities: dict[Key, int] = defaultdict(int)
    unknown: set[Key] = set()
    kinds: dict[Key, str | None] = {}
    for row in holders(world):
        place = next(
            (p for p in world.places if place_of(p) == (row["place_kind"], row["place_id"], row["node"])), None
        )
        if row["occupancy"] != "held" or place is None:
            continue
        tenant = world.pods.get(row["pod_uid"], {}).get("tenant") or "unmapped"
        share = row["share_ppm"] if row["share_ppm"] is not None and row["share_ppm"] <= 10**12 else None
        kinds[place_of(place), row["pod_uid"], row["unit_id"]] = row["kind"]
        least = min(row["share_at_least_ppm"] or 0, 10**12)
        for start, end in stretches(world, row):
            for grain_at in range(start // world.grain * world.grain, end, world.grain):
                low, high = max(start, grain_at), min(end, grain_at + world.grain)
                down = sum(
                    overlap(d["from_us"], d["to_us"], low, high)
                    for d in world.downs
                    if holder_key(d) == holder_key(row)
                )
                for line, time in (("grant", high - low - down), ("held_down", down)):
                    key = (*place_of(place), grain_at, row["pod_uid"], row["unit_id"], tenant, line)
                    if time > 0:
                        quantities[key] += time * (least if share is None else share) // 1_000_000
                        unknown |= {key} if share is None else set()
    for (*place_key, grain_at, account, _pod, _unit, owner), (amount, *_) in cost.items():
        where = tuple(place_key)
        if account == "reserved_unused" and world.policy.reserved_unused == "charged":
            quantities[(*where, grain_at, None, None, owner, "reserved_unused")] += amount
    if world.policy.burst == "charged":
        for row in world.excess:
            mine = [
                other
                for other in holders(world)
                if other["occupancy"] == "held" and stretches(world, other)
                and holder_key(other)[:3] == ("device", row["device_uuid"], row["pod_uid"])
            ]  # fmt: skip
            found = [
                (place, other)
                for other in mine
                for place in world.places
                if place_of(place) == ("device", row["device_uuid"], other["node"])
            ]
            if found and row["rule"] == "compute":
                where = place_of(min((place for place, _ in found), key=lambda place: place["node"] or "~"))
                unit = min((other["unit_id"] for _, other in found if other["unit_id"] is not None), default=None)
                tenant = world.pods.get(row["pod_uid"], {}).get("tenant") or "unmapped"
                quantities[(*where, row["grain_at"], row["pod_uid"], unit, tenant, "burst")] += row["excess_gpu_us"]
                kinds[where, row["pod_uid"], unit, "burst"] = min(
                    (o["kind"] for _, o in found if o["kind"] is not None), default=None
                )
    return {key: charged(world, key, amount, key in unknown, kinds) for key, amount in quantities.items() if amount > 0}


def stretches(world: World, row: Row) -> list[tuple[int, int]]:
    """When a holder is asked for its share."""
    if world.policy.charge_start == "bind":
        first = (row["from"], row["to"] if row["starting"] is None else row["starting"][0])
        second = None if row["starting"] is None else (row["starting"][1], row["to"])
        spans = [first] if second is None else [first, second]
    elif row["running"] is not None:
        spans = [(max(row["running"], row["from"]), row["to"])]
    else:
        spans = [] if row["pending"] else [(row["from"], row["to"])]
    return [span for span in spans if span[1] > span[0]]


def charged(world: World, key: Key, amount: int, share_unknown: bool, kinds: dict[Key, str | None]) -> Key:
    *place_key, grain_at, pod, unit, tenant, line = key
    place = next(row for row in world.places if place_of(row) == tuple(place_key))
    named = {each.tenant for each in latest(world.prices) if each.side == "charge"} | {
        each.tenant for each in latest(world.discounts)
    }
    burst = () if line != "burst" else ("burst",)
    kind = "gpu" if line == "reserved_unused" else kinds[(tuple(place_key), pod, unit, *burst)]
    card = LineKey(tenant if tenant in named else None, place["cluster"], place["model"], kind, place["commitment"])
    rate = rate_of(world, "charge", card, grain_at)
    reason = "share unknown" if share_unknown else rate.reason
    listed = discount = None
    if reason is None and rate.price_micro is not None and rate.discount_ppm is not None:
        listed = 0 if line == "held_down" else money.list_micro(rate.price_micro, amount, world.grain)
        discount = money.discount_micro(listed, rate.discount_ppm)
    return (
        amount, rate.currency, listed, discount, None if listed is None or discount is None else listed - discount, rate.price_id,
        rate.provisional, reason,
    )  # fmt: skip
