"""What a perfect reader must find in the emitted files, worked out from the truth by arithmetic alone.

A source shows less than what happened: a pod that nobody listed is not known, and one that vanished between two listings ended
somewhere between them (definitions.md, section 2). These functions say exactly how much remains.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from steelyard.primitives.instant import SECOND_US, Instant
from steelyard.simulation.truth import HAMI, WHOLE, GroundTruth, Node, Pod

CARD_PPM = 1_000_000
HELD, RESERVED = "held", "reserved"


@dataclass(frozen=True, slots=True, order=True)
class ExpectedHolding:
    """A stretch in which a pod had ``share_ppm`` of a card (of all its rows' cards where the device is not known: ``quantity`` of them).

    ended_at None = still open at the last listing. ended_before_at: it had vanished by then; ended_at is its last sighting.
    device_uuid and unit_id are None where no kubelet dump fell into its life on a node that has no other source.
    """

    pod_uid: str
    device_uuid: str
    unit_id: str
    occupancy: str
    node: str
    quantity: int
    share_ppm: int
    started_at: Instant
    ended_at: Instant | None
    ended_before_at: Instant | None


def expected_holdings(truth: GroundTruth) -> list[ExpectedHolding]:
    """Every holding and reservation that the sources can show, in order. ``device_uuid`` and ``unit_id`` are "" where not known."""
    successors = _successors(truth)
    return sorted(row for pod in truth.pods for row in _holdings(truth, pod, successors.get(pod.uid)))


def _holdings(truth: GroundTruth, pod: Pod, successor_at: Instant | None) -> Iterator[ExpectedHolding]:
    seen = sightings(truth, pod)
    if not seen or pod.fate in ("rejected", "never_scheduled") or pod.node is None:
        return
    last = seen[-1]
    if pod.fate == "reserved":
        if pod.filtered_at is not None and pod.filtered_at <= last:
            gone_before = next_snapshot(truth, last) if pod.removed_at is not None else None
            yield from _rows(truth, pod, RESERVED, pod.filtered_at, last, gone_before)
        return
    if pod.bound_at is None or last < pod.bound_at:
        if pod.filtered_at is not None and pod.filtered_at <= last:
            yield from _rows(truth, pod, RESERVED, pod.filtered_at, last, next_snapshot(truth, last))
        return
    if pod.filtered_at is not None:
        yield from _rows(truth, pod, RESERVED, pod.filtered_at, pod.bound_at, None)
    if pod.fate in ("succeeded", "failed") and pod.ended_at is not None and pod.ended_at <= last:
        yield from _rows(truth, pod, HELD, pod.bound_at, pod.ended_at, None)
    elif last == truth.snapshots[-1]:
        yield from _rows(truth, pod, HELD, pod.bound_at, None, None)
    else:
        following = next_snapshot(truth, last)
        bound = following if successor_at is None or successor_at <= last else min(following, successor_at)
        yield from _rows(truth, pod, HELD, pod.bound_at, last, bound)


def _rows(
    truth: GroundTruth, pod: Pod, occupancy: str, start: Instant, end: Instant | None, end_before: Instant | None
) -> Iterator[ExpectedHolding]:
    node = pod.node or ""
    if not device_is_known(truth, pod):
        share = sum(grant.share_ppm for grant in pod.grants)
        yield ExpectedHolding(pod.uid, "", "", occupancy, node, pod.gpus, share, start, end, end_before)
        return
    for grant in pod.grants:
        yield ExpectedHolding(
            pod.uid, grant.device_uuid, grant.unit_id or "", occupancy, node, 1, grant.share_ppm, start, end, end_before
        )


def sightings(truth: GroundTruth, pod: Pod) -> list[Instant]:
    """The listings that name the pod."""
    return [at for at in truth.snapshots if pod.created_at <= at and (pod.removed_at is None or at < pod.removed_at)]


def next_snapshot(truth: GroundTruth, at: Instant) -> Instant:
    """The first listing after an instant that is not the last."""
    return truth.snapshots[bisect_right(truth.snapshots, at)]


def device_is_known(truth: GroundTruth, pod: Pod) -> bool:
    """Whether a source names the card: HAMi's annotation always, else a kubelet dump within the pod's time on a node that answers."""
    if pod.kind == HAMI:
        return True
    node = truth.node(pod.node or "")
    admitted = (pod.bound_at or 0) + SECOND_US
    return any(
        admitted <= at and (pod.ended_at is None or at < pod.ended_at) and _is_up(node, at)
        for at in truth.pod_resources
    )


def _is_up(node: Node, at: Instant) -> bool:
    return node.not_ready_at is None or at < node.not_ready_at


def _successors(truth: GroundTruth) -> dict[str, Instant]:
    """For each pod, when the next one of the same name was created, as far as a listing shows that one."""
    by_name: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in truth.pods:
        by_name[pod.namespace, pod.name].append(pod)
    found: dict[str, Instant] = {}
    for pods in by_name.values():
        pods.sort(key=lambda pod: pod.created_at)
        for earlier, later in pairwise(pods):
            if sightings(truth, later):
                found[earlier.uid] = later.created_at
    return found


def held_gpu_us(truth: GroundTruth) -> dict[tuple[str, str], int]:
    """(place, occupancy) -> GPU-microseconds until the last listing. The place is the card, or ``node/<name>`` where it is not known.
    Where the shares of a card exceed it, each counts in proportion, floored to parts per million."""
    rows: dict[str, list[ExpectedHolding]] = defaultdict(list)
    for row in expected_holdings(truth):
        rows[row.device_uuid or f"node/{row.node}"].append(row)
    found: dict[tuple[str, str], int] = defaultdict(int)
    for place, holdings in rows.items():
        limit = CARD_PPM if not place.startswith("node/") else None
        for occupancy, amount in _swept(holdings, truth.snapshots[-1], limit):
            found[place, occupancy] += amount
    return dict(found)


def _swept(rows: list[ExpectedHolding], end: Instant, limit: int | None) -> Iterator[tuple[str, int]]:
    """(occupancy, GPU-microseconds) of each row between each two neighbouring instants at which anything changes."""
    cuts = sorted({at for row in rows for at in (row.started_at, row.ended_at or end)})
    for start, stop in pairwise(cuts):
        here = [row for row in rows if row.started_at <= start and stop <= (row.ended_at or end)]
        total = sum(row.share_ppm for row in here)
        for row in here:
            share = row.share_ppm if limit is None or total <= limit else row.share_ppm * CARD_PPM // total
            yield row.occupancy, share * (stop - start) // CARD_PPM


def memory_used_mib(truth: GroundTruth) -> dict[str, list[tuple[Instant, int]]]:
    """Card -> (sample, MiB in use) for every sample at which the card answered."""
    lost = {event.device_uuid: event.at for event in truth.happenings if event.kind == "gpu_lost"}
    processes = defaultdict(list)
    for pod in truth.pods:
        for grant in pod.grants:
            if pod.phases:
                processes[grant.device_uuid].append(pod)
    found: dict[str, list[tuple[Instant, int]]] = {}
    for node in truth.nodes:
        for device in node.devices:
            end = min(lost.get(device.uuid, truth.end_at + 1), node.not_ready_at or truth.end_at + 1)
            found[device.uuid] = [
                (at, truth.device_base_mib + sum(pod_memory_mib(pod, at) for pod in processes[device.uuid]))
                for at in truth.samples
                if at < end
            ]
    return found


def pod_memory_mib(pod: Pod, at: Instant) -> int:
    """What the pod's process uses of one card then; 0 outside its run (it has none)."""
    if pod.running_at is None or at < pod.running_at or (pod.ended_at is not None and pod.ended_at <= at):
        return 0
    return [phase.memory_mib for phase in pod.phases if phase.from_at <= at][-1]


@dataclass(frozen=True, slots=True)
class ExpectedUse:
    """Memory in MiB-microseconds over the stretches that samples stand for, and the peak of the samples within the time of the user."""

    memory_mib_us: int
    memory_peak_mib: int | None


Stretch = tuple[Instant, Instant, int]
"""From a sample to the next one of the same unit, and what it showed in MiB. The last sample stands for no time."""


def device_stretches(truth: GroundTruth) -> dict[str, list[Stretch]]:
    """Card -> its stretches. A lost card shows no memory, but its rows end the stretch before."""
    found: dict[str, list[Stretch]] = {}
    used = memory_used_mib(truth)
    for node in truth.nodes:
        following = dict(pairwise([at for at in truth.samples if _is_up(node, at)]))
        for device in node.devices:
            found[device.uuid] = [(at, following.get(at, at), mib) for at, mib in used[device.uuid]]
    return found


def instance_stretches(truth: GroundTruth) -> dict[tuple[str, int], list[Stretch]]:
    """(Card, GPU instance) -> its stretches, from the reports of MIG nodes."""
    users: dict[str, list[Pod]] = defaultdict(list)
    for pod in truth.pods:
        for grant in pod.grants:
            if grant.unit_kind == "mig" and grant.unit_id is not None:
                users[grant.unit_id].append(pod)
    found: dict[tuple[str, int], list[Stretch]] = {}
    for node in truth.nodes:
        reports = [at for at in truth.mig_reports if _is_up(node, at)]
        following = dict(pairwise(reports))
        for device in node.devices:
            for unit in device.units:
                found[device.uuid, unit.gi] = [
                    (at, following.get(at, at), sum(pod_memory_mib(pod, at) for pod in users[unit.uuid]))
                    for at in reports
                ]
    return found


def device_use(truth: GroundTruth) -> dict[str, ExpectedUse]:
    """Card -> what it used as a whole."""
    always = [(0, truth.end_at + 1)]
    return {uuid: _use(stretches, always) for uuid, stretches in device_stretches(truth).items() if stretches}


def exclusive_use(truth: GroundTruth) -> dict[tuple[str, str], ExpectedUse]:
    """(Pod, card) -> what the card used while the pod was its only holder, as far as the sources show that it was."""
    stretches = device_stretches(truth)
    stays = _sole_stays(truth, mig=False)
    return {
        (pod_uid, uuid): _use(stretches[uuid], mine)
        for (pod_uid, uuid), mine in stays.items()
        if _meet(stretches[uuid], mine)
    }


def mig_use(truth: GroundTruth) -> dict[tuple[str, str, int], ExpectedUse]:
    """(Pod, card, GPU instance) -> what the instance used while the pod was its only holder."""
    stretches = instance_stretches(truth)
    place_of = {unit.uuid: (device.uuid, unit.gi) for device in truth.devices() for unit in device.units}
    return {
        (pod_uid, *place_of[unit_id]): _use(stretches[place_of[unit_id]], mine)
        for (pod_uid, unit_id), mine in _sole_stays(truth, mig=True).items()
        if _meet(stretches[place_of[unit_id]], mine)
    }


def _meet(stretches: list[Stretch], stays: list[tuple[Instant, Instant]]) -> bool:
    """Whether any sample, or the stretch that it stands for, falls into any stay."""
    return any(lo <= start < hi or max(start, lo) < min(stop, hi) for start, stop, _ in stretches for lo, hi in stays)


def _use(stretches: list[Stretch], stays: list[tuple[Instant, Instant]]) -> ExpectedUse:
    amount, peak = 0, None
    for start, stop, mib in stretches:
        for lo, hi in stays:
            amount += mib * max(0, min(stop, hi) - max(start, lo))
            if lo <= start < hi:
                peak = mib if peak is None else max(peak, mib)
    return ExpectedUse(amount, peak)


def _sole_stays(truth: GroundTruth, *, mig: bool) -> dict[tuple[str, str], list[tuple[Instant, Instant]]]:
    """(Pod, card or MIG UUID) -> when it held all of it and no pod on an unknown card of the node could have been another.

    A card that its plugin gives whole to one pod is none of those where the other may be, unless the node's plugin shares cards.
    """
    end = truth.snapshots[-1]
    held = [row for row in expected_holdings(truth) if row.occupancy == HELD]
    unplaced = defaultdict(list)
    rows: dict[str, list[ExpectedHolding]] = defaultdict(list)
    for row in held:
        if not row.device_uuid:
            unplaced[row.node].append(row)
        elif row.unit_id.startswith("MIG-") == mig:
            rows[row.unit_id if mig else row.device_uuid].append(row)
    found: dict[tuple[str, str], list[tuple[Instant, Instant]]] = defaultdict(list)
    exclusive = {node.name for node in truth.nodes if node.kind == WHOLE}
    for place, mine in rows.items():
        others = mine + ([] if not mig and mine[0].node in exclusive else unplaced[mine[0].node])
        cuts = sorted({at for row in others for at in (row.started_at, row.ended_at or end)})
        for start, stop in pairwise(cuts):
            here = [row for row in others if row.started_at <= start and stop <= (row.ended_at or end)]
            whole = mig or (here and here[0].share_ppm == 1_000_000)
            if len(here) == 1 and here[0].device_uuid and whole:
                found[here[0].pod_uid, place].append((start, stop))
    return dict(found)
