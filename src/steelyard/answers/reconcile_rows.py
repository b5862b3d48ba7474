"""The rows of reconcile: of each pod on a card, and of each card, the five figures of memory and of cores, from integers.

``reconcile`` reads and assembles, this module lays side by side. The trick to know: a figure is the mean over the time in which it was observed;
where samples stand for no time (a file, an exporter scraped once), it is the last one, and ``basis`` says so. A figure that is not known has
its reason, and a difference is taken only where both sides are of the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Final

from steelyard.answers.contract import Value
from steelyard.answers.reading import Record
from steelyard.definitions import deviation
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DurationUs, Instant
from steelyard.primitives.unknown import Unknown

MEMORY: Final = ("requested", "granted", "enforced", "counted", "device")
"""The five, of memory and of cores."""

Key = tuple[str, str, int | None, str | None]
"""Cluster, card, GPU instance, pod (None: the card)."""


@dataclass(slots=True)
class Compared:
    """One pod on one card, or one card. ``memory``, ``cores``: the five figures, MiB and percent of one card. ``scheduler``: its cache."""

    record: Record
    memory: dict[str, Value] = field(default_factory=dict)
    cores: dict[str, Value] = field(default_factory=dict)
    scheduler: Value = None
    scheduler_cores: Value = None
    less: Value = None
    verdict: str = "agrees"
    basis: str | None = None
    held_us: DurationUs = 0
    both_us: DurationUs = 0
    less_mib_us: int = 0
    last_us: Instant | None = None
    refused_count: int = 0


def key_of(row: Record) -> Key:
    """What a row is about."""
    return row["cluster"], row["device_uuid"], row["gi"], row["pod_uid"]


def mean(total: int | None, length: int | None) -> Fraction | None:
    """A mean over time; None over no time."""
    if total is None or length is None or int(length) <= 0:
        return None
    return Fraction(int(total), int(length))


def compared_pods(
    held: Sequence[Record],
    sampled: Mapping[Key, Record],
    used: Mapping[Key, Record],
    pods: Mapping[tuple[str, str], Record],
    cards: Mapping[tuple[str, str], Record],
    *,
    at_instant: bool,
) -> list[Compared]:
    """Every pod on every card of which anything is known: held in the window, or named by an exporter."""
    rows = {key_of(row): row for row in held}
    found = []
    for key in [*rows, *(key for key in sampled if key[3] is not None and key not in rows)]:
        cluster, uuid, _gi, pod_uid = key
        pod = pods.get((cluster, str(pod_uid))) or _named(str(pod_uid))
        card = cards.get((cluster, uuid), {})
        own = rows.get(key)
        said = sampled.get(key)
        if own is None and not _says_any(said):
            continue
        record = {
            **_blank(card),
            **pod,
            **(own or {}),
            "cluster": cluster,
            "device_uuid": uuid,
            "gi": key[2],
            "pod_uid": pod_uid,
        }
        record["tenant"] = pod.get("tenant")
        found.append(_compare(record, own, said, used.get(key), at_instant=at_instant))
    return found


def compared_cards(
    pods: Iterable[Compared],
    sampled: Mapping[Key, Record],
    used: Mapping[Key, Record],
    cards: Mapping[tuple[str, str], Record],
    window_us: DurationUs,
    *,
    refused: Collection[tuple[str, str]],
    at_instant: bool,
) -> list[Compared]:
    """Every card that is held or sampled: what its pods requested and were granted, added up over the window, and its own samples.

    ``refused``: cluster and card of which some sample was refused."""
    of_card: dict[tuple[str, str], list[Compared]] = {}
    for row in pods:
        of_card.setdefault((row.record["cluster"], row.record["device_uuid"]), []).append(row)
    sampled_cards = {(key[0], key[1]) for key in sampled if key[3] is None} | {
        (key[0], key[1]) for key in used if key[3] is None
    }
    found = []
    for cluster, uuid in sorted({*of_card, *sampled_cards}):
        key: Key = (cluster, uuid, None, None)
        record = {
            **_blank(cards.get((cluster, uuid), {})),
            "cluster": cluster,
            "device_uuid": uuid,
            "gi": None,
            "pod_uid": None,
        }
        holders = [row for row in of_card.get((cluster, uuid), ()) if row.held_us]
        unseen = (
            _("its samples were refused: see the table deviations")
            if (cluster, uuid) in refused
            else _("no sample of the card")
        )
        row = _compare(record, None, sampled.get(key), used.get(key), at_instant=at_instant, of_card=Unknown(unseen))
        counting = [each for each in holders if not each.record.get("in_suspense")]
        for name in ("requested", "granted"):
            row.memory[name] = added(counting, partial(_of_memory, name), window_us, "MiB")
            row.cores[name] = added(counting, partial(_of_cores, name), window_us, "%")
        for name in ("enforced", "counted"):
            row.memory[name] = _whole(row.memory[name], counting, partial(_of_memory, name), "MiB")
        row.cores["counted"] = _whole(row.cores["counted"], counting, partial(_of_cores, "counted"), "%")
        if isinstance(row.memory["counted"], Unknown):
            row.less = row.memory["counted"]
        row.held_us = sum(each.held_us for each in holders)
        row.verdict = _verdict(
            row, held=True, rounded=any(each.record.get("unit_kind") == "mig" for each in holders), of_card=True
        )
        found.append(row)
    return found


def added(rows: Sequence[Compared], figure: Callable[[Compared], Value], window_us: DurationUs, unit: str) -> Value:
    """The sum of a figure over rows, each weighted by the part of the window in which it was held; unknown with its least where one is not known."""
    total, missing = Fraction(0), 0
    for row in rows:
        value = figure(row)
        if isinstance(value, int | float | Fraction):
            total += Fraction(value) * Fraction(min(row.held_us, window_us), window_us)
        else:
            missing += 1
    if missing:
        least = _("; at least {least} {unit}").format(least=f"{float(total):g}", unit=unit) if total else ""
        return Unknown(_("of {count} of its pods it is not known").format(count=missing) + least)
    return total


def _whole(value: Value, holders: Sequence[Compared], figure: Callable[[Compared], Value], unit: str) -> Value:
    """What was sampled of a card's pods together; not known, with its least, where of one of them it is not."""
    missing = sum(isinstance(figure(row), Unknown) for row in holders)
    if not missing or not isinstance(value, int | float | Fraction):
        return value
    least = _("; at least {least} {unit}").format(least=f"{float(value):g}", unit=unit) if value > 0 else ""
    return Unknown(_("of {count} of its pods it is not known").format(count=missing) + least)


