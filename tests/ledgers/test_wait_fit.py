"""What quotas say of a wait against what controllers say of it: facts win over words, and the difference is a finding."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.gang import Gang
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.ledgers.test_wait_rules import RESERVED, pod_group, vcjob
from tests.ledgers.wait_facts import at, decision, post, rows_of, segments, workload

GPU = "nvidia.com/gpu"


def quota(
    queue: str = "gpus",
    kind: str = "cluster_queue",
    seen: float = 100,
    flavor: str | None = "h100",
    resource: str = GPU,
    **more: Any,
) -> Quota:
    return Quota(
        source="kueue", natural_key=f"{kind}/{queue}/{flavor}/{resource}", occurred_at=at(seen), observed_at=at(seen), queue_kind=kind,
        queue=queue, flavor=flavor if kind != "volcano_queue" else None, resource=resource, **more,
    )  # fmt: skip


def asks(gpus: int, resource: str = GPU, **more: Any) -> Gang:
    return workload(100, demand=f'{{"cpu": 9000000, "{resource}": {gpus * 1000}}}', gpu_milli=gpus * 1000, **more)


def local_queue() -> Queue:
    return Queue(
        source="kueue", natural_key="main", occurred_at=at(100), observed_at=at(100), queue_kind="local_queue", queue="main",
        namespace="team-a", parent="gpus",
    )  # fmt: skip


def cohort(parent: str | None) -> Queue:
    return Queue(
        source="kueue", natural_key="research", occurred_at=at(100), observed_at=at(100), queue_kind="cohort", queue="research", parent=parent,
    )  # fmt: skip


VOLCANO: dict[str, Any] = {
    "object_kind": "PodGroup", "object_group": "scheduling.volcano.sh", "queue": "prod", "cluster_queue": None, "phase": "Pending",
}  # fmt: skip
WAITS_IT_SAYS = decision(50, "not_now", cause="capacity")
NEVER_IT_SAYS = decision(50, "never_fits", cause="quota", resource=GPU)
COHORT = {"parent": "research"}

FITS: dict[str, tuple[list[Fact], str | None, str | None, bool]] = {
    "more than the queue has, where nothing can be borrowed": (
        [asks(9), WAITS_IT_SAYS, quota(nominal_milli=8000)], "never_fits", "quota", True
    ),
    "as much as it has": ([asks(8), WAITS_IT_SAYS, quota(nominal_milli=8000)], "not_now", "capacity", False),
    "no words at all": ([asks(9), quota(nominal_milli=8000)], "never_fits", "quota", False),
    "words that agree": ([asks(9), NEVER_IT_SAYS, quota(nominal_milli=8000)], "never_fits", "quota", False),
    "words from before the quota grew": ([asks(8), NEVER_IT_SAYS, quota(nominal_milli=8000)], "not_now", "quota", True),
    "the latest quota counts, and what it no longer says does not": (
        [asks(9), WAITS_IT_SAYS, quota(seen=90, nominal_milli=8000, borrowing_limit_milli=8000, **COHORT), quota(nominal_milli=10_000)],
        "not_now", "capacity", False,
    ),
    "words about processors stand": (
        [asks(8), decision(50, "never_fits", cause="quota", resource="cpu"), quota(nominal_milli=8000)], "never_fits", "quota", False
    ),
    "up to the borrowing limit": (
        [asks(13), WAITS_IT_SAYS, quota(nominal_milli=8000, borrowing_limit_milli=4000, **COHORT), quota("other", nominal_milli=64_000, **COHORT)],
        "never_fits", "quota", True,
    ),
    "up to what the others may lend": (
        [asks(13), WAITS_IT_SAYS, quota(nominal_milli=8000, **COHORT), quota("other", nominal_milli=64_000, lending_limit_milli=4000, **COHORT)],
        "never_fits", "quota", True,
    ),
    "and all of it": (
        [asks(12), WAITS_IT_SAYS, quota(nominal_milli=8000, **COHORT), quota("other", nominal_milli=64_000, lending_limit_milli=4000, **COHORT)],
        "not_now", "capacity", False,
    ),
    "with what the cohort has of its own": (
        [asks(12), WAITS_IT_SAYS, quota(nominal_milli=8000, **COHORT), quota("research", "cohort", nominal_milli=4000)],
        "not_now", "capacity", False,
    ),
    "a member whose quota is not known may lend any amount": (
        [
            asks(13), WAITS_IT_SAYS, quota(nominal_milli=8000, **COHORT), quota("other", nominal_milli=4000, **COHORT),
            quota("third", nominal_milli=None, **COHORT),
        ],
        "not_now", "capacity", False,
    ),
    "a cohort within another may have more": (
        [asks(13), WAITS_IT_SAYS, quota(nominal_milli=8000, **COHORT), cohort("root")], "not_now", "capacity", False
    ),
    "unless the borrowing limit is below": (
        [asks(13), WAITS_IT_SAYS, quota(nominal_milli=8000, borrowing_limit_milli=4000, **COHORT), cohort("root")], "never_fits", "quota", True
    ),
    "a gang may spread over flavors": (
        [asks(12), WAITS_IT_SAYS, quota(nominal_milli=8000), quota(flavor="a100", nominal_milli=4000)], "not_now", "capacity", False
    ),
    "a pod may not": (
        [asks(12, pods_count=1), WAITS_IT_SAYS, quota(nominal_milli=8000), quota(flavor="a100", nominal_milli=4000)], "never_fits", "quota", True
    ),
    "other accelerators are other quotas": (
        [asks(9), WAITS_IT_SAYS, quota(resource="amd.com/gpu", nominal_milli=8000)], "not_now", "capacity", False
    ),
    "who would do with less is left to the words": (
        [asks(9, pods_count=3, min_count=2), WAITS_IT_SAYS, quota(nominal_milli=8000)], "not_now", "capacity", False
    ),
    "who is not let in yet is known by its local queue": (
        [asks(9, cluster_queue=None), WAITS_IT_SAYS, quota(nominal_milli=8000), local_queue()], "never_fits", "quota", True
    ),
    "a Volcano queue's capability": (
        [
            asks(16, **VOLCANO), decision(50, "not_now", cause="quota", subject_kind="PodGroup"),
            quota("prod", "volcano_queue", capability_milli=12_000),
        ],
        "never_fits", "quota", True,
    ),
    "its parent's capability": (
        [
            asks(16, **VOLCANO), quota("prod", "volcano_queue", capability_milli=32_000, parent="all"),
            quota("all", "volcano_queue", capability_milli=8000),
        ],
        "never_fits", "quota", False,
    ),
    "what it deserves is no limit": (
        [asks(16, **VOLCANO), quota("prod", "volcano_queue", deserved_milli=12_000)], None, None, False
    ),
    "what is hostile settles nothing": (
        [asks(10**12), workload(100, "w2", demand='{"a/mig-\\"": 1, "nvidia.com/gpu": 1e400}'), quota(nominal_milli=8000),
         quota("other", nominal_milli=9 * 10**18)],
        None, None, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_what_the_quotas_say_of_a_wait_wins_over_words(name: str) -> None:
    facts, fit, cause, contradicts = FITS[name]
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        rows = rows_of(store)
        found = store.rows("SELECT code, subject FROM ledger.finding")
    assert [(row["fit"], row["cause"]) for row in rows if row["demand_id"] == "w1"] == [(fit, cause)]
    kind = "podgroup" if "Volcano" in name else "workload"
    assert found == ([("fit_contradicts_words", f"{kind} team-a/w1")] if contradicts else [])


def test_a_wait_that_ended_keeps_its_words() -> None:
    served = [asks(9), RESERVED, decision(50, "not_now", cause="capacity"), quota(nominal_milli=8000)]
    assert [(row["fit"], row["cause"]) for row in segments(served)] == [("not_now", "capacity")]


def test_a_volcano_job_is_let_in_by_what_its_pod_group_names() -> None:
    limit = quota("prod", "volcano_queue", capability_milli=12_000)
    job = vcjob(100, phase="Pending", demand=f'{{"{GPU}": 16000}}')
    assert [row["fit"] for row in segments([job, limit])] == ["never_fits"]
    needs = pod_group(100, phase="Pending", owner_uid="j1", demand=f'{{"{GPU}": 8000}}')
    assert [row["fit"] for row in segments([job, needs, limit])] == [None]


LEND = {"nominal_milli": 64_000, **COHORT}
UNREAD: dict[str, tuple[list[Fact], str | None, str | None]] = {
    "a borrowing limit that was refused is not unlimited": (
        [asks(12), NEVER_IT_SAYS, quota(nominal_milli=8000, refused="borrowing_limit", **COHORT), quota("other", **LEND)], None, "borrowing_limit"
    ),
    "nor does it matter to who asks for no more than the queue's own": (
        [asks(8), NEVER_IT_SAYS, quota(nominal_milli=8000, refused="borrowing_limit", **COHORT), quota("other", **LEND)], "not_now", None
    ),
    "and whatever it is, more than all may lend is too much": (
        [asks(73), WAITS_IT_SAYS, quota(nominal_milli=8000, refused="borrowing_limit", **COHORT), quota("other", **LEND)], "never_fits", None
    ),
    "another's lending limit that was refused": (
        [asks(12), NEVER_IT_SAYS, quota(nominal_milli=8000, **COHORT), quota("other", refused="lending_limit", **LEND)], None, "lending_limit"
    ),
    "one's own takes nothing from oneself": (
        [asks(12), NEVER_IT_SAYS, quota(nominal_milli=12_000, refused="lending_limit", **COHORT)], "not_now", None
    ),
    "a quota that was refused": ([asks(1), WAITS_IT_SAYS, quota(refused="nominal")], None, "nominal"),
    "without a cohort nothing is borrowed": (
        [asks(9), WAITS_IT_SAYS, quota(nominal_milli=8000, refused="borrowing_limit,lending_limit")], "never_fits", None
    ),
    "a Volcano queue's capability": (
        [
            asks(16, **VOLCANO), quota("prod", "volcano_queue", refused="capability", parent="all"),
            quota("all", "volcano_queue", capability_milli=64_000),
        ],
        None, "capability",
    ),
    "and that of the queue above it": (
        [
            asks(16, **VOLCANO), quota("prod", "volcano_queue", capability_milli=32_000, parent="all"),
            quota("all", "volcano_queue", refused="capability"),
        ],
        None, "capability",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_a_limit_that_could_not_be_read_settles_nothing(name: str) -> None:
    facts, fit, unread = UNREAD[name]
    with Store.open_memory() as store:
        store.append(facts)
        post(store)
        assert store.rows("SELECT fit, unread FROM dim.quota_fit") == [(fit, unread)]


def test_a_capability_that_was_refused_later_is_not_the_one_before() -> None:
    with Store.open_memory() as store:
        store.append([
            quota("prod", "volcano_queue", seen=90, capability_milli=8000, deserved_milli=4000),
            quota("prod", "volcano_queue", deserved_milli=4000, refused="capability"),
        ])  # fmt: skip
        post_ledgers(store, PostingParameters(), clock=FixedClock(0))
        assert store.rows("SELECT max_capacity_milli, refused FROM dim.quota_now WHERE queue_kind <> 'pool'") == [
            (None, "capability")
        ]
