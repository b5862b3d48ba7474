from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.sources.hami import check_inconsistencies
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView, parse_pod

G = "GPU-11111111-0000-4000-8000-000000000001"


def node(name: str = "n1", register: str | None = None, mode: str = "hami-core", **annotations: str) -> dict[str, Any]:
    register = register if register is not None else f"{G},10,20000,100,NVIDIA-X,0,true,0,{mode}:"
    return {"metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": register, **annotations}}}


def pod(name: str, record: str, asks: dict[str, str], status: dict[str, Any] | None = None, **more: str) -> PodView:
    limits = {f"nvidia.com/{key}": value for key, value in asks.items()}
    annotations = {
        "hami.io/vgpu-devices-allocated": f"{record}:;" if record else "",
        "hami.io/bind-phase": "success",
        **more,
    }
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": annotations}
    spec = {"nodeName": "n1", "containers": [{"name": "srv", "resources": {"limits": limits}}]}
    return parse_pod({"metadata": metadata, "spec": spec, "status": status or {"phase": "Running"}})


def check(
    nodes: list[dict[str, Any]] | None = None,
    pods: list[PodView] | None = None,
    events: list[dict[str, Any]] | None = None,
) -> dict[str, dict[str, Any]]:
    facts = check_inconsistencies(nodes or [], pods or [], events or [], ReadContext())
    return {f"{fact.code} {fact.subject}": json.loads(fact.evidence) for fact in facts if isinstance(fact, Finding)}


ASKS = {"gpu": "1", "gpumem": "2000", "gpucores": "10"}
HONEST = f"{G},NVIDIA,2000,10"
IMPOSSIBLE = f"tampered_grant_impossible device {G}"


def test_a_grant_above_its_request_that_does_not_fit_beside_the_others_is_impossible() -> None:
    pods = [
        pod("greedy", f"{G},NVIDIA,9000,100", ASKS),
        pod("other", f"{G},NVIDIA,2000,25", {**ASKS, "gpucores": "25"}),
    ]
    evidence = check([node()], pods)[IMPOSSIBLE]
    assert (evidence["device_uuid"], evidence["cores_percent_if_granted"], evidence["memory_mib_if_granted"]) == (
        G,
        125,
        11_000,
    )
    assert evidence["pods_above_request"] == ["team/greedy"]


@pytest.mark.parametrize(
    ("mode", "pods"),
    [
        ("hami-core", [pod("greedy", f"{G},NVIDIA,9000,60", ASKS), pod("other", HONEST, ASKS)]),  # it would fit
        (
            "hami-core",
            [pod(f"p{number}", f"{G},NVIDIA,2000,30", {**ASKS, "gpucores": "30"}) for number in range(4)],
        ),  # nobody exceeds
        ("hami-core", [pod("greedy", f"{G},NVIDIA,9000,100", ASKS), pod("gone", HONEST, ASKS, {"phase": "Succeeded"})]),
        ("mig", [pod("greedy", f"{G},NVIDIA,9000,100", ASKS), pod("other", HONEST, ASKS)]),  # rounding to a profile
    ],
)
def test_what_the_scheduler_could_have_written_is_not_called_impossible(mode: str, pods: list[PodView]) -> None:
    assert IMPOSSIBLE not in check([node(mode=mode)], pods)


def test_memory_beyond_the_schedulable_is_impossible_too() -> None:
    assert IMPOSSIBLE in check([node()], [pod("greedy", f"{G},NVIDIA,30000,10", ASKS)])


def test_an_init_container_and_the_app_after_it_do_not_add_up() -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "50"}}}
    annotations = {"hami.io/vgpu-devices-allocated": f"{G},NVIDIA,1,60:;{G},NVIDIA,1,60:;"}
    spec = {"nodeName": "n1", "initContainers": [{"name": "warm", **limits}], "containers": [{"name": "srv", **limits}]}
    status = {"phase": "Running"}
    view = parse_pod(
        {"metadata": {"name": "p", "uid": "u", "annotations": annotations}, "spec": spec, "status": status}
    )
    assert IMPOSSIBLE not in check([node()], [view])
    evidence = check([node()], [view, pod("other", f"{G},NVIDIA,1,41", {"gpu": "1"})])[IMPOSSIBLE]
    assert evidence["cores_percent_if_granted"] == 101


BOUND = {"hami.io/bind-time": "1796000403"}


@pytest.mark.parametrize(
    ("lock", "phase", "stale"),
    [
        ("2026-11-30T02:00:31Z,team,p", "success", True),
        ("2026-11-30T02:00:31Z,team,p", "allocating", False),
        ("2026-11-30T01:00:03Z,team,p", "success", False),
        ("2026-11-30T02:00:31Z,team,stranger", "success", False),
        ("2026-11-30T02:00:31Z", "success", False),
        ("someday,team,p", "success", False),
    ],
)
def test_a_lock_taken_after_the_bind_was_done_is_stale(lock: str, phase: str, stale: bool) -> None:
    found = check(
        [node(**{"hami.io/mutex.lock": lock})], [pod("p", HONEST, ASKS, **{**BOUND, "hami.io/bind-phase": phase})]
    )
    assert ("mutex_lock_after_success node n1" in found) is stale
    if stale:
        assert found["mutex_lock_after_success node n1"]["lock_utc"] == "2026-11-30T02:00:31Z"
        assert found["mutex_lock_after_success node n1"]["pod"] == "team/p"