def _of_memory(name: str, row: Compared) -> Value:
    return row.memory[name]


def _of_cores(name: str, row: Compared) -> Value:
    return row.cores[name]


def _compare(
    record: Record,
    own: Record | None,
    said: Record | None,
    used: Record | None,
    *,
    at_instant: bool,
    of_card: Unknown | None = None,
) -> Compared:
    """One row. ``of_card``: it is a card's, and why the device may have told nothing of it."""
    row = Compared(record)
    if said is not None:
        row.refused_count = int(said["refused_count"] or 0)
    absent = _absent(row, _("no series of the sharing layer's monitor: absent is not 0"))
    unsaid = Unknown(_("the request does not state it"))
    whole = Unknown(_("the grant does not state it"))
    nobody = Unknown(_("it does not hold this card"))
    if own is not None:
        row.held_us = int(own["held_us"])
        row.memory["requested"] = _or(mean(own["requested_mib_us"], own["requested_us"]), unsaid)
        row.memory["granted"] = _or(mean(own["granted_mib_us"], own["granted_us"]), whole)
        row.cores["requested"] = _or(mean(own["requested_percent_us"], own["requested_percent_held_us"]), unsaid)
        row.cores["granted"] = _or(mean(own["granted_percent_us"], own["granted_percent_held_us"]), whole)
    else:
        row.memory.update(requested=nobody, granted=nobody)
        row.cores.update(requested=nobody, granted=nobody)
    row.memory["enforced"] = _sampled(said, "enforced_mib_us", "enforced_us", "enforced_last_mib", at_instant, absent)
    row.memory["counted"] = _sampled(said, "counted_mib_us", "counted_us", "counted_last_mib", at_instant, absent)
    row.memory["device"] = _device_memory(said, used, at_instant, of_card)
    row.cores["enforced"] = Unknown(_("no exporter tells the limit of cores that is in force"))
    row.cores["counted"] = _sampled(
        said, "counted_percent_us", "counted_percent_seen_us", "counted_last_ppm", at_instant, absent, ppm=True
    )
    row.cores["device"] = _device_cores(said, used, at_instant, of_card)
    silent = _absent(row, _("the scheduler's exporter names it not"))
    row.scheduler = _sampled(said, "scheduler_mib_us", "scheduler_us", "scheduler_last_mib", at_instant, silent)
    row.scheduler_cores = _sampled(
        said, "scheduler_percent_us", "scheduler_percent_seen_us", "scheduler_last_ppm", at_instant, silent, ppm=True
    )
    if said is not None:
        row.last_us = said["last_us"]
        row.both_us, row.less_mib_us = int(said["both_us"] or 0), int(said["less_mib_us"] or 0)
        row.basis = _basis(said, at_instant)
    row.less = _less(row, said, at_instant)
    row.verdict = _verdict(
        row, held=own is not None, rounded=record.get("unit_kind") == "mig", of_card=of_card is not None
    )
    return row


