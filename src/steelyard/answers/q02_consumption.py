"""Q2: how much was requested, granted and used, of memory and of compute, per pod and per any dimension, each apart from the others.

``answer`` is what the registry calls. Granted time comes from ``ledger.supply`` (accounts held and held_unplaced), use from
``ledger.usage``, requests from ``dim.pod``. The trick to know: every number is summed as an integer over (pod, place) lines first and
grouped afterwards, so any grouping adds up to the same total, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeVar

from steelyard.answers import dimensions, grounds, use
from steelyard.answers.contract import Answer, Column, Evidence, Figure, Table, Value
from steelyard.answers.dimensions import Dimension, Filter
from steelyard.answers.grounds import KnownTime
from steelyard.answers.lines import Grains, Line, grains_of, homes_of, lines_of, parameter_of
from steelyard.answers.narrowing import names_shown
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.definitions import conservation, gpu_time, normalised_gpu_hours
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, Instant, Window, format_instant
from steelyard.primitives.unknown import Unknown

_T = TypeVar("_T")

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "2"
_TIME: Final = f"gpu_time {gpu_time.VERSION}"
_BOOKS: Final = f"conservation {conservation.VERSION}"
_NORMALISED: Final = f"normalised_gpu_hours {normalised_gpu_hours.VERSION}"

AMOUNT_COLUMNS: Final = (
    Column("pods_count", "1"),
    Column("gpu_hours_granted", "GPU-h"),
    Column("gpu_hours_normalised", "GPU-h"),
    Column("gpu_hours_used", "GPU-h"),
    Column("gpu_hours_sm_active", "GPU-h"),
    Column("gpu_hours_dram_active", "GPU-h"),
    Column("gpu_hours_engine_upper", "GPU-h"),
    Column("gpu_hours_used_upper", "GPU-h"),
    Column("used_basis"),
    Column("gpu_hours_waste", "GPU-h"),
    Column("compute_granted_gpu_hours", "GPU-h"),
    Column("memory_granted_mib_hours", "MiB-h"),
    Column("memory_used_mib_hours", "MiB-h"),
    Column("memory_peak_mib", "MiB"),
    Column("use_observed_ratio", "1"),
    Column("used_observed_ratio", "1"),
    Column("gpu_hours_overcommitted", "GPU-h"),
    Column("gpu_hours_held_down", "GPU-h"),
    Column("gpu_hours_reserved", "GPU-h"),
    Column("gpu_hours_in_suspense", "GPU-h"),
)
_USE_COLUMNS: Final = (
    "gpu_hours_used",
    "gpu_hours_sm_active",
    "gpu_hours_dram_active",
    "gpu_hours_engine_upper",
    "gpu_hours_used_upper",
    "used_basis",
    "gpu_hours_waste",
)
_AMOUNT_NAMES: Final = tuple(column.name for column in AMOUNT_COLUMNS if column.name != "pods_count")
POD_COLUMNS: Final = (
    Column("namespace"),
    Column("pod"),
    Column("tenant"),
    Column("gpus_requested", "GPU"),
    Column("memory_requested_mib", "MiB"),
    Column("cores_requested_percent", "%"),
    Column("gpus_granted", "GPU"),
    Column("memory_granted_mib", "MiB"),
    Column("cores_granted_percent", "%"),
    Column("memory_used_mean_mib", "MiB"),
    Column("memory_peak_mib", "MiB"),
    Column("gpu_hours_granted", "GPU-h"),
    Column("gpu_hours_normalised", "GPU-h"),
    Column("gpu_hours_used", "GPU-h"),
    Column("gpu_hours_sm_active", "GPU-h"),
    Column("gpu_hours_dram_active", "GPU-h"),
    Column("gpu_hours_engine_upper", "GPU-h"),
    Column("gpu_hours_used_upper", "GPU-h"),
    Column("used_basis"),
    Column("gpu_hours_waste", "GPU-h"),
    Column("gpu_hours_overcommitted", "GPU-h"),
    Column("use_observed_ratio", "1"),
    Column("used_observed_ratio", "1"),
    Column("pod_uid"),
    Column("cluster"),
)
UNSERVED_COLUMNS: Final = (
    Column("namespace"),
    Column("pod"),
    Column("tenant"),
    Column("gpus_requested", "GPU"),
    Column("created_at"),
    Column("phase"),
    Column("pod_uid"),
    Column("cluster"),
)
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "gpu_hours_granted": (
        "GPU-h",
        f"{_TIME}: what the supply ledger counts, accounts held and held_unplaced; where a card is given out beyond what it has, each holder "
        "counts its part of it and the rest is in gpu_hours_overcommitted: of bound pods the two together are share x time",
    ),
    "gpu_hours_normalised": ("GPU-h", f"{_NORMALISED}: granted x weight of the card's model"),
    **use.METHODS,
    "compute_granted_gpu_hours": ("GPU-h", "cores granted x time / 100; cores 0 grant no compute"),
    "memory_granted_mib_hours": ("MiB-h", "memory granted x time"),
    "memory_used_mib_hours": ("MiB-h", "memory of the pod's processes x time, over observed time"),
    "memory_peak_mib": ("MiB", "largest memory of the pod's processes on one card in a sample"),
    "gpu_hours_overcommitted": (
        "GPU-h",
        f"{_BOOKS}: what was given beyond what the card has, of any occupancy; granted + reserved + in suspense + this = share x time",
    ),
    "gpu_hours_held_down": ("GPU-h", f"{_TIME}: the part of granted in which the card was down"),
    "gpu_hours_reserved": ("GPU-h", f"{_TIME}: account reserved; not in granted"),
    "gpu_hours_in_suspense": ("GPU-h", f"{_TIME}: account in_suspense; claims not accepted, in no tenant's total"),
}

_SEEN_BY: Final = {
    "gpu_hours_used": "used_observed_us",
    "gpu_hours_waste": "used_observed_us",
    "gpu_hours_sm_active": "sm_observed_us",
    "gpu_hours_dram_active": "dram_observed_us",
    "gpu_hours_engine_upper": "engine_observed_us",
    "gpu_hours_used_upper": "compute_observed_us",
    "memory_used_mib_hours": "observed_us",
    "memory_peak_mib": "observed_us",
}
"""Figures of use, and the observed time that covers each."""


@dataclass(frozen=True, slots=True)
class ConsumptionSpec:
    """Q2 as asked: ``window`` None = all known time; ``by`` groups (default tenant); ``where`` narrows (dimension or label -> value).

    ``confined``: whoever asks may not learn which names exist, so one that nobody knows holds nothing instead of being refused.
    """

    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    confined: bool = False


def title() -> str:
    """What the question asks, in the chosen language."""
    return _("How much was requested, granted and used")


def answer(rows: Rows, spec: ConsumptionSpec) -> Answer:
    """How much, over ``spec.window``.

    Tables ``consumption`` (by the chosen dimensions), ``pods`` (requested, granted and used side by side) and ``unserved`` (requests that
    were not scheduled by the window's end). A window may cut grains: its whole grains come from the ledger, its cut ends from the holdings
    clipped to it. Use is counted in whole grains only. Outside the known time every figure is Unknown. Raises UsageError for an unknown
    dimension, for an empty window and for an empty store. Method: definitions 2 to 4.
    """
    if spec.window is not None and not spec.window.duration_us:
        raise UsageError(
            _("a window must end after it starts: {window} holds no time at all").format(window=spec.window)
        )
    reading = Reading(rows, SQL, grounds.SQL, dimensions.SQL)
    by = dimensions.chosen(spec.by or ("tenant",), dimensions.POD_AND_PLACE, reading)
    where = dimensions.filters(spec.where, dimensions.POD_AND_PLACE, reading)
    times = grounds.known_times(reading)
    span = Window(min(time.first for time in times), max(time.last for time in times))
    window = spec.window or grounds.all_time(times)
    parameter = parameter_of(reading)
    grains = grains_of(spec.window, parameter.grain_us)
    outside = spec.window is not None and not span.overlap_us(window.start, window.end)
    reason = _("the known time is {span}").format(span=span)
    balance = grounds.residual(reading, grains.touched, reason if outside else None)
    if outside:
        return _assemble(spec, window, [*_unknown_figures(reason), balance], (), Unknown(reason), reading, [])
    pods = {(row["cluster"], row["pod_uid"]): row for row in reading.run("pods")}
    lines = lines_of(reading, grains, parameter, pods)
    if not spec.confined:
        dimensions.require_known(where, (line.record for line in lines), reading)
    unserved = [pod for pod in _unserved(pods.values(), lines, window) if all(c.admits(pod) for c in where)]
    squeezed = _squeezed(lines)
    lines = _asked_about(lines, where, reading, spec.confined)
    if spec.confined:  # what claims there are beside its own is not the asker's to know
        squeezed = frozenset(_place_of(line) for line in lines if line.overcommitted_us)
    cards = _cards_of(lines, where, reading) if where else None
    coverage = _settled(lines, _coverage(reading, grains.touched, times, spec.window))
    of_pods = [*_figures(lines, coverage), *_unserved_figures(unserved)]
    figures = [
        *grounds.unless_no_pods_were_read(of_pods, times, {figure.name for figure in of_pods}, where),
        *use.device_figures(reading, grains, cards),
        balance,
    ]
    tables = (
        Table("consumption", (*(Column(d.name) for d in by), *AMOUNT_COLUMNS), _group_rows(lines, by)),
        Table("pods", POD_COLUMNS, _pod_rows(lines, pods)),
        Table("unserved", UNSERVED_COLUMNS, [_unserved_row(row) for row in unserved]),
    )
    blind = [*_blind_spots(lines, span, window, grains), *_suspense_spots(lines, squeezed)]
    return _assemble(spec, window, figures, tables, coverage, reading, blind)


def _asked_about(lines: Sequence[Line], where: Sequence[Filter], reading: Reading, confined: bool) -> list[Line]:
    """The lines that meet the conditions, and marked ``unsettled`` those that may, because their card is not known."""
    if not where:
        return list(lines)
    homes = homes_of(reading, reading.run("devices"))
    homes.blind = confined
    asked = []
    for line in lines:
        verdict = homes.meets(line.record, where)
        if verdict is None:
            line.unsettled = True
        if verdict is not False:
            asked.append(line)
    return asked


def _unsettled(lines: Iterable[Line]) -> Unknown | None:
    """Why no amount of these lines is known as that of the cards asked about; None = each line's is."""
    pods = [f"{line.record.get('namespace')}/{line.record.get('pod')}" for line in lines if line.unsettled]
    if not pods:
        return None
    return Unknown(
        _("the card of {pods} is not known and may be one of those asked about").format(pods=names_shown(pods))
    )


def _settled(lines: Iterable[Line], value: _T) -> _T | Unknown:
    """The value, or why it is not known as that of the cards asked about."""
    unsettled = _unsettled(lines)
    return value if unsettled is None else unsettled


def _amounts(lines: Sequence[Line]) -> dict[str, Value]:
    """The amounts of a group of lines under their stable names; Unknown where no line knows, and where a line may not belong to it."""
    unsettled = _unsettled(lines)
    if unsettled is not None:
        return dict.fromkeys(_AMOUNT_NAMES, unsettled)
    memory_missing = sum(line.memory_missing for line in lines)
    cores_missing = sum(line.cores_missing for line in lines)
    cores_hours = Fraction(sum(line.cores_percent_us for line in lines), 100 * HOUR_US)
    not_stated = Unknown(_("for some grants neither the grant nor the card states it"))
    return {
        "gpu_hours_granted": use.hours(sum(line.granted_us for line in lines)),
        "gpu_hours_normalised": use.hours(sum(line.normalised_us for line in lines)),
        "gpu_hours_used": use.known_hours(lines, "used_us", use.why_not_used(lines)),
        "gpu_hours_sm_active": use.known_hours(lines, "sm_us", use.of_one_holder("1002 SM_ACTIVE")),
        "gpu_hours_dram_active": use.known_hours(lines, "dram_us", use.of_one_holder("1005 DRAM_ACTIVE")),
        "gpu_hours_engine_upper": use.known_hours(lines, "engine_upper_us", use.of_one_holder("1001 GR_ENGINE_ACTIVE")),
        "gpu_hours_used_upper": use.observed(lines, "used_upper_us", use.of_one_holder("203 GPU_UTIL")),
        "used_basis": use.used_basis(lines),
        "gpu_hours_waste": use.waste(lines),
        "compute_granted_gpu_hours": not_stated if cores_missing else cores_hours,
        "memory_granted_mib_hours": not_stated
        if memory_missing
        else use.hours(sum(line.memory_mib_us for line in lines)),
        "memory_used_mib_hours": use.observed(lines, "memory_used_mib_us", _("no sample shows the pod's processes")),
        "memory_peak_mib": _peak(lines),
        "use_observed_ratio": _observed_ratio(lines),
        "used_observed_ratio": _observed_ratio(lines, "used_observed_us"),
        "gpu_hours_overcommitted": use.hours(sum(line.overcommitted_us for line in lines)),
        "gpu_hours_held_down": use.hours(sum(line.down_us for line in lines)),
        "gpu_hours_reserved": use.hours(sum(line.reserved_us for line in lines)),
        "gpu_hours_in_suspense": use.hours(sum(line.in_suspense_us for line in lines)),
    }


def _peak(lines: Sequence[Line]) -> Value:
    known = [line.memory_peak_mib for line in lines if line.memory_peak_mib is not None]
    return max(known) if known else Unknown(_("no sample shows the pod's processes"))


def _observed_ratio(lines: Sequence[Line], name: str = "observed_us") -> Value:
    held, observed = sum(line.held_us for line in lines), sum(getattr(line, name) for line in lines)
    if observed > held:
        return Unknown(_("the samples cover more than the time that is known as held"))
    return float(Fraction(observed, held)) if held else None


def _group_rows(lines: Sequence[Line], by: Sequence[Dimension]) -> list[Sequence[Value]]:
    by_id = {id(line.record): line for line in lines}
    rows: list[Sequence[Value]] = []
    for values, records in dimensions.grouped((line.record for line in lines), by).items():
        group = [by_id[id(record)] for record in records]
        rows.append((*values, _settled(group, _pods_count(group)), *_amounts(group).values()))
    return rows


def _pods_count(lines: Iterable[Line]) -> int:
    return len({(line.record["cluster"], line.record["pod_uid"]) for line in lines if line.granted_us or line.held_us})


def _pod_rows(lines: Sequence[Line], pods: Mapping[tuple[str, str], Record]) -> list[Sequence[Value]]:
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.record["cluster"], line.record["pod_uid"]), []).append(line)
    rows = [_pod_row(group, pods.get(key)) for key, group in groups.items()]
    return sorted(rows, key=lambda row: tuple(str(cell or "") for cell in (row[0], row[1], row[-2])))