JSON_REGISTER = json.dumps([{"id": G, "mode": "hami-core"}])
MIG_REGISTER = json.dumps([{"id": f"{G}x", "mode": "mig", "migProfiles": [{"name": "1g.5gb"}]}])


@pytest.mark.parametrize(
    ("registers", "labels", "mixed"),
    [
        ([None, JSON_REGISTER], [{}, {}], True),
        ([JSON_REGISTER, MIG_REGISTER], [{}, {}], False),  # one release writes both
        ([None, None], [{"x/hami-version": "v2.6.0"}, {"x/hami-version": "v2.7.1"}], True),
        ([None, None], [{"x/hami-version": "v2.7.1"}, {}], False),
    ],
)
def test_nodes_of_different_releases_are_named(
    registers: list[str | None], labels: list[dict[str, str]], mixed: bool
) -> None:
    nodes = [node(f"n{number}", register) for number, register in enumerate(registers)]
    for each, own in zip(nodes, labels, strict=True):
        each["metadata"]["labels"] = own
    assert ("cluster_mixes_versions nodes" in check(nodes)) is mixed


def event(count: int, first: str, last: str, reason: str = "FilteringSucceed", **about: str) -> dict[str, Any]:
    return {
        "reason": reason,
        "message": "find fit node(n1)",
        "count": count,
        "firstTimestamp": first,
        "lastTimestamp": last,
        "involvedObject": {"kind": "Pod", "namespace": "team", "name": "p"} | about,
        "source": {"component": "hami-device-plugin"},
    }


def test_an_event_that_happened_once_has_one_time() -> None:
    once = event(1, "2026-11-30T01:55:00Z", "2026-11-30T02:00:00Z")
    found = check(pods=[pod("p", HONEST, ASKS, **BOUND)], events=[once])["event_count_one_with_span events"]
    assert (found["events_count"], found["later_than_bind"]) == (1, ["team/p"])
    often = event(7, "2026-11-30T01:55:00Z", "2026-11-30T02:00:00Z")
    instant = event(1, "2026-11-30T02:00:00Z", "2026-11-30T02:00:00Z")
    assert check(events=[often, instant]) == {}


def test_a_node_s_fault_in_an_event_is_a_finding_under_its_own_name() -> None:
    fault = event(
        1, "2026-11-30T02:00:00Z", "2026-11-30T02:00:00Z", "AsymmetricGPUP2PLink", kind="Node", name="n1", namespace=""
    )
    assert check(events=[fault]) == {
        "AsymmetricGPUP2PLink node n1": {"event_count": 1, "event_reason": "AsymmetricGPUP2PLink"}
    }


def test_a_mig_instance_of_a_card_that_is_not_in_mig_mode_is_a_conflict() -> None:
    found = check([node()], [pod("p", f"{G}[0-1],NVIDIA,5120,0", {"gpu": "1"})])
    assert f"device_mode_conflict device {G}" in found


def test_a_vendor_s_card_that_only_a_pod_names_is_a_device_of_unknown_size() -> None:
    vendor = {"hami.io/mthreads-vgpu-devices-allocated": "n1-mthreads-0,Mthreads,4096,4:;"}
    pods = [pod("p", "", {}, **vendor), pod("q", "", {}, **vendor)]
    facts = list(check_inconsistencies([], pods, [], ReadContext()))
    (card,) = [fact for fact in facts if isinstance(fact, Device)]
    assert (card.device_uuid, card.vendor, card.node, card.basis, card.memory_mib) == (
        "n1-mthreads-0",
        "mthreads",
        "n1",
        "allocation",
        None,
    )
    registered = {
        "metadata": {"name": "n1", "annotations": {"hami.io/node-register-mthreads": "n1-mthreads-0,4,1,100,X,0,true:"}}
    }
    assert list(check_inconsistencies([registered], pods, [], ReadContext())) == []


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"involvedObject": []},
        {"count": "1"},
        {"reason": 7},
        {"message": None},
        {"source": "x"},
        {"firstTimestamp": "soon"},
        {"involvedObject": {"name": [], "namespace": {}}},
    ],
)
def test_odd_events_are_no_error(odd: dict[str, Any]) -> None:
    base = event(1, "2026-11-30T01:55:00Z", "2026-11-30T02:00:00Z")
    list(check_inconsistencies([{}, {"metadata": 7}], [], [base | odd], ReadContext()))
