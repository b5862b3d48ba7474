"""The two files of a Helios trace."""

from __future__ import annotations

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.quota import Quota
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import AT_OBSERVATION, DAY_US, MINUTE_US, parse_instant
from steelyard.sources.helios import is_day_header, read_helios
from steelyard.sources.shared.context import ReadContext

CTX = ReadContext(file="sequence.csv")
HEADER = "time,vc,total_gpu_num,running_gpu_num,pending_gpu_num,idle_gpu_num,gpu_utilization"
ROW = "2020-05-01 00:00:00,vcA,64,59,3,5,0.922"
DAYS = "date,vcA,vcB,total"


def read(*rows: str, header: str = HEADER) -> list[object]:
    return list(read_helios([header, *rows], CTX))


def codes(facts: list[object]) -> list[str]:
    return [fact.code for fact in facts if isinstance(fact, Finding)]


def test_a_row_is_the_quota_use_and_demand_of_one_tenant_for_one_step():
    facts = read(ROW, "2020-05-01 00:01:00,vcA,64,60,0,4,0.9")
    first, second = (fact for fact in facts if isinstance(fact, Quota))
    assert (first.queue_kind, first.queue, first.resource, first.natural_key) == (
        "tenant",
        "vcA",
        "gpu",
        "tenant/vcA/gpu",
    )
    assert (first.nominal_milli, first.used_milli, first.pending_milli, first.idle_milli) == (
        64_000,
        59_000,
        3_000,
        5_000,
    )
    assert first.occurred_at == parse_instant("2020-05-01T00:00:00Z")
    assert second.occurred_at - first.occurred_at == first.interval_us == MINUTE_US
    assert first.observed_at == AT_OBSERVATION


def test_the_step_is_that_of_the_file_and_a_minute_where_it_has_none():
    facts = read(ROW, "2020-05-01 00:00:00,vcB,1,1,0,0,1", "2020-05-01 00:10:00,vcA,64,60,0,4,0.9")
    assert {fact.interval_us for fact in facts if isinstance(fact, Quota)} == {10 * MINUTE_US}
    assert {fact.interval_us for fact in read(ROW) if isinstance(fact, Quota)} == {MINUTE_US}


def test_local_stamps_are_taken_as_utc_and_a_finding_says_so():
    facts = read(ROW)
    assert codes(facts) == ["trace_time_zone_unknown"]
    (status,) = (fact for fact in facts if isinstance(fact, SourceStatus))
    assert (status.kind, status.objects_count, status.observed_from_at) == (
        "quota",
        1,
        parse_instant("2020-05-01T00:00:00Z"),
    )
    assert status.observed_to_at == parse_instant("2020-05-01T00:01:00Z")


@pytest.mark.parametrize(
    "row",
    [
        "2020-05-01 00:00:00,vcA,64,x,3,5,0.9",
        "2020-05-01 00:00:00,vcA,-64,59,3,5,0.9",
        "2020-05-01 00:00:00,vcA,64,59.5,3,5,0.9",
        "2020-05-01 00:00:00,vcA,64,59,3,5000000,0.9",
        "2020-05-01 00:00:00,,64,59,3,5,0.9",
        "2020-13-01 00:00:00,vcA,64,59,3,5,0.9",
        "0000-05-01 00:00:00,vcA,64,59,3,5,0.9",
        ",vcA,64,59,3,5,0.9",
        "2020-05-01 00:00:00,vcA,64",
        f"2020-05-01 00:00:00,{'v' * 300},64,59,3,5,0.9",
    ],
)
def test_a_row_that_cannot_be_read_is_refused_with_its_line_and_the_others_stay(row: str):
    facts = read(row, ROW)
    (finding,) = (fact for fact in facts if isinstance(fact, Finding) and fact.code == "source_malformed")
    assert finding.line == 2
    assert sum(isinstance(fact, Quota) for fact in facts) == 1


def test_running_and_idle_that_are_not_the_total_are_a_finding_and_the_row_stands_as_told():
    facts = read("2020-05-01 00:00:00,vcA,64,59,3,6,0.9")
    assert codes(facts) == ["trace_quota_contradicts", "trace_time_zone_unknown"]
    assert [fact.idle_milli for fact in facts if isinstance(fact, Quota)] == [6_000]


def test_a_tenant_above_its_quota_leaves_less_than_nothing_idle():
    facts = read("2020-05-01 00:00:00,vcA,64,70,3,-6,1.1")
    assert codes(facts) == ["trace_time_zone_unknown"]
    assert [fact.idle_milli for fact in facts if isinstance(fact, Quota)] == [-6_000]


def test_contradictions_without_number_are_told_one_by_one_up_to_a_bound():
    facts = read(*["2020-05-01 00:00:00,vcA,64,59,3,6,0.9"] * 150)
    found = [fact for fact in facts if isinstance(fact, Finding) and fact.code == "trace_quota_contradicts"]
    assert (len(found), found[-1].line, found[-1].evidence) == (101, None, '{"count":150}')


def test_a_day_is_the_quota_of_each_tenant_and_says_nothing_of_its_use():
    facts = read("2020-05-01,64,8,72", header=DAYS)
    quotas = [fact for fact in facts if isinstance(fact, Quota)]
    assert [(fact.queue, fact.nominal_milli, fact.used_milli, fact.interval_us) for fact in quotas] == [
        ("vcA", 64_000, None, DAY_US),
        ("vcB", 8_000, None, DAY_US),
    ]


@pytest.mark.parametrize("row", ["2020-05-09,0,0,0,0", "2020-05-09,0,840,0,840"])
def test_a_day_without_gpus_or_with_all_at_one_of_several_tenants_was_not_recorded(row: str):
    facts = read(row, header="date,vcA,vcB,vcC,total")
    assert codes(facts) == ["trace_day_not_recorded"]
    assert len(facts) == 1
    assert codes(read("2020-05-09,0,8,8", header=DAYS)) == ["trace_time_zone_unknown"]


def test_a_day_whose_tenants_are_not_its_total_is_a_finding():
    assert codes(read("2020-05-01,64,8,70", header=DAYS)) == ["trace_quota_contradicts", "trace_time_zone_unknown"]


@pytest.mark.parametrize("row", ["2020-05-01,64,x,72", "2020-05-01,64,8", "May,64,8,72"])
def test_a_day_that_cannot_be_read_is_refused(row: str):
    facts = read(row, "2020-05-02,64,8,72", header=DAYS)
    assert codes(facts) == ["source_malformed", "trace_time_zone_unknown"]


def test_a_day_that_stands_twice_counts_once():
    facts = read("2020-05-01,64,8,72", "2020-05-01,1,1,2", header=DAYS)
    assert [fact.nominal_milli for fact in facts if isinstance(fact, Quota)] == [64_000, 8_000]


def test_a_file_with_neither_header_is_one_finding():
    assert codes(read("1,2", header="id,gpu_num")) == ["trace_columns_missing"]


def test_a_list_of_dates_is_no_quota_of_days():
    assert not is_day_header(("date", "total"))
    assert not is_day_header(("date", "price", "total"))
    assert is_day_header(("date", "vcA", "total"))
