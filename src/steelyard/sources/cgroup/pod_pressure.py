"""How the host treats the pods on the cards: CPU held back by a limit, time spent waiting for CPU, memory and IO, bytes read and written.

Read from the pods' control groups and from ``/proc/pressure``, of pods that have a process on a card alone. The tricks to know: a limit
throttles the container that has it, and only pressure and use add up towards the pod, so the containers of a pod are looked at one by one; and all
figures are differences of counters between two looks a minute apart, so the first look, and one after a counter fell, has none.
Sceptic's command: ``cat /sys/fs/cgroup/kubepods.slice/*/*pod*/{cpu.stat,io.pressure}``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.facts.metric_sample import MetricSample
from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.sources.cgroup.grammar import place_of
from steelyard.sources.shared import host_figures as figures
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.process_owner import POD

SOURCE: Final = "agent"
FOLDERS_MAX: Final = 5_000
DEPTH_MAX: Final = 5
CONTAINERS_MAX: Final = 64
PODS_MAX: Final = 256
TEXT_MAX: Final = 65_536
_CONTROLLERS: Final = ("", "cpu,cpuacct", "cpu")
"""Where the trees lie under the root: version 2 has one, version 1 one per controller."""

_PRESSURES: Final = {
    "cpu": figures.CPU_PRESSURE,
    "io": figures.IO_PRESSURE,
    "memory": figures.MEMORY_PRESSURE,
}
Counters = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Look:
    """Counters of one pod or of the node at an instant; ``periods``: of each of its control groups, (all, throttled)."""

    at: Instant
    totals: Counters
    periods: Mapping[str, tuple[float, float]]


class PodPressure:
    """Looks at control groups under ``root`` and at the pressure files of ``proc_root``; remembers the look before."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), proc_root: Path = Path("/proc")) -> None:
        self._root = root
        self._proc = proc_root
        self._places: dict[str, Path] = {}
        self._looks: dict[str | None, _Look] = {}

    def look(self, pod_uids: Iterable[str], ctx: ReadContext) -> Iterator[MetricSample]:
        """The figures of these pods and of the node since the look before, which was at least a minute ago; else nothing, and it still counts."""
        wanted = sorted(set(pod_uids))[:PODS_MAX]
        self._looks = {key: look for key, look in self._looks.items() if key is None or key in wanted}
        for pod_uid in (None, *wanted):
            before = self._looks.get(pod_uid)
            if before is not None and 0 <= ctx.observed_at - before.at < figures.APART_US_MIN:
                continue
            now = self._read(pod_uid, wanted, ctx.observed_at)
            if now is None:
                self._looks.pop(pod_uid, None)
                continue
            self._looks[pod_uid] = now
            if before is not None:
                for metric, value in _between(before, now):
                    yield figures.host_sample(ctx, SOURCE, metric, value, now.at, node=ctx.node, pod_uid=pod_uid)

    def _read(self, pod_uid: str | None, wanted: Iterable[str], at: Instant) -> _Look | None:
        if pod_uid is None:
            totals = {
                metric: waited
                for word, metric in _PRESSURES.items()
                if (waited := _waited(self._proc / "pressure" / word)) is not None
            }
            return _Look(at, totals, {}) if totals else None
        folder = self._folder(pod_uid, wanted)
        return None if folder is None else _Look(at, _totals(folder), _periods(folder))

    def _folder(self, pod_uid: str, wanted: Iterable[str]) -> Path | None:
        known = self._places.get(pod_uid)
        if known is None or not known.is_dir():
            self._places = dict(self._found(frozenset(wanted)))
            known = self._places.get(pod_uid)
        return known

    def _found(self, wanted: frozenset[str]) -> Iterator[tuple[str, Path]]:
        """The pods' own folders, by a walk in bounds; the first tree that has any is the one that is read."""
        for controller in _CONTROLLERS:
            found = dict(_walk(self._root / controller, wanted))
            if found:
                yield from found.items()
                return


