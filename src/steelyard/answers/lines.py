"""Integer amounts of each pod at each place over a window: granted, reserved, used, side by side.

Q2 groups these lines. The trick to know: a window is cut into whole grains, which the ledger has booked, and at most two cut ones,
which are clipped from the holdings; and into the periods in which a model's weight does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from steelyard.answers import clipping
from steelyard.answers.narrowing import Homes
from steelyard.answers.reading import Reading, Record, int_or_none
from steelyard.definitions.grain import grain_start
from steelyard.definitions.models import model_tokens
from steelyard.definitions.normalised_gpu_hours import REFERENCE_WEIGHT_PPM, normalised_gpu_time_us
from steelyard.primitives.instant import HOUR_US, INSTANT_MAX, INSTANT_MIN, Window

_USE_COLUMNS: Final = {
    "memory_used_mib_us": "memory_mib_us",
    "used_us": "used_gpu_us",
    "sm_us": "sm_gpu_us",
    "dram_us": "dram_gpu_us",
    "engine_upper_us": "engine_upper_gpu_us",
    "used_upper_us": "compute_upper_gpu_us",
}
"""Amount of a line: the column of the usage ledger that it sums."""
_SEEN_COLUMNS: Final = (
    "observed_us",
    "compute_observed_us",
    "engine_observed_us",
    "sm_observed_us",
    "dram_observed_us",
    "used_observed_us",
)
"""Observed time of a line, under the name of the column that it sums."""


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
    unsettled: bool = False
    """Whether its card, which is not known, may be one of those asked about, or not."""
    observed_us: int = 0
    compute_observed_us: int = 0
    engine_observed_us: int = 0
    sm_observed_us: int = 0
    dram_observed_us: int = 0
    used_observed_us: int = 0
    memory_used_mib_us: int | None = None
    memory_peak_mib: int | None = None
    used_us: int | None = None
    """max(1002, 1005) over ``used_observed_us``; in that time the pod's units had ``used_of_us`` in all."""
    used_of_us: int = 0
    sm_us: int | None = None
    dram_us: int | None = None
    engine_upper_us: int | None = None
    used_upper_us: int | None = None
    bases: set[str] = field(default_factory=set)
    card_measured: bool = False
    """Whether the use of its card is known, be it of all its holders together only."""
    unknown_reason: str | None = None


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


def parameter_of(reading: Reading) -> Parameter:
    """The grain and the weights; the defaults of the definitions where nothing was posted yet."""
    rows = reading.run("grain")
    if not rows:
        return Parameter(HOUR_US, REFERENCE_WEIGHT_PPM, ())
    weights = [
        Weight(model_tokens(row["model"]), int(row["weight_ppm"]), int(row["from_us"]), int(row["to_us"]))
        for row in reading.run("weights", from_us=INSTANT_MIN, to_us=INSTANT_MAX)
    ]
    return Parameter(int(rows[0]["grain_us"]), int(rows[0]["weight_default_ppm"]), tuple(weights))


def grains_of(window: Window | None, grain: int) -> Grains:
    """The window in grains of ``grain`` microseconds; None = all time, which cuts no grain."""
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


