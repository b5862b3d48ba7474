"""The story of a request: what is told, as of when, where it stands, what would have to change, and how long it may still take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steelyard.answers
from steelyard.answers.contract import Answer
from steelyard.answers.story import StorySpec, story
from steelyard.answers.story_standing import WAITS_MIN
from steelyard.definitions.kaplan_meier import Ends, kaplan_meier, remaining_quantile
from steelyard.facts.base import Fact
from steelyard.facts.event import Event
from steelyard.facts.refusal import Refusal
from steelyard.primitives.errors import UsageError
from steelyard.primitives.instant import SECOND_US
from steelyard.primitives.unknown import Unknown
from steelyard.store import Store
from tests.ledgers.facts_of import pod
from tests.ledgers.queue_facts import asked, audited, posted, preemption, queue, quota
from tests.ledgers.wait_facts import at, condition, decision

SHORT = {
    "cause": "quota",
    "resource": "nvidia.com/gpu",
    "flavor": "h100",
    "source": "kueue",
    "decided_by": "kueue-admission",
}


def told(store: Store, name: str, second: float | None = None, **more: Any) -> Answer:
    return story(store, StorySpec(name, at=None if second is None else at(second), **more))


def table(answer: Answer, name: str) -> list[dict[str, Any]]:
    (found,) = [found for found in answer.tables if found.name == name]
    return [dict(zip([column.name for column in found.columns], row, strict=True)) for row in found.rows]


def of(facts: Sequence[Fact], name: str = "w1", second: float | None = None, **more: Any) -> Answer:
    with posted(facts) as store:
        return told(store, name, second, **more)


def figure(answer: Answer, name: str) -> Any:
    (found,) = [each.value for each in answer.figures if each.name == name]
    return found


LIFE = [
    queue(strategy="StrictFIFO"),
    *asked("w1", 0, 60, evictions='[{"reason":"Preempted","cause":"","count":1}]', queue="train", priority=1),
    decision(2, "not_now", count=9, first_at=at(1), missing_milli=4_000, rule="WaitingForQuota", message="4 more needed", **SHORT),
    decision(60, "reserved", queue="gpus", rule="QuotaReserved", source="kueue", decided_by="kueue-admission"),
    condition(60, "Admitted"),
    condition(200, "Evicted", reason="Preempted"),
    preemption(200, by="w2", cause="reclaim", victim_queue="gpus"),
    condition(210, "QuotaReserved", "False"),
    *asked("w2", 100, 205, priority=9),
    Refusal(source="audit_log", natural_key="r", refused_by="quota", subject_kind="Workload", namespace="team-a", subject_name="w1", user="ann",
        rule="gpu-quota", response_code=403, occurred_at=at(-5), observed_at=at(-5)),
]  # fmt: skip


@pytest.fixture(scope="module")
def life() -> Iterator[Store]:
    with posted(LIFE) as store:
        yield store


def test_a_story_is_told_in_time_order_each_line_with_its_source(life: Store) -> None:
    rows = table(told(life, "team-a/w1"), "story")
    assert [row["event"] for row in rows] == [
        "refused",
        "created",
        "not_now",
        "reserved",
        "admitted",
        "evicted",
        "preempted",
        "released",
    ]
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert all(row["source"] for row in rows)
    refusal = rows[2]
    assert (refusal["at"], refusal["times"], refusal["last_at"]) == ("2026-11-30T00:00:01Z", 9, None)
    assert "kueue-admission" in refusal["source"]
    assert "team-a/w2" in rows[6]["what"]


def test_a_story_has_the_form_of_every_answer(life: Store) -> None:
    schema = json.loads((Path(steelyard.answers.__file__).parent / "answer.schema.json").read_text(encoding="utf-8"))
    for second in (30, 100, 300):
        jsonschema.validate(told(life, "w1", second, explain=True).to_json(), schema)


def test_the_other_side_of_a_preemption_has_its_line_too(life: Store) -> None:
    rows = table(told(life, "w2"), "story")
    assert [row["what"] for row in rows if row["event"] == "preempts"] == [
        "team-a/w1 of queue gpus was preempted for it (reclaim); priority 1 gives way to 9"
    ]


def test_what_came_after_the_instant_is_left_out(life: Store) -> None:
    early = told(life, "w1", 100)
    assert [row["event"] for row in table(early, "story")] == ["refused", "created", "not_now", "reserved", "admitted"]
    assert figure(early, "requests_waiting_count") == 0
    waiting = told(life, "w1", 30)
    assert figure(waiting, "wait_age_seconds") == 30
    assert table(waiting, "standing")[0]["fit"] == "not_now"
    assert figure(told(life, "w1", 300), "wait_age_seconds") == 90, (
        "its second wait began when its quota was given back"
    )


def test_an_instant_before_the_request_is_refused(life: Store) -> None:
    with pytest.raises(UsageError, match="was not there yet"):
        told(life, "w1", -100)


@pytest.mark.parametrize("name", ["w1", "team-a/w1", " team-a/w1 "])
def test_a_name_a_namespaced_name_and_a_uid_mean_the_same(life: Store, name: str) -> None:
    assert table(told(life, name), "requests")[0]["request"] == "team-a/w1"


@pytest.mark.parametrize("name", ["nothing", "team-b/w1", "team-a/w", "", "/", "' OR 1=1 --", "w1\x00", "w%"])
def test_a_name_that_nothing_has_is_refused_with_the_nearest(life: Store, name: str) -> None:
    with pytest.raises(UsageError, match=r"no request is called .*w1"):
        told(life, name)


def test_a_kind_tells_things_of_one_name_apart() -> None:
    facts = [*asked("train", 0, 5), pod(30, "p1", pod="train", created_at=0)]
    with posted(facts) as store:
        with pytest.raises(UsageError, match="may be any of: pod team-a/train, workload team-a/train"):
            told(store, "team-a/train")
        assert table(told(store, "train", kind="pod"), "requests")[0]["kind"] == "pod"
        assert table(told(store, "train", kind="workload"), "requests")[0]["kind"] == "workload"
        with pytest.raises(UsageError, match="a request is a pod, job, workload"):
            told(store, "train", kind="moon")


def test_a_job_of_several_requests_has_one_story_of_all() -> None:
    gangs = [
        fact
        for uid in ("w1", "w2")
        for fact in asked(uid, 0, 5, owner_kind="RayJob", owner_name="train", owner_uid="rj")
    ]
    answer = of(gangs, "train")
    assert {row["request"] for row in table(answer, "story")} == {"team-a/w1", "team-a/w2"}
    assert figure(answer, "requests_count") == 2


def test_a_tenant_finds_its_own_requests_alone() -> None:
    with posted([*asked("w1", 0, 5), *asked("theirs", 0, 5, namespace="team-b")]) as store:
        assert figure(told(store, "w1", tenant="team-a"), "requests_count") == 1
        for name in ("theirs", "team-b/theirs", "their"):
            with pytest.raises(UsageError) as refusal:
                told(store, name, tenant="team-a")
            assert "team-b" not in str(refusal.value).partition("the nearest are")[2]


def test_a_tenant_is_told_that_it_was_preempted_and_not_for_whom() -> None:
    facts = [*LIFE[:-3], *asked("w2", 100, 205, priority=9, namespace="team-b", object_name="secret")]
    rows = table(of(facts, "w1", tenant="team-a"), "story")
    assert [row["what"] for row in rows if row["event"] == "preempted"] == ["preempted for another request (reclaim)"]


def test_an_event_that_names_somebody_else_is_not_told_to_a_tenant() -> None:
    def event(reason: str, message: str) -> Event:
        return Event(
            source="kube_api", natural_key=reason, kind="kubernetes", reason=reason, message=message, subject_kind="Workload", subject_uid="w1",
            subject_namespace="team-a", subject_name="w1", occurred_at=at(70), observed_at=at(70),
        )  # fmt: skip

    facts = [*asked("w1", 0, 60), event("Preempted", "for team-b/secret"), event("Created", "its job")]
    assert [row["what"] for row in table(of(facts), "story") if row["event"] == "event"] == [
        "Created: its job",
        "Preempted: for team-b/secret",
    ]
    assert "secret" not in str(of(facts, tenant="team-a").tables)


PENDING = [
    queue(strategy="BestEffortFIFO"),
    *asked("w1", 10, None, priority=5),
    *asked("first", 0, None, priority=5),
    *asked("low", 0, None, priority=1),
    *asked("high", 30, None, priority=9),
    *asked("elsewhere", 0, None, priority=9, cluster_queue="other"),
    *asked("served", 0, 5, priority=9),
]


def test_the_position_goes_by_priority_then_by_creation_within_the_queue() -> None:
    (row,) = table(of(PENDING), "standing")
    assert (row["position"], row["pending"], row["ahead"], row["strategy"]) == (
        3,
        4,
        "team-a/high, team-a/first",
        "BestEffortFIFO",
    )
    (row,) = table(of(PENDING, second=20), "standing")
    assert (row["position"], row["pending"]) == (2, 3), "who asked later was not ahead yet"


def test_a_tenant_knows_its_position_and_nobody_ahead() -> None:
    (row,) = table(of([*PENDING, *asked("x", 0, None, namespace="team-b", priority=9)], tenant="team-a"), "standing")
    assert (row["position"], row["ahead"]) == (4, None)


def changed(*facts: Fact, **more: Any) -> list[tuple[Any, ...]]:
    rows = table(of([*asked("w1", 0, None, gpus=32, **more), *facts]), "changes")
    return [(row["what_would_have_to_change"], row["have"], row["need"]) for row in rows]


def test_what_never_fits_has_to_ask_for_less_or_its_queue_to_have_more() -> None:
    word = decision(1, "never_fits", asked_milli=32_000, limit_milli=24_000, **SHORT)
    assert changed(word) == [
        ("ask for at most 24 nvidia.com/gpu of flavor h100 instead of 32", "32", "24"),
        (
            "or raise what queue gpus may have in all (its quota and what it may borrow) from 24 to 32 nvidia.com/gpu of flavor h100",
            "24",
            "32",
        ),
    ]


def test_the_quota_itself_tells_that_a_request_never_fits_whatever_the_word_says() -> None:
    limits = quota(500, nominal_milli=24_000)
    facts = [*asked("w1", 0, None, gpus=32), decision(1, "not_now", missing_milli=8_000, **SHORT), limits]
    (row,) = table(of(facts), "standing")
    assert (row["fit"], row["fit_basis"]) == ("never_fits", "quota")
    assert table(of(facts), "changes")[0]["what_would_have_to_change"].startswith("ask for at most 24")
    (row,) = table(of([*asked("w1", 0, None, gpus=24), *facts[1:]]), "standing")
    assert (row["fit"], row["fit_basis"]) == ("not_now", "decision"), "what is just as large fits"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (
            decision(1, "not_now", missing_milli=4_000, **SHORT),
            "4 more nvidia.com/gpu of flavor h100 must become free for queue gpus, its own or borrowed",
        ),
        (
            decision(1, "not_now", details='{"reasons":{"node(s) had untolerated taint {a: b}":3}}'),
            "tolerate or remove taint {a: b}; in the way on 3 nodes",
        ),
        (
            decision(1, "not_now", details='{"reasons":{"Insufficient nvidia.com/gpu":4}}'),
            "enough nvidia.com/gpu must become free on a node (it asks for 32 GPU); in the way on 4 nodes",
        ),
        (decision(1, "not_now", details='{"reasons":{"node(s) were unschedulable":1}}'), "uncordon the nodes; in the way on 1 node"),
        (
            decision(1, "not_now", details='{"pending_preemptions_count":2}'),
            "nothing: 2 requests are being preempted for it",
        ),
        (
            decision(1, "rejected", details='{"checks":[{"name":"c","state":"Retry","message":"busy"}]}'),
            "admission check c is Retry: busy",
        ),
        (decision(1, "not_now", message="words that nobody reads"), "what its decider names: words that nobody reads"),
        (decision(1, "not_now", details="no json", message="m"), "what its decider names: m"),
        (decision(1, "not_now", details='{"reasons":["x"],"pod_sets":7,"checks":{}}', message="m"), "what its decider names: m"),
    ],
)  # fmt: skip
def test_what_would_have_to_change_comes_from_the_last_word(word: Fact, expected: str) -> None:
    assert [text for text, _have, _need in changed(word)] == [expected]


def test_the_last_word_counts_and_what_is_said_of_an_eviction_is_none() -> None:
    echo = decision(700, "not_now", details='{"after":"evicted"}', message="echo")
    words = [decision(1, "not_now", message="old"), decision(500, "not_now", message="new"), echo]
    assert [text for text, _have, _need in changed(*words)] == ["what its decider names: new"]


def test_a_queue_that_is_stopped_or_inactive_is_the_first_thing_to_change() -> None:
    assert changed(queue(stop_policy="HoldAndDrain"))[0][0].startswith("its queue is stopped (HoldAndDrain)")
    assert (
        changed(queue(state="inactive", state_message="flavor missing"))[0][0]
        == "its queue is inactive: flavor missing"
    )


def test_who_asked_is_told_with_its_basis() -> None:
    facts = [
        *asked("w1", 0, None, owner_kind="Job", owner_name="j", owner_uid="j"),
        audited(-1, "create", "jobs", "j", namespace="team-a"),
    ]
    (row,) = table(of(facts), "requests")
    assert (row["person"], row["person_basis"]) == ("ann@example.com", "creator")


def cohort(waits: Sequence[int], age: int, others: Sequence[Fact] = ()) -> list[Fact]:
    """Requests that were served after so many seconds, all of one queue, and one that waits since ``age`` seconds at 100,000."""
    found: list[Fact] = [*others]
    for number, wait in enumerate(waits):
        found += asked(f"s{number}", 0, wait, seen=100_000)
    return [*found, *asked("w1", 100_000 - age, None, seen=100_000)]


def test_an_estimate_is_the_conditional_quantile_of_the_queues_waits() -> None:
    answer = of(cohort(range(100, 2100, 100), age=1_000), second=100_000)
    found = {name: figure(answer, f"remaining_wait_{name}_seconds") for name in ("p10", "p50", "p90")}
    assert found == {"p10": 100, "p50": 500, "p90": 900}, "ten waits took longer than 1,000 s: 1,100 to 2,000"


def test_of_too_few_waits_nothing_is_estimated() -> None:
    waits = range(100, 100 * WAITS_MIN, 100)
    answer = of(cohort(waits, age=50), second=100_000)
    value = figure(answer, "remaining_wait_p50_seconds")
    assert isinstance(value, Unknown)
    assert f"of its queue {len(waits)} lasted" in value.reason
    assert table(answer, "remaining_wait")[0]["waits_compared"] == len(waits)


def test_who_still_waits_stays_in_the_estimate_and_who_never_fits_does_not() -> None:
    waiting = [fact for n in range(10) for fact in asked(f"c{n}", 0, None, seen=100_000)]
    answer = of(cohort(range(100, 1100, 100), 50, waiting), second=100_000)
    assert figure(answer, "remaining_wait_p50_seconds") == 950, (
        "half of twenty that lasted so long are served by 1,000 s"
    )
    assert isinstance(figure(answer, "remaining_wait_p90_seconds"), Unknown)
    never = [decision(1, "never_fits", uid=f"c{n}", name=f"c{n}") for n in range(10)]
    answer = of(cohort(range(100, 1100, 100), 50, [*waiting, *never]), second=100_000)
    assert (figure(answer, "remaining_wait_p50_seconds"), figure(answer, "remaining_wait_p90_seconds")) == (450, 850)


def test_an_estimate_of_then_can_be_had_again_and_held_against_what_happened() -> None:
    served = [fact for n in range(20) for fact in asked(f"s{n}", 0, 100 * (n + 1), seen=1_900)]
    before = [
        *served[: 2 * 15],
        *[fact for n in range(15, 20) for fact in asked(f"s{n}", 0, None, seen=1_500)],
        *asked("w1", 1_000, None, seen=1_500),
    ]
    with posted(before) as store:
        then = told(store, "w1", 1_500)
    with posted(
        [*before, *served, *asked("w1", 1_000, 1_750, seen=1_900), *asked("later", 1_600, 1_650, seen=1_900)]
    ) as store:
        again = told(store, "w1", 1_500)
    names = [f"remaining_wait_{name}_seconds" for name in ("p10", "p50", "p90")]
    assert [figure(then, name) for name in names] == [figure(again, name) for name in names]
    assert figure(then, "remaining_wait_p10_seconds") <= 250


def test_a_request_that_never_fits_has_no_estimate() -> None:
    facts = cohort(
        range(100, 2100, 100),
        age=50,
        others=[decision(99_999, "never_fits", asked_milli=8_000, limit_milli=4_000, **SHORT)],
    )
    value = figure(of(facts, second=100_000), "remaining_wait_p50_seconds")
    assert isinstance(value, Unknown)
    assert "never fits" in value.reason


_WAITS = st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=12, max_size=30)


@settings(max_examples=15, deadline=None)
@given(_WAITS, st.integers(0, 20))
def test_the_engine_and_the_definition_estimate_alike(waits: list[tuple[int, bool]], age: int) -> None:
    facts: list[Fact] = []
    for number, (length, is_served) in enumerate(waits):
        facts += asked(f"s{number}", 1_000 - length, 1_000 if is_served else None, seen=1_000)
    facts += asked("w1", 1_000 - age, None, seen=1_000)
    ends = [Ends(length * SECOND_US, int(served), censored=int(not served)) for length, served in waits]
    longer = [length for length, _served in waits if length > age]
    answer = of(facts, second=1_000)
    for name, p in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
        value = figure(answer, f"remaining_wait_{name}_seconds")
        expected = remaining_quantile(ends, age * SECOND_US, p) if len(longer) >= WAITS_MIN else Unknown("too few")
        assert isinstance(value, Unknown) == isinstance(expected, Unknown)
        assert isinstance(value, Unknown) or value * SECOND_US == expected


@given(_WAITS, st.integers(0, 60))
def test_what_is_left_of_a_wait_is_the_survival_over_that_at_its_age(waits: list[tuple[int, bool]], age: int) -> None:
    ends = [Ends(length, int(served), censored=int(not served)) for length, served in waits]
    curve = kaplan_meier(ends)
    at_age = next((survival for time, survival in reversed(curve) if time <= age), 1.0)
    left = remaining_quantile(ends, age, 0.5)
    reached = [time - age for time, survival in curve if time > age and survival <= 0.5 * at_age * (1 + 1e-9)]
    assert left == reached[0] if reached else isinstance(left, Unknown)
