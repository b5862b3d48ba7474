"""Facts of over-use by hand, and the ledger after one posting. One card of 40,960 MiB; pod ``u1`` holds 8,192 MiB and 30 % of it from minute 0 on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.owner import Owner
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.process_sample import ProcessSample
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.ledgers.registry import EXCESS, HOLDING, OVER_USE, USAGE, Ledger
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, listing, node, pod, seen, vgpu

LEDGERS: tuple[Ledger, ...] = (HOLDING, USAGE, EXCESS, OVER_USE)
CARD_MIB = 40_960
GRANTED_MIB = 8_192
TOLERATED_MIB = GRANTED_MIB + 600
END = 240


def process(minute: float, mib: int | None, uid: str | None = "u1", pid: int = 7, **more: Any) -> ProcessSample:
    uuid = more.pop("device_uuid", CARD)
    return ProcessSample(
        source="agent", natural_key=f"{uuid}/{pid}", device_uuid=uuid, pid=pid, pod_uid=uid, memory_used_mib=mib, **more, **seen(minute)
    )  # fmt: skip


def counted(minute: float, mib: int | None, name: str = "u1", **more: Any) -> PartitionSample:
    return PartitionSample(
        source="hami", natural_key=f"team-a/{name}/main/{CARD}", origin="monitor", device_uuid=CARD, namespace="team-a", pod=name,
        container="main", memory_counted_mib=mib, **more, **seen(minute),
    )  # fmt: skip


def board(minute: float, mib: int | None, **more: Any) -> DeviceSample:
    return DeviceSample(source="dcgm", natural_key=CARD, device_uuid=CARD, memory_used_mib=mib, **more, **seen(minute))


def daemon(uid: str) -> Owner:
    return Owner(
        source="kube_api", natural_key=uid, pod_uid=uid, namespace="team-a", owner_kind="DaemonSet", owner_name="d", workload_kind="DaemonSet",
        workload_name="d", **seen(5),
    )  # fmt: skip


def estate(*more: Fact | Iterable[Fact], cores: int = 30, end: float = END, **of_pod: Any) -> list[Fact]:
    facts: list[Fact] = [
        listing(5),
        listing(end),
        node(5),
        card(5, memory_mib=CARD_MIB),
        card(5, "GPU-b", memory_mib=CARD_MIB),
    ]
    for minute in (5, end):
        facts += [
            pod(minute, scheduled_at=0, gpu_count=1, **of_pod),
            vgpu(minute, memory=GRANTED_MIB, cores=cores, bound_at=0),
        ]
    for each in more:
        facts += [each] if isinstance(each, Fact) else list(each)
    return facts


def stranger(uid: str = "s1", **more: Any) -> list[Fact]:
    """A pod that asks for no GPU."""
    return [pod(minute, uid, scheduled_at=0, gpu_count=0, **more) for minute in (5, END)]


def episodes(facts: Sequence[Fact], parameters: PostingParameters | None = None) -> list[dict[str, Any]]:
    """The ledger's rows; instants as minutes."""
    with Store.open_memory() as store:
        store.append(facts)
        for _round in range(2):
            result = post_ledgers(store, parameters or PostingParameters(), clock=FixedClock(at(600)), ledgers=LEDGERS)
        assert result.run_id is None, result.changes
        return store.records(
            "SELECT * EXCLUDE (started_at, ended_at, known_to_at), (epoch_us(started_at) - ?) / 6e7 AS start, "
            "(epoch_us(ended_at) - ?) / 6e7 AS stop, (epoch_us(known_to_at) - epoch_us(started_at)) / 6e7 AS length "
            "FROM ledger.over_use ORDER BY pod_uid, rule, started_at",
            [at(0), at(0)],
        )


def words(facts: Sequence[Fact], parameters: PostingParameters | None = None) -> list[tuple[str, str, str, str | None]]:
    """(pod, rule, severity, hard_reason) of each episode."""
    return [(row["pod_uid"], row["rule"], row["severity"], row["hard_reason"]) for row in episodes(facts, parameters)]
