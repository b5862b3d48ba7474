"""Jobs as their owners know them: what rolls up into one row, how it ended, what it took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.jobs import SQL, Jobs, jobs
from steelyard.answers.reading import Reading
from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.facts.owner import Owner
from steelyard.facts.ownership import Ownership
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Window
from steelyard.primitives.unknown import Unknown
from tests.ledgers.facts_of import grant, pod
from tests.ledgers.queue_facts import asked, posted
from tests.ledgers.wait_facts import at, condition, decision

ALL = DemandScope(Window(INSTANT_MIN, INSTANT_MAX))


def found(facts: Sequence[Fact], scope: DemandScope = ALL) -> Jobs:
    with posted(facts) as store:
        return jobs(Reading(store, SQL), scope)


def rows(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    tables = found(facts).tables
    return [
        dict(zip([column.name for column in table.columns], row, strict=True)) for table in tables for row in table.rows
    ]


def figure(facts: Sequence[Fact], name: str) -> Any:
    return next(figure.value for figure in found(facts).figures if figure.name == name)


def ray_pod(uid: str, cluster: str, **more: Any) -> list[Fact]:
    owner = Owner(
        source="kube_api", natural_key=uid, pod_uid=uid, namespace="team-a", owner_kind="RayCluster", owner_name=cluster, owner_uid=cluster,
        workload_kind="RayCluster", workload_name=cluster, occurred_at=at(1800), observed_at=at(1800),
    )  # fmt: skip
    return [
        pod(60, uid, gpu_count=1, created_at=0, scheduled_at=1, **more),
        grant(60, uid, unit_kind="gpu", quantity=1),
        owner,
    ]


def link(uid: str, kind: str, group: str, owner: str | None = None, owner_kind: str | None = None) -> Ownership:
    return Ownership(
        source="kube_api", natural_key=uid, object_uid=uid, object_kind=kind, object_group=group, namespace="team-a", object_name=uid,
        owner_uid=owner, owner_kind=owner_kind, owner_name=owner, occurred_at=at(1), observed_at=at(1),
    )  # fmt: skip


RAY = [
    *ray_pod("p1", "train-a", phase="Succeeded", first_container_at=2, last_container_end_at=31, outcome="succeeded"),
    *ray_pod("p2", "train-b", phase="Succeeded", first_container_at=2, last_container_end_at=61, outcome="succeeded"),
    link("train-a", "RayCluster", "ray.io", "train", "RayJob"),
    link("train-b", "RayCluster", "ray.io", "train", "RayJob"),
    link("train", "RayJob", "ray.io"),
]


def test_the_pods_of_two_clusters_of_one_ray_job_are_one_job() -> None:
    (row,) = rows(RAY)
    assert (row["kind"], row["job"], row["requests"], row["pods_seen"]) == ("RayJob", "train", 2, 2)
    assert (row["outcome"], row["gpu_hours"]) == ("succeeded", Fraction(3, 2))
    assert isinstance(row["samples_per_second"], Unknown)
    assert figure(RAY, "gpu_hours_per_job") == Fraction(3, 2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("412.5", None), Fraction(825, 2)),
        (("7", "12"), Fraction(12)),
        (("NaN", None), Unknown("what its pods say of it is no number")),
        (("-1", "1e400"), Unknown("what its pods say of it is no number")),
        (("9" * 60, "3"), Fraction(3)),
        (
            (None, None),
            Unknown("no job log was given, and no pod of it says so by annotation (setting rate_annotations)"),
        ),
    ],
)
def test_a_job_s_speed_is_what_its_pods_say_by_annotation(words: tuple[str | None, ...], expected: object) -> None:
    said = [{"steelyard.io/samples-per-second": word} if word is not None else {} for word in words]
    facts = [
        msgspec.structs.replace(fact, annotations=json.dumps(said[("p1", "p2").index(fact.pod_uid)]))
        if isinstance(fact, Owner)
        else fact
        for fact in RAY
    ]
    (row,) = rows(facts)
    assert row["samples_per_second"] == expected


def test_jobs_that_held_no_card_do_not_thin_the_mean_and_unseen_pods_lower_its_coverage() -> None:
    def plain(uid: str) -> list[Fact]:
        ended: dict[str, Any] = {"phase": "Succeeded", "first_container_at": 2, "last_container_end_at": 61}
        owner = Owner(source="kube_api", natural_key=uid, pod_uid=uid, namespace="team-a", owner_kind="Job", owner_name=uid, owner_uid=uid,
            workload_kind="Job", workload_name=uid, occurred_at=at(1800), observed_at=at(1800))  # fmt: skip
        return [pod(60, uid, gpu_count=0, created_at=0, scheduled_at=1, outcome="succeeded", **ended), owner]

    def mean(facts: Sequence[Fact]) -> tuple[Any, Any]:
        (of_jobs,) = [figure for figure in found(facts).figures if figure.name == "gpu_hours_per_job"]
        return of_jobs.value, of_jobs.coverage

    assert mean([*RAY, *plain("cpu")]) == (Fraction(3, 2), 1.0)
    unseen = of_job("w1", "llm", outcome="succeeded", finished_at=900, phase="finished")
    assert mean([*RAY, *plain("cpu"), *unseen]) == (Fraction(3, 2), 0.5)


def test_jobs_that_are_not_listed_count_in_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [*RAY]
    for number, outcome in enumerate(["succeeded", "succeeded", "failed", "replaced", None]):
        ended = {"finished_at": 900, "phase": "finished"} if outcome else {"phase": "admitted"}
        facts += of_job(f"w{number}", f"j{number}", outcome=outcome, **ended)
    whole = found(facts)
    assert whole.left_out == 0
    for rows_max in (0, 1, 3):
        monkeypatch.setattr("steelyard.answers.jobs.ROWS_MAX", rows_max)
        part = found(facts)
        assert part.figures == whole.figures
        assert part.left_out == 6 - rows_max
        assert [row for table in part.tables for row in table.rows] == whole.tables[0].rows[:rows_max]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Node"])
def test_what_serves_without_end_is_no_job(kind: str) -> None:
    owner = Owner(source="kube_api", natural_key="p1", pod_uid="p1", namespace="team-a", owner_kind=kind, owner_name="x", owner_uid="x",
        workload_kind=kind, workload_name="x", occurred_at=at(1800), observed_at=at(1800))  # fmt: skip
    assert rows([pod(30, "p1", gpu_count=1), owner]) == []
    assert rows([pod(30, "p1", gpu_count=1)]) == [], "nor is a pod alone"


def of_job(uid: str, name: str, **more: Any) -> list[Fact]:
    return asked(uid, 0, 60, owner_kind="PyTorchJob", owner_name=name, owner_uid=name, **more)


def test_waits_evictions_and_what_still_waits_stand_in_the_row() -> None:
    again = [condition(200, "Evicted", reason="Preempted"), condition(210, "QuotaReserved", "False")]
    (row,) = rows([*of_job("w1", "llm", evictions='[{"reason":"Preempted","cause":"","count":1}]'), *again])
    assert (row["waited"], row["waiting"], row["evictions"], row["gpus"]) == (60 + 790, True, 1, 8)
    assert isinstance(row["gpu_hours"], Unknown)


def test_success_counts_what_ended_by_itself_alone() -> None:
    facts: list[Fact] = []
    for number, outcome in enumerate(["succeeded", "succeeded", "failed", "replaced", "owner_not_found", None]):
        uid = f"w{number}"
        facts += of_job(
            uid,
            f"j{number}",
            outcome=outcome,
            finished_at=900 if outcome else None,
            phase="finished" if outcome else "admitted",
        )
    assert figure(facts, "jobs_success_ratio") == Fraction(2, 3)
    assert figure(facts, "jobs_count") == 6
    assert [row["outcome"] for row in sorted(rows(facts), key=lambda row: row["job"])] == [
        "succeeded", "succeeded", "failed", "replaced", "owner_not_found", None,
    ]  # fmt: skip


def test_the_jobs_own_word_wins_over_what_its_requests_say() -> None:
    own = Gang(
        source="kube_api", natural_key="llm", object_uid="llm", object_kind="PyTorchJob", object_group="kubeflow.org", namespace="team-a",
        object_name="llm", phase="Failed", outcome="failed", retry_count=3, created_at=at(0), finished_at=at(900), occurred_at=at(1000),
        observed_at=at(1000),
    )  # fmt: skip
    (row,) = rows([*of_job("w1", "llm", outcome="succeeded", finished_at=900, phase="finished"), own])
    assert (row["outcome"], row["retries"]) == ("failed", 3)


def test_only_jobs_of_the_window_and_of_whom_is_asked_about_are_told() -> None:
    facts = [*of_job("w1", "llm"), *asked("w2", 500, 600, owner_kind="Job", owner_name="late", owner_uid="late")]
    window = DemandScope(Window(at(400), at(600)))
    (table,) = found(facts, window).tables
    assert [row[3] for row in table.rows] == ["late"]
    assert found(facts, DemandScope(ALL.window, wanted={"tenant": ("nobody",)})).tables == []


def test_nothing_known_is_unknown_and_not_zero() -> None:
    assert isinstance(figure([decision(1, "not_now")], "jobs_success_ratio"), Unknown)
    assert isinstance(figure([], "gpu_hours_per_job"), Unknown)
