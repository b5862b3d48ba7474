"""What each workload was granted against what it needed: P99 of memory plus 20 %, as a patch that a person can apply.

``steelyard rightsize`` and Q3 call it. The trick to know: quantiles are never averaged, but the largest P99 of all grains bounds the P99 of the
window from above, so what is recommended is never too small for that reason; and never less than the largest sample, since a limit below it would
have killed the pod. Where memory was not known for 95 % of the time held, or by no path that is the pod's own (exclusive, mig, soft_partition,
process), it is unknown, with why.

Sceptic's command: ``nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv`` on the node beside the row of that pod.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers import grounds
from steelyard.answers.contract import Answer, Column, Evidence, Figure, Table, Value
from steelyard.answers.reading import Reading, Record, Rows
from steelyard.answers.scene import grain_us_of
from steelyard.definitions.mig import MigSlices, mig_slices, smallest_profile
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, INSTANT_MAX, INSTANT_MIN, Instant, Window
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
NAME: Final = "right_sizing"
HEADROOM_PERCENT: Final = 20
COVERAGE_PERCENT_MIN: Final = 95
DAYS_DEFAULT: Final = 7
PATHS: Final = ("exclusive", "mig", "soft_partition", "process")
"""Best first; of these the first that tells of a card counts."""

METHOD: Final = f"right_sizing {VERSION}: max(largest P99 of a grain + {HEADROOM_PERCENT} %, largest sample), rounded up to a legal amount"
_PPM_PER_PERCENT: Final = 10_000
_RESOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "hami": ("nvidia.com/gpumem", "nvidia.com/gpucores"),
    "volcano_vgpu": ("volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"),
}
_PATCHED_KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
COLUMNS: Final = (
    Column("cluster"),
    Column("namespace"),
    Column("workload"),
    Column("tenant"),
    Column("pods_count", "1"),
    Column("verdict"),
    Column("memory_granted_mib", "MiB"),
    Column("memory_p99_mib", "MiB"),
    Column("memory_peak_mib", "MiB"),
    Column("memory_recommended_mib", "MiB"),
    Column("cores_granted_percent", "%"),
    Column("compute_peak_percent", "%"),
    Column("cores_recommended_percent", "%"),
    Column("path"),
    Column("coverage_ratio", "1"),
    Column("patch"),
)


@dataclass(frozen=True, slots=True)
class RightSizingSpec:
    """``window`` None: the last ``DAYS_DEFAULT`` days that are known. ``namespace``, ``cluster``: of these alone. ``tenant``: who asks sees that
    tenant's workloads alone. ``pods``: of these alone (cluster, uid), None = all."""

    window: Window | None = None
    cluster: str | None = None
    namespace: str | None = None
    explain: bool = False
    tenant: str | None = None
    pods: frozenset[tuple[str, str]] | None = None


@dataclass(slots=True)
class _Need:
    """What one workload was granted per card and needed, over all its pods; None = not known, ``reasons`` say why."""

    pods: set[str] = field(default_factory=set)
    rows: list[Record] = field(default_factory=list)
    granted_mib: int | None = None
    p99_mib: int | None = None
    peak_mib: int | None = None
    granted_percent: int | None = None
    compute_percent: int | None = None
    paths: set[str] = field(default_factory=set)
    held_us: int = 0
    observed_us: int = 0
    memory_reasons: set[str] = field(default_factory=set)
    compute_reasons: set[str] = field(default_factory=set)


def title() -> str:
    """What is asked, in the chosen language."""
    return _("What each workload was granted and needed, and how to set it right")


def advice() -> str:
    """What to do with a patch that gives memory back."""
    return _("apply a patch to one replica first and watch it for a day")


def statements() -> tuple[Path, ...]:
    """The files whose statements ``right_sizing`` runs."""
    return (SQL,)


