"""Queues and what they are made of, in both versions, and what their status says against itself."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.kueue import has_facts, read_object
from tests.sources.kueue.kueue_objects import (
    CTX,
    V1,
    V2,
    cluster_queue,
    codes,
    condition,
    each,
    local_queue,
    only,
    read,
    stamp,
)


def object_of(kind, version=V2, **more):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "uid": "u-x"}, **more}


@pytest.mark.parametrize(
    ("kind", "old", "new", "parent"),
    [
        ("ClusterQueue", {"cohort": "org"}, {"cohortName": "org"}, "org"),
        ("Cohort", {"parent": "root"}, {"parentName": "root"}, "root"),
        ("LocalQueue", {"clusterQueue": "cq"}, {"clusterQueue": "cq"}, "cq"),
    ],
)
def test_what_a_queue_draws_on_has_two_names(kind, old, new, parent):
    rows = [only(read(object_of(kind, version, spec=spec)), Queue) for version, spec in ((V1, old), (V2, new))]
    assert rows[0] == rows[1]
    assert rows[0].parent == parent


def test_a_local_queue_s_usage_has_two_names():
    usage = [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "3"}]}]
    rows = [only(read(local_queue(**{key: usage})), Quota) for key in ("flavorUsage", "flavorsUsage")]
    assert rows[0] == rows[1]
    assert (rows[0].used_milli, rows[0].reserved_milli, rows[0].nominal_milli) == (3_000, None, None)
    assert (rows[0].queue_kind, rows[0].namespace, rows[0].parent) == ("local_queue", "a", "cq")


def test_the_quota_of_every_resource_is_there_in_thousandths_and_no_limit_is_none():
    resources = [
        {"name": "nvidia.com/gpu", "nominalQuota": "16", "borrowingLimit": "8"},
        {"name": "cpu", "nominalQuota": "1500m", "lendingLimit": "1"},
        {"name": "memory", "nominalQuota": "1Gi"},
    ]
    groups = [{"flavors": [{"name": "h100", "resources": resources}]}]
    usage = [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "24", "borrowed": "8"}]}]
    facts = read(
        cluster_queue(
            spec={"resourceGroups": groups, "cohortName": "org"}, flavorsUsage=usage, flavorsReservation=usage
        )
    )
    gpu, cpu, memory = each(facts, Quota)
    assert (gpu.natural_key, gpu.parent, gpu.flavor) == ("u-cq/h100/nvidia.com/gpu", "org", "h100")
    assert (gpu.nominal_milli, gpu.borrowing_limit_milli, gpu.lending_limit_milli) == (16_000, 8_000, None)
    assert (gpu.used_milli, gpu.reserved_milli, gpu.borrowed_milli) == (24_000, 24_000, 8_000)
    assert (cpu.nominal_milli, cpu.lending_limit_milli, cpu.used_milli) == (1_500, 1_000, None)
    assert memory.nominal_milli == 2**30 * 1_000


def test_a_cohort_has_a_quota_of_its_own():
    groups = [{"flavors": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}]}]
    quota = only(read(object_of("Cohort", spec={"resourceGroups": groups})), Quota)
    assert (quota.queue_kind, quota.nominal_milli) == ("cohort", 4_000)


def test_the_rules_that_an_audit_needs_are_kept_as_written():
    rules = {
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "flavorFungibility": {"whenCanBorrow": "Borrow"},
        "queueingStrategy": "StrictFIFO",
        "stopPolicy": "Hold",
        "fairSharing": {"weight": "1500m"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]},
    }
    queue = only(read(cluster_queue(spec=rules, pendingWorkloads=3, reservingWorkloads=2, admittedWorkloads=1)), Queue)
    assert (queue.strategy, queue.stop_policy, queue.weight_milli) == ("StrictFIFO", "Hold", 1_500)
    assert (queue.pending_claimed, queue.reserving_claimed, queue.admitted_claimed) == (3, 2, 1)
    kept = json.loads(queue.policies)
    assert kept["preemption"] == rules["preemption"]
    assert kept["groups"] == [{"flavors": ["h100"], "resources": ["nvidia.com/gpu"]}]
    assert {"flavorFungibility", "fairSharing", "admissionChecksStrategy"} <= kept.keys()


def test_flavors_checks_classes_and_topologies_are_objects_that_queues_are_made_of():
    flavor = object_of("ResourceFlavor", spec={"nodeLabels": {"gpu": "h100"}, "topologyName": "dc"})
    classes = object_of("WorkloadPriorityClass", value=1_000)
    check = object_of(
        "AdmissionCheck",
        spec={"controllerName": "k"},
        status={"conditions": [condition("Active", False, "08:00:00", "Gone")]},
    )
    topology = object_of("Topology", spec={"levels": [{"nodeLabel": "rack"}]})
    rows = each(read(flavor, classes, check, topology), Queue)
    assert [row.queue_kind for row in rows] == ["flavor", "priority_class", "admission_check", "topology"]
    assert json.loads(rows[0].policies) == {"nodeLabels": {"gpu": "h100"}, "topologyName": "dc"}
    assert (rows[1].priority, rows[2].state, rows[2].state_reason) == (1_000, "inactive", "Gone")


@pytest.mark.parametrize(
    ("conditions", "metadata", "state"),
    [
        ([], {}, "unknown"),
        ([condition("Active", True, "08:00:00", "Ready")], {}, "active"),
        ([condition("Active", False, "08:00:00", "Stopped")], {}, "inactive"),
        ([condition("Active", True, "08:00:00", "Ready")], {"deletionTimestamp": stamp("09:00:00")}, "closing"),
    ],
)
def test_the_state_of_a_queue(conditions, metadata, state):
    payload = cluster_queue(*conditions)
    payload["metadata"] |= metadata
    assert only(read(payload), Queue).state == state


def test_a_queue_that_admits_nothing_is_told_with_the_reason():
    finding = only(
        read(cluster_queue(condition("Active", False, "08:00:00", "Stopped", "held"), spec={"stopPolicy": "Hold"})),
        Finding,
    )
    assert (finding.code, finding.subject) == ("inactive_cluster_queue", "clusterqueue cq")
    assert json.loads(finding.evidence) == {
        "reason": "Stopped",
        "message": "held",
        "since_utc": stamp("08:00:00"),
        "stop_policy": "Hold",
    }
    assert not codes(read(cluster_queue(condition("Active", False, "08:00:00", "Terminating"))))


def test_a_status_that_misses_a_flavor_of_the_spec_agrees_with_it():
    text = "Can't admit new workloads: references missing ResourceFlavor(s): h100."
    assert codes(read(cluster_queue(condition("Active", False, "08:00:00", "FlavorNotFound", text)))) == [
        "inactive_cluster_queue"
    ]
    other = text.replace("h100", "h200")
    facts = read(cluster_queue(condition("Active", False, "08:00:00", "FlavorNotFound", other)))
    assert codes(facts) == ["inactive_cluster_queue", "flavor_message_mismatch"]
    evidence = json.loads(each(facts, Finding)[1].evidence)
    assert evidence == {"missing_by_message": ["h200"], "referred_by_spec": ["h100"]}


def test_an_amount_that_cannot_be_read_is_not_said_and_told():
    groups = [{"flavors": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "many"}]}]}]
    facts = read(cluster_queue(spec={"resourceGroups": groups}))
    assert (only(facts, Quota).nominal_milli, codes(facts)) == (None, ["queue_malformed"])
    assert only(facts, Quota).refused == "nominal"


def test_a_limit_that_was_written_and_refused_is_told_from_one_that_is_not_set():
    row = {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "-4", "lendingLimit": None}
    (found,) = each(
        read(cluster_queue(spec={"resourceGroups": [{"flavors": [{"name": "h100", "resources": [row]}]}]})), Quota
    )
    assert (found.nominal_milli, found.borrowing_limit_milli, found.lending_limit_milli, found.refused) == (
        8_000,
        None,
        None,
        "borrowing_limit",
    )


def test_an_object_without_a_name_is_refused_and_one_without_a_uid_is_known_by_it():
    payload = local_queue()
    del payload["metadata"]["uid"]
    assert only(read(payload), Queue).natural_key == "name:LocalQueue/a/lq"
    with pytest.raises(SourceMalformed, match=r"metadata\.name"):
        list(read_object({"apiVersion": V2, "kind": "Cohort"}, "Cohort", CTX))


@pytest.mark.parametrize(
    ("kind", "version", "read_here"),
    [
        ("Workload", V2, True),
        ("Cohort", "kueue.x-k8s.io/v1alpha1", True),
        ("Topology", V1, True),
        ("Workload", "scheduling.k8s.io/v1alpha1", False),
        ("ClusterQueue", None, False),
        ("MultiKueueCluster", V2, False),
    ],
)
def test_an_object_is_kueue_s_by_group_and_kind_in_any_version(kind, version, read_here):
    assert has_facts(kind, {"apiVersion": version}) is read_here


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [None], [{"name": 1}], [{"flavors": 7}], True, 2**70])
@pytest.mark.parametrize(
    "kind",
    ["ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "AdmissionCheck", "WorkloadPriorityClass", "Topology"],
)
def test_a_queue_of_a_wrong_shape_ends_no_reading(kind, value):
    keys = ("resourceGroups", "preemption", "fairSharing", "cohortName", "nodeLabels", "levels", "clusterQueue")
    states = ("conditions", "flavorsUsage", "flavorsReservation", "flavorUsage", "pendingWorkloads", "fairSharing")
    whole = object_of(kind, spec=dict.fromkeys(keys, value), status=dict.fromkeys(states, value), value=value)
    assert each(read(whole), Queue)
    assert each(read(object_of(kind, spec=value, status=value)), Queue)


def test_rules_too_large_or_no_json_are_left_out_and_named():
    queue = only(
        read(cluster_queue(spec={"namespaceSelector": {"x": "y" * 40_000}, "preemption": {"p": "\ud800"}})), Queue
    )
    assert json.loads(queue.policies)["cut"] == ["preemption", "namespaceSelector"]
