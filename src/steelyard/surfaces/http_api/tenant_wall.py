"""What a viewer of one tenant may ask, and what of an answer such a viewer may see.

``answers`` calls ``scoped`` before and ``walled`` after. The trick to know: the question is narrowed to the tenant first, so rows are its own;
then everything that was summed over more than its own rows is taken out by lists of what may stay, so that a figure, column or question
that a later version adds is hidden until somebody says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.answers import jobs, q07_overuse, q09_cost, scheduling_cases, scheduling_waits
from steelyard.answers.contract import Answer, Figure, Table, Value
from steelyard.answers.registry import Entry
from steelyard.answers.tenant_words import finding_told
from steelyard.definitions.gpu_state import HELD_BY_TRIPLE, OTHER_HELD
from steelyard.primitives.i18n import _
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.http_api.problems import Problem
from steelyard.surfaces.shared.ports import Question
from steelyard.surfaces.shared.service_ports import Principal

_BOUND_VALUE: Final = re.compile(r"^-- \$.*$\n?", re.MULTILINE)
_OWN_TABLES: Final = frozenset({"holders", "possible_holders", "pods", "unserved", "consumption", "groups"})


@dataclass(frozen=True, slots=True)
class Wall:
    """What stays of an answer to one question. ``figures``: sums over the tenant's own rows. ``coverages``: figures whose coverage is made of
    those rows too; that of the whole answer never is, since what somebody else holds counts as observed. ``hidden_columns``: by table, what a
    row says of others. Tables that are not named there or in ``_OWN_TABLES`` are dropped. ``findings_narrowed``: the question itself leaves only
    findings about the tenant's own requests; else those about the pods in its tables stay."""

    figures: frozenset[str]
    coverages: frozenset[str]
    hidden_columns: dict[str, frozenset[str]]
    findings_narrowed: bool = False


WALLS: Final[dict[str, Wall]] = {
    "q1": Wall(
        figures=frozenset(
            {
                "devices_count",
                "gpus_held",
                "gpus_held_unplaced",
                "gpus_reserved",
                "gpus_in_suspense",
                "holders_count",
                "holders_share_unknown_count",
                "holders_possible_count",
                "devices_unknown_count",
                "ledger_residual_gpu_us",
            }
        ),
        coverages=frozenset({"ledger_residual_gpu_us"}),
        hidden_columns={
            "holders": frozenset({"neighbours"}),
            "possible_holders": frozenset({"neighbours"}),
            "devices": frozenset(
                {
                    "occupancy",
                    "share_held_ratio",
                    "share_reserved_ratio",
                    "share_in_suspense_ratio",
                    "share_free_ratio",
                    "holders_count",
                }
            ),
        },
    ),
    "q2": Wall(
        figures=frozenset(
            {
                "gpu_hours_granted",
                "gpu_hours_normalised",
                "gpu_hours_used",
                "gpu_hours_sm_active",
                "gpu_hours_dram_active",
                "gpu_hours_engine_upper",
                "gpu_hours_used_upper",
                "gpu_hours_waste",
                "compute_granted_gpu_hours",
                "memory_granted_mib_hours",
                "memory_used_mib_hours",
                "memory_peak_mib",
                "gpu_hours_overcommitted",
                "gpu_hours_held_down",
                "gpu_hours_reserved",
                "gpu_hours_in_suspense",
                "requests_unserved",
                "gpus_requested_unserved",
                "ledger_residual_gpu_us",
            }
        ),
        coverages=frozenset(
            {
                "gpu_hours_used",
                "gpu_hours_sm_active",
                "gpu_hours_dram_active",
                "gpu_hours_engine_upper",
                "gpu_hours_used_upper",
                "gpu_hours_waste",
                "memory_used_mib_hours",
                "memory_peak_mib",
                "requests_unserved",
                "gpus_requested_unserved",
                "ledger_residual_gpu_us",
            }
        ),
        hidden_columns={},
    ),
    "q3": Wall(
        figures=frozenset(
            {
                "gpu_hours_held",
                "gpu_hours_working",
                "gpu_hours_wasted",
                "working_ratio",
                "wasted_ratio",
                "gpu_hours_pending",
                "queue_wait_p50_seconds",
                "queue_wait_p95_seconds",
                "states_residual_gpu_us",
                *(f"gpu_hours_{name}" for name in (*HELD_BY_TRIPLE, *OTHER_HELD, "reserved", "in_suspense")),
            }
        ),
        coverages=frozenset(
            {"gpu_hours_pending", "queue_wait_p50_seconds", "queue_wait_p95_seconds", "states_residual_gpu_us"}
        ),
        hidden_columns=dict.fromkeys(
            ("states", "causes", "idle_holders", "pending", "bases", "attribution_paths"), frozenset()
        ),
        findings_narrowed=True,
    ),
    "q6": Wall(
        figures=frozenset(
            (*scheduling_waits.METHODS, *scheduling_cases.METHODS, *jobs.METHODS, "quota_fulfilment_ratio")
        ),
        coverages=frozenset((*scheduling_waits.METHODS, *jobs.METHODS, "quota_fulfilment_ratio")),
        hidden_columns={
            **dict.fromkeys(
                ("waits", "incidence", "pending", "refusals", "gangs", "evictions", "outcomes", "jobs"), frozenset()
            ),
            **dict.fromkeys(("decisions", "contradictions"), frozenset()),
            "preemptions": frozenset(
                {
                    "preemptor_namespace",
                    "preemptor",
                    "preemptor_uid",
                    "preemptor_queue",
                    "preemptor_priority",
                    "contradiction",
                }
            ),
        },
        findings_narrowed=True,
    ),
    "q7": Wall(
        figures=frozenset(q07_overuse.METHODS) - {"cards_without_processes_count"},
        coverages=frozenset(q07_overuse.METHODS) - {"cards_without_processes_count"},
        hidden_columns=dict.fromkeys(("violations", "exposed", "groups", "unmeasured"), frozenset()),
        findings_narrowed=True,
    ),
    "q9": Wall(
        figures=q09_cost.OWN_FIGURES,
        coverages=q09_cost.OWN_FIGURES,
        hidden_columns=dict.fromkeys(
            ("costs", "accounts", "unpriced", "waste", "unit_costs", "daily", "changes"), frozenset()
        ),
        findings_narrowed=True,
    ),
}
"""By question. One that is not here is not for viewers."""