def answer(rows: Rows, spec: RightSizingSpec) -> Answer:
    """The whole answer. Raises UsageError for a window outside the known time, and where nothing was imported yet."""
    from steelyard.answers import scene

    reading = Reading(rows, SQL, scene.SQL, grounds.SQL)
    times = grounds.known_times(reading)
    first = min(time.first for time in times)
    known = Window(first, max(first + 1, *(time.last for time in times)))
    window = whole_grains(spec.window, known, grain_us_of(reading))
    table = right_sizing(reading, window, spec)
    columns = [column.name for column in table.columns]
    verdicts = [row[columns.index("verdict")] for row in table.rows]
    untold = verdicts.count("unknown")
    cover: float | Unknown = Unknown(_("nobody held a card in this window"))
    if verdicts:
        cover = (len(verdicts) - untold) / len(verdicts)
    return Answer(
        question="rightsize",
        title=title(),
        window=window,
        as_of=None,
        figures=[
            Figure("workloads_count", len(verdicts), "1", METHOD, cover),
            Figure("workloads_too_large_count", verdicts.count("shrink"), "1", METHOD, cover),
            Figure("workloads_too_small_count", verdicts.count("grow"), "1", METHOD, cover),
            Figure("workloads_unknown_count", untold, "1", METHOD, cover),
            Figure("memory_returned_mib", _returned(table), "MiB", f"{METHOD}; per card of each pod", cover),
        ],
        tables=[table],
        definitions=grounds.definitions(reading, {"right_sizing": VERSION}),
        sources=() if spec.tenant is not None else grounds.source_lines(reading),
        coverage=cover,
        blind_spots=[
            _("a need shorter than the distance of samples is not seen"),
            _(
                "memory that a framework keeps in advance counts as needed: reserved and live tensors are not told apart here"
            ),
            _("compute is the largest mean of a grain: shorter bursts are higher"),
        ],
        evidence=[
            Evidence(
                _("the memory of each process"),
                _("each GPU node"),
                "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
            )
        ],
        next_actions=[advice()] if "shrink" in verdicts else [],
        explain=dict(reading.ran) if spec.explain and spec.tenant is None else {},
    )