def _pod_row(group: Sequence[Line], pod: Record | None) -> Sequence[Value]:
    record, amounts = group[0].record, _amounts(group)
    held = max(line.held_us for line in group)
    missing = Unknown(_("no source shows the pod's request"))
    requested: tuple[Value, ...] = (missing, missing, missing) if pod is None else _requested(pod)
    used, observed = amounts["memory_used_mib_hours"], sum(line.observed_us for line in group)
    granted: Value = Fraction(sum(line.granted_us for line in group), held) if held else None
    return (
        record.get("namespace"),
        record.get("pod"),
        record.get("tenant"),
        *requested,
        _settled(group, granted),
        _mean(amounts["memory_granted_mib_hours"], held),
        _mean(amounts["compute_granted_gpu_hours"], held, 100),
        used if isinstance(used, Unknown) else _mean(used, observed),
        amounts["memory_peak_mib"],
        *(amounts[name] for name in ("gpu_hours_granted", "gpu_hours_normalised", *_USE_COLUMNS)),
        *(amounts[name] for name in ("gpu_hours_overcommitted", "use_observed_ratio", "used_observed_ratio")),
        record["pod_uid"],
        record["cluster"],
    )


def _mean(hours: Value, stretch_us: int, factor: int = 1) -> Value:
    if isinstance(hours, Unknown) or not isinstance(hours, Fraction):
        return hours
    return hours * HOUR_US * factor / stretch_us if stretch_us else None


