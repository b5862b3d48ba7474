"""What the ledgers say of the demo's queues is what the simulation did."""

from __future__ import annotations

from steelyard.answers.q06_scheduling import SchedulingSpec, answer
from steelyard.primitives.instant import SECOND_US
from tests.scenarios.demo.demo_run import Demo


def waits(demo: Demo) -> dict[str, list[tuple[int, int | None]]]:
    rows = demo.store.rows(
        "SELECT demand_id, epoch_us(started_at), epoch_us(ended_at) FROM ledger.wait "
        "WHERE demand_kind = 'workload' AND stage = 'queue' AND unknown_reason IS NULL ORDER BY started_at"
    )
    found: dict[str, list[tuple[int, int | None]]] = {}
    for uid, started, ended in rows:
        found.setdefault(uid, []).append((started, ended))
    return found


def floored(at: int) -> int:
    return at - at % SECOND_US


def test_each_workload_waited_as_long_as_the_truth_says(demo: Demo) -> None:
    found, last = waits(demo), demo.truth.snapshots[-1]
    first_waits = {
        each.uid: (floored(each.created_at), floored(each.reserved_at))
        for each in demo.truth.workloads
        if each.uid in found
        and each.reserved_at is not None
        and each.reserved_at <= last
        and each.preempted_at is None
        and not seen_never(demo, each.reserved_at, each.removed_at)
    }
    assert len(first_waits) > 10
    assert {uid: found[uid][0] for uid in first_waits} == first_waits
    unseen = [each for each in demo.truth.workloads if each.uid not in found]
    assert all(seen_never(demo, each.created_at, each.removed_at) for each in unseen)


def seen_never(demo: Demo, created_at: int, removed_at: int | None) -> bool:
    return not any(created_at <= at and (removed_at is None or at < removed_at) for at in demo.truth.snapshots)


def test_the_one_preemption_ends_a_run_and_begins_a_wait(demo: Demo) -> None:
    (victim,) = (each for each in demo.truth.workloads if each.preempted_at is not None)
    rows = demo.store.rows("SELECT victim_demand_id, epoch_us(preempted_at), cause FROM dim.preemption")
    assert rows == [(victim.uid, floored(victim.preempted_at or 0), "reclaim")]
    assert waits(demo)[victim.uid][-1] == (floored(victim.released_at or 0), None)


def test_the_one_leak_is_told_with_its_cards(demo: Demo) -> None:
    (leaking,) = (each for each in demo.truth.workloads if each.leaked_from_at is not None)
    rows = demo.store.rows("SELECT demand_id, from_us FROM dim.quota_leak WHERE is_open")
    assert rows == [(leaking.uid, floored(leaking.leaked_from_at or 0))]
    ((gpu,),) = demo.store.rows(
        "SELECT sum(leaked_milli) FROM dim.quota_now WHERE queue_kind = 'cluster_queue' AND queue = ?", [leaking.queue]
    )
    assert gpu == leaking.gpus * 1_000


def test_requests_by_group_add_up_to_the_figures(demo: Demo) -> None:
    for by in (("queue",), ("tenant",), ("namespace", "priority"), ("workload",)):
        told = answer(demo.store, SchedulingSpec(by=by))
        figures = {figure.name: figure.value for figure in told.figures}
        (table,) = (each for each in told.tables if each.name == "waits")
        names = [column.name for column in table.columns]
        for column, name in (
            ("requests", "requests_count"), ("waiting", "requests_waiting"), ("abandoned", "requests_abandoned"),
            ("never_fits", "requests_never_fits"), ("waits", "waits_count"), ("not_recoverable", "waits_not_recoverable_count"),
        ):  # fmt: skip
            assert sum(row[names.index(column)] for row in table.rows) == figures[name], (by, column)


def test_each_pod_that_names_a_queue_has_its_workload_and_no_other_pod_is_in_a_queue(demo: Demo) -> None:
    told = answer(demo.store, SchedulingSpec(by=("queue",)))
    assert isinstance(told.coverage, float)
    assert told.coverage > 0.99, "only the first wait of who was preempted is lost, as one object tells"
    lost = demo.store.rows(
        "SELECT demand_id, unknown_reason FROM ledger.wait WHERE stage = 'queue' AND unknown_reason IS NOT NULL"
    )
    (victim,) = (each.uid for each in demo.truth.workloads if each.preempted_at is not None)
    assert {uid for uid, _ in lost} <= {victim}
    assert not [finding for finding in told.findings if finding.code == "queue_label_without_workload"]
    assert demo.store.rows("SELECT count(*) FROM dim.demand WHERE demand_kind = 'pod' AND local_queue IS NOT NULL") == [
        (0,)
    ]
    stages = demo.store.rows("SELECT DISTINCT stage FROM ledger.wait WHERE demand_kind = 'pod' ORDER BY 1")
    assert stages == [("scheduler",), ("starting",)]
    asked = {each.owner_uid for each in demo.truth.workloads}
    assert {pod.owner_uid for pod in demo.truth.pods if pod.queue is not None} <= asked


def test_reservations_never_exceed_the_cards_and_the_preemption_keeps_the_rules(demo: Demo) -> None:
    found = demo.truth.workloads
    cards = sum(demo.truth.quotas.values())

    def reserved(at: int, queue: str | None = None) -> int:
        return sum(
            each.gpus
            for each in found
            if each.reserved_at is not None and each.reserved_at <= at and queue in (None, each.queue)
            and not any(end is not None and end <= at for end in (each.released_at, each.finished_at, each.removed_at))
        )  # fmt: skip

    assert max(reserved(each.reserved_at) for each in found if each.reserved_at is not None) <= cards
    (victim,) = (each for each in found if each.preempted_at is not None)
    assert victim.preemptor_uid is not None
    preemptor = next(each for each in found if each.uid == victim.preemptor_uid)
    at = victim.preempted_at or 0
    assert preemptor.queue != victim.queue
    assert reserved(at, victim.queue) > demo.truth.quotas[victim.queue], "it borrows"
    assert reserved(at, preemptor.queue) + preemptor.gpus <= demo.truth.quotas[preemptor.queue], "it asks for its own"
    assert preemptor.created_at < at < (preemptor.reserved_at or 0)
    assert demo.store.rows("SELECT rule FROM ledger.breach WHERE kind = 'breach'") == []
