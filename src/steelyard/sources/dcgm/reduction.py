"""Many rows of one card at one instant become one truth: the board once, each GPU instance once, each pod once.

How many rows an exporter prints depends on its release and on how the card is shared (replicas repeat the board's value, MIG repeats it per
instance, release 4.8.2 adds rows per pod); summing them is wrong in every case. The tricks to know: values that are the board's are
taken once, from any row (the largest, as copies are read microseconds apart); a row of a virtual GPU is a pod's own figure only where
the same exporter prints a row without a pod beside it, and only for fields 203 and 252.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steelyard.primitives.unknown import Unknown
from steelyard.sources.dcgm.fields import (
    A_COUNTER,
    FB_PARTS,
    FB_TOTAL,
    FB_USED,
    GAUGES,
    GPU_UTIL,
    LIMIT_IN_FORCE,
    POWER,
    PROF_COLUMNS,
    PROF_SUSPECT,
    TRAFFIC_COLUMNS,
    WHILE_BUSY,
    XID,
    Gauge,
    read_gauge,
)
from steelyard.sources.dcgm.rows import Holder, Row

PER_PROCESS: Final = (GPU_UTIL, FB_USED)
NOT_UNDER_MIG: Final = "not measurable under MIG; see gr_active_ratio of its instances"
NO_ROW: Final = "no row of this instance"
NO_BOARD_ROW: Final = "only rows of pods: none of the card as a whole"
NOT_THE_BOARDS: Final = "its instances print different figures: none of them is the board's"
CONTRADICTED: Final = "one series has several values at this instant"
UNIT_NOT_CERTAIN: Final = "the unit is not certain: percent expected, all values are between 0 and 1"
BUSY_PERCENT: Final = 50
"""203 above this with profiling counters that read 0 or nothing: the counters are dead, not the job."""

_PROFILED: Final = (*PROF_COLUMNS, *TRAFFIC_COLUMNS)
_XID_31: Final = 31
_SLICES: Final = re.compile(r"(\d{1,2})g\.", re.ASCII)

Value = float | Unknown


@dataclass(slots=True)
class Truth:
    """One unit of the card: column -> value or why it is not known."""

    values: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class CardTruth:
    """A card at one instant. ``board``: the card as a whole. ``instances``: by GPU instance id; empty where MIG is not seen.
    ``pods``: per (instance, holder) field number -> the pod's own figure. ``labels``: whose pods the other rows name.
    ``problems``: (code, message, evidence)."""

    board: Truth = field(default_factory=Truth)
    instances: dict[int, Truth] = field(default_factory=dict)
    pods: dict[tuple[int | None, Holder], dict[int, Value]] = field(default_factory=dict)
    labels: set[tuple[int | None, Holder]] = field(default_factory=set)
    problems: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)


def prints_rows_per_pod(rows: Iterable[Row]) -> bool:
    """Whether the exporter of these rows prints figures per pod: fields 203 or 252 of one unit with and without a pod, the former of a
    virtual GPU."""
    with_pod: set[tuple[int, str, int | None]] = set()
    without: set[tuple[int, str, int | None]] = set()
    for row in rows:
        if row.number in PER_PROCESS:
            place = row.place
            if place.holder is None:
                without.add((row.number, place.uuid, place.gi))
            elif place.vgpu:
                with_pod.add((row.number, place.uuid, place.gi))
    return not with_pod.isdisjoint(without)


def unit_is_uncertain(rows: Iterable[Row]) -> bool:
    """Whether field 203 under its new name (which ends in RATIO) seems to be exported as 0 to 1 by this exporter."""
    values = [row.value for row in rows if row.number == GPU_UTIL and row.name.upper().endswith("_RATIO")]
    return any(0 < value < 1 for value in values) and all(value <= 1.05 for value in values)


def reduce_card(
    rows: Sequence[Row],
    *,
    per_pod: bool,
    uncertain_unit: bool = False,
    profiled: Collection[str] = (),
    busy_percent: float = BUSY_PERCENT,
) -> CardTruth:
    """The truth of one card from the rows of one exporter at one instant. ``profiled``: profiling columns that the card printed before, or that
    the exporter prints of its other cards of that model: they are no row here because they are blank."""
    truth = CardTruth()
    fields: dict[int, list[Row]] = {}
    for row in rows:
        if row.number in GAUGES:
            fields.setdefault(row.number, []).append(row)
    contradicted = _contradicted(truth, fields)
    instances = sorted({row.place.gi for row in rows if row.place.gi is not None})
    truth.instances = {gi: Truth() for gi in instances}
    # what goes before another field of its column comes last, and stays
    for number in sorted(fields, key=lambda each: (each in (POWER, LIMIT_IN_FORCE), each)):
        if instances:
            _reduce_under_mig(truth, number, fields[number], per_pod)
        else:
            _put(truth.board, number, _board_rows(truth, number, fields[number], per_pod))
    if uncertain_unit and isinstance(truth.board.values.get("util_gpu_ratio"), float):
        truth.board.values["util_gpu_ratio"] = Unknown(UNIT_NOT_CERTAIN)
    for place in {id(row.place): row.place for row in rows}.values():
        if place.holder is not None and (place.gi, _without_container(place.holder)) not in truth.pods:
            truth.labels.add((place.gi, place.holder))
    for gi, number in contradicted:
        unit = truth.board if gi is None else truth.instances[gi]
        unit.values[GAUGES[number].column] = Unknown(CONTRADICTED)
    if instances:
        _complete_instances(truth)
        _flag_mixed_layout(truth, {row.place.gi: row.place.profile for row in rows if row.place.gi is not None})
        _rebuild_board(truth)
    for unit in (truth.board, *truth.instances.values()):
        _total_memory(unit)
    xid = next((row.value for row in rows if row.number == XID), None)
    _flag_dead_profiling(truth, profiled, busy_percent, xid)
    _flag_unresolved_pods(truth)
    return truth


def _contradicted(truth: CardTruth, fields: Mapping[int, Sequence[Row]]) -> list[tuple[int | None, int]]:
    """(instance, field) of which one and the same series has two values at this instant: neither is taken. A series is known by its labels
    (rows with equal ones share them), so copies of the board's figure, which are read microseconds apart, are none."""
    found: dict[tuple[int | None, int], list[float]] = {}
    for number, rows in fields.items():
        values: dict[tuple[int, str], set[float]] = {}
        for row in rows:
            values.setdefault((id(row.labels), row.name), set()).add(row.value)
        for row in rows:
            told = values[id(row.labels), row.name]
            if len(told) > 1 and not all(math.isnan(value) for value in told):
                found[row.place.gi, number] = sorted(told, key=repr)
    for (gi, number), values_told in found.items():
        column = GAUGES[number].column
        truth.problems.append(
            (
                "values_contradict",
                f"{column}: one series has several values at one instant: none of them is taken",
                {"column": column, "field": number, "gi": gi, "values": [repr(value) for value in values_told[:5]]},
            )
        )
    return list(found)


