"""Use of shared services: a site's own list, and a gateway's log."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.service_use import ServiceUse
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import parse_instant
from steelyard.sources.money import is_service_log, read_service_log, read_service_use
from steelyard.sources.shared.context import ReadContext

CTX = ReadContext(file="use")
HEADER = "service,caller,tenant,model,started_at,ended_at,prompt_tokens,cached_tokens,completion_tokens,requests_count"
HOUR = "2026-11-30T10:00:00Z,2026-11-30T11:00:00Z"
ROW = {
    "request_id": "r1",
    "call_type": "acompletion",
    "api_key": "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b",
    "spend": 0.002,
    "total_tokens": 30,
    "prompt_tokens": 20,
    "completion_tokens": 10,
    "startTime": "2026-11-30T10:00:00.250000Z",
    "endTime": "2026-11-30T10:00:02Z",
    "model": "hosted_vllm/llama",
    "model_group": "llama-70b",
    "api_base": "http://vllm-llama.serving.svc.cluster.local:8000/v1",
    "cache_hit": "False",
    "metadata": {
        "user_api_key_alias": "search-prod",
        "user_api_key_team_alias": "team-search",
        "usage_object": {"prompt_tokens_details": {"cached_tokens": 5}},
    },
}


def uses(facts):
    return [fact for fact in facts if isinstance(fact, ServiceUse)]


def findings(facts):
    return [(fact.code, fact.line, fact.message) for fact in facts if isinstance(fact, Finding)]


def listed(*rows, header=HEADER):
    return list(read_service_use("\n".join((header, *rows)), CTX))


def logged(*rows):
    return list(read_service_log(enumerate(rows, start=1), CTX))


def test_a_row_is_what_a_caller_took_between_two_instants_and_empty_is_not_known():
    (use,) = listed(f"serving/llama,key-1,team-a,llama-70b,{HOUR},1000,,50,")
    assert isinstance(use, ServiceUse)
    assert use.natural_key == f"serving/llama/key-1/llama-70b/{parse_instant('2026-11-30T10:00:00Z')}"
    assert (use.prompt_tokens, use.cached_tokens, use.completion_tokens, use.requests_count) == (1_000, None, 50, None)


def test_input_and_output_tokens_are_understood():
    (use,) = listed(f"serving/llama,{HOUR},7,8", header="service,start,end,input_tokens,output_tokens")
    assert (use.prompt_tokens, use.completion_tokens, use.caller) == (7, 8, None)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (f"llama,k,,m,{HOUR},1,,1,", "<namespace>/<workload>"), ("a/b,k,,m,2026-11-30T10:00:00,2026-11-30T11:00:00Z,1,,1,", "started_at"),
        ("a/b,k,,m,2026-11-30T11:00:00Z,2026-11-30T11:00:00Z,1,,1,", "not after started_at"), (f"a/b,k,,m,{HOUR},-1,,1,", "whole number"),
        (f"a/b,k,,m,{HOUR},1.5,,1,", "whole number"), (f"a/b,k,,m,{HOUR},NaN,,1,", "whole number"), (f"a/b,k,,m,{HOUR},{'9' * 17},,1,", "at most"),
        (f"a/b,k,,m,{HOUR},,,,", "found neither"), (f"a/b,k,,m,{HOUR},1,2,1,", "cannot be more"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_costs_itself_alone(row, words):
    facts = listed(f"a/b,other,,m,{HOUR},1,,1,", row)
    ((code, line, message),) = findings(facts)
    assert (code, line, words in message) == ("source_malformed", 3, True), message
    assert len(uses(facts)) == 1


def test_a_second_row_of_the_same_caller_and_start_is_refused_and_not_added():
    facts = listed(f"a/b,k,,m,{HOUR},1,,1,", f"a/b,k,,m,{HOUR},2,,2,")
    assert [use.prompt_tokens for use in uses(facts)] == [1]
    assert [line for _code, line, _message in findings(facts)] == [3]


def test_a_list_without_services_is_refused_with_what_is_missing():
    assert [code for code, _line, _message in findings(listed("k,1", header="caller,prompt_tokens"))] == [
        "service_use_columns_missing"
    ]


def test_a_gateways_request_is_one_fact_of_the_service_that_its_address_names():
    (use,) = logged(ROW)
    assert (use.service, use.model, use.caller, use.tenant) == (
        "serving/vllm-llama",
        "llama-70b",
        "search-prod",
        "team-search",
    )
    assert (use.prompt_tokens, use.cached_tokens, use.completion_tokens, use.requests_count) == (20, 5, 10, 1)
    assert use.started_at == parse_instant("2026-11-30T10:00:00.250000Z")
    assert use.natural_key.endswith("/r1")


def test_metadata_as_json_text_and_rows_in_an_array_are_read_too():
    (use,) = logged([{**ROW, "metadata": json.dumps(ROW["metadata"])}])
    assert (use.tenant, use.cached_tokens) == ("team-search", 5)


def test_times_in_seconds_are_read_and_times_without_a_zone_are_utc_which_is_said():
    seconds, naive = (
        {**ROW, "startTime": 1796032800.5, "endTime": 1796032801},
        {**ROW, "startTime": "2026-11-30 10:00:00", "endTime": "2026-11-30 10:00:01"},
    )
    facts = logged(seconds, naive)
    assert [use.started_at for use in uses(facts)] == [1_796_032_800_500_000, parse_instant("2026-11-30T10:00:00Z")]
    assert [code for code, _line, _message in findings(facts)] == ["zone_assumed"]


def test_an_answer_from_the_gateways_cache_used_no_service():
    facts = logged({**ROW, "cache_hit": "True"})
    assert uses(facts) == []
    assert [code for code, _line, _message in findings(facts)] == ["answered_from_cache"]


@pytest.mark.parametrize("address", ["https://api.example.com/v1", "", None, "http://10.0.0.1:8000", "http://svc:8000"])
def test_an_address_outside_the_cluster_names_no_service_and_is_counted(address):
    facts = logged({**ROW, "api_base": address})
    assert uses(facts) == []
    assert [code for code, _line, _message in findings(facts)] == ["service_unknown"]


def test_a_key_in_the_clear_is_never_stored():
    (use,) = logged({**ROW, "api_key": "sk-very-secret", "metadata": {}})
    assert use.caller.startswith("key ")
    assert "secret" not in repr(use)


@pytest.mark.parametrize(
    "more",
    [
        {"prompt_tokens": "20"}, {"prompt_tokens": True}, {"prompt_tokens": -1}, {"prompt_tokens": 10**30}, {"completion_tokens": 1.5},
        {"startTime": None}, {"startTime": float("nan")}, {"startTime": 1e300}, {"startTime": "yesterday"}, {"endTime": "2026-11-30T09:00:00Z"},
        {"request_id": None}, {"metadata": {"usage_object": {"prompt_tokens_details": {"cached_tokens": 21}}}},
    ],
)  # fmt: skip
def test_a_row_of_a_log_that_cannot_be_read_is_a_finding(more):
    facts = logged({**ROW, **more}, "text", SourceMalformed("not JSON", 3, "x"), ROW)
    assert [line for _code, line, _message in findings(facts)] == [1, 2, 3]
    assert len(uses(facts)) == 1


@pytest.mark.parametrize(
    "metadata", ["[" * 100_000, "{", 7, [], {"usage_object": "x"}, {"usage_object": {"prompt_tokens_details": []}}]
)
def test_metadata_of_another_shape_says_nothing(metadata):
    (use,) = logged({**ROW, "metadata": metadata})
    assert use.cached_tokens is None


def test_json_lines_in_the_lists_own_names_are_read():
    row = {
        "service": "a/b",
        "started_at": "2026-11-30T10:00:00Z",
        "ended_at": "2026-11-30T11:00:00Z",
        "prompt_tokens": 3,
        "completion_tokens": None,
    }
    (use,) = logged(row)
    assert (use.prompt_tokens, use.completion_tokens) == (3, None)


@pytest.mark.parametrize(
    ("document", "known"),
    [
        (ROW, True),
        ({"service": "a/b", "started_at": "x", "prompt_tokens": 1}, True),
        ({"startTime": 1, "endTime": 2}, False),
        ({"prompt_tokens": 1, "completion_tokens": 2}, False),
    ],
)
def test_a_log_is_told_by_its_fields(document, known):
    assert is_service_log(document) is known
