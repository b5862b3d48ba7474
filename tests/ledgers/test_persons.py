"""Who stands behind a request: an annotation, else who created what it belongs to, else the contact of its namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.owner import Owner
from steelyard.facts.ownership import Ownership
from steelyard.ledgers.parameters import PostingParameters
from tests.ledgers.facts_of import pod
from tests.ledgers.queue_facts import asked, audited, posted
from tests.ledgers.wait_facts import WAIT_ONLY, at, rows_of

TEAM = {"namespace": "team-a"}


def person(facts: Sequence[Fact], **settings: Any) -> tuple[Any, Any]:
    with posted(facts, PostingParameters(**settings), WAIT_ONLY) as store:
        (row,) = rows_of(store, "dim.demand", "demand_id")
    return row["person"], row["person_basis"]


def belonging(uid: str = "p1", annotations: str = "{}", **more: Any) -> Owner:
    return Owner(
        source="kube_api", natural_key=uid, pod_uid=uid, namespace="team-a", annotations=annotations, occurred_at=at(1800), observed_at=at(1800),
        **more,
    )  # fmt: skip


def owned(uid: str, kind: str, name: str, owner: tuple[str, str, str] | None = None, group: str = "batch") -> Ownership:
    fields = {} if owner is None else dict(zip(("owner_uid", "owner_kind", "owner_name"), owner, strict=True))
    return Ownership(
        source="kube_api", natural_key=uid, object_uid=uid, object_kind=kind, object_group=group, namespace="team-a", object_name=name,
        occurred_at=at(1), observed_at=at(1), **fields,
    )  # fmt: skip


POD = [pod(30, "p1", pod="train-0", created_at=0)]
OF_RAY = [
    *POD,
    belonging(owner_kind="RayCluster", owner_name="train-raycluster-x", owner_uid="rc"),
    owned("rc", "RayCluster", "train-raycluster-x", ("rj", "RayJob", "train"), "ray.io"),
    owned("rj", "RayJob", "train", group="ray.io"),
]  # fmt: skip
BY_ANN = audited(-5, "create", "rayjobs", "train", **TEAM)
BY_OPERATOR = audited(-1, "create", "rayclusters", "train-raycluster-x", user="kuberay", api_group="ray.io", **TEAM)


def test_who_created_the_root_is_behind_the_pods_at_the_end_of_its_chain() -> None:
    assert person([*OF_RAY, BY_ANN, BY_OPERATOR]) == ("ann@example.com", "creator")


def test_a_link_of_the_chain_tells_where_the_root_does_not() -> None:
    assert person([*OF_RAY, BY_OPERATOR]) == ("kuberay", "creator")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (audited(-1, "create", "pods", "train-0", **TEAM), ("ann@example.com", "creator")),
        (audited(-1, "create", "pods", "train-0", user="root", impersonated_user="bo", **TEAM), ("bo", "creator")),
        (audited(-1, "patch", "pods", "train-0", response_code=201, **TEAM), ("ann@example.com", "creator")),
        (audited(-1, "patch", "pods", "train-0", **TEAM), (None, None)),
        (audited(-1, "create", "pods", "train-0", response_code=403, **TEAM), (None, None)),
        (
            audited(-1, "create", "pods", "train-0", user="system:serviceaccount:kube-system:job-controller", **TEAM),
            (None, None),
        ),
        (audited(-1, "create", "pods", "train-0", namespace="other"), (None, None)),
        (audited(900, "create", "pods", "train-0", **TEAM), (None, None)),
    ],
    ids=["created", "impersonated", "applied", "changed", "refused", "by a controller", "elsewhere", "its successor"],
)
def test_the_creator_is_who_asked_and_was_answered(event: Fact, expected: tuple[Any, Any]) -> None:
    assert person([*POD, event]) == expected


def test_of_one_name_made_again_the_creation_before_the_request_counts() -> None:
    facts = [
        audited(-900, "create", "pods", "train-0", user="old", **TEAM),
        audited(-1, "create", "pods", "train-0", user="new", **TEAM),
    ]
    assert person([*POD, *facts]) == ("new", "creator")


def test_an_annotation_wins_and_the_first_that_is_named_in_the_settings() -> None:
    facts = [
        *POD,
        belonging(annotations='{"a.b/who":"bo","steelyard.io/owner":" cy "}'),
        audited(-1, "create", "pods", "train-0", **TEAM),
    ]
    assert person(facts) == ("cy", "annotation")
    assert person(facts, person_annotations=("a.b/who", "steelyard.io/owner")) == ("bo", "annotation")
    assert person(facts, person_annotations=()) == ("ann@example.com", "creator")


@pytest.mark.parametrize(
    "annotations", ['{"steelyard.io/owner":" "}', '{"other":"steelyard.io/owner"}', '{"steelyard.io/owner":null}']
)
def test_an_empty_annotation_is_nobody(annotations: str) -> None:
    assert person([*POD, belonging(annotations=annotations)]) == (None, None)


def test_the_contact_of_the_namespace_answers_where_nobody_else_is_known() -> None:
    assert person(POD, contacts=(("team-a", "desk"), ("team-b", "x"))) == ("desk", "contact")
    assert (
        person([*POD, audited(-1, "create", "pods", "train-0", **TEAM)], contacts=(("team-a", "desk"),))[1] == "creator"
    )


def test_who_created_the_job_is_behind_its_workload() -> None:
    gang = asked("w1", 0, 5, owner_kind="Job", owner_name="train", owner_uid="j1")
    assert person([*gang, audited(-1, "create", "jobs", "train", **TEAM)]) == ("ann@example.com", "creator")
