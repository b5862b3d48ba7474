"""What of a sample's labels the exporter said, and what only tells the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sources.shared.metric_labels import LabelResolver, Target
from steelyard.sources.shared.metric_points import MetricPoint

WAY = {"job": "j", "instance": "10.0.0.1:9400"}


def part(labels: dict[str, str], *others: dict[str, str]) -> tuple[dict[str, str], Target]:
    resolver = LabelResolver([MetricPoint("m", each, 1.0, 0) for each in (labels, *others)])
    resolved = resolver.resolve(labels)
    return dict(resolved.labels), resolved.target


@pytest.mark.parametrize(
    ("labels", "own"),
    [
        ({"pod": "a", "gpu": "0"}, {"pod": "a", "gpu": "0"}),
        ({"pod": "", "gpu": "0"}, {"gpu": "0"}),
        ({"pod": "a", "exported_pod": "b", **WAY}, {"pod": "b"}),
        ({"pod": "a", "exported_pod": "", **WAY}, {}),
        ({"container": "x", "exported_container": "y", "namespace": "n", **WAY}, {"container": "y", "namespace": "n"}),
        ({"pod": "j-7", **WAY}, {}),
        ({"pod": "svc-7", "service": "svc", **WAY}, {"service": "svc"}),
        (
            {"pod": "a", "service": "svc", "endpoint": "metrics", "namespace": "n", **WAY},
            {"pod": "a", "namespace": "n"},
        ),
        ({"endpoint": "chat", **WAY}, {"endpoint": "chat"}),
        ({"endpoint": "chat"}, {"endpoint": "chat"}),
        (
            {"endpoint": "http", "exported_endpoint": "chat", "namespace": "n", "pod": "a", **WAY},
            {"endpoint": "chat", "namespace": "n", "pod": "a"},
        ),
        ({"prometheus": "k8s", "prometheus_replica": "0", "x": "1", **WAY}, {"x": "1"}),
        ({"exported_job": "mine", "x": "1", **WAY}, {"x": "1"}),
    ],
)
def test_the_exporters_labels_are_what_it_said(labels: dict[str, str], own: dict[str, str]) -> None:
    assert part(labels)[0] == own


def test_the_target_is_where_it_was_scraped() -> None:
    labels = {
        "pod": "x",
        "namespace": "m",
        "container": "c",
        "node": "n1",
        "exported_node": "n2",
        "exported_pod": "p",
        **WAY,
    }
    own, target = part(labels)
    assert own == {"pod": "p", "namespace": "m", "container": "c", "node": "n2"}
    assert (target.pod, target.node, target.job, target.instance) == ("x", "n1", "j", "10.0.0.1:9400")


def test_what_one_series_reveals_holds_for_its_target_only() -> None:
    free = {"pod": "x", "gpu": "1", **WAY}
    assert part(free, {"pod": "x", "exported_pod": "t", **WAY})[0] == {"gpu": "1"}
    assert part(free, {"pod": "x", "exported_pod": "t", "job": "other", "instance": "i"})[0] == {"pod": "x", "gpu": "1"}


@given(
    st.dictionaries(
        st.sampled_from(
            ["pod", "exported_pod", "namespace", "job", "instance", "service", "endpoint", "x", "exported_x"]
        ),
        st.text(max_size=3),
    )
)
def test_no_label_is_invented_and_none_is_empty(labels: dict[str, str]) -> None:
    own, _ = part(labels)
    assert set(own) <= {name.removeprefix("exported_") for name in labels} | set(labels)
    assert all(own.values())
    assert set(own.values()) <= set(labels.values())


def test_a_label_that_varies_within_a_scrape_is_the_exporters_own() -> None:
    hides = {"pod": "agent", "exported_pod": "job-0", **WAY}
    assert part({"pod": "job-1", "gpu": "1", **WAY}, hides)[0] == {"pod": "job-1", "gpu": "1"}
    assert part(hides, {"pod": "job-1", **WAY}) == ({"pod": "job-0"}, Target("j", "10.0.0.1:9400", pod="agent"))
    assert part({"pod": "agent", "gpu": "1", **WAY}, hides)[0] == {"gpu": "1"}


def test_what_an_earlier_round_revealed_is_remembered_where_the_caller_keeps_it() -> None:
    hidden: dict[tuple[str | None, str | None], set[str]] = {}
    LabelResolver([MetricPoint("m", {"pod": "agent", "exported_pod": "job-0", **WAY}, 1.0, 0)], hidden)
    later = LabelResolver([MetricPoint("m", {"pod": "agent", "gpu": "1", **WAY}, 1.0, 1)], hidden)
    assert dict(later.resolve({"pod": "agent", "gpu": "1", **WAY}).labels) == {"gpu": "1"}


def test_a_text_that_does_not_say_how_it_came_has_its_renamed_labels_back() -> None:
    scraper = {"namespace": "monitoring", "pod": "dcgm-exporter-7", "container": "exporter"}
    named = {
        "gpu": "0",
        "exported_namespace": "team",
        "exported_pod": "train-0",
        "exported_container": "main",
        **scraper,
    }
    own, target = part(named)
    assert own == {"gpu": "0", "namespace": "team", "pod": "train-0", "container": "main"}
    assert (target.namespace, target.pod) == ("monitoring", "dcgm-exporter-7")
    assert part({"gpu": "1", **scraper}, named)[0] == {"gpu": "1"}, "a free card is not held by the exporter's own pod"
