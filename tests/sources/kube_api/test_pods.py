"""A Pod as Request, Container and findings."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.container import Container
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.request import Request
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kube_api.pods import toleration_us
from steelyard.sources.shared.pods import parse_pod
from tests.sources.kube_api.kube_objects import at, codes, container, gpus, of, only, pod, read, stamp, status_of


def test_stamps_of_a_finished_pod_date_its_whole_life():
    facts = read(
        pod(
            gpus(1),
            init=(gpus(1, "warm"),),
            status={
                "phase": "Succeeded",
                "startTime": stamp("10:00:03"),
                "initContainerStatuses": [status_of("warm", terminated=("10:01:00", "10:02:00", 0))],
                "containerStatuses": [status_of(terminated=("10:02:05", "10:30:00", 0))],
            },
        )
    )
    request = only(facts, Request)
    assert (request.created_at, request.scheduled_at, request.started_at) == (
        at("10:00:00"),
        at("10:00:02"),
        at("10:00:03"),
    )
    assert (request.first_container_at, request.init_done_at, request.init_count) == (at("10:01:00"), at("10:02:00"), 1)
    assert request.last_container_end_at == at("10:30:00")
    assert [(item.container, item.kind, item.ended_at) for item in of(facts, Container)] == [
        ("warm", "init", at("10:02:00")),
        ("main", "app", at("10:30:00")),
    ]
    assert codes(facts) == []


def test_a_running_pod_has_no_end_although_one_container_is_done():
    status = {
        "containerStatuses": [status_of(terminated=("10:01:00", "10:02:00", 0)), status_of("b", running="10:01:00")]
    }
    facts = read(pod(gpus(1), container("b"), status=status))
    assert only(facts, Request).last_container_end_at is None
    assert codes(facts) == []


def test_init_is_not_done_while_a_plain_init_container_runs_or_has_failed():
    for state in ({"running": "10:01:00"}, {"terminated": ("10:01:00", "10:02:00", 1)}):
        facts = read(pod(gpus(1), init=(container("i"),), status={"initContainerStatuses": [status_of("i", **state)]}))
        assert (only(facts, Request).init_done_at, only(facts, Request).init_count) == (None, 1)


def test_a_restart_does_not_move_the_first_start_behind_the_run_before():
    state = status_of(running="11:00:00")
    state |= {
        "restartCount": 1,
        "lastState": {"terminated": {"startedAt": stamp("10:05:00"), "finishedAt": stamp("10:59:00")}},
    }
    request = only(read(pod(status={"containerStatuses": [state]})), Request)
    assert (request.first_container_at, request.last_container_end_at) == (at("10:05:00"), None)


@pytest.mark.parametrize(
    ("containers", "init", "count"),
    [
        ((gpus(2), gpus(3, "b")), (), 5),
        ((gpus(1),), (gpus(4, "i"), gpus(2, "j")), 4),
        ((gpus(2),), (gpus(1, "side", restartPolicy="Always"), gpus(2, "i")), 3),
        ((gpus("2"),), (), 2),
        ((gpus("1k"),), (), 1000),
        ((container(),), (), 0),
    ],
)
def test_gpu_count_is_the_larger_of_the_biggest_init_container_and_the_sum_of_the_others(containers, init, count):
    assert only(read(pod(*containers, init=init)), Request).gpu_count == count


@pytest.mark.parametrize("bad", ["1.5", "-1", "two", True, [1], {"a": 1}, "9" * 80, float("nan"), 2**70])
def test_an_unreadable_count_is_unknown_and_said_so(bad):
    facts = read(pod(gpus(bad)))
    assert only(facts, Request).gpu_count is None
    assert of(facts, Grant) == []
    assert codes(facts) == ["quantity_malformed"]


def test_memory_and_cores_are_told_per_device():
    limits = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3k", "nvidia.com/gpucores": "25"}
    facts = read(pod(container(limits=limits)))
    request, item = only(facts, Request), only(facts, Container)
    assert (request.gpu_count, request.memory_mib, request.cores_percent) == (2, 3000, 25)
    assert (item.gpu_count, item.memory_mib_per_gpu, item.cores_percent_per_gpu) == (2, 3000, 25)
    assert request.resource_names == "nvidia.com/gpu,nvidia.com/gpucores,nvidia.com/gpumem"


def test_memory_is_unknown_where_one_of_two_containers_does_not_say_it():
    facts = read(pod(container(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}), gpus(1, "b")))
    assert (only(facts, Request).gpu_count, only(facts, Request).memory_mib) == (2, None)


def test_memory_that_no_sharing_layer_reads_is_left_out_and_said_so():
    facts = read(pod(container(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem": "4Gi"})))
    assert (only(facts, Request).gpu_count, only(facts, Request).memory_mib) == (1, None)
    assert codes(facts) == ["quantity_malformed"]


@pytest.mark.parametrize(
    ("reason", "message", "rejected"),
    [
        ("UnexpectedAdmissionError", "Pod was rejected: Allocate failed", True),
        ("TopologyAffinityError", "Resources cannot be allocated with Topology locality", True),
        ("OutOfnvidia.com/gpu", "", True),
        ("NodeAffinity", "", True),
        ("Evicted", "The node had condition: [DiskPressure]. ", True),
        ("Evicted", "The node was low on resource: memory.", False),
        ("DeadlineExceeded", "", False),
        (None, "", False),
    ],
)
def test_the_kubelets_refusals_are_rejections_only_for_its_admission_reasons(reason, message, rejected):
    status = {"phase": "Failed", "reason": reason, "message": message, "startTime": stamp("10:00:02")}
    facts = read(pod(status=status))
    assert only(facts, Request).rejected is rejected
    assert only(facts, Grant).claim_state == ("rejected" if rejected else "accepted")


def test_a_pod_that_ran_before_the_kubelet_refused_it_again_is_not_rejected():
    states = [status_of(terminated=("10:01:00", "10:02:00", 0))]
    facts = read(pod(status={"phase": "Failed", "reason": "UnexpectedAdmissionError", "containerStatuses": states}))
    assert only(facts, Request).rejected is False
    assert only(facts, Request).last_container_end_at == at("10:02:00")


def test_an_end_that_the_container_does_not_tell_is_taken_from_the_ending_condition_and_said_so():
    conditions = [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": stamp("12:00:00")}]
    status = {"phase": "Failed", "containerStatuses": [status_of(running="10:01:00")], "conditions": conditions}
    facts = read(pod(status=status))
    assert only(facts, Request).last_container_end_at == at("12:00:00")
    assert codes(facts) == ["pod_end_inferred"]


def test_one_container_without_end_makes_the_whole_end_inferred():
    states = [status_of(terminated=("10:01:00", "10:02:00", 0)), status_of("b", terminated=(None, None, 137))]
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": stamp("10:30:00")}]
    payload = pod(
        gpus(1), gpus(1, "b"), status={"phase": "Failed", "containerStatuses": states, "conditions": conditions}
    )
    facts = read(payload)
    assert only(facts, Request).last_container_end_at == at("10:30:00")
    assert codes(facts) == ["pod_end_inferred"]


def test_a_stamp_at_the_very_creation_is_good():
    facts = read(pod(status={"startTime": stamp("10:00:00")}))
    assert only(facts, Request).started_at == at("10:00:00")
    assert codes(facts) == []


def test_a_finished_pod_without_any_end_has_none():
    facts = read(pod(status={"phase": "Succeeded", "conditions": []}))
    assert only(facts, Request).last_container_end_at is None
    assert codes(facts) == ["pod_end_unknown"]


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (
            {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp("09:59:59")}]},
            "scheduled_at",
        ),
        ({"startTime": stamp("09:59:59")}, "started_at"),
        ({"containerStatuses": [status_of(running="09:59:59")]}, "first_container_at"),
    ],
)
def test_a_stamp_before_the_creation_is_left_out_and_said_so(status, field):
    facts = read(pod(status=status))
    assert getattr(only(facts, Request), field) is None
    assert codes(facts) == ["stamp_before_creation"]


@pytest.mark.parametrize(
    "bad", ["yesterday", "2027-13-05T10:00:00Z", "2027-03-05T10:00:00", 1796000402, ["x"], "2027-W10-5T10:00:00"]
)
def test_a_malformed_stamp_is_unknown_and_said_so(bad):
    facts = read(pod(status={"startTime": bad}))
    assert only(facts, Request).started_at is None
    assert codes(facts) == ["stamp_malformed"]


def test_many_malformed_stamps_make_one_finding_with_their_number():
    states = [{"name": f"c{n}", "state": {"running": {"startedAt": "x"}}} for n in range(500)]
    facts = read(pod(*(gpus(1, f"c{n}") for n in range(500)), status={"containerStatuses": states}))
    finding = only(facts, Finding)
    assert json.loads(finding.evidence)["count"] == 500
    assert len(finding.message) < 1000


def test_a_stamp_far_in_the_future_is_kept_as_it_stands():
    facts = read(pod(status={"startTime": "9999-01-01T00:00:00Z"}))
    assert only(facts, Request).started_at is not None
    assert codes(facts) == []


def _toleration(**row: object) -> dict[str, object]:
    return {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", **row}


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 300),
        ([_toleration(tolerationSeconds=60)], 60),
        ([_toleration()], None),
        ([_toleration(tolerationSeconds=60), _toleration(tolerationSeconds=30)], 30),
        ([_toleration(tolerationSeconds=60), _toleration()], 60),
        ([_toleration(tolerationSeconds=-5)], 0),
        ([_toleration(effect="NoSchedule")], 300),
        ([_toleration(key="node.kubernetes.io/not-ready", tolerationSeconds=90)], 90),
        ([_toleration(key="", effect="")], None),
        ([_toleration(key="other", tolerationSeconds=1)], 300),
        ([_toleration(tolerationSeconds=2**62)], None),
        ([_toleration(tolerationSeconds="60")], None),
    ],
)
def test_the_toleration_of_an_unreachable_node_is_the_shortest_that_applies(tolerations, seconds):
    assert toleration_us(tolerations) == (None if seconds is None else seconds * 1_000_000)


@pytest.mark.parametrize(
    ("metadata", "queue"),
    [
        ({"labels": {"kueue.x-k8s.io/queue-name": "train"}}, "train"),
        ({"labels": {"kueue.x-k8s.io/local-queue-name": "lq", "kueue.x-k8s.io/cluster-queue-name": "cq"}}, "lq"),
        ({"labels": {"volcano.sh/queue-name": "v"}}, "v"),
        ({"annotations": {"scheduling.volcano.sh/queue-name": "s"}}, "s"),
        ({}, None),
    ],
)
def test_the_queue_is_the_one_that_the_pod_names(metadata, queue):
    assert only(read(pod(metadata=metadata)), Request).queue == queue


def test_a_pod_without_accelerator_is_a_request_for_none_with_no_containers():
    facts = read(pod(container(limits={"cpu": "4", "rdma/hca": "1"})))
    assert (only(facts, Request).gpu_count, only(facts, Request).resource_names) == (0, "")
    assert of(facts, Container) == []
    assert codes(facts) == []


def test_what_a_resource_claim_asks_for_is_not_known_from_the_pod():
    facts = read(pod(container(), spec={"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}))
    assert only(facts, Request).gpu_count is None
    assert [item.container for item in of(facts, Container)] == ["main"]


def test_a_pod_without_uid_is_named_by_its_name():
    payload = pod()
    del payload["metadata"]["uid"]
    assert only(read(payload), Request).pod_uid == "name:ns/p"


def test_a_pod_without_name_is_refused():
    with pytest.raises(SourceMalformed):
        parse_pod({"metadata": {"uid": "x"}})
