"""A Pod parsed once for all readers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import parse_instant
from steelyard.sources.shared.pods import parse_pod, stamp


def _outcome(function, text):
    try:
        return function(text)
    except ValueError as error:
        return str(error)


@given(st.datetimes().map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + "Z"))
def test_the_short_way_reads_every_server_stamp_like_the_long_way(text):
    assert _outcome(stamp, text) == _outcome(parse_instant, text)


@pytest.mark.parametrize(
    "text",
    [
        "2027-02-30T10:00:00Z",
        "2027-03-05T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "2027-03-05 10:00:00Z",
        "2027-W10-5T10:00:00Z",
        "2027-03-05T10:00:0aZ",
        "2027-03-05T10:00:00.5Z",
        "2027-03-05T10:00:00+02:00",
        "0000-01-01T00:00:00Z",
        "",
    ],
)
def test_the_short_way_differs_nowhere(text):
    assert _outcome(stamp, text) == _outcome(parse_instant, text)


def test_limits_win_over_requests_and_either_stands_alone():
    def resources(**given):
        view = parse_pod({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": given}]}})
        return dict(view.containers[0].resources)

    assert resources(requests={"a/b": 1, "cpu": 1}, limits={"a/b": 2}) == {"a/b": 2, "cpu": 1}
    assert resources(requests={"a/b": 1}) == {"a/b": 1}
    assert resources(limits={"a/b": 2}) == {"a/b": 2}
    assert resources() == {}


def test_init_containers_come_first_and_one_that_restarts_always_is_a_sidecar():
    spec = {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]}
    view = parse_pod({"metadata": {"name": "p"}, "spec": spec})
    assert [(item.name, item.kind, item.position) for item in view.containers] == [
        ("i", "init", 0),
        ("s", "sidecar", 1),
        ("a", "app", 0),
    ]


def test_a_status_whose_name_is_no_text_belongs_to_no_container():
    payload = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a"}]},
        "status": {"containerStatuses": [{"name": ["a"], "state": {"running": {}}}]},
    }
    assert parse_pod(payload).containers[0].state is None


def test_a_refusal_of_a_huge_object_shows_little_of_it():
    with pytest.raises(SourceMalformed) as caught:
        parse_pod({"metadata": {"labels": {f"k{n}": "v" * 100 for n in range(10_000)}}})
    assert len(caught.value.excerpt) <= 200
