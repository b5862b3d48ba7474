"""The tables and series of Q3 over lines of GPU-time by state: by dimension, by cause with its owners, and who idles.

Pure over lines; ``q03_utilisation`` reads them. The trick to know: shares are of the supply of the places that were asked about, so the rows of
``states`` add up to 1 where nothing else narrows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from steelyard.answers import dimensions
from steelyard.answers.contract import Column, Series, Table, Value
from steelyard.answers.dimensions import Dimension
from steelyard.answers.narrowing import names_shown
from steelyard.answers.reading import Record
from steelyard.answers.state_demand import asker_shown, matched_us, who_asked
from steelyard.answers.state_lines import HELD, WASTED, WORKING, StateLine, hours, share, total_us
from steelyard.definitions.gpu_state import STATES
from steelyard.primitives.instant import Instant, format_instant

OWNERS_SHOWN: Final = 3
LISTED_MAX: Final = 1_000

CAUSE_COLUMNS: Final = (
    Column("state"),
    Column("cause"),
    Column("gpu_hours", "GPU-h"),
    Column("share_of_supply", "1"),
    Column("pods", "1"),
    Column("owner"),
    Column("owner_gpu_hours", "GPU-h"),
    Column("tenants"),
    Column("persons"),
)
IDLE_COLUMNS: Final = (
    Column("namespace"),
    Column("pod"),
    Column("tenant"),
    Column("owner"),
    Column("person"),
    Column("gpu_hours_wasted", "GPU-h"),
    Column("gpu_hours_idle", "GPU-h"),
    Column("gpu_hours_low", "GPU-h"),
    Column("gpu_hours_not_working", "GPU-h"),
    Column("gpu_hours_hang", "GPU-h"),
    Column("gpu_hours_held", "GPU-h"),
    Column("gpu_hours_not_known", "GPU-h"),
    Column("cause"),
    Column("idle_since"),
    Column("cards"),
    Column("nodes"),
    Column("pod_uid"),
    Column("cluster"),
)


def states_table(lines: Sequence[StateLine], by: Sequence[Dimension], supply_us: int) -> Table:
    """GPU-hours by the dimensions of ``by``, then by state and cause, in the order of the states."""
    groups: dict[tuple[str | None, ...], int] = {}
    named = [dimension for dimension in by if dimension.name not in ("state", "cause")]
    for line in lines:
        key = (
            *(dimension.value(line.record) for dimension in named),
            line.record["state"],
            line.record["cause"],
        )
        groups[key] = groups.get(key, 0) + line.amount_us
    ordered = sorted(
        groups.items(),
        key=lambda item: (
            *((value is None, value or "") for value in item[0][:-2]),
            (False, f"{STATES.index(str(item[0][-2])):02}"),
            (item[0][-1] is None, item[0][-1] or ""),
        ),
    )
    columns = (
        *(Column(dimension.name) for dimension in named),
        Column("state"),
        Column("cause"),
        Column("gpu_hours", "GPU-h"),
        Column("share_of_supply", "1"),
    )
    return Table("states", columns, [(*key, hours(amount), share(amount, supply_us)) for key, amount in ordered])


def has_less_than_nothing(states: Table) -> bool:
    """Whether a row of ``states`` stands against others: the part of a node's cards that a holder on an unknown one of them took."""
    place = [column.name for column in states.columns].index("gpu_hours")
    return any(float(row[place]) < 0 for row in states.rows)  # type: ignore[arg-type]  # the cell is an amount


def causes_table(lines: Iterable[StateLine], supply_us: int, asking: Sequence[Record] = ()) -> Table:
    """What stands in no state of work, the largest first, with the owner of most of it. ``asking``: whose requests were matched with free time under
    the causes of waiting; what is free is nobody's, so its owner is whose requests most of it was matched with."""
    groups: dict[tuple[str, str | None], list[StateLine]] = {}
    for line in lines:
        if line.record["state"] not in WORKING:
            groups.setdefault((line.record["state"], line.record["cause"]), []).append(line)
    rows = [_cause_row(key, group, supply_us, asking) for key, group in groups.items()]
    return Table("causes", CAUSE_COLUMNS, sorted(rows, key=lambda row: (-float(row[2]), str(row[0]), str(row[1]))))  # type: ignore[arg-type]  # the third cell is an amount


def _cause_row(
    key: tuple[str, str | None], group: Sequence[StateLine], supply_us: int, asking: Sequence[Record]
) -> Sequence[Value]:
    if key[0] == "free_waiting":
        return _waiting_row(key, group, supply_us, who_asked(asking, key[1]))
    owners: dict[str, int] = {}
    for line in group:
        if line.record["pod_uid"] is not None:
            name = owner_of(line.record) or "?"
            owners[name] = owners.get(name, 0) + line.amount_us
    most = max(owners, key=lambda name: (owners[name], name)) if owners else None
    amount = total_us(group)
    return (
        *key,
        hours(amount),
        share(amount, supply_us),
        len({(line.record["cluster"], line.record["pod_uid"]) for line in group if line.record["pod_uid"] is not None}),
        most,
        hours(owners[most]) if most is not None else None,
        _names(line.record.get("tenant") for line in group),
        _names(line.record.get("person") for line in group),
    )