def _board_rows(truth: CardTruth, number: int, rows: Sequence[Row], per_pod: bool) -> Sequence[Row]:
    """The rows that speak of the whole unit; those that speak of a pod go to ``truth.pods``, a pod's replicas as one."""
    of_unit = [row for row in rows if row.place.holder is None]
    of_pods = [row for row in rows if row.place.holder is not None]
    shared = [row for row in of_pods if row.place.vgpu]
    if number not in PER_PROCESS or not shared:
        return of_unit or of_pods
    copies = len({row.value for row in shared}) == 1
    if not per_pod and copies:
        return of_unit or of_pods
    for row in shared:
        _note_pod(truth, row)
    return of_unit


def _note_pod(truth: CardTruth, row: Row) -> None:
    holder = row.place.holder
    if holder is None:
        return
    key = (row.place.gi, _without_container(holder))
    figures = truth.pods.setdefault(key, {})
    figures[row.number] = _larger(figures.get(row.number), read_gauge(GAUGES[row.number], row.value))


def _without_container(holder: Holder) -> Holder:
    """A figure of a pod is repeated for each of its containers: it belongs to the pod."""
    return holder._replace(container=None)


def _larger(first: Value | None, second: Value) -> Value:
    if first is None or isinstance(first, Unknown):
        return second
    return first if isinstance(second, Unknown) else max(first, second)