def scoped(entry: Entry, question: Question, principal: Principal) -> Question:
    """The question as the principal may ask it: a viewer's is narrowed to the viewer's tenant.

    Raises Problem (403) for a question that cannot be narrowed, for another tenant, and for labels and annotations, whose keys belong to all.
    """
    if principal.role != "viewer":
        return question
    if entry.name not in WALLS or "tenant" not in entry.dimensions or not principal.tenant:
        raise Problem("forbidden", _("{name} cannot be narrowed to one tenant").format(name=entry.name))
    for name in (*question.by, *question.where):
        if name.strip() not in entry.dimensions:
            raise Problem(
                "forbidden",
                _("a viewer of one tenant groups and filters by {names} only").format(
                    names=", ".join(entry.dimensions)
                ),
            )
    if any(name.strip() == "tenant" and value != principal.tenant for name, value in question.where.items()):
        raise Problem("forbidden", _("this token sees the tenant {tenant} only").format(tenant=principal.tenant))
    others = {name: value for name, value in question.where.items() if name.strip() != "tenant"}
    return replace(question, where={"tenant": principal.tenant, **others}, confined=True)


def walled(entry: Entry, answer: Answer, principal: Principal) -> Answer:
    """The answer as the principal may see it."""
    if principal.role != "viewer":
        return answer
    wall, hidden = WALLS[entry.name], Unknown(_("it is made of more than this tenant's own rows"))
    own = {f"pod {namespace}/{pod}" for namespace, pod in _own_pods(answer.tables)}
    more = re.compile(_pattern(_("{count} more findings are not listed here")))
    return replace(
        answer,
        figures=[_figure(figure, wall, hidden) for figure in answer.figures],
        tables=[_table(table, wall, hidden) for table in answer.tables if _is_kept(table, wall)],
        coverage=answer.coverage if isinstance(answer.coverage, Unknown) else hidden,
        findings=[
            replace(note, message=finding_told(note.subject, note.message))
            for note in answer.findings
            if wall.findings_narrowed or note.subject in own
        ],
        blind_spots=[
            *(spot for spot in answer.blind_spots if not more.fullmatch(spot)),
            _("what others hold, and findings about anything but this tenant's pods, are not shown"),
        ],
        explain={name: _BOUND_VALUE.sub("", sql) for name, sql in answer.explain.items()},
    )


def _figure(figure: Figure, wall: Wall, hidden: Unknown) -> Figure:
    if figure.name not in wall.figures:
        return replace(figure, value=hidden, coverage=hidden)
    return figure if figure.name in wall.coverages else replace(figure, coverage=hidden)


def _is_kept(table: Table, wall: Wall) -> bool:
    return table.name in _OWN_TABLES or table.name in wall.hidden_columns


def _table(table: Table, wall: Wall, hidden: Unknown) -> Table:
    names = wall.hidden_columns.get(table.name, frozenset())
    places = [place for place, column in enumerate(table.columns) if column.name in names]
    return replace(table, rows=[_row(row, places, hidden) for row in table.rows]) if places else table


def _row(row: Sequence[Value], places: Collection[int], hidden: Unknown) -> Sequence[Value]:
    return [hidden if place in places else cell for place, cell in enumerate(row)]


def _own_pods(tables: Sequence[Table]) -> set[tuple[Value, Value]]:
    found: set[tuple[Value, Value]] = set()
    for table in tables:
        names = [column.name for column in table.columns]
        if (
            table.name in _OWN_TABLES
            and {"namespace", "pod"} <= set(names)
            and table.name not in ("consumption", "groups")
        ):
            place = (names.index("namespace"), names.index("pod"))
            found |= {(row[place[0]], row[place[1]]) for row in table.rows}
    return found


def _pattern(message: str) -> str:
    return re.escape(message).replace(re.escape("{count}"), r"\d+")
