"""What a listing proves."""

from __future__ import annotations

import pytest

from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.sources.kube_api.listing import Listing, read_listing
from tests.sources.kube_api.kube_objects import CTX, of, only


def test_a_complete_listing_sights_each_object_once():
    facts = list(read_listing(Listing("pods", "cluster", True, 60_000_000, "declared"), ["a", "b", "a"], CTX))
    status = only(facts, SourceStatus)
    assert (status.kind, status.scope, status.status, status.complete, status.objects_count) == (
        "pods",
        "cluster",
        "ok",
        True,
        2,
    )
    assert (status.gap_max_us, status.as_of_basis, status.natural_key) == (60_000_000, "declared", "pods/cluster")
    assert [(row.object_kind, row.object_uid) for row in of(facts, Sighting)] == [("pod", "a"), ("pod", "b")]


def test_a_part_of_a_listing_proves_no_absence():
    facts = list(read_listing(Listing("nodes", "cluster", False, 60_000_000, "inferred"), ["a"], CTX))
    status = only(facts, SourceStatus)
    assert (status.status, status.complete, status.gap_max_us) == ("partial", False, None)
    assert of(facts, Sighting) == []


@pytest.mark.parametrize("kind", ["events", "resourceclaims"])
def test_objects_that_no_ledger_follows_are_not_sighted(kind):
    assert len(list(read_listing(Listing(kind, "cluster", True, None, "inferred"), ["a"], CTX))) == 1


def test_an_empty_complete_listing_says_that_there_is_nothing():
    (status,) = read_listing(Listing("pods", "cluster", True, None, "inferred"), [], CTX)
    assert isinstance(status, SourceStatus)
    assert (status.complete, status.objects_count) == (True, 0)


def test_a_listing_of_one_namespace_reaches_no_further() -> None:
    status = next(iter(read_listing(Listing("pods", "namespace/team-a", True, None, "inferred"), ["a"], CTX)))
    assert isinstance(status, SourceStatus)
    assert (status.scope, status.natural_key) == ("namespace/team-a", "pods/namespace/team-a")