def _put(unit: Truth, number: int, rows: Sequence[Row]) -> None:
    gauge = GAUGES[number]
    if not rows:
        unit.values.setdefault(gauge.column, Unknown(NO_BOARD_ROW))
        return
    value: Value | None = None
    for row in rows:
        value = _larger(value, _read(gauge, row))
    if value is not None:
        known = unit.values.get(gauge.column)
        unit.values[gauge.column] = value if not isinstance(value, Unknown) or known is None else known


def _read(gauge: Gauge, row: Row) -> Value:
    return Unknown(A_COUNTER) if gauge.is_traffic and row.declared == "counter" else read_gauge(gauge, row.value)


def _reduce_under_mig(truth: CardTruth, number: int, rows: Sequence[Row], per_pod: bool) -> None:
    gauge = GAUGES[number]
    if number in (GPU_UTIL, 204):
        truth.board.values[gauge.column] = Unknown(NOT_UNDER_MIG)
        return
    is_copied = not gauge.is_traffic or len({row.value for row in rows}) == 1
    if not gauge.per_instance and is_copied:
        _put(truth.board, number, rows)
        return
    of_board = [row for row in rows if row.place.gi is None]
    if of_board:
        _put(truth.board, number, of_board)
    elif gauge.is_traffic:
        truth.board.values[gauge.column] = Unknown(NOT_THE_BOARDS)
    for gi, unit in truth.instances.items():
        of_instance = [row for row in rows if row.place.gi == gi]
        if of_instance:
            _put(unit, number, _board_rows(truth, number, of_instance, per_pod))


def _complete_instances(truth: CardTruth) -> None:
    """A column that some instances show and others do not is not known for the others."""
    for column in sorted({column for unit in truth.instances.values() for column in unit.values}):
        missing = [gi for gi, unit in truth.instances.items() if column not in unit.values]
        for gi in missing:
            truth.instances[gi].values[column] = Unknown(NO_ROW)
        if missing:
            expected, seen = len(truth.instances), len(truth.instances) - len(missing)
            truth.problems.append(
                (
                    "mig_rows_missing",
                    f"{column}: instances expected {expected}, seen {seen}",
                    {"column": column, "expected": expected, "seen": seen, "missing_gi": missing[:20]},
                )
            )


def _flag_mixed_layout(truth: CardTruth, profiles: Mapping[int | None, str | None]) -> None:
    """Where instances differ in size, profiling of the larger ones is capped at the smallest one's share: it says nothing."""
    slices = {
        gi: int(match.group(1))
        for gi, profile in profiles.items()
        if gi is not None and profile and (match := _SLICES.search(profile)) and int(match.group(1)) > 0
    }
    smallest = min(slices.values(), default=0)
    capped: dict[str, object] = {}
    for gi in sorted(slices):
        if slices[gi] == smallest or gi not in truth.instances:
            continue
        values = truth.instances[gi].values
        read = {column: values[column] for column in PROF_COLUMNS if isinstance(values.get(column), float)}
        for column in read:
            values[column] = Unknown(
                f"{PROF_SUSPECT}: mixed MIG layout, {slices[gi]}g reads at most {smallest}/{slices[gi]}"
            )
        if read:
            capped[f"gi{gi}"] = read
    if capped:
        truth.problems.append(
            (
                "prof_unreliable_mixed_mig",
                "the card holds MIG instances of different sizes: profiling counters of the larger ones are capped and not used",
                {"read": capped, "smallest_slices": smallest},
            )
        )