def _walk(root: Path, wanted: frozenset[str]) -> Iterator[tuple[str, Path]]:
    pending, seen = [(root, 0)], 0
    while pending:
        folder, depth = pending.pop()
        for name in _folders(folder):
            seen += 1
            if seen > FOLDERS_MAX:
                return
            path = folder / name
            place = place_of(f"/{path.relative_to(root)}")
            if place.kind == POD and place.pod_uid is not None:
                if place.pod_uid in wanted:
                    yield place.pod_uid, path
            elif depth < DEPTH_MAX and (depth > 0 or name.startswith("kube")):
                pending.append((path, depth + 1))


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _totals(folder: Path) -> Counters:
    """The counters of the pod as a whole: seconds waited and used, bytes moved. What a release does not have is not there."""
    found: Counters = {
        metric: waited
        for word, metric in _PRESSURES.items()
        if (waited := _waited(folder / f"{word}.pressure")) is not None
    }
    used = _fields(folder / "cpu.stat").get("usage_usec")
    if used is not None:
        found[figures.CPU_USED] = used / SECOND_US
    moved = _moved(folder / "io.stat")
    if moved is not None:
        found[figures.IO_READ], found[figures.IO_WRITTEN] = moved
    return found


def _periods(folder: Path) -> dict[str, tuple[float, float]]:
    """Periods and throttled periods of the pod's group and of its containers'."""
    found: dict[str, tuple[float, float]] = {}
    for name in ("", *_folders(folder)[:CONTAINERS_MAX]):
        stat = _fields(folder / name / "cpu.stat")
        if "nr_periods" in stat and "nr_throttled" in stat:
            found[name] = (stat["nr_periods"], stat["nr_throttled"])
    return found


def _between(before: _Look, now: _Look) -> Iterator[tuple[str, float]]:
    """Figures of the stretch between two looks; a counter that fell, or one that only one of them has, gives none."""
    seconds = (now.at - before.at) / SECOND_US
    if not 0 < now.at - before.at <= figures.APART_US_MAX:
        return
    throttled = [
        (held - before.periods[name][1]) / (periods - before.periods[name][0])
        for name, (periods, held) in now.periods.items()
        if name in before.periods and periods > before.periods[name][0] and held >= before.periods[name][1]
    ]
    if throttled and (worst := figures.as_ratio(max(throttled))) is not None:
        yield figures.CPU_THROTTLED, worst
    elif now.periods and before.periods and not throttled and _stood_still(before, now):
        yield figures.CPU_THROTTLED, 0.0
    for metric, total in now.totals.items():
        earlier = before.totals.get(metric)
        if earlier is None or total < earlier:
            continue
        rate = (total - earlier) / seconds
        value = figures.as_ratio(rate) if metric.endswith("_ratio") else rate
        if value is not None:
            yield metric, value


def _stood_still(before: _Look, now: _Look) -> bool:
    """No period passed in any group: nothing ran that a limit could have held back."""
    return all(now.periods.get(name) == counts for name, counts in before.periods.items())


def _waited(path: Path) -> float | None:
    """Seconds in which some task waited, of a pressure file; None where there is none."""
    for line in _text(path).splitlines():
        words = line.split()
        if words and words[0] == "some":
            total = next((word[6:] for word in words if word.startswith("total=")), "")
            return int(total) / SECOND_US if total.isascii() and total.isdecimal() and len(total) < 20 else None
    return None


def _fields(path: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in _text(path).splitlines():
        name, _, number = line.partition(" ")
        if number.isascii() and number.isdecimal() and len(number) < 20:
            found[name] = float(number)
    return found


def _moved(path: Path) -> tuple[float, float] | None:
    """Bytes read and written over all disks; None where the group has no such account."""
    read = written = 0.0
    text = _text(path)
    for word in text.split():
        name, _, number = word.partition("=")
        if number.isascii() and number.isdecimal() and len(number) < 20:
            read += float(number) if name == "rbytes" else 0
            written += float(number) if name == "wbytes" else 0
    return (read, written) if "rbytes=" in text else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(TEXT_MAX).decode("utf-8", errors="replace")
    except OSError:
        return ""
