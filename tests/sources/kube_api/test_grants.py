"""Grants that follow from a pod object alone."""

from __future__ import annotations

import pytest

from steelyard.facts.container import Container
from steelyard.facts.grant import Grant
from steelyard.facts.request import Request
from steelyard.sources.shared.accelerators import meaning_of
from steelyard.sources.shared.context import ReadContext, ReadSettings, SharedScheme
from tests.sources.kube_api.kube_objects import codes, container, gpus, of, only, pod, read


def _grants(*containers: dict, **rest: object) -> list[Grant]:
    return of(read(pod(*containers, **rest)), Grant)


def test_a_bound_pod_holds_its_plain_devices_on_a_card_that_nobody_names():
    (grant,) = _grants(gpus("2"))
    assert (grant.scheme, grant.quantity, grant.node, grant.unit_kind) == ("device_plugin", 2, "n-1", "gpu")
    assert (grant.device_uuid, grant.device_unknown_reason) == (None, "the pod object does not name the card")
    assert (grant.share_ppm, grant.claim_state, grant.natural_key) == (None, "accepted", "u-1/main/nvidia.com/gpu")


def test_a_pending_pod_holds_nothing():
    facts = read(pod(gpus(2), node=None, status={"phase": "Pending"}))
    assert of(facts, Grant) == []
    assert only(facts, Request).gpu_count == 2


def test_each_container_has_a_grant_of_its_own():
    found = _grants(gpus(1), gpus(2, "b"), init=(gpus(3, "i"), gpus(4, "s", restartPolicy="Always")))
    assert [(grant.container, grant.container_kind, grant.quantity) for grant in found] == [
        ("i", "init", 3),
        ("s", "sidecar", 4),
        ("main", "app", 1),
        ("b", "app", 2),
    ]


def test_companions_make_no_grant_but_tell_what_was_asked_for():
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096, "nvidia.com/gpucores": 0, "nvidia.com/priority": 1}
    (grant,) = _grants(container(limits=limits))
    assert (grant.resource_name, grant.requested_memory_mib, grant.requested_cores_percent) == (
        "nvidia.com/gpu",
        4096,
        0,
    )
    assert (grant.memory_mib, grant.cores_percent) == (None, None)


def test_memory_without_a_count_is_no_grant_and_no_known_count():
    facts = read(pod(container(limits={"nvidia.com/gpumem": 4096})))
    assert of(facts, Grant) == []
    assert only(facts, Request).gpu_count is None


def test_a_mig_resource_is_a_grant_of_instances_with_the_slices_that_its_name_settles():
    (grant,) = _grants(container(limits={"nvidia.com/mig-7g.80gb": "2"}))
    assert (grant.scheme, grant.unit_kind, grant.profile, grant.quantity) == ("mig_plugin", "mig", "7g.80gb", 2)
    assert (grant.compute_slices, grant.compute_slices_total) == (7, 7)


def test_a_mig_profile_that_cards_differ_on_leaves_its_slices_open():
    (grant,) = _grants(container(limits={"nvidia.com/mig-1g.10gb": 1}))
    assert (grant.profile, grant.compute_slices, grant.memory_slices) == ("1g.10gb", None, None)


@pytest.mark.parametrize(
    ("resource", "role", "vendor", "profile", "unit_kind"),
    [
        ("nvidia.com/gpu", "cards", "nvidia", None, "gpu"),
        ("nvidia.com/gpu.shared", "cards", "nvidia", None, "slice"),
        ("nvidia.com/mig-1g.10gb.me", "mig", "nvidia", "1g.10gb+me", "mig"),
        ("nvidia.com/mig-1g.5gb.shared", "mig", "nvidia", "1g.5gb", "slice"),
        ("amd.com/gpu", "cards", "amd", None, "gpu"),
        ("gpu.intel.com/i915", "cards", "intel", None, "gpu"),
        ("huawei.com/Ascend910B", "cards", "ascend", None, "gpu"),
        ("huawei.com/Ascend910B-memory", "memory_mib", "ascend", None, "gpu"),
        ("huawei.com/Ascend310P-2c", "slots", "ascend", None, "vgpu"),
        ("cambricon.com/mlu370", "cards", "cambricon", None, "gpu"),
        ("volcano.sh/vgpu-number", "slots", "nvidia", None, "vgpu"),
        ("example.org/gpu", "cards", "example", None, "gpu"),
        ("nvidia.com/hostdev", "unlisted", "nvidia", None, "gpu"),
    ],
)
def test_the_name_of_a_resource_tells_what_it_counts(resource, role, vendor, profile, unit_kind):
    meaning = meaning_of(resource)
    assert meaning is not None
    assert (meaning.role, meaning.vendor, meaning.profile, meaning.unit_kind) == (role, vendor, profile, unit_kind)


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "hugepages-2Mi", "rdma/hca", "example.org/fpga", "", "/", "aliyun.com/eni"]
)
def test_other_resources_are_no_accelerators(resource):
    assert meaning_of(resource) is None


