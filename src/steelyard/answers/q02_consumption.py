"""Q2: how much was requested, granted and used, of memory and of compute, per pod and per any dimension, each apart from the others.

``answer`` is what the registry calls. Granted time comes from ``ledger.supply`` (accounts held and held_unplaced), use from
``ledger.usage``, requests from ``dim.pod``. The trick to know: every number is summed as an integer over (pod, place) lines first and
grouped afterwards, so any grouping adds up to the same total, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Final

from steelyard.answers import clipping, dimensions, grounds
from steelyard.answers.contract import Answer, Column, Evidence, Figure, Table, Value
from steelyard.answers.dimensions import Dimension
from steelyard.answers.grounds import KnownTime
from steelyard.answers.reading import Reading, Record, Rows, int_or_none
from steelyard.definitions import conservation, gpu_time, normalised_gpu_hours
from steelyard.definitions.grain import grain_start
from steelyard.definitions.models import model_tokens
from steelyard.definitions.normalised_gpu_hours import REFERENCE_WEIGHT_PPM, normalised_gpu_time_us
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, INSTANT_MAX, INSTANT_MIN, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
_TIME: Final = f"gpu_time {gpu_time.VERSION}"
_BOOKS: Final = f"conservation {conservation.VERSION}"
_NORMALISED: Final = f"normalised_gpu_hours {normalised_gpu_hours.VERSION}"

AMOUNT_COLUMNS: Final = (
    Column("pods_count", "1"),
    Column("gpu_hours_granted", "GPU-h"),
    Column("gpu_hours_normalised", "GPU-h"),
    Column("gpu_hours_used", "GPU-h"),
    Column("gpu_hours_used_upper", "GPU-h"),
    Column("gpu_hours_waste", "GPU-h"),
    Column("compute_granted_gpu_hours", "GPU-h"),
    Column("memory_granted_mib_hours", "MiB-h"),
    Column("memory_used_mib_hours", "MiB-h"),
    Column("memory_peak_mib", "MiB"),
    Column("use_observed_ratio", "1"),
    Column("gpu_hours_overcommitted", "GPU-h"),
    Column("gpu_hours_held_down", "GPU-h"),
    Column("gpu_hours_reserved", "GPU-h"),
    Column("gpu_hours_in_suspense", "GPU-h"),
)
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
    Column("gpu_hours_used_upper", "GPU-h"),
    Column("gpu_hours_waste", "GPU-h"),
    Column("gpu_hours_overcommitted", "GPU-h"),
    Column("use_observed_ratio", "1"),
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
    "gpu_hours_granted": ("GPU-h", f"{_TIME}: supply ledger, accounts held and held_unplaced"),
    "gpu_hours_normalised": ("GPU-h", f"{_NORMALISED}: granted x weight of the card's model"),
    "gpu_hours_used": ("GPU-h", "used share: max(1002, 1005) x time, over observed time"),
    "gpu_hours_used_upper": ("GPU-h", "203 GPU_UTIL x time, an upper bound of 1001, over observed time"),
    "gpu_hours_waste": ("GPU-h", "granted - used"),
    "compute_granted_gpu_hours": ("GPU-h", "cores granted x time / 100; cores 0 grant no compute"),
    "memory_granted_mib_hours": ("MiB-h", "memory granted x time"),
    "memory_used_mib_hours": ("MiB-h", "memory of the pod's processes x time, over observed time"),
    "memory_peak_mib": ("MiB", "largest memory of the pod's processes on one card in a sample"),
    "gpu_hours_overcommitted": (
        "GPU-h",
        f"{_BOOKS}: what was given on top of what the card has; granted + reserved + in suspense + this = share x time",
    ),
    "gpu_hours_held_down": ("GPU-h", f"{_TIME}: the part of granted in which the card was down"),
    "gpu_hours_reserved": ("GPU-h", f"{_TIME}: account reserved; not in granted"),
    "gpu_hours_in_suspense": ("GPU-h", f"{_TIME}: account in_suspense; claims not accepted, in no tenant's total"),
}


@dataclass(frozen=True, slots=True)
class ConsumptionSpec:
    """Q2 as asked: ``window`` None = all known time; ``by`` groups (default tenant); ``where`` narrows (dimension or label -> value)."""

    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False


@dataclass(slots=True)
class Line:
    """Integer amounts of one pod at one place. None = not known; ``*_missing`` counts the postings that do not know the amount."""

    record: Record
    granted_us: int = 0
    normalised_us: int = 0
    overcommitted_us: int = 0
    down_us: int = 0
    reserved_us: int = 0
    in_suspense_us: int = 0
    memory_mib_us: int = 0
    memory_missing: int = 0
    cores_percent_us: int = 0
    cores_missing: int = 0
    held_us: int = 0
    share_unknown: bool = False
    observed_us: int = 0
    compute_observed_us: int = 0
    memory_used_mib_us: int | None = None
    memory_peak_mib: int | None = None
    used_upper_us: int | None = None
    unknown_reason: str | None = None


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
    window = spec.window or span
    parameter = _parameter(reading)
    grains = _grains(spec.window, parameter.grain_us)
    balance = grounds.residual(reading, grains.touched)
    if spec.window and not span.overlap_us(window.start, window.end):
        reason = _("the known time is {span}").format(span=span)
        return _assemble(spec, window, [*_unknown_figures(reason), balance], (), Unknown(reason), reading, [])
    pods = {(row["cluster"], row["pod_uid"]): row for row in reading.run("pods")}
    lines = _lines(reading, grains, parameter, pods)
    unserved = [pod for pod in _unserved(pods.values(), lines, window) if all(c.admits(pod) for c in where)]
    lines = [line for line in lines if all(condition.admits(line.record) for condition in where)]
    coverage = _coverage(reading, grains.touched, times, spec.window)
    figures = [*_figures(lines, coverage), *_unserved_figures(unserved), *_device_figures(reading, grains), balance]
    tables = (
        Table("consumption", (*(Column(d.name) for d in by), *AMOUNT_COLUMNS), _group_rows(lines, by)),
        Table("pods", POD_COLUMNS, _pod_rows(lines, pods)),
        Table("unserved", UNSERVED_COLUMNS, [_unserved_row(row) for row in unserved]),
    )
    blind = _blind_spots(lines, span, window, grains)
    return _assemble(spec, window, figures, tables, coverage, reading, blind)


@dataclass(frozen=True, slots=True)
class Grains:
    """A window in grains: ``whole`` from the ledger, ``edges`` clipped from holdings, ``touched`` all grains it meets."""

    whole: Window
    edges: tuple[Window, ...]
    touched: Window
    asked: Window


@dataclass(frozen=True, slots=True)
class Weight:
    """The weight of the models that have all these words, while it is valid."""

    words: frozenset[str]
    weight_ppm: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """What the ledgers were posted by: the grain, and the weights of models in the order in which they are tried."""

    grain_us: int
    weight_default_ppm: int
    weights: tuple[Weight, ...]

    def periods(self, window: Window) -> list[Window]:
        """The window, cut where a weight begins or ends, so that every part has one weight per model."""
        inner = {edge for weight in self.weights for edge in (weight.start, weight.end)}
        edges = [window.start, *sorted(edge for edge in inner if window.start < edge < window.end), window.end]
        return [Window(start, end) for start, end in pairwise(edges)]

    def weight_ppm(self, model: str | None, at: int) -> int:
        """The weight of a model at an instant: the first that fits, else the default."""
        tokens = model_tokens(model or "")
        fitting = (w.weight_ppm for w in self.weights if w.start <= at < w.end and w.words <= tokens)
        return next(fitting, self.weight_default_ppm)


def _parameter(reading: Reading) -> Parameter:
    rows = reading.run("grain")
    if not rows:
        return Parameter(HOUR_US, REFERENCE_WEIGHT_PPM, ())
    weights = [
        Weight(model_tokens(row["model"]), int(row["weight_ppm"]), int(row["from_us"]), int(row["to_us"]))
        for row in reading.run("weights", from_us=INSTANT_MIN, to_us=INSTANT_MAX)
    ]
    return Parameter(int(rows[0]["grain_us"]), int(rows[0]["weight_default_ppm"]), tuple(weights))


def _grains(window: Window | None, grain: int) -> Grains:
    if window is None or (window.start, window.end) == (INSTANT_MIN, INSTANT_MAX):
        everything = Window(INSTANT_MIN, INSTANT_MAX)
        return Grains(everything, (), everything, everything)
    first, last = -(-window.start // grain) * grain, grain_start(window.end, grain)
    touched = Window(
        max(INSTANT_MIN, grain_start(window.start, grain)), min(INSTANT_MAX, -(-window.end // grain) * grain)
    )
    if first > last:
        return Grains(Window(first, first), (window,), touched, window)
    edges = (Window(window.start, first), Window(last, window.end))
    return Grains(Window(first, last), tuple(edge for edge in edges if edge.duration_us), touched, window)


def _lines(
    reading: Reading, grains: Grains, parameter: Parameter, pods: Mapping[tuple[str, str], Record]
) -> list[Line]:
    devices = {(row["cluster"], row["device_uuid"]): row for row in reading.run("devices")}
    models = {(row["cluster"], row["node"]): row["model"] for row in reading.run("nodes")}
    lines: dict[tuple[str, str, str], Line] = {}

    def line_of(row: Record) -> Line:
        place = row["device_uuid"] or row["place_id"]
        key = (row["cluster"], row["pod_uid"], place)
        if key not in lines:
            device = devices.get((row["cluster"], row["device_uuid"]))
            node = row.get("node") or (device["node"] if device else None)
            pod = pods.get((row["cluster"], row["pod_uid"])) or {
                "namespace": row.get("namespace"),
                "pod": row.get("pod"),
            }
            record = {
                **pod,
                "cluster": row["cluster"],
                "pod_uid": row["pod_uid"],
                "device_uuid": row["device_uuid"],
                "node": node or pod.get("node"),
                "model": device["model"] if device else models.get((row["cluster"], node)),
                "vendor": device["vendor"] if device else None,
            }
            lines[key] = Line(record)
        return lines[key]

    window = grains.asked
    for row in reading.run("held_time", from_us=window.start, to_us=window.end):
        line = line_of(row)
        line.held_us, line.share_unknown = int(row["held_us"]), bool(row["share_unknown"])
    memory_mib = {key: row["memory_mib"] for key, row in devices.items()}
    for period in parameter.periods(window):
        part = _grains(period, parameter.grain_us)
        booked = reading.run("booked", from_us=part.whole.start, to_us=part.whole.end)
        for edge in part.edges:
            cut = reading.run("edge_holdings", from_us=edge.start, to_us=edge.end)
            booked.extend(clipping.booked_rows(cut, memory_mib))
        for row in booked:
            line = line_of(row)
            _book(line, row, parameter.weight_ppm(line.record["model"], period.start))
    for row in reading.run("usage", from_us=grains.whole.start, to_us=grains.whole.end):
        if row["pod_uid"] is not None:
            _use(line_of({**row, "place_id": row["device_uuid"]}), row)
    return list(lines.values())


def _book(line: Line, row: Record, weight_ppm: int) -> None:
    amount = int(row["amount_gpu_us"])
    if row["account"] == "reserved":
        line.reserved_us += amount
        return
    if row["account"] == "in_suspense":
        line.in_suspense_us += amount
        return
    if row["account"] == "overcommitted":
        line.overcommitted_us += amount
        return
    line.granted_us += amount
    normalised = normalised_gpu_time_us(amount, weight_ppm)
    line.normalised_us += normalised if isinstance(normalised, int) else 0
    line.down_us += int(row["down_gpu_us"])
    line.memory_mib_us += int(row["memory_mib_us"] or 0)
    line.memory_missing += int(row["memory_unknown"])
    line.cores_percent_us += int(row["cores_percent_us"] or 0)
    line.cores_missing += int(row["cores_unknown"])


def _use(line: Line, row: Record) -> None:
    line.observed_us += int(row["observed_us"] or 0)
    line.compute_observed_us += int(row["compute_observed_us"] or 0)
    line.unknown_reason = line.unknown_reason or row["unknown_reason"]
    memory, upper = int_or_none(row["memory_mib_us"]), int_or_none(row["compute_upper_gpu_us"])
    peak = int_or_none(row["memory_peak_mib"])
    if memory is not None:
        line.memory_used_mib_us = (line.memory_used_mib_us or 0) + memory
    if upper is not None:
        line.used_upper_us = (line.used_upper_us or 0) + upper
    if peak is not None:
        line.memory_peak_mib = max(peak, line.memory_peak_mib or 0)


def _not_measured() -> Unknown:
    return Unknown(_("SM_ACTIVE (1002) and DRAM_ACTIVE (1005) were not measured"))


def _hours(amount_us: int) -> Fraction:
    return Fraction(amount_us, HOUR_US)


def _amounts(lines: Sequence[Line]) -> dict[str, Value]:
    """The amounts of a group of lines under their stable names; Unknown where no line knows."""
    memory_missing = sum(line.memory_missing for line in lines)
    cores_missing = sum(line.cores_missing for line in lines)
    cores_hours = Fraction(sum(line.cores_percent_us for line in lines), 100 * HOUR_US)
    not_stated = Unknown(_("for some grants neither the grant nor the card states it"))
    return {
        "gpu_hours_granted": _hours(sum(line.granted_us for line in lines)),
        "gpu_hours_normalised": _hours(sum(line.normalised_us for line in lines)),
        "gpu_hours_used": _not_measured(),
        "gpu_hours_used_upper": _observed(
            lines, "used_upper_us", _("no sample of 203 GPU_UTIL belongs to a single holder")
        ),
        "gpu_hours_waste": _not_measured(),
        "compute_granted_gpu_hours": not_stated if cores_missing else cores_hours,
        "memory_granted_mib_hours": not_stated if memory_missing else _hours(sum(line.memory_mib_us for line in lines)),
        "memory_used_mib_hours": _observed(lines, "memory_used_mib_us", _("no sample shows the pod's processes")),
        "memory_peak_mib": _peak(lines),
        "use_observed_ratio": _observed_ratio(lines),
        "gpu_hours_overcommitted": _hours(sum(line.overcommitted_us for line in lines)),
        "gpu_hours_held_down": _hours(sum(line.down_us for line in lines)),
        "gpu_hours_reserved": _hours(sum(line.reserved_us for line in lines)),
        "gpu_hours_in_suspense": _hours(sum(line.in_suspense_us for line in lines)),
    }


def _observed(lines: Sequence[Line], name: str, otherwise: str) -> Value:
    known = [getattr(line, name) for line in lines if getattr(line, name) is not None]
    if not known:
        return Unknown(next((line.unknown_reason for line in lines if line.unknown_reason), otherwise))
    return _hours(sum(known))


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
        rows.append((*values, _pods_count(group), *_amounts(group).values()))
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
    return (
        record.get("namespace"),
        record.get("pod"),
        record.get("tenant"),
        *requested,
        Fraction(sum(line.granted_us for line in group), held) if held else None,
        _mean(amounts["memory_granted_mib_hours"], held),
        _mean(amounts["compute_granted_gpu_hours"], held, 100),
        used if isinstance(used, Unknown) else _mean(used, observed),
        amounts["memory_peak_mib"],
        *(amounts[name] for name in ("gpu_hours_granted", "gpu_hours_normalised", "gpu_hours_used")),
        *(amounts[name] for name in ("gpu_hours_used_upper", "gpu_hours_waste")),
        *(amounts[name] for name in ("gpu_hours_overcommitted", "use_observed_ratio")),
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
    """Pods that ask for a GPU, existed in the window and were not scheduled by its end; one that holds something was.

    A pod that only a grant knows asked for nothing that we saw, so it is none of them.
    """
    served = {(line.record["cluster"], line.record["pod_uid"]) for line in lines if line.granted_us or line.held_us}
    return [
        row
        for row in pods
        if (row["gpu_count"] or 0) > 0
        and (row["cluster"], row["pod_uid"]) not in served
        and (row["scheduled_us"] is None or row["scheduled_us"] >= window.end)
        and (row["created_us"] is None or row["created_us"] <= window.end)
        and (row["last_seen_us"] is None or row["last_seen_us"] >= window.start)
    ]


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
    gpus = [_requested(row)[0] for row in unserved]
    stated = [value for value in gpus if isinstance(value, int | Fraction)]
    total: Value = sum(stated, Fraction(0))
    if len(stated) < len(gpus):
        total = Unknown(_("{count} of these requests do not state a number").format(count=len(gpus) - len(stated)))
    method = "requests that ask for a GPU and were not scheduled by the window's end"
    return [
        Figure("requests_unserved", len(unserved), "1", method, 1.0),
        Figure("gpus_requested_unserved", total, "GPU", method, 1.0),
    ]


def _figures(lines: Sequence[Line], coverage: float | Unknown) -> list[Figure]:
    amounts = _amounts(lines)
    compute, memory = _observed_ratio(lines, "compute_observed_us"), amounts["use_observed_ratio"]
    of_use: dict[str, Value] = dict.fromkeys(("gpu_hours_used", "gpu_hours_used_upper", "gpu_hours_waste"), compute)
    of_use.update(dict.fromkeys(("memory_used_mib_hours", "memory_peak_mib"), memory))
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


def _device_figures(reading: Reading, grains: Grains) -> list[Figure]:
    """What the cards report as a whole, and what no holder explains."""
    figures = []
    rows = reading.run("usage", from_us=grains.whole.start, to_us=grains.whole.end)
    names = {"device": "memory_used_device_mib_hours", "residual": "memory_use_unattributed_mib_hours"}
    for path, name in names.items():
        of_path = [row for row in rows if row["path"] == path]
        known = [int(row["memory_mib_us"]) for row in of_path if row["memory_mib_us"] is not None]
        reason = next((row["unknown_reason"] for row in of_path if row["unknown_reason"]), _("no card was sampled"))
        value: Value = _hours(sum(known)) if known else Unknown(reason)
        coverage: float | Unknown = Unknown(_("how long the cards should have been sampled is not known"))
        figures.append(Figure(name, value, "MiB-h", f"usage ledger, path {path}, over observed time", coverage))
    return figures


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


def _assemble(
    spec: ConsumptionSpec,
    window: Window,
    figures: Sequence[Figure],
    tables: Sequence[Table],
    coverage: float | Unknown,
    reading: Reading,
    blind: list[str],
) -> Answer:
    notes, total = grounds.finding_notes(reading)
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
        sources=grounds.source_lines(reading),
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
