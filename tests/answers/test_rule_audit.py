"""What Q6 says of rules: figures and tables over ``ledger.breach`` and ``dim.quota_change``, and what another tenant may not read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from steelyard.answers.demand_scope import DemandScope
from steelyard.answers.reading import Reading
from steelyard.answers.rule_audit import METHODS, SQL, TABLES, RuleAudit, rule_audit
from steelyard.facts.base import Fact
from steelyard.primitives.instant import INSTANT_MAX, INSTANT_MIN, Window
from steelyard.primitives.unknown import Unknown
from tests.ledgers.queue_facts import asked, audited, posted, queue
from tests.ledgers.wait_facts import at, decision

EVER = Window(INSTANT_MIN, INSTANT_MAX)
STRICT = [
    queue(strategy="StrictFIFO"),
    *asked("w1", 0, 3620, seen=4000),
    *asked("w2", 10, 20, namespace="team-b", seen=4000),
]
BEST = [queue(strategy="BestEffortFIFO"), *asked("w1", 0, 3620, seen=4000), *asked("w2", 10, 20, gpus=1, seen=4000)]


def audit(facts: Sequence[Fact], window: Window = EVER, confined: bool = False, **wanted: str) -> RuleAudit:
    with posted(facts) as store:
        scope = DemandScope(window, wanted={name: (value,) for name, value in wanted.items()})
        return rule_audit(Reading(store, SQL), scope, confined=confined)


def figures(found: RuleAudit) -> dict[str, Any]:
    return {figure.name: figure.value for figure in found.figures}


def table(found: RuleAudit, name: str) -> list[dict[str, Any]]:
    return [
        dict(zip([column.name for column in each.columns], row, strict=True))
        for each in found.tables
        for row in each.rows
        if each.name == name
    ]


def test_a_breach_names_who_went_first_who_waited_and_what_it_cost() -> None:
    found = audit(STRICT)
    (row,) = table(found, "rule_breaches")
    assert (row["rule"], row["policy"], row["served"], row["victim"]) == (
        "fifo",
        "StrictFIFO",
        "team-b/w2",
        "team-a/w1",
    )
    assert (row["at"], row["until"], row["cost"]) == ("2026-11-30T00:00:20Z", "2026-11-30T01:00:20Z", Fraction(8))
    assert {name: figures(found)[name] for name in ("rule_breaches_count", "rule_breach_gpu_hours", "overtakings_count")} == {
        "rule_breaches_count": 1, "rule_breach_gpu_hours": 8, "overtakings_count": 0,
    }  # fmt: skip
    assert set(figures(found)) == set(METHODS)
    assert {each.name for each in found.tables} <= set(TABLES)


def test_an_overtaking_that_the_rule_allows_is_told_apart() -> None:
    found = audit(BEST)
    assert (figures(found)["rule_breaches_count"], figures(found)["overtakings_count"]) == (0, 1)
    assert (table(found, "rule_breaches"), len(table(found, "overtakings"))) == ([], 1)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"tenant": "team-a"}, 1),
        ({"tenant": "team-b"}, 1),
        ({"tenant": "team-c"}, 0),
        ({"queue": "gpus"}, 1),
        ({"queue": "x"}, 0),
    ],
)
def test_who_is_asked_about_stands_on_either_side(wanted: dict[str, str], count: int) -> None:
    assert figures(audit(STRICT, **wanted))["rule_breaches_count"] == count


def test_what_was_broken_outside_the_window_is_not_told() -> None:
    assert figures(audit(STRICT, Window(at(21), at(4000))))["rule_breaches_count"] == 0
    assert figures(audit(STRICT, Window(at(20), at(21))))["rule_breaches_count"] == 1


def test_a_tenant_reads_its_own_side_alone_and_no_change_of_queues() -> None:
    changed = audited(60, "patch", "clusterqueues", "gpus")
    found = audit([*STRICT, changed], confined=True, tenant="team-a")
    (row,) = table(found, "rule_breaches")
    assert row["victim"] == "team-a/w1"
    assert all(
        isinstance(row[name], Unknown) for name in ("served", "served_tenant", "served_person", "served_priority")
    )
    assert "team-b" not in str(found.tables)
    assert table(found, "quota_changes") == []
    assert isinstance(figures(found)["quota_changes_count"], Unknown)


def test_without_queues_or_preemptions_nothing_is_known_rather_than_none() -> None:
    found = figures(audit([decision(1, "not_now")]))
    assert all(isinstance(found[name], Unknown) for name in METHODS)


def test_a_change_is_told_with_who_when_before_and_after() -> None:
    facts = [
        *STRICT,
        audited(60, "patch", "clusterqueues", "gpus", user="root", impersonated_user="ann", spec_after={"n": 1}),
    ]
    (row,) = table(audit(facts), "quota_changes")
    assert (row["who"], row["done_by"], row["at"], row["after"], row["after_basis"]) == (
        "ann", "root", "2026-11-30T00:01:00Z", '{"n":1}', "answer",
    )  # fmt: skip
    assert isinstance(row["before"], Unknown)