def test_slots_of_a_sharing_layer_are_claims_that_only_its_annotation_can_read():
    facts = read(
        pod(
            container(limits={"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 25})
        )
    )
    grant = only(facts, Grant)
    assert (grant.claim_state, grant.quantity, grant.requested_memory_mib) == ("unreadable", 2, 3000)
    assert (only(facts, Request).gpu_count, only(facts, Request).memory_mib, only(facts, Request).cores_percent) == (
        2,
        3000,
        25,
    )


def test_an_unlisted_resource_of_an_accelerator_vendor_is_said_and_not_counted():
    facts = read(pod(container(limits={"nvidia.com/hostdev": 1})))
    assert (only(facts, Request).gpu_count, of(facts, Grant)) == (0, [])
    assert codes(facts) == ["accelerator_resource_unlisted"]


@pytest.mark.parametrize(
    ("limits", "quantity", "share_ppm", "memory_mib", "cores_percent"),
    [
        ({"aliyun.com/gpu-mem": "5"}, 1, None, 5120, None),
        ({"tke.cloud.tencent.com/qgpu-core": "30"}, 1, 300_000, None, 30),
        ({"tke.cloud.tencent.com/qgpu-core": "30", "tke.cloud.tencent.com/qgpu-memory": "8"}, 1, 300_000, 8192, 30),
        ({"tke.cloud.tencent.com/qgpu-core": "200"}, 2, 1_000_000, None, 100),
        (
            {"tke.cloud.tencent.com/qgpu-core": "200", "tke.cloud.tencent.com/qgpu-memory": "16"},
            2,
            1_000_000,
            8192,
            100,
        ),
        ({"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "60"}, 1, 600_000, None, 50),
        ({"koordinator.sh/gpu-memory-ratio": "25"}, 1, 250_000, None, None),
    ],
)
def test_one_containers_resources_of_another_scheme_are_one_grant(
    limits, quantity, share_ppm, memory_mib, cores_percent
):
    facts = read(pod(container(limits=limits)))
    grant = only(facts, Grant)
    assert (grant.scheme, grant.unit_kind, grant.quantity) == ("shared_scheme", "vgpu", quantity)
    assert (grant.share_ppm, grant.memory_mib, grant.cores_percent) == (share_ppm, memory_mib, cores_percent)
    request = only(facts, Request)
    assert (request.gpu_count, request.memory_mib, request.cores_percent) == (quantity, memory_mib, cores_percent)
    assert request.gpu_milli == (None if share_ppm is None else share_ppm // 1000)
    assert (only(facts, Container).gpu_count, only(facts, Container).memory_mib_per_gpu) == (quantity, memory_mib)


def test_a_share_of_no_whole_number_of_cards_is_split_evenly_and_said_so():
    facts = read(pod(container(limits={"koordinator.sh/gpu-core": "150"})))
    assert (only(facts, Grant).quantity, only(facts, Grant).share_ppm) == (2, 750_000)
    assert codes(facts) == ["shared_request_uneven"]


def test_the_settings_decide_what_a_shared_resource_means():
    schemes = (SharedScheme("example.org/slice", "percent"), SharedScheme("example.org/vram", "memory_mib"))
    ctx = ReadContext(settings=ReadSettings(shared_schemes=schemes))
    facts = read(pod(container(limits={"example.org/slice": 10, "example.org/vram": 777})), ctx)
    assert (only(facts, Grant).share_ppm, only(facts, Grant).memory_mib) == (100_000, 777)


def test_an_unknown_unit_in_the_settings_is_a_finding_and_no_grant():
    ctx = ReadContext(settings=ReadSettings(shared_schemes=(SharedScheme("example.org/slice", "stones"),)))
    facts = read(pod(container(limits={"example.org/slice": 10})), ctx)
    assert (of(facts, Grant), only(facts, Request).gpu_count) == ([], None)
    assert codes(facts) == ["shared_scheme_unit_unknown"]


def test_a_resource_that_a_claim_serves_is_granted_by_the_claim():
    served = {
        "resourceClaimName": "p-extended-x",
        "requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu"}],
    }
    facts = read(pod(gpus(1), gpus(1, "b"), status={"extendedResourceClaimStatus": served}))
    assert [grant.container for grant in of(facts, Grant)] == ["b"]
    assert codes(facts) == ["gpu_served_by_dra"]
