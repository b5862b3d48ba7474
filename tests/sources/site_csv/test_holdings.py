"""Cards lent outside Kubernetes."""

from __future__ import annotations

import json

import pytest

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.owner import Owner
from steelyard.facts.request import Request
from steelyard.primitives.instant import parse_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.site_csv import read_holdings

CTX = ReadContext(file="lent.csv")
HEADER = "device_uuid,serial,holder,kind,from,to,approver"
FROM = parse_instant("2026-01-01T00:00:00Z")


def read(row: str, header: str = HEADER) -> list[Fact]:
    return list(read_holdings([header, row], CTX))


def of(facts: list[Fact], kind: type[Fact]) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, kind)]


def test_a_row_is_a_request_an_owner_and_a_declared_grant_of_one_card():
    facts = read("GPU-aa,,physics,bare metal,2026-01-01,2026-02-01T08:00:00+08:00,c.li")
    (request,), (owner,), (grant,) = of(facts, Request), of(facts, Owner), of(facts, Grant)
    assert of(facts, Finding) == []
    assert request.pod_uid == owner.pod_uid == grant.pod_uid
    assert (request.namespace, request.pod, request.created_at) == ("outside-kubernetes", "bare_metal/physics", FROM)
    assert json.loads(owner.labels) == {"kind": "bare_metal", "tenant": "physics"}
    assert (grant.scheme, grant.device_uuid, grant.quantity, grant.approver) == ("declared", "GPU-aa", 1, "c.li")
    assert (grant.valid_from_at, grant.valid_to_at) == (FROM, parse_instant("2026-02-01T00:00:00Z"))
    assert grant.claim_state == "accepted"


def test_a_card_named_by_serial_keeps_the_serial_and_says_why_the_device_is_not_known():
    (grant,) = of(read(",S-9,physics,vm,2026-01-01,2026-02-01,c.li"), Grant)
    assert (grant.device_uuid, grant.unit_id, grant.device_unknown_reason) == (
        None,
        "serial/S-9",
        "named by serial S-9 only",
    )


def test_a_holding_that_nobody_approved_is_not_accepted():
    facts = read("GPU-aa,,physics,slurm,2026-01-01,2026-02-01,")
    assert [(grant.claim_state, grant.claim_reason) for grant in of(facts, Grant)] == [("suspect", "no approver")]
    assert [finding.code for finding in of(facts, Finding)] == ["holding_without_approver"]


def test_a_holding_without_a_beginning_is_a_finding_only():
    facts = read("GPU-aa,,physics,slurm,,2026-02-01,c.li")
    assert [finding.code for finding in of(facts, Finding)] == ["holding_without_validity"]
    assert len(facts) == 1


def test_a_holding_without_an_end_stays_open_and_is_said_so():
    facts = read("GPU-aa,,physics,slurm,2026-01-01,,c.li")
    assert [grant.valid_to_at for grant in of(facts, Grant)] == [None]
    assert [finding.code for finding in of(facts, Finding)] == ["holding_open_ended"]


@pytest.mark.parametrize(
    "row",
    [
        ",,physics,vm,2026-01-01,2026-02-01,c.li",
        "GPU-aa,,,vm,2026-01-01,2026-02-01,c.li",
        "GPU-aa,,physics,vm,2026-01-01T00:00:00,2026-02-01,c.li",
        "GPU-aa,,physics,vm,01/02/2026,2026-02-01,c.li",
        "GPU-aa,,physics,vm,2026-13-01,2026-02-01,c.li",
        "GPU-aa,,physics,vm,2026-02-01,2026-02-01,c.li",
        "GPU-aa,,physics,vm,2026-02-01,2026-01-01,c.li",
        f"{'x' * 300},,physics,vm,2026-01-01,2026-02-01,c.li",
        f"GPU-aa,,{'x' * 300},vm,2026-01-01,2026-02-01,c.li",
    ],
)
def test_a_row_that_cannot_be_dated_or_placed_is_refused(row: str):
    (finding,) = read(row)
    assert isinstance(finding, Finding)
    assert (finding.code, finding.line) == ("source_malformed", 2)


def test_the_tenant_may_stand_beside_the_holder():
    facts = read("GPU-aa,physics,alice,vm,2026-01-01,2026-02-01,c.li", "uuid,tenant,holder,kind,from,to,approver")
    assert json.loads(of(facts, Owner)[0].labels)["tenant"] == "physics"
    assert of(facts, Request)[0].pod == "vm/alice"


@pytest.mark.parametrize("header", ["device_uuid,kind,from,to", "holder,from,to", "device_uuid,holder,to", ""])
def test_a_list_without_its_columns_is_one_finding(header: str):
    (finding,) = read("a,b,c,d", header)
    assert isinstance(finding, Finding)
    assert finding.code == "holdings_columns_missing"
