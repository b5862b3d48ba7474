from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.hami import merge_outcomes, parse_scheduling_event


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        (
            "FilteringSucceed",
            "find fit node(n2), 4 nodes not fit, 2 nodes fit(n1:4.10,n2:7.62)",
            {
                "outcome": "scheduled",
                "node": "n2",
                "fit_nodes": ("n2", "n1"),
                "not_fit_nodes_count": 4,
                "grammar": ">=2.6",
            },
        ),
        (
            "FilteringSucceed",
            "find fit node(n1)",
            {"outcome": "scheduled", "node": "n1", "fit_nodes": (), "not_fit_nodes_count": None},
        ),
        (
            "FilteringSucceed",
            "Successfully filtered to following nodes: [n1] for ns/p ",
            {"outcome": "scheduled", "node": "n1", "fit_nodes": ("n1",), "grammar": "<=2.5"},
        ),
        (
            "FilteringSucceed",
            "Successfully filtered to following nodes: [n1 n2] for ns/p ",
            {"outcome": "scheduled", "node": None, "fit_nodes": ("n1", "n2")},
        ),
        ("BindingSucceed", "Successfully binding node [n1] to ns/p", {"outcome": "scheduled", "node": "n1"}),
        ("BindingSucceed", "all is well", {"outcome": "scheduled", "node": None, "message_unread": True}),
        (
            "FilteringFailed",
            "2 nodes CardInsufficientMemory(n1,n2)",
            {"outcome": "refused", "reasons": {"CardInsufficientMemory": ("n1", "n2")}, "nodes_total_count": None},
        ),
        (
            "FilteringFailed",
            "no available node, 6 nodes do not meet",
            {"outcome": "refused", "nodes_total_count": 6, "nodes_without_reason_count": 6, "reasons": {}},
        ),
        (
            "FilteringFailed",
            "no available node, all node scores do not meet",
            {"outcome": "refused", "grammar": "<=2.5", "nodes_total_count": None},
        ),
        ("FilteringFailed", "1 nodes ResourceQuotaNotFit(n1)", {"outcome": "refused", "waiting_cause": "quota"}),
        ("FilteringFailed", "calcScore failed boom for pod p", {"outcome": "refused", "message_unread": True}),
        (
            "BindingFailed",
            "node n1 has been locked within 5m0s: node lock contention",
            {
                "outcome": "bind_failed",
                "node": "n1",
                "retryable": True,
                "lock_expiry_seconds": 300,
                "waiting_cause": "scheduler",
            },
        ),
        (
            "BindingFailed",
            "node n1 is locked",
            {"outcome": "bind_failed", "node": "n1", "retryable": True, "lock_expiry_seconds": None},
        ),
        (
            "BindingFailed",
            "timed out after 30s waiting for node n1 to be unlocked",
            {"outcome": "bind_failed", "node": "n1", "retryable": True},
        ),
        ("BindingFailed", "failed to get node n1", {"outcome": "bind_failed", "node": "n1", "retryable": False}),
        ("BindingFailed", "boom", {"outcome": "bind_failed", "node": None, "retryable": None, "message_unread": True}),
    ],
)
def test_each_sentence_of_the_scheduler_is_read(reason: str, message: str, expected: dict[str, Any]) -> None:
    outcome = parse_scheduling_event(reason, message, "any-scheduler")
    assert outcome is not None
    assert {name: getattr(outcome, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("reason", "message", "component"),
    [
        ("FilteringFailed", "pod p does not request any resource", "hami-scheduler"),
        ("FailedScheduling", "0/6 nodes are available", "default-scheduler"),
        ("AsymmetricGPUP2PLink", "x", "other"),
        ("", "", ""),
    ],
)
def test_noise_and_strangers_are_no_outcome(reason: str, message: str, component: str) -> None:
    assert parse_scheduling_event(reason, message, component) is None


def test_a_fault_of_a_node_is_named_by_its_reason() -> None:
    outcome = parse_scheduling_event("AsymmetricGPUP2PLink", "pairs", "hami-device-plugin")
    assert outcome is not None
    assert (outcome.outcome, outcome.finding) == ("finding", "AsymmetricGPUP2PLink")


def test_counts_of_different_reasons_are_not_added() -> None:
    messages = (
        "2 nodes CardTypeMismatch(n1,n2)",
        "2 nodes NumaNotFit(n2,n3)",
        "no available node, 5 nodes do not meet",
    )
    merged = merge_outcomes(filter(None, (parse_scheduling_event("FilteringFailed", text, "") for text in messages)))
    assert merged is not None
    assert merged.reasons == {"CardTypeMismatch": ("n1", "n2"), "NumaNotFit": ("n2", "n3")}
    assert (merged.nodes_total_count, merged.nodes_without_reason_count) == (5, 2)


def test_the_last_kind_of_outcome_wins() -> None:
    refused = parse_scheduling_event("FilteringFailed", "1 nodes NodeUnfitPod(n1)", "")
    fitted = parse_scheduling_event("FilteringSucceed", "find fit node(n1)", "")
    assert refused and fitted
    merged = merge_outcomes([refused, fitted])
    assert merged is not None and (merged.outcome, merged.reasons) == ("scheduled", {})
    assert merge_outcomes([]) is None


@given(
    st.sampled_from(["FilteringSucceed", "FilteringFailed", "BindingSucceed", "BindingFailed"]),
    st.text(alphabet="findtoe 12(),:[]n\ud800", max_size=120),
)
def test_any_message_of_ours_is_an_outcome(reason: str, message: str) -> None:
    assert parse_scheduling_event(reason, message, "hami-scheduler") is not None


@pytest.mark.parametrize(
    "piece", ["1 nodes A(", "find fit node(", "timed out after ", "node ", "1" * 7 + " nodes Aa(n"]
)
def test_a_long_message_of_beginnings_is_read_once(piece: str) -> None:
    for reason in ("FilteringSucceed", "FilteringFailed", "BindingFailed"):
        assert parse_scheduling_event(reason, piece * 200_000, "") is not None
