"""A story tells what is no waiting as such: leaks, back-offs, deactivations, queues that are not there, and what events alone tell of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from steelyard.answers.q06_scheduling import SchedulingSpec
from steelyard.answers.q06_scheduling import answer as scheduling
from steelyard.answers.tenant_words import rule_told
from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.facts.node import Node
from steelyard.facts.owner import Owner
from steelyard.facts.refusal import Refusal
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import speaking
from steelyard.primitives.unknown import Unknown
from tests.answers.test_story import SHORT, figure, of, table, told
from tests.ledgers.facts_of import pod
from tests.ledgers.queue_facts import asked, posted, preemption, queue, quota
from tests.ledgers.wait_facts import at, condition, decision, evicted

KEPT = {"phase": "evicted", "admitted": '{"nvidia.com/gpu":8000}', "owner_kind": "JobSet", "owner_name": "recover"}
SAID = {"source": "kueue", "decided_by": "kueue", "evidence": "condition"}


def listed(seconds: float) -> Fact:
    return SourceStatus(
        source="kube_api", natural_key=f"pods/{seconds}", kind="pods", scope="cluster", complete=True, status="ok",
        occurred_at=at(seconds), observed_at=at(seconds),
    )  # fmt: skip


LEAKED = [
    queue(),
    quota(900, nominal_milli=16_000),
    listed(0),
    listed(1_000),
    *asked("w1", 0, 10, requeue_count=1, requeue_at=260, evictions=evicted(1, "PodsReadyTimeout"), **KEPT),
    condition(10, "Admitted"),
    condition(200, "Evicted", reason="PodsReadyTimeout"),
]
BACKED_OFF = [
    *asked("w1", 0, None, phase="evicted", requeue_count=3, requeue_at=1_200, evictions=evicted(3, "PodsReadyTimeout"), past_run_us=10**8),
    decision(900, "evicted", rule="PodsReadyTimeout", **SAID),
    condition(900, "Evicted", reason="PodsReadyTimeout"),
    condition(904, "QuotaReserved", "False"),
]  # fmt: skip


def deactivated(reason: str, **more: Any) -> list[Fact]:
    return [
        *asked("w1", 0, None, phase="evicted", active=False, evictions=evicted(1, "Deactivated")),
        condition(300, "Evicted", reason=reason),
        decision(300, "deactivated", rule=reason, message="The workload is deactivated", **SAID, **more),
        condition(301, "QuotaReserved", "False"),
    ]


def lines(facts: Sequence[Fact], **more: Any) -> list[tuple[str, str]]:
    return [(row["event"], row["what"]) for row in table(of(facts, **more), "story")]


def changes(facts: Sequence[Fact], **more: Any) -> list[str]:
    return [row["what_would_have_to_change"] for row in table(of(facts, **more), "changes")]


def test_a_leaked_reservation_is_told_as_such_and_not_as_waiting() -> None:
    answer = of(LEAKED)
    (standing,) = table(answer, "standing")
    assert (standing["stage"], standing["since"], standing["age"]) == ("leaked", "2026-11-30T00:03:20Z", 800)
    assert (standing["until"], figure(answer, "requests_waiting_count")) == ("2026-11-30T00:04:20Z", 0)
    assert table(answer, "requests")[0]["state"] == "leaked: keeps its quota without a pod"
    assert isinstance(figure(answer, "wait_age_seconds"), Unknown)
    told_lines = {row["event"]: (row["at"], row["what"], row["source"]) for row in table(answer, "story")}
    assert told_lines["leaked_from"] == (
        "2026-11-30T00:03:20Z",
        "from here on it keeps 8 nvidia.com/gpu of flavor h100 without a live pod: leaked",
        "ledger quota: its conditions and the lists of pods",
    )
    assert "over since 2026-11-30T00:04:20Z" in told_lines["backoff"][1]
    assert [row["stage"] for row in table(answer, "waits")] == ["queue"]


def test_what_frees_a_leaked_reservation_is_named_with_its_amount() -> None:
    (row,) = table(of(LEAKED), "changes")
    assert row["what_would_have_to_change"].startswith(
        "its quota has to be given back: suspend or delete JobSet recover"
    )
    assert (row["resource"], row["have"], row["need"]) == ("nvidia.com/gpu", "8", "0")


def test_a_leak_that_began_later_is_not_told_before() -> None:
    answer = of(LEAKED, second=100)
    assert "leaked_from" not in [row["event"] for row in table(answer, "story")]
    assert [each for each in answer.tables if each.name == "standing"] == []


def test_a_back_off_is_told_with_its_end_and_the_evictions_that_no_source_dates() -> None:
    answer = of(BACKED_OFF)
    (standing,) = table(answer, "standing")
    assert (standing["stage"], standing["until"]) == ("backoff", "2026-11-30T00:20:00Z")
    (row,) = table(answer, "evictions")
    assert (row["reason"], row["evictions"], row["dated"], row["last_at"]) == (
        "PodsReadyTimeout",
        3,
        1,
        "2026-11-30T00:15:00Z",
    )
    texts = dict(lines(BACKED_OFF))
    assert texts["evicted"].endswith("(PodsReadyTimeout)")
    assert texts["released"] == "its quota is given back; it waits for the end of its back-off"
    assert "no source dates 2 of them" in texts["evictions"]
    assert texts["backoff"] == "back-off no. 3 by its controller's count: until 2026-11-30T00:20:00Z"
    assert changes(BACKED_OFF) == ["nothing: it may be tried again from 2026-11-30T00:20:00Z on"]
    first = table(answer, "waits")[0]
    assert isinstance(first["seconds"], Unknown)
    assert "no source says when its quota had been reserved" in first["seconds"].reason


def test_q6_and_why_say_alike_what_ends_a_back_off() -> None:
    for facts in (
        BACKED_OFF,
        asked("w1", 0, None, phase="evicted", requeue_count=3, evictions=evicted(1, "x")) + BACKED_OFF[1:],
    ):
        with posted([*facts, listed(0), listed(1_000)]) as store:
            rows = [row for row in table(scheduling(store, SchedulingSpec()), "pending") if row["stage"] == "backoff"]
            (standing,) = table(told(store, "w1"), "standing")
            found = [row["what_would_have_to_change"] for row in table(told(store, "w1"), "changes")]
        assert [(row["stage"], row["what_would_have_to_change"]) for row in rows] == (
            [("backoff", found[0])] if standing["stage"] == "backoff" else []
        )
        assert [row["cause"] for row in rows] == ["backoff"] * len(rows)
    assert changes(BACKED_OFF) == ["nothing: it may be tried again from 2026-11-30T00:20:00Z on"]


def test_a_back_off_that_is_over_is_told_as_over_and_the_request_waits_in_its_queue() -> None:
    facts = [*BACKED_OFF, *asked("w1", 0, None, seen=1_500, phase="pending", requeue_count=3, requeue_at=1_200)]
    answer = of(facts)
    assert [row["stage"] for row in table(answer, "standing")] == ["queue"]
    assert any("over since 2026-11-30T00:20:00Z" in row["what"] for row in table(answer, "story"))


@pytest.mark.parametrize(
    ("reason", "text", "first"),
    [
        ("DeactivatedDueToAdmissionCheck", "since an admission check rejected it", "admission check zone has to let it in"),
        ("DeactivatedDueToRequeuingLimitExceeded", "since it was requeued as often as its limit allows", "its pods have to become ready"),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", "since it ran longer than it may", "it has to take less time"),
        ("Deactivated", "deactivated: it does not wait until it is made active again", "somebody has to make it active again"),
    ],
)  # fmt: skip
def test_a_deactivation_is_told_by_its_limit_with_what_has_to_change(reason: str, text: str, first: str) -> None:
    details = json.dumps({"checks": [{"name": "zone", "state": "Rejected", "message": "full"}]})
    facts = deactivated(reason, details=details)
    answer = of(facts)
    (standing,) = table(answer, "standing")
    assert (standing["stage"], standing["since"]) == ("deactivated", "2026-11-30T00:05:00Z")
    assert figure(answer, "requests_waiting_count") == 0
    (event,) = [what for event, what in lines(facts) if event == "deactivated"]
    assert text in event
    assert ("released", "its quota is given back; it is deactivated and does not wait") in lines(facts)
    found = changes(facts)
    assert found[0].startswith(first)
    assert (
        'kubectl patch workloads.kueue.x-k8s.io -n team-a w1 --type merge -p \'{"spec":{"active":true}}\'' in found[-1]
    )


def test_what_a_queue_refused_and_its_object_tells_is_one_line() -> None:
    refusal = Refusal(
        source="kueue", natural_key="r", refused_by="admission_check", subject_kind="Workload", namespace="team-a", subject_name="w1", verb="admit",
        occurred_at=at(300), observed_at=at(300),
    )  # fmt: skip
    rejected = decision(300, "rejected", rule="AdmissionCheckRejected", message="Deactivated due to ...", **SHORT)
    facts = [*deactivated("DeactivatedDueToAdmissionCheck"), refusal, rejected]
    assert [event for event, _what in lines(facts)] == ["created", "deactivated", "released"]
    elsewhere = [*facts[:1], refusal]
    assert [event for event, _what in lines(elsewhere)].count("refused") == 1, "what nothing else tells of stays"


def test_a_request_that_was_made_active_again_and_served_is_not_deactivated() -> None:
    facts = [
        *deactivated("Deactivated")[1:],
        *asked("w1", 0, 600, seen=1_000, phase="admitted", evictions=evicted(1, "Deactivated")),
    ]
    assert [each.name for each in of(facts).tables if each.name == "standing"] == []


@pytest.mark.parametrize(
    ("kind", "state", "text"),
    [
        ("LocalQueue", "doesn't exist", "make LocalQueue nope in namespace team-a, or name another in its label kueue.x-k8s.io/queue-name"),
        ("LocalQueue", "is stopped", "LocalQueue nope is stopped: set its spec.stopPolicy to None, or name another"),
        ("LocalQueue", "is inactive", "LocalQueue nope is inactive: mend what its condition Active names, or name another"),
        ("ClusterQueue", "doesn't exist", "ClusterQueue nope does not exist or is being deleted: make it, or name another"),
    ],
)  # fmt: skip
def test_a_request_without_a_queue_is_misconfigured_and_the_change_is_named(kind: str, state: str, text: str) -> None:
    details = json.dumps({"queue_kind": kind, "queue_name": "nope", "queue_state": state})
    facts = [*asked("w1", 0, None), decision(1, "misconfigured", rule="Misconfigured", details=details, **SAID)]
    (standing,) = table(of(facts), "standing")
    assert (standing["stage"], standing["since"]) == ("misconfigured", "2026-11-30T00:00:01Z")
    assert changes(facts) == [text]


def test_a_misconfigured_request_that_was_served_since_stands_nowhere() -> None:
    facts = [*asked("w1", 0, 50), decision(1, "misconfigured", details="{}", **SAID)]
    assert [each.name for each in of(facts).tables if each.name == "standing"] == []


def test_a_gated_pod_without_a_workload_is_told_that_none_was_seen() -> None:
    labels = json.dumps({"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "train"})
    facts = [
        pod(30, "p1", phase="Pending", node=None, gpu_count=1),
        Owner(source="kube_api", natural_key="p1", pod_uid="p1", namespace="team-a", labels=labels, occurred_at=at(0), observed_at=at(0)),
        condition(0, "PodScheduled", "False", uid="p1", object_kind="Pod", object_group="", reason="SchedulingGated", object_name="p1"),
        decision(0, "not_now", uid="p1", name="p1", subject_kind="Pod", cause="gate", rule="kueue.x-k8s.io/admission", **SAID),
    ]  # fmt: skip
    (text,) = changes(facts, name="p1")
    assert text.startswith("Kueue has to make a Workload for it and admit that, and none was seen")
    assert "LocalQueue train is there" in text


def test_a_queue_that_no_source_names_is_told_in_words() -> None:
    labels = '{"kueue.x-k8s.io/managed":"true"}'
    facts = [
        pod(30, "p1", phase="Pending", node=None, gpu_count=1),
        Owner(source="kube_api", natural_key="p1", pod_uid="p1", namespace="team-a", labels=labels, occurred_at=at(0), observed_at=at(0)),
        condition(0, "PodScheduled", "False", uid="p1", object_kind="Pod", object_group="", reason="SchedulingGated", object_name="p1"),
        decision(0, "not_now", uid="p1", name="p1", subject_kind="Pod", cause="gate", rule="kueue.x-k8s.io/admission", **SAID),
    ]  # fmt: skip
    (text,) = changes(facts, name="p1")
    assert "whether the LocalQueue that its label names (no source tells which) is there" in text
    short = [
        *asked("w1", 0, None, cluster_queue=None, queue=None),
        decision(1, "not_now", missing_milli=4_000, **SHORT),
    ]
    assert changes(short)[0].endswith("must become free for its queue, which no source names, its own or borrowed")


NODES = [
    SourceStatus(
        source="kube_api", natural_key="nodes/100", kind="nodes", scope="cluster", complete=True, status="ok", occurred_at=at(100),
        observed_at=at(100),
    ),
    Node(
        source="kube_api", natural_key="n1", node="n1", occurred_at=at(100), observed_at=at(100),
        extended_resources='{"capacity": {"nvidia.com/gpu": 8}}',
    ),
    pod(100, "p1", phase="Pending", node=None, gpu_count=9, resource_names="nvidia.com/gpu"),
    decision(50, "not_now", uid="p1", name="p1", subject_kind="Pod", cause="capacity", details='{"reasons":{"Insufficient nvidia.com/gpu":1}}'),
]  # fmt: skip


def test_who_asks_for_more_than_any_node_has_is_told_so_by_why_as_by_q6() -> None:
    with posted(NODES) as store:
        (row,) = table(scheduling(store, SchedulingSpec()), "pending")
        now, then = told(store, "p1"), told(store, "p1", 60)
    (standing,) = table(now, "standing")
    assert (standing["stage"], standing["fit"], standing["fit_basis"]) == ("scheduler", "never_fits", "nodes")
    assert [each["what_would_have_to_change"] for each in table(now, "changes")] == [row["what_would_have_to_change"]]
    assert row["what_would_have_to_change"].startswith("ask for fewer in one pod, or add such a node")
    (standing,) = table(then, "standing")
    assert (standing["fit"], standing["fit_basis"]) == ("not_now", "decision"), "what nodes have now is no word of then"
    limits = "what queues may give and what nodes have is known as of the latest word"
    assert [spot.startswith(limits) for spot in then.blind_spots].count(True) == 1
    assert not any(spot.startswith(limits) for spot in now.blind_spots)


def test_quota_of_now_is_no_limit_of_then_and_that_is_said() -> None:
    facts = [
        *asked("w1", 0, None, gpus=32),
        decision(1, "not_now", missing_milli=8_000, **SHORT),
        quota(0, nominal_milli=24_000),
    ]
    with posted(facts) as store:
        now, then = told(store, "w1"), told(store, "w1", 500)
    assert [table(each, "standing")[0]["fit"] for each in (now, then)] == ["never_fits", "not_now"]
    assert any("2026-11-30T00:16:40Z) alone" in spot for spot in then.blind_spots)


DOUBLED = [*asked("w1", 0, None), *asked("w1", 0, None, seen=900, object_name="other")]


def test_an_object_whose_uid_another_has_is_told_plainly_and_counted_as_left_out() -> None:
    with posted([*DOUBLED, listed(0), listed(1_000)]) as store:
        (row,) = table(scheduling(store, SchedulingSpec()), "pending")
        second = "other" if row["name"] == "w1" else "w1"
        spots = scheduling(store, SchedulingSpec()).blind_spots
        for name in (second, f"team-a/{second}"):
            with pytest.raises(UsageError, match="was seen with a uid that another object has"):
                told(store, name)
        with pytest.raises(UsageError, match="no request is called"):
            told(store, second, tenant="team-a")
    assert any(spot.startswith("1 more objects carry the uid of another") for spot in spots)
    with posted([*DOUBLED, decision(5, "not_now", uid="u8", name=second, **SHORT)]) as store:
        assert any("was seen with a uid that another object has" in spot for spot in told(store, second).blind_spots)
        assert not any("no object of it was seen" in spot for spot in told(store, second).blind_spots)


def test_a_limit_that_cannot_be_read_is_said_by_why_and_by_q6() -> None:
    limit = quota(500, nominal_milli=8_000, parent="research", refused="borrowing_limit")
    facts = [*asked("w1", 0, None, gpus=12), limit, quota(500, "lender", nominal_milli=64_000, parent="research")]
    text = "whether its queue can ever give 12 nvidia.com/gpu is not known: its borrowing limit cannot be read and has to be written anew"
    with posted([*facts, listed(0), listed(1_000)]) as store:
        q6 = scheduling(store, SchedulingSpec())
        why = told(store, "w1")
    (row,) = table(q6, "pending")
    assert (row["fit"], row["what_would_have_to_change"]) == (Unknown(text), text)
    assert [each["what_would_have_to_change"] for each in table(why, "changes")] == [text]
    assert table(why, "standing")[0]["fit"] == Unknown(text)
    limits = {row["queue"]: row["borrowing_limit"] for row in table(q6, "quota_now") if row["kind"] == "cluster_queue"}
    assert limits["lender"] is None
    assert isinstance(limits["gpus"], Unknown)


HEARD = [
    *asked("w1", 0, 5),
    decision(100, "not_now", uid="u9", name="notebook", subject_kind="Pod", cause="capacity", rule="Insufficient nvidia.com/gpu", count=3,
        details='{"reasons":{"Insufficient nvidia.com/gpu":4}}', message="0/4 nodes", decided_by="default-scheduler", source="kube_scheduler"),
    Event(source="kube_api", natural_key="e", kind="kubernetes", reason="Pulling", message="m", subject_kind="Pod", subject_uid="u9",
        subject_namespace="team-a", subject_name="notebook", occurred_at=at(90), observed_at=at(90)),
]  # fmt: skip


@pytest.mark.parametrize("name", ["notebook", "team-a/notebook", "u9"])
def test_what_events_alone_tell_of_can_be_asked_and_the_rest_is_unknown(name: str) -> None:
    answer = of(HEARD, name=name)
    (row,) = table(answer, "requests")
    assert (row["request"], row["kind"], row["tenant"]) == ("team-a/notebook", "pod", "team-a")
    assert row["state"] == "told of by events alone; lastly: not now"
    for column in ("gpus", "created_at", "queue", "workload", "person"):
        assert row[column] == Unknown("no object of it was seen")
    assert [line["event"] for line in table(answer, "story")] == ["event", "not_now"]
    (standing,) = table(answer, "standing")
    assert (standing["fit"], standing["cause"]) == ("not_now", "capacity")
    assert isinstance(standing["since"], Unknown)
    assert isinstance(standing["age"], Unknown)
    assert table(answer, "changes")[0]["what_would_have_to_change"] == (
        "enough nvidia.com/gpu must become free on a node; in the way on 4 nodes"
    )
    assert any("no object of it was seen" in spot for spot in answer.blind_spots)


def test_hearsay_is_confined_to_the_tenant_of_its_namespace() -> None:
    with posted(HEARD) as store:
        assert table(told(store, "notebook", tenant="team-a"), "requests")
        with pytest.raises(UsageError, match="no request is called"):
            told(store, "notebook", tenant="team-b")
        with pytest.raises(UsageError, match="was not there yet"):
            told(store, "notebook", 50)
        with pytest.raises(UsageError, match="no request is called"):
            told(store, "notebook", kind="workload")


def test_a_name_that_two_kinds_of_hearsay_have_is_refused() -> None:
    facts = [*HEARD, decision(100, "not_now", uid="u8", name="notebook", **SHORT)]
    with pytest.raises(UsageError, match="may be any of: pod team-a/notebook, workload team-a/notebook"):
        of(facts, name="notebook")


@pytest.mark.parametrize(("count", "text"), [(1, "on 1 node"), (2, "on 2 nodes")])
def test_one_is_told_in_the_singular(count: int, text: str) -> None:
    word = decision(1, "not_now", details=json.dumps({"reasons": {"node(s) were unschedulable": count}}))
    assert changes([*asked("w1", 0, None), word]) == [f"uncordon the nodes; in the way {text}"]
    word = decision(1, "not_now", details=json.dumps({"pending_preemptions_count": count}))
    verb = "request is" if count == 1 else "requests are"
    assert changes([*asked("w1", 0, None), word]) == [f"nothing: {count} {verb} being preempted for it"]


CASES = {
    "leaked": LEAKED,
    "backed off": BACKED_OFF,
    "deactivated": deactivated("DeactivatedDueToRequeuingLimitExceeded"),
    "misconfigured": [
        *asked("w1", 0, None),
        decision(1, "misconfigured", **SAID, details='{"queue_kind":"LocalQueue","queue_name":"n","queue_state":"doesn\'t exist"}'),
    ],
}  # fmt: skip


@pytest.mark.parametrize("facts", CASES.values(), ids=CASES)
def test_a_story_reads_in_chinese(facts: list[Fact]) -> None:
    english = of(facts)
    with speaking("zh"):
        chinese = of(facts)
    assert chinese.title != english.title
    for name, column in (("requests", "state"), ("changes", "what_would_have_to_change")):
        pairs = zip(table(english, name), table(chinese, name), strict=True)
        assert all(one[column] != other[column] for one, other in pairs)
    plain = {row["what"] for row in table(english, "story")} & {row["what"] for row in table(chinese, "story")}
    assert not plain


def secretive(name: str, **more: Any) -> Fact:
    """A word that names somebody else in each of its texts."""
    details = {
        "reasons": {
            "Insufficient nvidia.com/gpu": 2,
            "node(s) had untolerated taint {team: secret}": 3,
            "node(s) had untolerated taint {nvidia.com/gpu: present}": 1,
            "waits for secret/claim": 1,
        },
        "pod_sets": {"main": ["untolerated taint {team: secret} in flavor h100"]},
        "checks": [{"name": "zone", "state": "Retry", "message": "secret"}],
    }
    fields = {
        "rule": "secret/free text",
        "message": "for secret/w9",
        "decided_by": "system:serviceaccount:secret:bob",
        **more,
    }
    return decision(1, "not_now", uid=name, name=name, details=json.dumps(details), **fields)


def test_a_tenant_reads_rules_and_counts_and_no_free_text_that_may_name_others() -> None:
    facts = [
        queue(state="inactive", state_message="held by secret"),
        quota(900, nominal_milli=8_000),
        *asked("w1", 0, None),
        secretive("w1"),
        Event(source="kube_api", natural_key="e", kind="kubernetes", reason="Failed", message="of secret", component="secret-agent",
            subject_kind="Workload", subject_uid="w1", subject_namespace="team-a", subject_name="w1", occurred_at=at(5), observed_at=at(5)),
        Refusal(source="audit_log", natural_key="r", refused_by="webhook", verb="create", subject_kind="Workload", namespace="team-a",
            subject_name="w1", user="secret-user", response_code=400, message="secret denied it", occurred_at=at(4), observed_at=at(4)),
    ]  # fmt: skip
    answer = of(facts, tenant="team-a")
    assert "secret" in str(of(facts).to_json())
    assert "secret" not in str(answer.to_json())
    texts = [row["what_would_have_to_change"] for row in table(answer, "changes")]
    assert texts == [
        "its queue is inactive",
        "enough nvidia.com/gpu must become free on a node (it asks for 8 GPU); in the way on 2 nodes",
        "tolerate or remove taint {nvidia.com/gpu: present}; in the way on 1 node",
        "tolerate or remove taint (not named); in the way on 3 nodes",
        "another reason; in the way on 1 node",
        "admission check zone is Retry: -",
    ]
    (said,) = [row["what"] for row in table(answer, "story") if row["event"] == "not_now"]
    assert said.startswith("not now: Insufficient nvidia.com/gpu on 2 nodes; ")


@pytest.mark.parametrize(
    ("rule", "told_so"),
    [
        ("WaitingForQuota", True),
        ("Insufficient nvidia.com/gpu", True),
        ("Insufficient team-b", False),
        ("kueue.x-k8s.io/admission", True),
        ("node(s) were unschedulable", True),
        ("node(s) had untolerated taint(s)", True),
        ("node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }", True),
        ("team-b/queue", False),
        ("team", False),
        ('claim "team-b-scratch" not found', False),
        ("Preempted team-b", False),
        (None, True),
    ],
)
def test_a_rule_is_told_to_a_tenant_where_its_form_names_nobody(rule: str | None, told_so: bool) -> None:
    assert rule_told(rule, confined=False) == rule
    assert (rule_told(rule) == rule) is told_so


def test_q6_tells_a_tenant_no_free_text() -> None:
    theirs = asked("w2", 0, 205, priority=9, namespace="secret", object_name="secret")
    facts = [queue(), *asked("w1", 0, 60), *theirs, secretive("w1"), preemption(200, by="w2"), listed(0), listed(1_000)]
    wanted = {"tenant": "team-a"}
    with posted(facts) as store:
        free = scheduling(store, SchedulingSpec(where=wanted)).to_json()
        confined = scheduling(store, SchedulingSpec(where=wanted, confined=True)).to_json()
    assert "secret" in str(free["tables"])
    assert "secret" not in str(confined["tables"])