def _requested(row: Record) -> tuple[Value, Value, Value]:
    """GPUs, MiB and percent that a pod asks for in all; a request states memory and cores per card, or None."""
    count, not_said = row["gpu_count"], Unknown(_("the request does not state it"))
    if count is None:
        return Unknown(_("the request does not state a number")), not_said, not_said
    milli = row["requested_gpu_milli"]
    gpus: Value = count if milli is None else Fraction(milli * count, 1000)
    memory, cores = row["requested_memory_mib"], row["requested_cores_percent"]
    return gpus, not_said if memory is None else memory * count, not_said if cores is None else cores * count


def _unserved(pods: Iterable[Record], lines: Iterable[Line], window: Window) -> list[Record]:
    """Requests that existed in the window and were not scheduled by its end, with or without a GPU; one that holds something was.

    A pod that only a grant knows asked for nothing that we saw, so it is none of them.
    """
    served = {(line.record["cluster"], line.record["pod_uid"]) for line in lines if line.granted_us or line.held_us}
    return [
        row
        for row in pods
        if row["requested"]
        and (row["cluster"], row["pod_uid"]) not in served
        and _was_waiting(row, window.end)
        and (row["created_us"] is None or row["created_us"] <= window.end)
        and (row["last_seen_us"] is None or row["last_seen_us"] >= window.start)
    ]


