"""Who changed the rules of a queue, from what to what, as far as the audit log and the objects tell it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.facts.base import Fact
from tests.ledgers.queue_facts import audited, posted, quota
from tests.ledgers.wait_facts import WAIT_ONLY, rows_of

OLD, NEW = {"nominalQuota": 16}, {"nominalQuota": 24}


def changes(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    with posted(facts, ledgers=WAIT_ONLY) as store:
        return rows_of(store, "dim.quota_change", "changed_at")


def patched(second: float, **more: Any) -> Fact:
    return audited(second, "patch", "clusterqueues", "gpus", **more)


def test_who_was_impersonated_did_it_and_who_did_it_for_them_stands_beside() -> None:
    (row,) = changes([patched(60, user="root-admin", impersonated_user="alice@example.com")])
    assert (row["who"], row["done_by"], row["queue"], row["queue_kind"]) == (
        "alice@example.com",
        "root-admin",
        "gpus",
        "cluster_queue",
    )


def test_what_stood_there_before_is_what_the_event_before_left() -> None:
    rows = changes([audited(10, "create", "clusterqueues", "gpus", spec=OLD), patched(60, spec_after=NEW)])
    assert [(row["before_basis"], row["after_basis"]) for row in rows] == [
        (None, "request"),
        ("event_before", "answer"),
    ]
    assert (json.loads(rows[1]["before"]), json.loads(rows[1]["after"])) == (OLD, NEW)
    assert rows[0]["before_unknown"] == "it was not there"


@pytest.mark.parametrize(
    ("event", "note"),
    [
        (patched(60, spec={"resourceGroups": "<elided>"}), "the audit log left its body out"),
        (patched(60), "the audit policy keeps no bodies"),
        (patched(60, cut=["spec"]), "its body was too large to be kept"),
    ],
)
def test_a_body_that_is_not_there_is_unknown_and_the_objects_tell_what_they_can(event: Fact, note: str) -> None:
    (alone,) = changes([event])
    assert (alone["before"], alone["after"], alone["after_unknown"]) == (None, None, note)
    (row,) = changes([quota(30, nominal_milli=16_000), event, quota(90, nominal_milli=24_000)])
    assert json.loads(row["before"]) == {"h100/nvidia.com/gpu": {"nominal_milli": 16_000}}
    assert json.loads(row["after"]) == {"h100/nvidia.com/gpu": {"nominal_milli": 24_000}}
    assert (row["before_basis"], row["after_basis"], row["after_unknown"]) == ("object", "object", note)


def test_a_sighting_after_the_next_change_does_not_tell_of_this_one() -> None:
    rows = changes([patched(60), patched(70), quota(90, nominal_milli=24_000)])
    assert [row["after_basis"] for row in rows] == [None, "object"]


@pytest.mark.parametrize(
    "event",
    [
        patched(60, response_code=403),
        patched(60, stage="RequestReceived", response_code=None),
        patched(60, subresource="status"),
        audited(60, "get", "clusterqueues", "gpus"),
        audited(60, "patch", "jobs", "gpus"),
    ],
    ids=["refused", "not answered yet", "a status", "read", "no queue"],
)
def test_what_changed_no_rule_is_no_change(event: Fact) -> None:
    assert changes([event]) == []


def test_what_was_deleted_is_there_no_more() -> None:
    rows = changes(
        [audited(10, "create", "clusterqueues", "gpus", spec=OLD), audited(60, "delete", "clusterqueues", "gpus")]
    )
    assert (json.loads(rows[1]["before"]), rows[1]["after"], rows[1]["after_unknown"]) == (
        OLD,
        None,
        "it is there no more",
    )