def _waiting_row(
    key: tuple[str, str | None], group: Sequence[StateLine], supply_us: int, named: Sequence[tuple[str, list[Record]]]
) -> Sequence[Value]:
    amount = total_us(group)
    asked = [row for _owner, rows in named for row in rows]
    return (
        *key,
        hours(amount),
        share(amount, supply_us),
        0,
        asker_shown(named),
        hours(matched_us(named[0][1])) if named else None,
        _names(row["tenant"] for row in asked),
        _names(row["person"] for row in asked),
    )


def owner_of(record: Record) -> str | None:
    """Who a pod belongs to: its workload with the namespace, else itself."""
    if record.get("workload_name"):
        return f"{record.get('namespace')}/{record.get('workload_kind')}/{record['workload_name']}"
    return f"{record.get('namespace')}/{record['pod']}" if record.get("pod") else record.get("pod_uid")


def _names(values: Iterable[str | None]) -> str | None:
    found = {value for value in values if value}
    return names_shown(found) if found else None


def idle_table(
    lines: Iterable[StateLine], since: Mapping[tuple[str, str], Instant]
) -> tuple[Table, int, Sequence[tuple[Record, int]]]:
    """Holders that let their cards idle, those that wasted most first; how many more there are; and the worst with what they wasted.

    Wasted is idle, suspected to hang, or busy without work; ``held_low`` stands beside it. ``since``: from which grain on no work was seen.
    """
    groups: dict[tuple[str, str], list[StateLine]] = {}
    for line in lines:
        if line.record["pod_uid"] is not None and line.record["state"] in HELD:
            groups.setdefault((line.record["cluster"], line.record["pod_uid"]), []).append(line)
    ranked = sorted(
        ((total_us(group, WASTED), total_us(group, ("held_low",)), key, group) for key, group in groups.items()),
        key=lambda entry: (-entry[0], -entry[1], entry[2]),
    )
    ranked = [entry for entry in ranked if entry[0] or entry[1]]
    rows = [_idle_row(group, since.get(key)) for _wasted, _low, key, group in ranked[:LISTED_MAX]]
    worst = [(group[0].record, wasted) for wasted, _low, _key, group in ranked[:OWNERS_SHOWN] if wasted]
    return Table("idle_holders", IDLE_COLUMNS, rows), max(0, len(ranked) - LISTED_MAX), worst


def _idle_row(group: Sequence[StateLine], since: Instant | None) -> Sequence[Value]:
    record = group[0].record
    causes: dict[str, int] = {}
    for line in group:
        if line.record["state"] in (*WASTED, "held_low") and line.record["cause"]:
            causes[line.record["cause"]] = causes.get(line.record["cause"], 0) + line.amount_us
    return (
        record.get("namespace"),
        record.get("pod"),
        record.get("tenant"),
        owner_of(record),
        record.get("person"),
        hours(total_us(group, WASTED)),
        hours(total_us(group, ("held_idle",))),
        hours(total_us(group, ("held_low",))),
        hours(total_us(group, ("busy_not_working",))),
        hours(total_us(group, ("suspected_hang",))),
        hours(total_us(group)),
        hours(total_us(group, ("held_unknown", "held_unattributed"))),
        max(causes, key=lambda name: (causes[name], name)) if causes else None,
        None if since is None else format_instant(since),
        _names(line.record["device_uuid"] for line in group),
        _names(line.record["node"] for line in group),
        record["pod_uid"],
        record["cluster"],
    )


def bases_table(lines: Iterable[StateLine]) -> Table:
    """Held GPU-hours by what their state stands on."""
    held = [line for line in lines if line.record["state"] in HELD]
    whole = total_us(held)
    groups = dimensions.grouped((line.record for line in held), (Dimension("basis", lambda record: record["basis"]),))
    by_id = {id(line.record): line.amount_us for line in held}
    rows = []
    for (basis,), records in groups.items():
        amount = sum(by_id[id(record)] for record in records)
        rows.append((basis, hours(amount), share(amount, whole)))
    columns = (Column("basis"), Column("gpu_hours", "GPU-h"), Column("share_of_held", "1"))
    return Table("bases", columns, rows)


def state_series(amounts: Mapping[tuple[str, Instant], int]) -> list[Series]:
    """One series per state: GPU-hours by step. A step in which a state has nothing has the point 0 where the books have that step."""
    instants = sorted({at for _state, at in amounts})
    names = [name for name in STATES if any(state == name for state, _at in amounts)]
    return [Series(name, "GPU-h", [(at, hours(amounts.get((name, at), 0))) for at in instants]) for name in names]