def _was_waiting(row: Record, instant: Instant) -> bool:
    """Whether the pod was on no node up to and at the instant; a pod that has a node or runs was scheduled, whatever stamp it lacks."""
    if row["scheduled_us"] is not None:
        return bool(row["scheduled_us"] > instant)
    return row["node"] is None and row["phase"] not in ("Running", "Succeeded")


def _unserved_row(row: Record) -> Sequence[Value]:
    created = Unknown(_("no source states it")) if row["created_us"] is None else format_instant(row["created_us"])
    return (
        row["namespace"],
        row["pod"],
        row.get("tenant"),
        _requested(row)[0],
        created,
        row.get("phase"),
        row["pod_uid"],
        row["cluster"],
    )


def _unserved_figures(unserved: Sequence[Record]) -> list[Figure]:
    asking = [row for row in unserved if row["gpu_count"] != 0]
    gpus = [_requested(row)[0] for row in asking]
    stated = [value for value in gpus if isinstance(value, int | Fraction)]
    total: Value = sum(stated, Fraction(0))
    if len(stated) < len(gpus):
        total = Unknown(_("{count} of these requests do not state a number").format(count=len(gpus) - len(stated)))
    method = "requests not scheduled by the window's end"
    return [
        Figure("requests_unserved", len(unserved), "1", f"{method}, with or without a GPU", 1.0),
        Figure("requests_unserved_gpu", len(asking), "1", f"{method} that ask for a GPU", 1.0),
        Figure("gpus_requested_unserved", total, "GPU", f"{method}: GPUs they ask for", 1.0),
    ]