def lines_of(
    reading: Reading, grains: Grains, parameter: Parameter, pods: Mapping[tuple[str, str], Record]
) -> list[Line]:
    """One line per pod and place that was booked, held or sampled in the window. ``pods``: by (cluster, pod uid).

    Granted time comes from the ledger for whole grains and from clipped holdings for cut ones; use comes from whole grains only.
    """
    devices = {(row["cluster"], row["device_uuid"]): row for row in reading.run("devices")}
    models = {(row["cluster"], row["node"]): row["model"] for row in reading.run("nodes")}
    homes = homes_of(reading, devices.values())
    lines: dict[tuple[str, str, str], Line] = {}
    measured: set[tuple[str, str]] = set()

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
            node = node or pod.get("node")
            home = (row["cluster"], node)
            record = {
                **pod,
                "cluster": row["cluster"],
                "pod_uid": row["pod_uid"],
                "device_uuid": row["device_uuid"],
                "node": node,
                "model": device["model"] if device else homes.only(home, "model") or models.get(home),
                "vendor": device["vendor"] if device else homes.only(home, "vendor"),
                "device_index": device["device_index"] if device else None,
            }
            lines[key] = Line(record)
        return lines[key]

    window = grains.asked
    for row in reading.run("held_time", from_us=window.start, to_us=window.end):
        line = line_of(row)
        line.held_us, line.share_unknown = int(row["held_us"]), bool(row["share_unknown"])
    places = _places(reading, devices.values())
    for period in parameter.periods(window):
        part = grains_of(period, parameter.grain_us)
        booked = reading.run("booked", from_us=part.whole.start, to_us=part.whole.end)
        for edge in part.edges:
            places = replace(places, rooms=_rooms(reading, edge))
            cut = reading.run("edge_holdings", from_us=edge.start, to_us=edge.end)
            booked.extend(clipping.booked_rows(cut, places))
        for row in booked:
            line = line_of(row)
            _book(line, row, parameter.weight_ppm(line.record["model"], period.start))
    for row in reading.run("usage", from_us=grains.whole.start, to_us=grains.whole.end):
        if row["pod_uid"] is not None:
            _use(line_of({**row, "place_id": row["device_uuid"]}), row)
        elif row["path"] == "device" and row["used_gpu_us"] is not None:
            measured.add((row["cluster"], row["device_uuid"]))
    for line in lines.values():
        line.card_measured = (line.record["cluster"], line.record["device_uuid"]) in measured
    return list(lines.values())


def homes_of(reading: Reading, devices: Iterable[Record]) -> Homes:
    """The cards by node and cluster, and the nodes whose cards are counted and have no known UUID, with the model of their label."""
    models = {(row["cluster"], row["node"]): row["model"] for row in reading.run("nodes")}
    named = list(devices)
    seen = {(card["cluster"], card["node"]) for card in named}
    counted = {(row["cluster"], row["node"]) for row in reading.run("counted_cards")} - seen
    unnamed = [{"cluster": home[0], "node": home[1], "model": models.get(home)} for home in sorted(counted)]
    return Homes.of(named, unnamed)


def _places(reading: Reading, devices: Iterable[Record]) -> clipping.Places:
    """What a cut grain is held against. A node's or cluster's cards have a memory where all of them have the same."""
    counted: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    sizes: dict[tuple[str, str], set[int | None]] = {}
    for row in reading.run("counted_cards"):
        key = (row["cluster"], row["node"])
        counted.setdefault(key, []).append((int(row["from_us"]), int(row["to_us"]), int(row["cards_count"])))
        if row["memory_mib"] is not None:
            sizes[key] = {max(int(row["memory_mib"]), *(size or 0 for size in sizes.get(key, {0})))}
    for row in devices:
        for place in (row["device_uuid"], row["node"], row["cluster"]):
            if place is not None:
                sizes.setdefault((row["cluster"], place), set()).add(row["memory_mib"])
    memory_mib = {key: next(iter(found)) if len(found) == 1 else None for key, found in sizes.items()}
    return clipping.Places(memory_mib, counted)


def _rooms(reading: Reading, edge: Window) -> dict[tuple[str, str, str], list[clipping.Room]]:
    """What is left for holders on cards that no source names, within a cut grain."""
    found: dict[tuple[str, str, str], list[clipping.Room]] = {}
    for row in reading.run("transfer_rooms", from_us=edge.start, to_us=edge.end):
        measures = [
            tuple(int(row[f"{side}_{unit}"]) for unit in ("ppm", "mib", "percent")) for side in ("asked", "all")
        ]
        room = clipping.Room(int(row["from_us"]), int(row["to_us"]), int(row["cards"]), *measures)  # type: ignore[arg-type]  # both are triples
        found.setdefault((row["cluster"], row["place_kind"], row["place_id"]), []).append(room)
    return found


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
    for name in _SEEN_COLUMNS:
        setattr(line, name, getattr(line, name) + int(row[name] or 0))
    line.unknown_reason = line.unknown_reason or row["unknown_reason"]
    line.used_of_us += int(row["used_of_gpu_us"] or 0)
    line.bases |= {base for base in (row["used_bases"] or "").split(",") if base}
    peak = int_or_none(row["memory_peak_mib"])
    for name, column in _USE_COLUMNS.items():
        amount = int_or_none(row[column])
        if amount is not None:
            setattr(line, name, (getattr(line, name) or 0) + amount)
    if peak is not None:
        line.memory_peak_mib = max(peak, line.memory_peak_mib or 0)
