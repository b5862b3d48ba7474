"""What is wrong, in one table: each trouble once, the one with most GPU-time first, with whose it is and what to do next.

Held time that moved nothing and time that nobody can judge come from the ledger of states, one row per owner (or per node, where the
platform owes the remedy); free time that requests wait for, one row per cause with whose requests most was matched with; what pods took above their
grants from the ledger of over-use; what a sharing layer says against the facts from the findings, without GPU-time, since it is memory that
is blocked. The trick to know: work is no trouble, so a memory-bound card is none; that no tenant fits beside it stands in ``cards``.

Unknown: a trouble whose GPU-time cannot be told has none and stands last. Below a tenth of a GPU-hour nothing is called a trouble.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from steelyard.answers.contract import Column, Table, Value
from steelyard.answers.dimensions import Filter
from steelyard.answers.narrowing import names_shown
from steelyard.answers.reading import Reading, Record
from steelyard.answers.state_demand import LEAST_US, asker_shown, who_asked
from steelyard.answers.state_lines import StateLine, hours, share
from steelyard.answers.state_tables import owner_of
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, Window, format_instant

SQL_FILE: Final = Path(__file__).with_suffix(".sql")
COLUMNS: Final = (
    Column("trouble"),
    Column("owner"),
    Column("tenant"),
    Column("person"),
    Column("gpu_hours", "GPU-h"),
    Column("share_of_supply", "1"),
    Column("memory_mib", "MiB"),
    Column("since"),
    Column("nodes"),
    Column("cards", "1"),
    Column("next_action"),
    Column("cluster"),
)
LISTED_MAX: Final = 200
OF_OWNERS: Final = ("suspected_hang", "held_idle", "busy_not_working", "held_low")
OF_NODES: Final = ("held_unknown", "held_unattributed", "held_down", "out_of_service")

_ACTIONS: Final[Mapping[str, Callable[[], str]]] = {
    "suspected_hang": lambda: _("look at its stacks and NCCL's log (`py-spy dump`, `nvidia-smi -q`), then restart it"),
    "held_idle": lambda: _("ask its owner, or take the card back"),
    "held_idle:interactive": lambda: _("stop the notebook when nobody works in it, or give it a part of a card"),
    "held_idle:no_load": lambda: _("scale the engine down: it has no requests"),
    "held_idle:throttled": lambda: _("look at its cooling and power: hardware holds its clocks down"),
    "held_low": lambda: _("find what feeds it too slowly: loader, disk or network"),
    "held_low:host_cpu": lambda: _("raise its CPU limit or its number of loader workers: the host holds it back"),
    "held_low:interactive": lambda: _("stop the notebook when nobody works in it, or give it a part of a card"),
    "held_low:throttled": lambda: _("look at its cooling and power: hardware holds its clocks down"),
    "held_low:io": lambda: _("put its data on faster disks or cache it: the host waits for them"),
    "held_low:network": lambda: _("bring its data nearer: the network feeds it"),
    "busy_not_working": lambda: _("profile it: kernels run and nothing moves"),
    "busy_not_working:small_kernels": lambda: _("batch more, or use CUDA graphs: its kernels are too small for the card"),
    "busy_not_working:copy": lambda: _("overlap its copies over PCIe with work"),
    "busy_not_working:collective_wait": lambda: _("look for the slow rank: it waits for the others"),
    "held_unknown": lambda: _("export the fields that are missing (`steelyard doctor`)"),
    "held_unknown:telemetry": lambda: _("look at the exporter on the node: no sample covers its cards (`steelyard doctor`)"),
    "held_unattributed": lambda: _("read the sharing layer's monitor, or run the node agent"),
    "held_down": lambda: _("drain the node and repair the cards: somebody holds them"),
    "out_of_service": lambda: _("repair or replace the cards"),
    "free_waiting:quota": lambda: _("raise the quota or let it be borrowed (`steelyard q6`)"),
    "free_waiting:fragmentation": lambda: _("move or resize holders (`steelyard fits`, `steelyard fragmentation`)"),
    "free_waiting:gang": lambda: _("free what the gang still lacks, or let it start smaller (`steelyard q6`)"),
    "free_waiting:placement": lambda: _("look at taints, affinity and topology (`steelyard why`)"),
    "free_waiting:scheduler": lambda: _("look at the scheduler's queue and latency"),
    "over_use": lambda: _("see its curve (`steelyard q7`): resize its grant or have the limit enforced"),
    "over_use:no_grant": lambda: _("stop the process: its pod was granted no card (`steelyard q7`)"),
    "over_use:after_end": lambda: _("kill what is left of the pod on the card (`steelyard q7`)"),
    "over_use:outside_allocation": lambda: _("take the other cards out of its sight (`steelyard q7`)"),
    "over_use:tampered_grant": lambda: _("refuse pods that bring their own allocation (`steelyard q7`)"),
    "exporter_stale": lambda: _("restart the scheduler: it claims memory that nobody holds (`steelyard reconcile`)"),
    "ghost_pod": lambda: _("restart the scheduler: it counts a pod that is gone (`steelyard reconcile`)"),
    "limit_not_in_force": lambda: _("restart the pod with the sharing layer's library: its limit does not hold (`steelyard reconcile`)"),
}  # fmt: skip


def action_against(trouble: str) -> str | None:
    """What to do about a trouble (``held_idle:interactive``, or the state alone), in the chosen language; None where nothing is known."""
    action = _ACTIONS.get(trouble) or _ACTIONS.get(trouble.partition(":")[0])
    return action() if action is not None else None


@dataclass(slots=True)
class _Trouble:
    name: str
    cluster: str
    owner: str | None
    amount_us: int | None = None
    memory_mib: int | None = None
    since: Instant | None = None
    tenants: set[str] = field(default_factory=set)
    persons: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cards: set[str] = field(default_factory=set)

    def row(self, supply_us: int) -> Sequence[Value]:
        """As ``COLUMNS``."""
        return (
            self.name,
            self.owner,
            _names(self.tenants),
            _names(self.persons),
            None if self.amount_us is None else hours(self.amount_us),
            None if self.amount_us is None else share(self.amount_us, supply_us),
            self.memory_mib,
            None if self.since is None else format_instant(self.since),
            _names(self.nodes),
            len(self.cards) or None,
            action_against(self.name),
            self.cluster,
        )


def troubles_table(
    reading: Reading,
    window: Window,
    lines: Iterable[StateLine],
    asking: Sequence[Record],
    where: Sequence[Filter],
    since: Mapping[tuple[str, str], Instant],
    supply_us: int,
) -> tuple[Table, int]:
    """The table, and how many more rows there are than are listed. ``reading`` has the statements of ``SQL_FILE``.

    lines: what is asked about. asking: requests by cause, with what they ask for. where: the conditions, which over-use and findings must
    meet too. since: from which grain on a pod did no work.
    """
    bound = {"from_us": window.start, "to_us": window.end}
    taken = [row for row in reading.run("over_used", **bound) if all(each.admits(row) for each in where)]
    against = [row for row in reading.run("layer_against_facts", **bound) if all(each.admits(row) for each in where)]
    troubles = [*_of_states(lines, asking, since), *_of_over_use(taken), *map(_of_finding, against)]
    ranked = sorted(
        troubles, key=lambda each: (each.amount_us is None, -(each.amount_us or 0), each.name, each.owner or "")
    )
    listed = ranked[:LISTED_MAX]
    return Table("troubles", COLUMNS, [each.row(supply_us) for each in listed]), len(ranked) - len(listed)


def _of_states(
    lines: Iterable[StateLine], asking: Sequence[Record], since: Mapping[tuple[str, str], Instant]
) -> list[_Trouble]:
    groups: dict[tuple[str, str, str | None], list[StateLine]] = {}
    for line in lines:
        state, cause, cluster = line.record["state"], line.record["cause"], line.record["cluster"]
        if state in OF_OWNERS:
            whose = owner_of(line.record)
        elif state in OF_NODES:
            whose = line.record["node"]
        elif state == "free_waiting":
            whose = None
        else:
            continue
        name = f"{state}:{cause}" if cause and state != "held_unattributed" else state
        groups.setdefault((name, cluster, whose), []).append(line)
    found = []
    for (name, cluster, whose), group in groups.items():
        amount = sum(line.amount_us for line in group)
        if amount < LEAST_US:
            continue
        if name.startswith("free_waiting"):
            found.append(_waited_for(name, cluster, amount, group, asking))
        else:
            found.append(_held(name, cluster, whose, amount, group, since))
    return found


def _held(
    name: str,
    cluster: str,
    whose: str | None,
    amount_us: int,
    group: Sequence[StateLine],
    since: Mapping[tuple[str, str], Instant],
) -> _Trouble:
    trouble = _placed(_Trouble(name, cluster, whose, amount_us), group)
    state = name.partition(":")[0]
    if state in OF_NODES:
        owners = {owner for line in group if line.record["pod_uid"] and (owner := owner_of(line.record))}
        trouble.owner = names_shown(owners) if owners else None
    else:
        starts = [at for line in group if (at := since.get((cluster, line.record["pod_uid"]))) is not None]
        trouble.since = min(starts, default=None)
    trouble.tenants |= {tenant for line in group if (tenant := line.record.get("tenant"))}
    trouble.persons |= {person for line in group if (person := line.record.get("person"))}
    return trouble


def _waited_for(
    name: str, cluster: str, amount_us: int, group: Sequence[StateLine], asking: Sequence[Record]
) -> _Trouble:
    """By whose requests most of it was matched with; how many more have a tenth of a GPU-hour or more stands behind the name."""
    cause = name.partition(":")[2]
    named = who_asked(asking, cause, cluster)
    trouble = _placed(_Trouble(name, cluster, asker_shown(named), amount_us), group)
    of_named = [row for _owner, rows in named for row in rows]
    trouble.tenants |= {row["tenant"] for row in of_named if row["tenant"]}
    trouble.persons |= {row["person"] for row in of_named if row["person"]}
    return trouble


def _placed(trouble: _Trouble, group: Sequence[StateLine]) -> _Trouble:
    trouble.nodes |= {line.record["node"] for line in group if line.record["node"]}
    trouble.cards |= {line.record["device_uuid"] for line in group if line.record["device_uuid"]}
    return trouble


def _of_over_use(taken: Sequence[Record]) -> list[_Trouble]:
    groups: dict[tuple[str, str, str | None], list[Record]] = {}
    for row in taken:
        groups.setdefault((f"over_use:{row['rule']}", row["cluster"], owner_of(row)), []).append(row)
    found = []
    for (name, cluster, owner), rows in groups.items():
        amounts = [int(row["gpu_us"]) for row in rows if row["gpu_us"] is not None]
        trouble = _Trouble(name, cluster, owner, sum(amounts) if amounts else None)
        trouble.memory_mib = max((row["excess_mib"] for row in rows if row["excess_mib"]), default=None)
        trouble.since = min(row["started_us"] for row in rows)
        trouble.tenants |= {row["tenant"] for row in rows if row["tenant"]}
        trouble.nodes |= {row["node"] for row in rows if row["node"]}
        trouble.cards |= {row["device_uuid"] for row in rows if row["device_uuid"]}
        found.append(trouble)
    return found


def _of_finding(row: Record) -> _Trouble:
    evidence = _evidence(row["evidence"])
    memory = evidence.get("over_reported_memory_mib")
    trouble = _Trouble(
        row["code"], row["cluster"], row["subject"], memory_mib=memory if isinstance(memory, int) else None
    )
    if row.get("node"):
        trouble.nodes.add(row["node"])
    if row.get("device_uuid"):
        trouble.cards.add(row["device_uuid"])
    return trouble


def _evidence(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _names(values: set[str]) -> str | None:
    return names_shown(values) if values else None
