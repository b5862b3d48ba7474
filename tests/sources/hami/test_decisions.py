"""What HAMi's scheduler decides, and pods that never reach it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.decision import Decision
from steelyard.sources.hami import read_hami_event, read_pod_decision
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import parse_pod

CTX = ReadContext(file="dump.json")


def decided(reason: str, message: str) -> list[Any]:
    payload = {
        "metadata": {"uid": "e-1"},
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u-1"},
        "reason": reason,
        "message": message,
        "source": {"component": "hami-scheduler"},
        "lastTimestamp": "2026-03-01T12:00:00Z",
    }
    return list(read_hami_event(payload, CTX))


@pytest.mark.parametrize(
    ("codes", "cause", "rule"),
    [
        ("ResourceQuotaNotFit(a)", "quota", "ResourceQuotaNotFit"),
        ("CardInsufficientMemory(a,b)", "capacity", "CardInsufficientMemory"),
        ("AllocatedCardsInsufficientRequest(a)", "fragmentation", "AllocatedCardsInsufficientRequest"),
        ("CardTypeMismatch(a)", "placement", "CardTypeMismatch"),
        ("NumaNotFit(a)", "placement", "NumaNotFit"),
        ("CardMigTopologyInfeasible(a)", "fragmentation", "CardMigTopologyInfeasible"),
        ("CardTypeMismatch(a), 1 nodes CardInsufficientCore(b)", "capacity", "CardInsufficientCore"),
        ("CardSomethingNew(a)", "other", "CardSomethingNew"),
    ],
)
def test_each_reason_code_has_its_cause_and_the_weightiest_decides(codes: str, cause: str, rule: str) -> None:
    (found,) = decided("FilteringFailed", f"2 nodes {codes}")
    assert isinstance(found, Decision)
    assert (found.verdict, found.cause, found.rule, found.node) == ("not_now", cause, rule, None)


def test_how_many_nodes_were_looked_at_and_a_place_that_was_found() -> None:
    (refused,) = decided("FilteringFailed", "no available node, 7 nodes do not meet")
    assert (refused.verdict, refused.nodes_count, refused.cause) == ("not_now", 7, None)
    (reserved,) = decided("FilteringSucceed", "find fit node(n1), 2 nodes not fit, 1 nodes fit(n1:7.62)")
    (bound,) = decided("BindingSucceed", "Successfully binding node [n1] to ns/p")
    assert [(each.verdict, each.node) for each in (reserved, bound)] == [("reserved", "n1"), ("bound", "n1")]
    (locked,) = decided("BindingFailed", "node n1 has been locked within 5m0s: node lock contention")
    assert (locked.verdict, locked.cause, locked.node) == ("not_now", "scheduler", "n1")
    assert json.loads(locked.details)["retryable"] is True


def test_noise_and_others_events_decide_nothing() -> None:
    assert decided("FilteringFailed", "pod does not request any resource") == []
    assert decided("FailedScheduling", "0/1 nodes are available: 1 x") == []


def asking(scheduler: str | None, phase: str = "Pending", annotations: dict[str, str] | None = None) -> list[Any]:
    payload = {
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u-1", "annotations": annotations or {},
            "creationTimestamp": "2026-03-01T12:00:00Z",
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"}}}],
        },
        "status": {"phase": phase},
    }  # fmt: skip
    return list(read_pod_decision(parse_pod(payload), CTX))


@pytest.mark.parametrize("scheduler", ["default-scheduler", None, "volcano"])
def test_a_pod_that_asks_for_a_cards_memory_and_names_another_scheduler_is_misconfigured(
    scheduler: str | None,
) -> None:
    (found,) = asking(scheduler)
    assert (found.verdict, found.cause, found.resource) == ("misconfigured", "scheduler", "nvidia.com/gpumem")
    assert json.loads(found.details)["scheduler"] == scheduler or scheduler is None
    assert len(asking(scheduler, "Running")) == 1, "a whole card that nobody accounts"


def test_a_pod_of_hamis_scheduler_or_with_an_allocation_or_at_its_end_is_not() -> None:
    assert asking("hami-scheduler") == []
    assert asking("our-own-name") == []
    assert asking("default-scheduler", annotations={"hami.io/vgpu-devices-allocated": "GPU-u,NVIDIA,1,1:;"}) == []
    assert asking("default-scheduler", "Succeeded") == []