def _figures(lines: Sequence[Line], coverage: float | Unknown) -> list[Figure]:
    amounts = _amounts(lines)
    of_use = {name: _settled(lines, _observed_ratio(lines, column)) for name, column in _SEEN_BY.items()}
    return [
        Figure(name, amounts[name], unit, method, _as_coverage(of_use.get(name, coverage)))
        for name, (unit, method) in METHODS.items()
    ]


def _as_coverage(ratio: Value) -> float | Unknown:
    return ratio if isinstance(ratio, float | Unknown) else Unknown(_("nothing was held"))


def _unknown_figures(reason: str) -> list[Figure]:
    unknown = Unknown(reason)
    units = {**METHODS, "requests_unserved": ("1", "requests not scheduled by the window's end")}
    return [Figure(name, unknown, unit, method, unknown) for name, (unit, method) in units.items()]


def _place_of(line: Line) -> use.PlaceKey:
    return line.record["cluster"], line.record["device_uuid"]


def _cards_of(lines: Iterable[Line], where: Sequence[Filter], reading: Reading) -> frozenset[use.PlaceKey]:
    """The cards that are asked about: those the lines stand on and, where only places are asked, all that meet the conditions."""
    cards = {_place_of(line) for line in lines if not line.unsettled}
    if all(condition.dimension.name in dimensions.PLACE for condition in where):
        cards |= {
            (row["cluster"], row["device_uuid"])
            for row in reading.run("devices")
            if all(condition.admits(row) for condition in where)
        }
    return frozenset(cards)


