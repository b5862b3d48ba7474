"""The pod list of an openb trace."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.owner import Owner
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import AT_OBSERVATION, SECOND_US
from steelyard.sources.openb import read_openb_pods
from steelyard.sources.shared.context import ReadContext, ReadSettings

CTX = ReadContext(file="pods.csv")
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
ROWS = [
    "whole,1000,64,2,1000,T4|P100,LS,Running,10,90,20",
    "part,1000,64,1,460,,BE,Failed,11,50,12",
    "cpu,1000,64,0,0,,LS,Succeeded,10,30,10",
    "never,1000,64,1,1000,,BE,Pending,40,60,",
    "alive,1000,64,1,250,,LS,Running,5,100,30",
]


def read(rows: Sequence[str], header: str = HEADER, ctx: ReadContext = CTX) -> list[Fact]:
    return list(read_openb_pods([header, *rows], ctx))


def only(facts: Sequence[Fact], kind: type[Fact], name: str = "") -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, kind) and name in fact.natural_key]


def test_a_scheduled_pod_becomes_request_owner_and_a_grant_without_a_device():
    facts = read(ROWS)
    (request,) = only(facts, Request, "openb/whole")
    (grant,) = only(facts, Grant, "openb/whole")
    (owner,) = only(facts, Owner, "openb/whole")
    assert (request.scheduled_at, request.last_container_end_at) == (20 * SECOND_US, 90 * SECOND_US)
    assert (request.gpu_count, request.gpu_milli, request.gpu_model, request.qos) == (2, 1000, "T4|P100", "LS")
    assert (grant.scheme, grant.quantity, grant.share_ppm, grant.unit_kind) == ("trace", 2, 1_000_000, "gpu")
    assert grant.device_uuid is None
    assert grant.device_unknown_reason == "the trace has no placement"
    assert (grant.valid_from_at, grant.valid_to_at) == (20 * SECOND_US, 90 * SECOND_US)
    assert json.loads(owner.labels) == {"gpu_spec": "T4|P100", "qos": "LS"}
    assert not request.pod_uid.startswith("name:")


def test_a_share_is_thousandths_of_one_card():
    (grant,) = only(read(ROWS), Grant, "openb/part")
    assert (grant.share_ppm, grant.quantity, grant.unit_kind) == (460_000, 1, "vgpu")


def test_a_pod_that_was_never_scheduled_is_a_request_and_no_grant():
    facts = read(ROWS)
    (request,) = only(facts, Request, "openb/never")
    assert (request.created_at, request.scheduled_at, request.deletion_at) == (40 * SECOND_US, None, 60 * SECOND_US)
    assert request.last_container_end_at is None
    assert only(facts, Grant, "openb/never") == []


def test_a_pod_without_cards_is_a_request_for_none():
    facts = read(ROWS)
    (request,) = only(facts, Request, "openb/cpu")
    assert request.gpu_count == 0
    assert only(facts, Grant, "openb/cpu") == []


def test_a_pod_alive_at_the_last_stamp_has_no_end():
    facts = read(ROWS)
    (request,), (grant,) = only(facts, Request, "openb/alive"), only(facts, Grant, "openb/alive")
    assert (request.last_container_end_at, request.deletion_at, grant.valid_to_at) == (None, None, None)
    (status,) = only(facts, SourceStatus)
    assert (status.observed_from_at, status.observed_to_at) == (5 * SECOND_US, 100 * SECOND_US)
    assert (status.kind, status.complete, status.objects_count) == ("trace", True, 5)


def test_a_pod_that_failed_at_the_last_stamp_has_ended():
    facts = read(["done,1,1,1,1000,,LS,Failed,0,100,0"])
    assert only(facts, Grant)[0].valid_to_at == 100 * SECOND_US


def test_zero_seconds_is_the_epoch_of_the_settings():
    epoch = 1_700_000_000 * SECOND_US
    facts = read(ROWS, ctx=replace(CTX, settings=ReadSettings(trace_epoch=epoch)))
    (request,) = only(facts, Request, "openb/part")
    assert request.scheduled_at == epoch + 12 * SECOND_US
    assert request.occurred_at == epoch + 11 * SECOND_US
    assert request.observed_at == AT_OBSERVATION


def test_fractions_of_a_second_are_kept():
    (request,) = only(read(["x,1,1,1,500,,LS,Running,10.5,90.25,20.000001"]), Request)
    assert (request.created_at, request.scheduled_at) == (10_500_000, 20_000_001)


def test_columns_are_found_by_header_in_any_order_and_with_a_byte_order_mark():
    rows = [",".join(reversed(row.split(","))) for row in ROWS]
    assert read(rows, "\ufeff" + ",".join(reversed(HEADER.split(",")))) == read(ROWS)


def test_a_file_without_times_is_one_finding_that_names_what_is_missing():
    facts = read(["openb-pod-0000,12000,16384,1,1000"], "name,cpu_milli,memory_mib,num_gpu,gpu_milli")
    (finding,) = facts
    assert isinstance(finding, Finding)
    assert finding.code == "trace_columns_missing"
    assert json.loads(finding.evidence)["missing"] == ["pod_phase", "creation_time", "deletion_time", "scheduled_time"]


@pytest.mark.parametrize(
    "row",
    [
        "x,1,1,1,1000,,LS,Running,10,20",
        "x,1,1,1,1000,,LS,Running,10,20,12,surplus",
        "x,1,1,NaN,1000,,LS,Running,10,20,12",
        "x,1,1,Infinity,1000,,LS,Running,10,20,12",
        "x,1,1,-1,1000,,LS,Running,10,20,12",
        "x,1,1,1,1001,,LS,Running,10,20,12",
        "x,1,1,1,99999999999999999999999999,,LS,Running,10,20,12",
        "x,1,1,,1000,,LS,Running,10,20,12",
        "x,1,1,1,1000,,LS,Running,,20,12",
        "x,1,1,1,1000,,LS,Running,1e3,20,12",
        "x,1,1,1,1000,,LS,Running,10,999999999999,12",
        "x,1,1,1,1000,,LS,Running,10,20,9",
        "x,1,1,1,1000,,LS,Running,10,11,12",
        "x,1,1,1,1000,,LS,Pending,10,9,",
        "x,1,1,١,1000,,LS,Running,10,20,12",
        ",1,1,1,1000,,LS,Running,10,20,12",
        "part,1,1,1,1000,,LS,Running,10,20,12",
        '"open,1,1,1,1000,,LS,Running,10,20,12',
    ],
)
def test_a_row_that_cannot_be_true_is_refused_with_its_line_and_the_others_stand(row: str):
    facts = read([*ROWS[:2], row, *ROWS[2:]])
    (finding,) = only(facts, Finding)
    assert (finding.code, finding.line, finding.file) == ("source_malformed", 4, "pods.csv")
    assert finding.excerpt == row[:200]
    assert [fact for fact in facts if not isinstance(fact, Finding)] == read(ROWS)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("x,1,1,1,0,,LS,Running,10,20,12", "trace_share_missing"),
        ("x,1,1,0,500,,LS,Running,10,20,12", "trace_share_without_cards"),
        ("x,1,1,1,500,,LS,Running,10,20,", "trace_schedule_missing"),
        ("x,1,1,1,500,,LS,Pending,10,20,12", "trace_phase_contradicts"),
        ("x,1,1,1,500,,LS,Running,10,,12", "trace_end_missing"),
    ],
)
def test_a_row_that_contradicts_itself_is_kept_and_named(row: str, code: str):
    facts = read([*ROWS, row])
    assert [finding.code for finding in only(facts, Finding)] == [code]
    assert len(only(facts, Request, "openb/x")) == 1


def test_an_empty_file_and_a_header_alone_yield_no_life():
    assert [fact.code for fact in read_openb_pods("", CTX) if isinstance(fact, Finding)] == ["trace_columns_missing"]
    assert read([]) == []


@pytest.mark.parametrize(
    ("name", "hours", "never"),
    [("default", 51_470.674, 897), ("gpushare40", 42_418.002, 981), ("gpushare100", 15_149.957, 1209)],
)
def test_gpu_hours_of_the_public_trace_follow_from_its_grants(shared: Path, name: str, hours: float, never: int):
    path = shared / f"cases/traces/alibaba-gpu-v2023/openb_pod_list_{name}.csv"
    with path.open() as lines:
        facts = list(read_openb_pods(lines, CTX))
    assert only(facts, Finding) == []
    (status,) = only(facts, SourceStatus)
    total = sum(
        grant.quantity * grant.share_ppm * ((grant.valid_to_at or status.observed_to_at) - grant.valid_from_at)
        for grant in only(facts, Grant)
    )
    assert round(total / 1e6 / 3.6e9, 3) == hours
    requests = only(facts, Request)
    assert sum(request.scheduled_at is None for request in requests) == never
    assert len(requests) == status.objects_count


def test_gpu_hours_of_the_public_trace_by_qos(shared: Path):
    with (shared / "cases/traces/alibaba-gpu-v2023/openb_pod_list_default.csv").open() as lines:
        facts = list(read_openb_pods(lines, CTX))
    end = only(facts, SourceStatus)[0].observed_to_at
    qos = {owner.pod_uid: json.loads(owner.labels)["qos"] for owner in only(facts, Owner)}
    hours: Counter[str] = Counter()
    for grant in only(facts, Grant):
        length = (grant.valid_to_at or end) - grant.valid_from_at
        hours[qos[grant.pod_uid]] += grant.quantity * grant.share_ppm * length
    assert {key: round(value / 1e6 / 3.6e9, 3) for key, value in hours.items()} == {
        "LS": 41_413.360, "Burstable": 7_459.201, "BE": 1_311.636, "Guaranteed": 1_286.478,
    }  # fmt: skip
    assert sum(grant.valid_to_at is None for grant in only(facts, Grant)) > 0