def whole_grains(window: Window | None, known: Window, grain_us: int) -> Window:
    """The grains that ``window`` touches in the known time, None: in its last ``DAYS_DEFAULT`` days. Raises UsageError where it has none of it."""
    start, end = (window.start, window.end) if window else (known.end - DAYS_DEFAULT * DAY_US, known.end)
    start, end = max(start, known.start), min(end, known.end)
    if start >= end:
        raise UsageError(_("the window has no part of the time that is known"))
    first: Instant = max(INSTANT_MIN, start // grain_us * grain_us)
    return Window(first, min(INSTANT_MAX, -(-end // grain_us) * grain_us))


def _returned(table: Table) -> int:
    """What the patches give back, per card of each pod."""
    pods = [column.name for column in table.columns].index("pods_count")
    counts = [(row[pods], _saving(row)) for row in table.rows]
    return sum(count * saving for count, saving in counts if isinstance(count, int))


def right_sizing(reading: Reading, window: Window, spec: RightSizingSpec | None = None) -> Table:
    """One row per workload that held cards in the window (whole grains), in the columns of ``COLUMNS``; what returns most memory first. ``reading``
    has the statements of ``statements``."""
    bounds = {"from_us": window.start, "to_us": window.end}
    used: dict[tuple[str, str, str | None], list[Record]] = {}
    for row in reading.run("rightsize_used", **bounds):
        used.setdefault((row["cluster"], row["pod_uid"], row["device_uuid"]), []).append(row)
    needs: dict[tuple[str, str, str, str], _Need] = {}
    for row in reading.run("rightsize_granted", **bounds):
        if spec is not None and not _asked(row, spec):
            continue
        kind, name = row["workload_kind"] or "Pod", row["workload_name"] or row["pod"]
        need = needs.setdefault((row["cluster"], row["namespace"] or "", kind, name), _Need())
        _add(need, row, used.get((row["cluster"], row["pod_uid"], row["device_uuid"]), ()))
    rows = [_row(key, need) for key, need in needs.items()]
    rows.sort(key=lambda row: (-_saving(row), [str(cell) for cell in row[:3]]))
    return Table(NAME, COLUMNS, rows)


def _asked(row: Record, spec: RightSizingSpec) -> bool:
    wanted = {"cluster": spec.cluster, "namespace": spec.namespace, "tenant": spec.tenant}
    if spec.pods is not None and (row["cluster"], row["pod_uid"]) not in spec.pods:
        return False
    return all(value is None or row[name] == value for name, value in wanted.items())


def _add(need: _Need, row: Record, used: Sequence[Record]) -> None:
    """One pod's part of one card."""
    need.pods.add(row["pod_uid"])
    need.rows.append(row)
    granted = row["memory_mib"]
    if granted is None and row["share_ppm"] is not None and row["card_memory_mib"] is not None:
        granted = row["share_ppm"] * row["card_memory_mib"] // 1_000_000
    need.granted_mib = _larger(need.granted_mib, granted)
    need.granted_percent = _larger(need.granted_percent, row["cores_percent"])
    need.held_us += row["held_us"]
    own = [each for each in used if each["gi"] is None or row["gi"] is None or each["gi"] == row["gi"]]
    best = min(own, key=lambda each: PATHS.index(each["path"]), default=None)
    if row["device_uuid"] is None:
        need.memory_reasons.add(_("no source names the card"))
    elif best is None or best["memory_p99_mib"] is None:
        need.memory_reasons.add(_("no path tells what the pod itself used of its card"))
    else:
        need.paths.add(best["path"])
        need.observed_us += min(best["observed_us"] or 0, row["held_us"])
        need.p99_mib = _larger(need.p99_mib, best["memory_p99_mib"])
        need.peak_mib = _larger(need.peak_mib, best["memory_peak_mib"])
    if best is None or best["used_mean_ppm"] is None:
        need.compute_reasons.add(_("no counter tells what the pod itself used of the compute"))
    elif (best["used_observed_us"] or 0) * 100 < COVERAGE_PERCENT_MIN * row["held_us"]:
        need.compute_reasons.add(_less_covered(best["used_observed_us"] or 0, row["held_us"]))
    else:
        need.compute_percent = _larger(need.compute_percent, -(-best["used_mean_ppm"] // _PPM_PER_PERCENT))


def _larger(one: int | None, other: int | None) -> int | None:
    known = [amount for amount in (one, other) if amount is not None]
    return max(known) if known else None


def _less_covered(observed_us: int, held_us: int) -> str:
    return _("known for {percent} of 100 parts of the time held, less than {least}").format(
        percent=observed_us * 100 // max(1, held_us), least=COVERAGE_PERCENT_MIN
    )


def _row(key: tuple[str, str, str, str], need: _Need) -> list[Value]:
    cluster, namespace, kind, name = key
    if not need.memory_reasons and need.observed_us * 100 < COVERAGE_PERCENT_MIN * need.held_us:
        need.memory_reasons.add(_less_covered(need.observed_us, need.held_us))
    memory: int | None = None
    if not need.memory_reasons and need.p99_mib is not None:
        memory = max(-(-need.p99_mib * (100 + HEADROOM_PERCENT) // 100), need.peak_mib or 0)
    cores: int | None = None
    if not need.compute_reasons and need.compute_percent is not None:
        cores = min(100, max(1, -(-need.compute_percent * (100 + HEADROOM_PERCENT) // 100)))
    profile = _profile(need, memory)
    if memory is not None and isinstance(profile, tuple):
        memory = need.granted_mib if profile[0] == need.rows[0]["profile"] else profile[1]
    why = Unknown("; ".join(sorted(need.memory_reasons)))
    why_compute = Unknown("; ".join(sorted(need.compute_reasons)))
    untold = Unknown(_("neither the grant nor the card states it"))
    verdict = "unknown"
    if memory is not None and need.granted_mib is not None:
        verdict = "shrink" if memory < need.granted_mib else "grow" if memory > need.granted_mib else "keep"
    return [
        cluster,
        namespace,
        f"{kind}/{name}",
        next((row["tenant"] for row in need.rows if row["tenant"] is not None), None),
        len(need.pods),
        verdict,
        untold if need.granted_mib is None else need.granted_mib,
        why if need.p99_mib is None else need.p99_mib,
        why if need.peak_mib is None else need.peak_mib,
        why if memory is None else memory,
        untold if need.granted_percent is None else need.granted_percent,
        why_compute if need.compute_percent is None else need.compute_percent,
        why_compute if cores is None else cores,
        ", ".join(path for path in PATHS if path in need.paths) or None,
        float(Fraction(need.observed_us, need.held_us)) if need.held_us else why,
        why if memory is None else _patch(key, need, memory, cores, profile, verdict),
    ]


def _saving(row: Sequence[Value]) -> int:
    granted, wanted = row[6], row[9]
    return granted - wanted if isinstance(granted, int) and isinstance(wanted, int) and granted > wanted else 0


def _profile(need: _Need, memory_mib: int | None) -> tuple[str, int] | Unknown | None:
    """Of MIG holders, the smallest profile of their card with so much memory and no less compute than was needed; None where they hold no
    instance."""
    if not any(row["unit_kind"] == "mig" for row in need.rows):
        return None
    models = {(row["model"], row["card_memory_mib"]) for row in need.rows}
    if memory_mib is None or len(models) != 1 or any(row["unit_kind"] != "mig" for row in need.rows):
        return Unknown(_("its pods hold parts of different cards"))
    model, card_mib = models.pop()
    held = {row["profile"] for row in need.rows}
    slices = mig_slices(held.pop(), model, card_mib) if len(held) == 1 and None not in held else None
    if not isinstance(slices, MigSlices):
        return Unknown(_("the profile of its instances is not known"))
    return smallest_profile(memory_mib, slices.compute, model, card_mib)


def _patch(
    key: tuple[str, str, str, str],
    need: _Need,
    memory_mib: int,
    cores_percent: int | None,
    profile: tuple[str, int] | Unknown | None,
    verdict: str,
) -> Value:
    """What to apply; Unknown with why where no limit would say it."""
    if verdict == "keep":
        return None
    containers = {row["containers"] for row in need.rows}
    container = containers.pop() if len(containers) == 1 else None
    if not container or "," in container or container == "*":
        return Unknown(_("several containers share the card: how to divide it among them is theirs to say"))
    if isinstance(profile, Unknown):
        return profile
    if profile is not None:
        held = next(row["profile"] for row in need.rows)
        if held == profile[0]:
            return None
        return _command(
            key, container, {f"nvidia.com/mig-{_dotted(held)}": None, f"nvidia.com/mig-{_dotted(profile[0])}": "1"}
        )
    schemes = {row["scheme"] for row in need.rows}
    resources = _RESOURCES.get(schemes.pop()) if len(schemes) == 1 else None
    if resources is None:
        return Unknown(
            _("its cards are given whole: {memory} MiB would do, which takes a sharing layer or a MIG profile").format(
                memory=memory_mib
            )
        )
    limits: dict[str, str | None] = {resources[0]: str(memory_mib)}
    if cores_percent is not None and need.granted_percent:
        limits[resources[1]] = str(cores_percent)
    return _command(key, container, limits)


def _dotted(profile: str) -> str:
    return profile.replace("+me", ".me")


def _command(key: tuple[str, str, str, str], container: str, limits: Mapping[str, str | None]) -> str:
    """A command for kinds whose template may change; for others the limits to set in what makes them."""
    _cluster, namespace, kind, name = key
    if kind not in _PATCHED_KINDS:
        kept = {resource: amount for resource, amount in limits.items() if amount is not None}
        shown = json.dumps({"name": container, "resources": {"limits": kept}}, sort_keys=True)
        return _("in the template of {kind} {name}, then create it again: {limits}").format(
            kind=kind, name=name, limits=shown
        )
    body = {
        "spec": {"template": {"spec": {"containers": [{"name": container, "resources": {"limits": dict(limits)}}]}}}
    }
    words = [
        "kubectl",
        "patch",
        kind.lower(),
        name,
        "-n",
        namespace,
        "--type",
        "strategic",
        "-p",
        json.dumps(body, sort_keys=True),
    ]
    return " ".join(map(shlex.quote, words))