def _absent(row: Compared, silent: str) -> Unknown:
    """Why there is no figure: what was said was refused, or nothing was said."""
    refused = _("no sample tells it that a card can have: {count} were refused").format(count=row.refused_count)
    return Unknown(refused if row.refused_count else silent)


def _sampled(
    said: Record | None, total: str, length: str, last: str, at_instant: bool, absent: Unknown, *, ppm: bool = False
) -> Value:
    if said is None:
        return absent
    over_time = mean(said[total], said[length])
    value = None if said[last] is None else Fraction(int(said[last]), 10_000 if ppm else 1)
    if at_instant:
        return _or(value if value is not None else over_time, absent)
    return _or(over_time if over_time is not None else value, absent)


def _device_memory(said: Record | None, used: Record | None, at_instant: bool, of_card: Unknown | None) -> Value:
    alone = Unknown(_("no process of the pod was seen, and it does not have the card for itself"))
    absent = alone if of_card is None else of_card
    found = _sampled(said, "device_mib_us", "device_us", "device_last_mib", at_instant, absent)
    if isinstance(found, Unknown) and used is not None:
        over_time = mean(used["memory_mib_us"], used["observed_us"])
        return _or(over_time, absent)
    return found


def _device_cores(said: Record | None, used: Record | None, at_instant: bool, of_card: Unknown | None) -> Value:
    of_pod = Unknown(_("the device reports utilisation of the card, not of its pods"))
    absent = of_pod if of_card is None else of_card
    found = _sampled(
        said, "device_percent_us", "device_percent_seen_us", "device_last_ppm", at_instant, absent, ppm=True
    )
    if isinstance(found, Unknown) and used is not None:
        ratio = mean(used["active_gpu_us"], used["active_us"])
        return _or(None if ratio is None else ratio * 100, absent)
    return found


def _less(row: Compared, said: Record | None, at_instant: bool) -> Value:
    """What is counted less what the device reports: over the time in which both were seen, or of the last round."""
    over_time = mean(row.less_mib_us, row.both_us)
    if over_time is not None and not at_instant:
        return over_time
    if said is not None and said["counted_last_mib"] is not None and said["device_last_mib"] is not None:
        return Fraction(int(said["counted_last_mib"]) - int(said["device_last_mib"]))
    if over_time is not None:
        return over_time
    return Unknown(_("counted and device were not seen at one time"))


def _verdict(row: Compared, *, held: bool, rounded: bool, of_card: bool) -> str:
    figures = {name: _number(row.memory[name]) for name in MEMORY}
    less = _number(row.less)
    if less is not None and figures["device"] is not None:
        figures["counted"] = figures["device"] + less
    elif figures["counted"] is not None and figures["device"] is not None:
        figures["device"] = None  # not of one time: they are not compared
    return deviation.verdict(
        None if of_card else figures["requested"],
        figures["granted"],
        None if of_card else figures["enforced"],
        figures["counted"],
        figures["device"],
        held=held,
        rounded=rounded,
    )


def _basis(said: Record, at_instant: bool) -> str:
    seen = any(said[name] for name in ("enforced_us", "counted_us", "device_us", "scheduler_us"))
    return "last sample" if at_instant or not seen else "mean over observed time"


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float | Fraction) else None


def _or(value: Fraction | None, unknown: Unknown) -> Value:
    return unknown if value is None else value


def _says_any(said: Record | None) -> bool:
    return said is not None and any(
        said[name] for name in ("monitor_samples_count", "scheduler_samples_count", "device_samples_count")
    )


def _named(pod_uid: str) -> Record:
    """A pod that only an exporter names."""
    namespace, _slash, pod = pod_uid.removeprefix("name:").partition("/")
    return {"namespace": namespace, "pod": pod} if pod_uid.startswith("name:") else {"namespace": None, "pod": pod_uid}


def _blank(card: Record) -> Record:
    names = ("node", "device_index", "model", "vendor", "memory_mib", "schedulable_memory_mib", "mode")
    return {f"card_{name}" if name in ("memory_mib", "mode") else name: card.get(name) for name in names}
