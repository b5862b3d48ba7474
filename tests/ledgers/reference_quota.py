"""The quota ledger minute by minute in plain Python: slow, and without any of the shortcuts of the SQL. All instants are whole minutes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from steelyard.definitions import quota_balance as balance
from steelyard.facts.quota import Quota
from steelyard.primitives.instant import MINUTE_US, Instant

AMOUNTS: Final = (
    "nominal",
    "reserved",
    "used",
    "borrowed",
    "over_nominal",
    "lent",
    "reserved_not_used",
    "pending",
    "idle",
)
Key = tuple[str, str]
Row = dict[str, int | None]


def pool_of(key: Key, facts: Sequence[Quota]) -> str | None:
    """The cohort by the latest word; of a tenant the cluster."""
    if key[0] == "tenant":
        return "default"
    return max(
        (fact for fact in facts if (fact.queue_kind, fact.queue) == key), key=lambda fact: fact.occurred_at
    ).parent


def merged(facts: Sequence[Quota]) -> Row:
    """Rows of one key and instant as one: figure by figure, of the row that tells of use first, then of the one seen later."""
    order = sorted(facts, key=lambda fact: (fact.used_milli is None and fact.reserved_milli is None, -fact.observed_at))
    row: Row = {}
    for name in ("nominal_milli", "reserved_milli", "used_milli", "pending_milli", "idle_milli", "interval_us"):
        row[name.removesuffix("_milli")] = next(
            (getattr(fact, name) for fact in order if getattr(fact, name) is not None), None
        )
    return row


def state(key: Key, told: Mapping[Instant, Row], minute: Instant, shares: bool) -> tuple[Row | None, bool]:
    """What of a key holds in a minute, None where nobody speaks; and whether it is silent between two words, the former of which said something."""
    before = [at for at in told if at <= minute]
    after = [at for at in told if at > minute]
    if not before:
        return None, False
    row = told[max(before)]
    if minute >= max(before) + (row["interval_us"] or 0):
        spoken = [told[at] for at in before if told[at]["interval_us"]]
        return None, any(told[at]["interval_us"] for at in after) and bool(spoken) and not is_nothing(spoken[-1])
    nominal, reserved, used = row["nominal"], row["reserved"], row["used"]
    above = balance.above_milli(used, nominal)
    idle = row["idle"] if row["idle"] is not None else balance.spare_milli(nominal, reserved, used)
    return {
        **row,
        "borrowed": above if shares or above is None else 0,
        "over_nominal": above if not shares or above is None else 0,
        "lent": None if shares else 0,
        "reserved_not_used": balance.reserved_not_used_milli(reserved, used),
        "signed_idle": idle,
        "idle": None if idle is None else max(idle, 0),
    }, False


def is_nothing(row: Row) -> bool:
    """No quota, and nothing else told."""
    return row["nominal"] == 0 and all(row[name] is None for name in ("reserved", "used", "pending", "idle"))


def pooled(rows: Sequence[Row]) -> Row:
    """The sum over the members that speak."""
    parts = [row for row in rows if not is_nothing({**row, "idle": row["signed_idle"]})]

    def total(name: str, of: Sequence[Row]) -> int | None:
        known = [row[name] for row in of]
        return (
            None if any(amount is None for amount in known) else sum(amount for amount in known if amount is not None)
        )

    found: Row = {
        name: total(name, parts)
        for name in ("reserved", "used", "borrowed", "over_nominal", "reserved_not_used", "pending")
    }
    found |= {"nominal": total("nominal", rows), "signed_idle": total("signed_idle", parts)}
    found["lent"] = found["borrowed"]
    found["idle"] = None if found["signed_idle"] is None else max(found["signed_idle"], 0)
    return found


def post_quota(facts: Sequence[Quota], grain_us: int) -> dict[tuple[str, str, Instant], Row]:
    """(queue_kind, queue, grain) -> the ledger's amounts."""
    told: dict[Key, dict[Instant, list[Quota]]] = defaultdict(lambda: defaultdict(list))
    for fact in facts:
        told[fact.queue_kind, fact.queue][fact.occurred_at].append(fact)
    words = {key: {at: merged(group) for at, group in sorted(instants.items())} for key, instants in told.items()}
    pools = {key: pool_of(key, facts) for key in words}
    grains: dict[tuple[str, str, Instant], list[tuple[Row, int | None]]] = defaultdict(list)
    instants = [at for each in words.values() for at in each]
    end = max((at + (row["interval_us"] or 0) for each in words.values() for at, row in each.items()), default=0)
    for minute in range(min(instants, default=0), end, MINUTE_US):
        grain = minute - minute % grain_us
        states = {
            key: state(key, words[key], minute, key[0] == "cluster_queue" and pools[key] is not None) for key in words
        }
        spare: dict[str, int | None] = {}
        for pool in {name for name in pools.values() if name is not None}:
            members = [states[key] for key in words if pools[key] == pool]
            speaking = [row for row, _ in members if row is not None]
            if speaking and not any(silent for _, silent in members):
                whole = pooled(speaking)
                spare[pool] = whole["signed_idle"]
                grains["pool", pool, grain].append((whole, whole["signed_idle"]))
        for key, (row, _) in states.items():
            if row is not None:
                pool_name = pools[key]
                grains[(*key, grain)].append((row, row["signed_idle"] if pool_name is None else spare.get(pool_name)))
    return {key: _grain(minutes) for key, minutes in grains.items()}


def _grain(minutes: Sequence[tuple[Row, int | None]]) -> Row:
    rows = [row for row, _ in minutes]
    found: Row = {"observed_us": len(rows) * MINUTE_US}
    for name in AMOUNTS:
        known: list[Any] = [row[name] for row in rows]
        found[f"{name}_milli_us"] = None if None in known else sum(known) * MINUTE_US
    waiting = [(row, spare) for row, spare in minutes if row["pending"]]
    told = all(row["pending"] is not None for row in rows)
    found["pending_us"] = len(waiting) * MINUTE_US if told else None
    for name, idles in (
        ("own", [row["signed_idle"] for row, _ in waiting]),
        ("pool", [spare for _, spare in waiting]),
    ):
        fits = sum(
            idle is not None and idle >= (row["pending"] or 0) for (row, _), idle in zip(waiting, idles, strict=True)
        )
        found[f"pending_fits_{name}_us"] = fits * MINUTE_US if told and None not in idles else None
    return found