def _rebuild_board(truth: CardTruth) -> None:
    """The board of a MIG card, which has no rows of its own: memory in use is that of its instances, where all of them show it."""
    board = truth.board.values
    board.setdefault("util_gpu_ratio", Unknown(NOT_UNDER_MIG))
    used = [unit.values.get("memory_used_mib") for unit in truth.instances.values()]
    figures = [value for value in used if isinstance(value, float)]
    if "memory_used_mib" not in board and any(value is not None for value in used):
        board["memory_used_mib"] = (
            sum(figures) if len(figures) == len(used) else Unknown("not all instances of the card show their memory")
        )


def _total_memory(unit: Truth) -> None:
    """Total = used + free + reserved where 250 itself is not exported; used beyond the total is not known."""
    values = unit.values
    parts = [values.get(GAUGES[number].column) for number in FB_PARTS]
    total_column = GAUGES[FB_TOTAL].column
    if total_column not in values and all(isinstance(part, float) for part in parts):
        values[total_column] = float(sum(part for part in parts if isinstance(part, float)))
    total, used = values.get(total_column), values.get("memory_used_mib")
    if isinstance(total, float) and isinstance(used, float) and used > total:
        values["memory_used_mib"] = Unknown(f"outside its physical range: {used:g} of {total:g} MiB")


def _flag_dead_profiling(truth: CardTruth, profiled: Collection[str], busy_percent: float, xid: float | None) -> None:
    """A busy card whose compute engine never is, or is blank: the profiling counters died (after an Xid 31, say), not the job."""
    values = truth.board.values
    busy, active = values.get("util_gpu_ratio"), values.get("gr_active_ratio")
    if truth.instances or not isinstance(busy, float) or busy * 100 <= busy_percent:
        return
    after = " after Xid 31" if xid == _XID_31 else ""
    if active == 0:
        for column in _PROFILED:
            if isinstance(values.get(column), float):
                values[column] = Unknown(f"{PROF_SUSPECT}: 1001 reads 0 {WHILE_BUSY} {busy:g}{after}")
        words = "reads 0"
    elif not isinstance(active, float) and "gr_active_ratio" in profiled:
        for column in _PROFILED:
            if column in profiled and not isinstance(values.get(column), float):
                values[column] = Unknown(f"{PROF_SUSPECT}: blank {WHILE_BUSY} {busy:g}{after}")
        words = "is blank"
    else:
        return
    truth.problems.append(
        (
            "prof_suspect",
            f"1001 {words} while 203 says that the card is busy{after}: the profiling counters are not used, and nobody is called idle by them; "
            "they come back when DCGM is restarted, or when the profiler that holds them ends",
            {"util_gpu_ratio": busy, "blank": active != 0, "xid": xid},
        )
    )


def _flag_unresolved_pods(truth: CardTruth) -> None:
    """All pods read 0 while the card does not: the exporter resolves no process (no hostPID), which is not idleness."""
    for number, least in ((GPU_UTIL, 0.05), (FB_USED, 1024.0)):
        column = GAUGES[number].column
        figures = [pod[number] for pod in truth.pods.values() if number in pod]
        board = truth.board.values.get(column)
        if figures and all(value == 0 for value in figures) and isinstance(board, float) and board >= least:
            for pod in truth.pods.values():
                if number in pod:
                    pod[number] = Unknown("the exporter resolved no process to a pod (does it run with hostPID?)")
            truth.problems.append(
                (
                    "pod_rows_unresolved",
                    f"{column}: every pod reads 0 while the card reads {board:g}: the exporter resolves no process to a pod",
                    {"column": column, "board": board, "pods": len(figures)},
                )
            )