def _coverage(reading: Reading, touched: Window, times: Sequence[KnownTime], asked: Window | None) -> float | Unknown:
    """Observed share of the supply in the grains that the window meets, times the part of the window that is known at all."""
    totals: dict[str, int] = {}
    for row in reading.run("estate", from_us=touched.start, to_us=touched.end):
        totals[row["account"]] = totals.get(row["account"], 0) + int(row["amount_gpu_us"])
    supply = totals.get("supply", 0)
    if supply <= 0:
        return Unknown(_("no card of this estate is known"))
    ratio = Fraction(supply - totals.get("unobserved", 0), supply)
    if asked is not None and asked.duration_us:
        known = max(asked.overlap_us(time.first, time.last) for time in times)
        ratio *= Fraction(known, asked.duration_us)
    return float(ratio)


def _blind_spots(lines: Sequence[Line], span: Window, window: Window, grains: Grains) -> list[str]:
    spots = [_("use is compared with grants only where samples name the pod's processes")]
    unsettled = _unsettled(lines)
    if unsettled is not None:
        spots.append(unsettled.reason)
    if any(line.card_measured and line.used_us is None for line in lines):
        spots.append(
            _("what some cards used is known for all their holders together only: it stands in no gpu_hours_used")
        )
    if any(line.engine_upper_us is not None for line in lines):
        spots.append(
            _("1001 GR_ENGINE_ACTIVE says that something ran, not how much of the card it used: an upper bound")
        )
    if any(line.used_upper_us is not None for line in lines):
        spots.append(_("203 GPU_UTIL says that a kernel ran, not how much of the card it used: an upper bound"))
    if window.start < span.start or window.end > span.end:
        spots.append(_("the known time is {span}: nothing is counted outside it").format(span=span))
    if grains.edges:
        spots.append(_("the window cuts a grain: use is counted in whole grains only, grants are clipped exactly"))
    if any(line.share_unknown for line in lines):
        spots.append(_("some grants do not tell their share of the card: what is known of it is counted"))
    if any(line.overcommitted_us for line in lines):
        spots.append(
            _("some cards were given out beyond what they have: each holder counts its part, the rest is overcommitted")
        )
    if any(line.in_suspense_us for line in lines):
        spots.append(_("claims in suspense are in no total of granted time; they stand apart"))
    return spots


def _squeezed(lines: Iterable[Line]) -> frozenset[use.PlaceKey]:
    """The cards that were given out beyond what they have and on which a claim in suspense counts."""
    over, suspended = set(), set()
    for line in lines:
        if line.overcommitted_us:
            over.add(_place_of(line))
        if line.in_suspense_us:
            suspended.add(_place_of(line))
    return frozenset(over & suspended)


def _suspense_spots(lines: Iterable[Line], squeezed: frozenset[use.PlaceKey]) -> list[str]:
    if not any(_place_of(line) in squeezed for line in lines):
        return []
    return [
        _(
            "claims in suspense take their part of a card that is given out beyond what it has, so one forged annotation "
            "lowers what its neighbours on that card count: their gpu_hours_overcommitted holds the difference"
        )
    ]


def _assemble(
    spec: ConsumptionSpec,
    window: Window,
    figures: Sequence[Figure],
    tables: Sequence[Table],
    coverage: float | Unknown,
    reading: Reading,
    blind: list[str],
) -> Answer:
    cluster = grounds.cluster_asked(spec.where)
    notes, total = grounds.finding_notes(reading, cluster=cluster)
    if total > len(notes):
        blind.append(_("{count} more findings are not listed here").format(count=total - len(notes)))
    unmeasured = any(f.name == "gpu_hours_used" and isinstance(f.value, Unknown) for f in figures)
    return Answer(
        question="q2",
        title=title(),
        window=window,
        as_of=window.end,
        figures=figures,
        tables=tables,
        definitions=grounds.definitions(reading, {"q02_consumption": VERSION}),
        sources=grounds.source_lines(reading, cluster),
        coverage=coverage,
        blind_spots=blind,
        findings=notes,
        evidence=[
            Evidence(_("who was granted what, when"), "ledger.supply, ledger.holding", "steelyard q2 --explain"),
            Evidence(
                _("requests and allocations as written"), _("the cluster"), "kubectl get pods --all-namespaces -o json"
            ),
            Evidence(
                _("memory per process"),
                _("each GPU node"),
                "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
            ),
        ],
        next_actions=[
            _("measure SM_ACTIVE (1002) and DRAM_ACTIVE (1005) with the DCGM exporter to learn what was used")
        ]
        if unmeasured
        else [],
        explain=dict(reading.ran) if spec.explain else {},
    )
