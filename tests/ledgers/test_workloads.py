"""The workload behind a pod is found by climbing references, and what was not seen falls back on labels and names, and says so."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.definitions.tenant import TenantRule
from steelyard.facts.base import Fact
from steelyard.facts.owner import Owner
from steelyard.facts.ownership import Ownership
from steelyard.ledgers.posting import PostingParameters
from steelyard.store import Store
from tests.ledgers.facts_of import pod, post, seen
from tests.ledgers.reference_workload import links_of, root_of, workload_of

Reference = tuple[str, str, str, str]
"""uid, kind, group, name."""

GROUPS = {
    "ReplicaSet": "apps", "Deployment": "apps", "StatefulSet": "apps", "Job": "batch", "CronJob": "batch",
    "JobSet": "jobset.x-k8s.io", "TrainJob": "trainer.kubeflow.org", "PyTorchJob": "kubeflow.org", "Notebook": "kubeflow.org",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io", "RayCluster": "ray.io", "RayJob": "ray.io", "RayService": "ray.io",
    "Workload": "kueue.x-k8s.io", "PodGroup": "scheduling.volcano.sh", "Pod": "", "Node": "",
}  # fmt: skip


def thing(kind: str, name: str, owner: Reference | None = None, minute: float = 1, **more: Any) -> Ownership:
    """``kind`` may be ``vcjob``; uid ``<kind>:<name>``."""
    group = "batch.volcano.sh" if kind == "vcjob" else GROUPS[kind]
    owner_uid, owner_kind, owner_group, owner_name = owner or (None,) * 4
    uid = more.pop("uid", f"{kind}:{name}")
    return Ownership(
        source="kube_api", natural_key=uid, object_uid=uid, object_kind="Job" if kind == "vcjob" else kind, object_group=group,
        namespace="team-a", object_name=name, owner_uid=owner_uid, owner_kind=owner_kind, owner_group=owner_group,
        owner_name=owner_name, **more, **seen(minute),
    )  # fmt: skip


def ref(kind: str, name: str) -> Reference:
    if kind == "vcjob":
        return f"vcjob:{name}", "Job", "batch.volcano.sh", name
    return f"{kind}:{name}", kind, GROUPS[kind], name


def belongs(owner: Reference | None, told: tuple[str, str], uid: str = "u1", minute: float = 30) -> Owner:
    return Owner(
        source="kube_api", natural_key=uid, pod_uid=uid, namespace="team-a", owner_uid=owner and owner[0], owner_kind=owner and owner[1],
        owner_name=owner and owner[3], workload_kind=told[0], workload_name=told[1], **seen(minute),
    )  # fmt: skip


def table(facts: Sequence[Fact], name: str, parameters: PostingParameters | None = None) -> list[dict[str, Any]]:
    with Store.open_memory() as store:
        store.append(facts)
        post(store, parameters)
        return store.records(f"SELECT * FROM dim.{name} ORDER BY 1, 2")


def workload(facts: Sequence[Fact], uid: str = "u1") -> tuple[str, str, str, str | None]:
    (row,) = [row for row in table([pod(uid=uid), *facts], "pod") if row["pod_uid"] == uid]
    return row["workload_kind"], row["workload_name"], row["workload_basis"], row["workload_uid"]


def up(*steps: tuple[str, str]) -> list[Fact]:
    """Each object seen, belonging to the next; the last to nobody."""
    owners = [ref(*step) for step in steps[1:]]
    return [thing(*step, owner) for step, owner in zip(steps, [*owners, None], strict=True)]


@pytest.mark.parametrize(
    ("told", "steps"),
    [
        (("Deployment", "x"), [("ReplicaSet", "web-7c9f"), ("Deployment", "web")]),
        (("Job", "n-1"), [("Job", "n-1"), ("CronJob", "nightly")]),
        (("JobSet", "sweep"), [("Job", "sweep-w-0"), ("JobSet", "sweep")]),
        (("JobSet", "t"), [("Job", "t-node-0"), ("JobSet", "t"), ("TrainJob", "t")]),
        (("Job", "r-submit"), [("Job", "r-submit"), ("RayJob", "r")]),
        (("RayCluster", "r-abc"), [("RayCluster", "r-abc"), ("RayJob", "r")]),
        (("RayCluster", "s-abc"), [("RayCluster", "s-abc"), ("RayService", "s")]),
        (("vcjob", "mpi"), [("vcjob", "mpi")]),
        (("PyTorchJob", "ft"), [("PyTorchJob", "ft")]),
        (("StatefulSet", "llm-0"), [("StatefulSet", "llm-0"), ("StatefulSet", "llm"), ("LeaderWorkerSet", "llm")]),
        (("StatefulSet", "nb"), [("StatefulSet", "nb"), ("Notebook", "nb")]),
    ],
)
def test_the_root_is_what_the_chain_ends_in(told: tuple[str, str], steps: list[tuple[str, str]]) -> None:
    facts = [belongs(ref(*steps[0]), told), *up(*steps)]
    assert workload(facts) == (*steps[-1], "chain", ref(*steps[-1])[0])


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ([belongs(ref("ReplicaSet", "web-7c9f"), ("Deployment", "web"))], ("Deployment", "web", "name")),
        ([belongs(ref("StatefulSet", "db"), ("StatefulSet", "db"))], ("StatefulSet", "db", "reference")),
        ([belongs(ref("vcjob", "mpi"), ("vcjob", "mpi"))], ("vcjob", "mpi", "reference")),
        (
            [belongs(ref("Job", "n-1"), ("Job", "n-1")), thing("Job", "n-1", ref("CronJob", "nightly"))],
            ("CronJob", "nightly", "reference"),
        ),
        (
            [
                belongs(ref("ReplicaSet", "m-1"), ("InferenceService", "m")),
                thing("ReplicaSet", "m-1", ref("Deployment", "m-predictor")),
            ],
            ("InferenceService", "m", "name"),
        ),
        ([belongs(None, ("Pod", "u1"))], ("Pod", "u1", "chain")),
        ([belongs(None, ("Job", "orphan"))], ("Job", "orphan", "name")),
        ([belongs(ref("Node", "n1"), ("Pod", "u1"))], ("Pod", "u1", "name")),
        (
            [
                belongs(ref("Job", "a"), ("Job", "a")),
                thing("Job", "a", ref("Job", "b")),
                thing("Job", "b", ref("Job", "a")),
            ],
            ("Job", "a", "name"),
        ),
        (
            [
                belongs(("u2", "Pod", "", "driver"), ("Pod", "driver")),
                pod(uid="u2"),
                belongs(None, ("Pod", "u2"), "u2"),
            ],
            ("Pod", "u2", "chain"),
        ),
        (
            [
                belongs(ref("ReplicaSet", "w-1"), ("Deployment", "w")),
                thing("ReplicaSet", "w-1", ref("Deployment", "w"), 5),
                thing("ReplicaSet", "w-1", None, 9),
                thing("Deployment", "w"),
            ],
            ("Deployment", "w", "chain"),
        ),
    ],
    ids=[
        "nothing seen: labels and names",
        "the direct owner is named alone",
        "a Volcano job named alone",
        "the last step is named by a seen one",
        "a label knows a root beyond what was seen",
        "a pod of nobody",
        "a pod of nobody with a job's label",
        "a static pod",
        "a circle has no root",
        "a pod of a pod",
        "an orphan is still the work of whom it belonged to",
    ],
)
def test_what_was_not_seen_falls_back_and_says_so(facts: list[Fact], found: tuple[str, str, str]) -> None:
    assert workload(facts)[:3] == found


def test_another_clusters_object_is_no_step() -> None:
    stranger = thing("ReplicaSet", "web-7c9f", ref("Deployment", "other"), cluster="c2")
    assert workload([belongs(ref("ReplicaSet", "web-7c9f"), ("Deployment", "web")), stranger])[:3] == (
        "Deployment",
        "web",
        "name",
    )


def roots(facts: Sequence[Fact]) -> dict[str, tuple[str | None, str | None, str | None]]:
    return {
        row["object_uid"]: (row["root_kind"], row["root_name"], row["root_basis"]) for row in table(facts, "workload")
    }


def test_a_mirror_stands_for_what_it_belongs_to_and_is_never_a_root_above_it() -> None:
    facts = [
        thing("Workload", "job-x", ref("Job", "x")), thing("Job", "x", ref("JobSet", "s")), thing("JobSet", "s"),
        thing("PodGroup", "podgroup-x", ref("ReplicaSet", "w-1")), thing("ReplicaSet", "w-1", ref("Deployment", "w")), thing("Deployment", "w"),
        thing("Job", "odd", ref("Workload", "job-odd")),
    ]  # fmt: skip
    found = roots(facts)
    assert found["Workload:job-x"] == ("JobSet", "s", "chain")
    assert found["PodGroup:podgroup-x"] == ("Deployment", "w", "chain")
    assert found["Job:odd"] == ("Job", "odd", "chain")


def test_a_workload_known_by_its_jobs_uid_alone_has_no_root_until_the_job_is_seen() -> None:
    bare = thing("Workload", "job-x", None).__class__(
        source="kube_api", natural_key="w", object_uid="w", object_kind="Workload", object_group="kueue.x-k8s.io", namespace="team-a",
        object_name="job-x", owner_uid="Job:x", **seen(1),
    )  # fmt: skip
    assert roots([bare])["w"] == (None, None, None)
    assert roots([bare, thing("Job", "x")])["w"] == ("Job", "x", "chain")


def test_a_pod_group_with_several_owners_has_their_one_root_or_is_its_own() -> None:
    members = [thing("Workload", "g", (uid, "Pod", "", uid), is_controller=False) for uid in ("u1", "u2")]
    alone: list[Fact] = [pod(uid=uid) for uid in ("u1", "u2")]
    one = [belongs(ref("Job", "j"), ("Job", "j"), uid) for uid in ("u1", "u2")]
    assert roots([*members, *alone, *one, thing("Job", "j")])["Workload:g"] == ("Job", "j", "chain")
    apart = [belongs(None, ("Pod", uid), uid) for uid in ("u1", "u2")]
    assert roots([*members, *alone, *apart])["Workload:g"] == ("Workload", "g", "chain")
    assert roots([*members, *alone[:1], *one[:1], thing("Job", "j")])["Workload:g"] == ("Workload", "g", "chain")


def test_a_chain_of_ten_thousand_steps_costs_its_bound_and_has_no_root() -> None:
    facts = [thing("Job", str(number), ref("Job", str(number + 1))) for number in range(10_000)]
    found = roots(facts)
    assert found["Job:0"] == (None, None, None)
    assert found["Job:9990"] == ("Job", "10000", "reference")


def test_tenants_may_be_told_by_the_root() -> None:
    facts = [pod(), belongs(ref("Job", "n-1"), ("Job", "n-1")), *up(("Job", "n-1"), ("CronJob", "nightly"))]
    rules = PostingParameters(tenant_rules=(TenantRule("workload", pattern="nightly", tenant="batch"),))
    (row,) = table(facts, "pod", rules)
    assert row["tenant"] == "batch"


KINDS = ("ReplicaSet", "Deployment", "Job", "vcjob", "CronJob", "Workload", "RayJob")


def _world(seed: int) -> list[Fact]:
    """A tangle: chains, circles, links that nobody saw, pods of pods, groups, orphans."""
    chance = random.Random(seed)  # noqa: S311 (a choice of worlds)
    names = [(chance.choice(KINDS), f"o{number}") for number in range(14)]
    facts: list[Fact] = []
    for kind, name in names:
        if chance.random() < 0.25:
            continue
        owner = chance.choice([None, ref(*chance.choice(names)), ref("Node", "n1"), ref("Workload", "q")])
        if kind == "Workload" and chance.random() < 0.5:
            pods = chance.sample(range(8), 2)
            facts += [thing(kind, name, (f"p{each}", "Pod", "", f"p{each}"), is_controller=False) for each in pods]
            continue
        if owner is not None and owner[0] == ref(kind, name)[0]:
            owner = None
        facts.append(thing(kind, name, owner))
        if chance.random() < 0.2:
            facts.append(thing(kind, name, None, 9))
    for number in range(8):
        uid = f"p{number}"
        direct = chance.choice(
            [None, ref(*chance.choice(names)), (f"p{(number + 1) % 8}", "Pod", "", "x"), ref("Node", "n1")]
        )
        told = chance.choice([("Pod", uid), chance.choice(names), ("Deployment", "told")])
        facts += [pod(uid=uid), belongs(direct, told, uid)]
    chance.shuffle(facts)
    return facts


@pytest.mark.parametrize("seed", range(60))
def test_every_tangle_gives_what_the_slow_reference_gives(seed: int) -> None:
    facts = _world(seed)
    links = links_of(facts)
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        rows = store.records("SELECT * FROM dim.workload WHERE is_seen")
        pods = store.rows("SELECT pod_uid, workload_kind, workload_name, workload_basis FROM dim.pod")
    for row in rows:
        root = root_of(row["object_uid"], links)
        expected = None if root is None else (root.uid, root.kind, root.name, "chain" if root.is_seen else "reference")
        told = (row["root_uid"], row["root_kind"], row["root_name"], row["root_basis"])
        assert (None if row["root_uid"] is None else told) == expected, row["object_uid"]
    assert {row["object_uid"] for row in rows} >= {uid for uid in links if not uid.startswith("p")}
    owners = {fact.pod_uid: fact for fact in facts if isinstance(fact, Owner)}
    assert {row[0]: row[1:] for row in pods} == {uid: workload_of(owner, links) for uid, owner in owners.items()}
